package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/journal"
	"antirobot/message"
	"antirobot/message/rpc"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/verdict"
)

// Messages is the message firewall with its API: what *message.System and *rpc.Server can.
type Messages interface {
	Serve(ctx context.Context, codec rpc.Codec, body []byte, auth rpc.Auth) (status int, contentType string,
		answer []byte)
	Akismet(ctx context.Context, call, host string, form url.Values) rpc.AkismetAnswer
	Usage() []message.Usage
	Partners() []string
	Domain(partner, path string) (*message.Domain, error)
	Search(ctx context.Context, d *message.Domain, log string, q message.Query) ([]message.Entry, error)
	Train(ctx context.Context, m *message.Model, text string, good bool) error
	Mark(ctx context.Context, d *message.Domain, k message.Marking) (learnt bool, err error)
	Unmark(ctx context.Context, d *message.Domain, k message.Marking) error
}

// messageSystem returns the message firewall, or why there is none.
func (s *api) messageSystem() (Messages, error) {
	if s.deps.Messages == nil {
		return nil, absentPart("the message firewall")
	}
	m, err := s.deps.Messages.Messages()
	if err != nil {
		return nil, &problem{
			status: statusUnavailable, Code: "store_away", Message: "the message firewall waits for the shared store",
		}
	}
	return m, nil
}

// messageCodec returns how requests at a path are written; false: it is not a path of the message firewall.
func messageCodec(path string) (rpc.Codec, bool) {
	switch strings.TrimSuffix(path, "/") {
	case "/api/xml":
		return rpc.XML, true
	case "/api/json":
		return rpc.JSON, true
	}
	return 0, false
}

// openMessages returns the message firewall for a POST without a token, or why there is none.
func (s *Server) openMessages(ctx *fasthttp.RequestCtx) (Messages, error) {
	system, err := s.messageSystem()
	switch {
	case err != nil:
		return nil, err
	case !s.deps.MessagesOpen:
		return nil, &problem{
			status: fasthttp.StatusForbidden, Code: "partner_keys_needed",
			Message: "this listener is not on loopback: set message.authorisation: keys, and give each partner a secret",
		}
	case !ctx.IsPost():
		return nil, methodRefused(ctx, "POST")
	}
	return system, nil
}

// messages answers a request of the message firewall. It asks for no token: partners show who they are in the request,
// and where they don't have to, the listener is on loopback (Deps.MessagesOpen). The content type must be that of the
// protocol: a request that a web page, or a service on this machine, can be made to send without being asked has
// another one.
func (s *Server) messages(ctx *fasthttp.RequestCtx, codec rpc.Codec) error {
	system, err := s.openMessages(ctx)
	switch {
	case err != nil:
		return err
	case !speaks(codec, string(ctx.Request.Header.ContentType())):
		return &problem{
			status: fasthttp.StatusUnsupportedMediaType, Code: "content_type_refused",
			Message: "send JSON with Content-Type: application/json, and XML with text/xml",
		}
	}
	work, done := context.WithTimeout(context.Background(), maxWork)
	defer done()
	status, kind, answer := system.Serve(work, codec, ctx.PostBody(), basicAuth(ctx))
	ctx.SetStatusCode(status)
	ctx.SetContentType(kind)
	ctx.SetBody(answer)
	return nil
}

// speaks reports whether a content type is one that clients of the protocol send, and forms and simple requests do not.
func speaks(codec rpc.Codec, contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json", "text/json", "application/json-rpc", "application/jsonrequest":
		return codec == rpc.JSON
	case "text/xml", "application/xml":
		return codec == rpc.XML
	}
	return false
}

// basicAuth returns what the caller showed with HTTP's basic authentication, if anything.
func basicAuth(ctx *fasthttp.RequestCtx) (a rpc.Auth) {
	const scheme = "basic "
	field := string(ctx.Request.Header.Peek("Authorization"))
	if len(field) < len(scheme) || !strings.EqualFold(field[:len(scheme)], scheme) {
		return a
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(field[len(scheme):]))
	if err != nil {
		return a
	}
	a.Name, a.Secret, _ = strings.Cut(string(pair), ":")
	return a
}

// messageUsage says how often each partner called each method on each domain.
func (s *messageCalls) messageUsage(*call) (any, error) {
	system, err := s.messageSystem()
	if err != nil {
		return nil, err
	}
	usage := system.Usage()
	if usage == nil {
		usage = []message.Usage{}
	}
	return struct {
		Since string          `json:"since"`
		Usage []message.Usage `json:"usage"`
	}{s.deps.Started.UTC().Format("2006-01-02T15:04:05Z"), usage}, nil
}

// Bounds of the entries of a log and of the recent messages in one answer.
const (
	shownEntries = 100
	maxEntries   = 1000
	shownRecent  = 20
	maxRecent    = 200
)

type shownEntry struct {
	ID      int64          `json:"id"`
	When    time.Time      `json:"when"`
	Tags    []string       `json:"tags"`
	Message map[string]any `json:"message"`
	Score   *float64       `json:"score,omitempty"` // of the model that the rules asked
	By      string         `json:"by,omitempty"`
	Reasons []string       `json:"reasons,omitempty"`
}

type messageCalls struct{ *api }

// messageDomain returns the domain that a call is about: of the only partner, unless it names one.
func (s *api) messageDomain(partner, path string) (Messages, *message.Domain, error) {
	system, err := s.messageSystem()
	if err != nil {
		return nil, nil, err
	}
	if all := system.Partners(); partner == "" && len(all) == 1 {
		partner = all[0]
	} else if partner == "" {
		return nil, nil, badField("partner", "must be given: there are %d", len(all))
	}
	d, err := system.Domain(partner, path)
	return system, d, messageProblem(err)
}

// messageProblem tells what the caller did wrong by the code of the message API.
func messageProblem(err error) error {
	var f *rules.Fault
	if !errors.As(err, &f) {
		return err
	}
	fields := map[int]string{
		message.CodeAuthorisation: "partner", message.CodeDomain: "domain", message.CodeLog: "log",
		message.CodeModel:     "model",
		message.CodeAttribute: "attribute",
	}
	if f.Code == message.CodeProperty {
		return notFound("%s", f.Text)
	}
	return badField(fields[f.Code], "%s", f.Text)
}

// searchMessages searches a message log, the newest entries first.
func (s *messageCalls) searchMessages(c *call) (any, error) {
	args := c.QueryArgs()
	text := func(name string) string { return string(args.Peek(name)) }
	system, d, err := s.messageDomain(text("partner"), text("domain"))
	if err != nil {
		return nil, err
	}
	q := message.Query{Text: text("text"), Tag: text("tag"), Newest: true}
	for _, t := range []struct {
		name string
		to   *time.Time
	}{{"first", &q.First}, {"last", &q.Last}} {
		if v := text(t.name); v != "" {
			if *t.to, err = time.Parse(time.RFC3339Nano, v); err != nil {
				return nil, badField(t.name, "%q is no time such as 2026-03-04T12:05:00Z", clipped(v))
			}
		}
	}
	if q.Limit, err = numberArg(text("limit"), shownEntries, maxEntries); err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	found, err := system.Search(c.work, d, text("log"), q)
	if err != nil {
		return nil, messageProblem(err)
	}
	out := make([]shownEntry, len(found))
	for i, e := range found {
		tags := e.Tags
		if tags == nil {
			tags = []string{}
		}
		out[i] = shownEntry{ID: e.ID, When: e.When.UTC(), Tags: tags, Message: e.Message.Values()}
		if o := e.Opinion; o != nil {
			out[i].Score, out[i].By, out[i].Reasons = &o.Score, o.By, o.Reasons
		}
	}
	return struct {
		Entries []shownEntry `json:"entries"`
	}{out}, nil
}

func numberArg(s string, otherwise, most int) (int, error) {
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, errors.New("must be 1 to " + strconv.Itoa(most))
	}
	return n, nil
}

// markMessage lets a moderator label an entry of a log; a model learns the label.
func (s *messageCalls) markMessage(c *call) (any, error) {
	var in struct {
		Partner   string `json:"partner"`
		Domain    string `json:"domain"`
		Log       string `json:"log"`
		Model     string `json:"model"`
		Attribute string `json:"attribute"`
		Marker    string `json:"marker"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	system, d, k, err := s.marking(c, in.Partner, in.Domain, in.Marker,
		message.Marking{Log: in.Log, Model: in.Model, Attribute: in.Attribute})
	if err != nil {
		return nil, err
	}
	learnt, err := system.Mark(c.work, d, k)
	if err != nil {
		return nil, messageProblem(err)
	}
	s.act(c, journal.Act{What: "teach " + in.Marker, Subject: "message " + c.arg})
	return struct {
		Learnt bool `json:"learnt"` // false: the same was said before
	}{learnt}, nil
}

func (s *messageCalls) marking(c *call, partner, domain, marker string, k message.Marking) (Messages, *message.Domain,
	message.Marking, error,
) {
	if marker != "good" && marker != "bad" {
		return nil, nil, k, badField("marker", "must be good or bad")
	}
	id, err := strconv.ParseInt(c.arg, 10, 64)
	if err != nil || id < 1 {
		return nil, nil, k, badField("id", "%q is not the number of an entry", clipped(c.arg))
	}
	k.ID, k.Good = id, marker == "good"
	system, d, err := s.messageDomain(partner, domain)
	return system, d, k, err
}

// unmarkMessage takes back what a moderator said of an entry of a log: the model unlearns it.
func (s *messageCalls) unmarkMessage(c *call) (any, error) {
	text := func(name string) string { return string(c.QueryArgs().Peek(name)) }
	marker := text("marker")
	system, d, k, err := s.marking(c, text("partner"), text("domain"), marker,
		message.Marking{Log: text("log"), Model: text("model"), Attribute: text("attribute")})
	if err != nil {
		return nil, err
	}
	switch err := system.Unmark(c.work, d, k); {
	case errors.Is(err, message.ErrOld):
		return nil, &problem{status: fasthttp.StatusConflict, Code: "wrong_state", Message: err.Error()}
	case err != nil:
		return nil, messageProblem(err)
	}
	s.act(c, journal.Act{What: "unteach " + marker, Subject: "message " + c.arg})
	return struct {
		Unlearnt bool `json:"unlearnt"`
	}{true}, nil
}

// recentMessages returns the decisions about the last messages of message routes, the newest first.
func (s *messageCalls) recentMessages(c *call) (any, error) {
	limit, err := numberArg(string(c.QueryArgs().Peek("limit")), shownRecent, maxRecent)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	return struct {
		Messages []verdict.Story `json:"messages"`
	}{s.deps.Decisions.Messages(limit)}, nil
}

// akismet answers plugins that speak Akismet's API. They show a key in each call, so they need no token.
func (s *Server) akismet(ctx *fasthttp.RequestCtx, path string) error {
	system, err := s.openMessages(ctx)
	if err != nil {
		return err
	}
	form, err := akismetForm(ctx)
	if err != nil {
		return &problem{
			status: fasthttp.StatusBadRequest, Code: "invalid_request",
			Message: "send a form, urlencoded or multipart",
		}
	}
	work, done := context.WithTimeout(context.Background(), maxWork)
	defer done()
	host := string(request.HostName(ctx.Request.Header.Host()))
	a := system.Akismet(work, strings.TrimPrefix(path, rpc.AkismetPrefix), host, form)
	ctx.SetStatusCode(a.Status)
	ctx.SetContentType("text/plain; charset=utf-8")
	if a.Help != "" {
		ctx.Response.Header.Set("X-Akismet-Debug-Help", a.Help)
	}
	if a.Tip != "" {
		ctx.Response.Header.Set("X-Akismet-Pro-Tip", a.Tip)
	}
	ctx.SetBodyString(a.Text)
	return nil
}

func akismetForm(ctx *fasthttp.RequestCtx) (url.Values, error) {
	if strings.HasPrefix(strings.ToLower(string(ctx.Request.Header.ContentType())), "multipart/form-data") {
		form, err := ctx.MultipartForm()
		if err != nil {
			return nil, err
		}
		return form.Value, nil
	}
	return url.ParseQuery(string(ctx.PostBody()))
}
