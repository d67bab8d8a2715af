package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict/words"
)

// Journal remembers requests, and what operators do. *journal.Journal does.
type Journal interface {
	Find(ctx context.Context, q *journal.Query, limit int, before, after string) (journal.Found, error)
	Get(id request.ID) (journal.Told, bool, error)
	Subject(subject string, limit int) ([]journal.Entry, error)
	Top(ctx context.Context, q *journal.Query, by []string, limit int) ([][]journal.Count, error)
	Figures(by string, from, to time.Time) ([]journal.Figures, error)
	Stopped(by string, from, to time.Time, limit int) (journal.Stopped, error)
	Erase(ctx context.Context, subject string) (int, error)
	Act(a journal.Act)
}

type journalCalls struct{ *api }

// act remembers what the caller has done, and logs it.
func (s *api) act(c *call, a journal.Act) {
	a.By, c.acted = c.who.Name, true
	if s.deps.Journal != nil {
		s.deps.Journal.Act(a)
	}
	s.log.Info().Str("by", a.By).Str("what", a.What).Str("subject", a.Subject).Str("service", a.Service).Str("ttl",
		a.TTL).Str("reason", a.Reason).Msg("changed over the api")
}

const (
	shownJournal = 100
	maxJournal   = 5000
	usualSpan    = time.Hour
)

// query reads ?q=, ?since= and ?until= of a request.
func (s *journalCalls) query(c *call, usual time.Duration) (q journal.Query, err error) {
	now := s.now()
	if q, err = journal.ParseQuery(string(c.QueryArgs().Peek("q")), now); err != nil {
		return q, badField("q", "%v", err)
	}
	if q.Since.IsZero() && usual > 0 {
		q.Since = now.Add(-usual)
	}
	return q, nil
}

func (s *journalCalls) searchJournal(c *call) (any, error) {
	q, err := s.query(c, 0)
	if err != nil {
		return nil, err
	}
	args := c.QueryArgs()
	limit, err := numberArg(string(args.Peek("limit")), shownJournal, maxJournal)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	if subject := string(args.Peek("subject")); subject != "" {
		sub, err := subjectIn("subject", subject)
		if err != nil {
			return nil, err
		}
		entries, err := s.deps.Journal.Subject(sub.String(), limit)
		return journal.Found{Entries: entries, Scanned: len(entries)}, err
	}
	before, after := string(args.Peek("before")), string(args.Peek("after"))
	for _, p := range [...]struct{ name, id string }{{"before", before}, {"after", after}} {
		if _, ok := request.ParseID(p.id); !ok && p.id != "" {
			return nil, badField(p.name, "this is no position: take the value of next, or the id of an entry")
		}
	}
	return s.deps.Journal.Find(c.work, &q, limit, before, after)
}

func (s *journalCalls) told(c *call) (any, error) {
	id, ok := request.ParseID(c.arg)
	if !ok {
		return nil, badField("id", "%q is no id of an entry: it has 26 letters and digits", clipped(c.arg))
	}
	t, found, err := s.deps.Journal.Get(id)
	if err == nil && !found {
		err = notFound("the journal does not remember %s: it is too long ago, was erased, or of another node", id)
	}
	return toldBody{Items: t.Entries, Story: s.traced(t.Story)}, err
}

// top counts who or what occurs most in the journal, in the last hour unless the query says since when.
func (s *journalCalls) top(c *call) (any, error) {
	q, err := s.query(c, usualSpan)
	if err != nil {
		return nil, err
	}
	limit, err := numberArg(string(c.QueryArgs().Peek("limit")), shownRecent, maxPage)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	by := string(c.QueryArgs().Peek("by"))
	if by == "" {
		by = "subject"
	}
	keys := strings.Split(by, ",")
	if len(keys) > maxTops {
		return nil, badField("by", "at most %d keys at once", maxTops)
	}
	counts, err := s.deps.Journal.Top(c.work, &q, keys, limit)
	if counts == nil {
		return nil, badField("by", "%v", err)
	}
	body := topBody{By: by, Since: q.Since.UTC(), Items: counts[0]}
	for i := 1; i < len(keys); i++ {
		body.More = append(body.More, topItems{keys[i], counts[i]})
	}
	return body, err
}

// maxTops is how many keys are counted by at once.
const maxTops = 8

type topBody struct {
	By    string          `json:"by"`
	Since time.Time       `json:"since"`
	Items []journal.Count `json:"items"`
	More  []topItems      `json:"more,omitempty"` // of the second key and those after it

	Gateways []GatewayState `json:"gateways,omitempty"`
}

type topItems struct {
	By    string          `json:"by"`
	Items []journal.Count `json:"items"`
}

// figures returns counts per minute, hour or day.
func (s *journalCalls) figures(c *call) (any, error) {
	to := s.now()
	from := to.Add(-usualSpan)
	for _, t := range []struct {
		name string
		to   *time.Time
	}{{"from", &from}, {"to", &to}} {
		if v := string(c.QueryArgs().Peek(t.name)); v != "" {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return nil, badField(t.name, "%q is no time such as 2026-03-04T12:05:00Z", clipped(v))
			}
			*t.to = at
		}
	}
	by := string(c.QueryArgs().Peek("by"))
	if by == "" {
		by = "minute"
	}
	all, err := s.deps.Journal.Figures(by, from, to)
	if err != nil && all == nil {
		return nil, badField("by", "%v", err)
	}
	body := figuresBody{By: by, Items: all}
	top, topErr := topArg(c)
	if err != nil || topErr != nil || top == 0 {
		return body, errors.Join(err, topErr)
	}
	body.Stopped, err = s.deps.Journal.Stopped(by, from, to, top)
	return body, err
}

// topArg reads ?top= of a request for figures: how many names are wanted of each key.
func topArg(c *call) (int, error) {
	top, err := numberArg(string(c.QueryArgs().Peek("top")), 0, maxTop)
	if err != nil {
		err = badField("top", "%s", err.Error())
	}
	return top, err
}

const maxTop = 50

func (s *journalCalls) erase(c *call) (any, error) {
	sub, err := subjectIn("subject", string(c.QueryArgs().Peek("subject")))
	if err != nil {
		return nil, err
	}
	n, err := s.deps.Journal.Erase(c.work, sub.String())
	if err != nil {
		return nil, changed(err, "the erasure")
	}
	// whose, is not to be kept
	s.act(c, journal.Act{What: "erase", Reason: words.Sprintf(words.English, "%d {entry|entries} of a subject", n)})
	return struct {
		Subject string `json:"subject"`
		Erased  int    `json:"erased"`
	}{sub.String(), n}, nil
}

func (s *gatewayCalls) whoAmI(c *call) (any, error) {
	return struct {
		Name    string    `json:"name"`
		Role    string    `json:"role"`
		Expires time.Time `json:"expires,omitzero"`
	}{c.who.Name, c.who.Role.String(), c.who.expires}, nil
}
