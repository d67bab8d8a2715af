package admin

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"antirobot/message"
	"antirobot/message/rpc"
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
