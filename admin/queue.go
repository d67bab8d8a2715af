package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"antirobot/message"
	"antirobot/message/queue"
	"antirobot/rules"
)

// Queue keeps the messages that a person has to decide on. *queue.Queue does.
type Queue interface {
	List(ctx context.Context, f queue.Filter) ([]*queue.Item, error)
	Get(ctx context.Context, id string) (*queue.Item, error)
	Request(ctx context.Context, id string) (*queue.Request, error)
	Approve(ctx context.Context, id string) (*queue.Item, error)
	Refuse(ctx context.Context, id string) (*queue.Item, error)
	Erase(ctx context.Context, id string) error
	EraseAll(ctx context.Context, f queue.Filter) (int, error)
}

// QueueItem is a message of the queue as JSON shows it, with the request that it came in where one message is shown.
type QueueItem struct {
	*queue.Item
	Fields []queue.Field `json:"fields,omitempty"`
	Body   []byte        `json:"body,omitempty"` // base64
	Learnt bool          `json:"learnt,omitempty"`
}

// queueCalls are calls about the queue of messages that wait for a person.
type queueCalls struct{ *api }

func queueProblem(err error) error {
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return notFound("the queue has no such message; it may be erased, or too old")
	case errors.Is(err, queue.ErrState):
		return &problem{status: http.StatusConflict, Code: "wrong_state", Message: err.Error()}
	}
	return &problem{status: statusUnavailable, Code: "store_failed", Message: err.Error()}
}

func queueFilter(c *call) (f queue.Filter, err error) {
	args := c.QueryArgs()
	f = queue.Filter{
		State: queue.State(args.Peek("state")), Service: string(args.Peek("service")),
		Sender: string(args.Peek("sender")),
	}
	switch f.State {
	case "", queue.Waiting, queue.Approved, queue.Failed, queue.Delivered, queue.Refused:
		return f, nil
	}
	return f, badField("state", "%q is none of waiting, approved, failed, delivered and refused",
		clipped(string(f.State)))
}

// listQueue shows the messages of the queue, the oldest first.
func (s *queueCalls) listQueue(c *call) (any, error) {
	q := s.deps.Queue
	f, err := queueFilter(c)
	if err != nil {
		return nil, err
	}
	limit, err := numberArg(string(c.QueryArgs().Peek("limit")), shownEntries, maxEntries)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	all, err := q.List(c.work, f)
	if err != nil {
		return nil, queueProblem(err)
	}
	return struct {
		Total int           `json:"total"`
		Items []*queue.Item `json:"items"`
	}{len(all), append([]*queue.Item{}, all[:min(limit, len(all))]...)}, nil
}

// showQueued shows one message with the request that it came in.
func (s *queueCalls) showQueued(c *call) (any, error) {
	q := s.deps.Queue
	it, err := q.Get(c.work, c.arg)
	if err != nil {
		return nil, queueProblem(err)
	}
	out := QueueItem{Item: it}
	r, err := q.Request(c.work, c.arg)
	switch {
	case errors.Is(err, queue.ErrNotFound): // a record
	case err != nil:
		return nil, queueProblem(err)
	default:
		out.Body = r.Body
		for _, f := range r.Fields { // not what its sender proves who they are with
			if strings.EqualFold(f.Name, "Cookie") || strings.EqualFold(f.Name, "Authorization") {
				f.Value = "(kept, not shown)"
			}
			out.Fields = append(out.Fields, f)
		}
	}
	return out, nil
}

func (s *queueCalls) approveQueued(c *call) (any, error) {
	return s.decideQueued(c, Queue.Approve, "good", "approved over the api")
}

func (s *queueCalls) refuseQueued(c *call) (any, error) {
	return s.decideQueued(c, Queue.Refuse, "bad", "refused over the api")
}

// decideQueued ends the wait of a message; with "teach" a model learns the decision first, since the text is erased
// then.
func (s *queueCalls) decideQueued(c *call, decide func(Queue, context.Context, string) (*queue.Item, error), marker,
	words string,
) (any, error) {
	var in struct {
		Teach     bool   `json:"teach"`
		Model     string `json:"model"`
		Attribute string `json:"attribute"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	q := s.deps.Queue
	if in.Teach {
		if err := s.teach(c, q, in.Model, in.Attribute, marker); err != nil {
			return nil, err
		}
	}
	it, err := decide(q, c.work, c.arg)
	if err != nil {
		return nil, queueProblem(err)
	}
	s.log.Info().Str("id", it.ID).Str("service", it.Service).Str("state", string(it.State)).Msg(words)
	return QueueItem{Item: it, Learnt: in.Teach}, nil
}

// teachQueued lets a model learn a message that waits.
func (s *queueCalls) teachQueued(c *call) (any, error) {
	var in struct {
		Marker    string `json:"marker"`
		Model     string `json:"model"`
		Attribute string `json:"attribute"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	q := s.deps.Queue
	if in.Marker != "good" && in.Marker != "bad" {
		return nil, badField("marker", "must be good or bad")
	}
	if err := s.teach(c, q, in.Model, in.Attribute, in.Marker); err != nil {
		return nil, err
	}
	return struct {
		Learnt bool `json:"learnt"`
	}{true}, nil
}

func (s *queueCalls) teach(c *call, q Queue, model, attribute, marker string) error {
	it, err := q.Get(c.work, c.arg)
	if err != nil {
		return queueProblem(err)
	}
	if attribute == "" {
		attribute = "text"
	}
	if model == "" {
		model = "model"
	}
	text, ok := it.Message[attribute].(string)
	if !ok || text == "" {
		return badField("attribute", "the message has no text %q (any more: what is decided on is erased)",
			clipped(attribute))
	}
	system, d, err := s.messageDomain(it.Partner, it.Domain)
	if err != nil {
		return err
	}
	m, err := d.Model(model)
	if err != nil {
		return messageProblem(err)
	}
	good, err := rules.TrainsGood(marker)
	if err != nil {
		return messageProblem(err)
	}
	return system.Train(c.work, m, message.TrimText(text), good)
}

// eraseQueued erases a message, whatever its state.
func (s *queueCalls) eraseQueued(c *call) (any, error) {
	q := s.deps.Queue
	if err := q.Erase(c.work, c.arg); err != nil {
		return nil, queueProblem(err)
	}
	s.log.Info().Str("id", c.arg).Msg("a message of the queue was erased over the api")
	return struct {
		Erased int `json:"erased"`
	}{1}, nil
}

// eraseQueue erases what fits: of one sender, of one service, in one state, or, with all=true, everything.
func (s *queueCalls) eraseQueue(c *call) (any, error) {
	q := s.deps.Queue
	f, err := queueFilter(c)
	if err != nil {
		return nil, err
	}
	if f == (queue.Filter{}) && string(c.QueryArgs().Peek("all")) != "true" {
		return nil, badField("all", "say what to erase: sender, service or state; all=true erases everything")
	}
	n, err := q.EraseAll(c.work, f)
	if err != nil {
		return nil, queueProblem(err)
	}
	s.log.Info().Int("erased", n).Msg("messages of the queue were erased over the api")
	return struct {
		Erased int `json:"erased"`
	}{n}, nil
}
