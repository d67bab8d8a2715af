package admin

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/message/rpc"
)

// call is one request of the API: the handler reads it and returns a value to be shown as JSON with status 200, or an
// error.
type call struct {
	*fasthttp.RequestCtx
	arg  string          // what stood in the place of {} in the path, decoded
	work context.Context // bounds what is done for the request; a RequestCtx must not outlive its handler, this one may
}

// maxWork bounds what one request of the API may take.
const maxWork = 30 * time.Second

// route binds a method and a path to a handler. {} in a path is a segment that is an argument.
type route struct {
	method, path string
	body         bool // takes a JSON body
	handle       func(*call) (any, error)
}

func (s *Server) table() []route {
	return []route{
		{"GET", "/api/status", false, s.status},
		{"GET", "/api/bans", false, s.listBans},
		{"POST", "/api/bans", true, s.makeBan},
		{"DELETE", "/api/bans", false, s.liftBan},
		{"GET", "/api/lists", false, s.listSources},
		{"GET", "/api/lists/{}", false, s.listEntries},
		{"POST", "/api/lists/{}", true, s.addEntry},
		{"DELETE", "/api/lists/{}", false, s.removeEntry},
		{"GET", "/api/labels", false, s.listLabels},
		{"POST", "/api/labels", true, s.setLabel},
		{"DELETE", "/api/labels", false, s.removeLabel},
		{"GET", "/api/attack", false, s.attackState},
		{"POST", "/api/attack", true, s.attack},
		{"DELETE", "/api/attack", false, s.attackOver},
		{"POST", "/api/reload", false, s.reload},
		{"POST", "/api/backup", true, s.backup},
		{"POST", "/api/revoke", true, s.revoke},
		{"GET", "/api/decisions/{}", false, s.decision},
		{"GET", "/api/challenges", false, s.challenges},
		{"GET", "/api/subjects/{}", false, s.subject},
		{"POST", "/api/counters/update", true, s.updateCounters},
		{"POST", "/api/counters/read", true, s.readCounters},
		{"GET", "/api/messages", false, s.searchMessages},
		{"GET", "/api/messages/usage", false, s.messageUsage},
		{"GET", "/api/messages/recent", false, s.recentMessages},
		{"POST", "/api/messages/{}/mark", true, s.markMessage},
		{"GET", "/api/queue", false, s.listQueue},
		{"DELETE", "/api/queue", false, s.eraseQueue},
		{"POST", "/api/queue/{}/approve", true, s.approveQueued},
		{"POST", "/api/queue/{}/refuse", true, s.refuseQueued},
		{"POST", "/api/queue/{}/teach", true, s.teachQueued},
		{"GET", "/api/queue/{}", false, s.showQueued},
		{"DELETE", "/api/queue/{}", false, s.eraseQueued},
	}
}

// dispatch finds the handler by the raw path: a subject's decoded escapes are not part of the path.
func (s *Server) dispatch(ctx *fasthttp.RequestCtx) {
	path := string(ctx.URI().PathOriginal())
	var err error
	switch {
	case path == "/metrics" || path == "/healthz" || path == "/readyz":
		err = s.observe(ctx, path)
	case path == "/debug/pprof" || strings.HasPrefix(path, "/debug/pprof/"):
		if !ctx.IsGet() && !ctx.IsHead() {
			err = methodRefused(ctx, "GET")
			break
		}
		err = s.profile(ctx, strings.Trim(strings.TrimPrefix(path, "/debug/pprof"), "/"))
	case path == "/api/events":
		err = s.events(ctx)
	case strings.HasPrefix(path, "/api/"):
		if codec, ok := messageCodec(path); ok {
			err = s.messages(ctx, codec)
		} else {
			err = s.api(ctx, path)
		}
	case strings.HasPrefix(path, rpc.AkismetPrefix):
		err = s.akismet(ctx, path)
	default:
		err = notFound("nothing is here; /api/status, /metrics, /healthz, /readyz and /debug/pprof/ are")
	}
	if err != nil {
		answerProblem(ctx, err)
	}
}

func (s *Server) api(ctx *fasthttp.RequestCtx, path string) error {
	if err := s.requireToken(ctx); err != nil {
		return err
	}
	if int64(len(ctx.PostBody())) > s.cfg.MaxBodyBytes { // the server takes more where messages may be longer
		return bodyTooLarge()
	}
	method := string(ctx.Method())
	if method == "HEAD" {
		method = "GET"
	}
	var allowed []string
	for i := range s.routes {
		r := &s.routes[i]
		arg, ok := r.match(path)
		if !ok {
			continue
		}
		if r.method != method {
			allowed = append(allowed, r.method)
			continue
		}
		if err := checkBody(ctx, r.body); err != nil {
			return err
		}
		work, done := context.WithTimeout(context.Background(), maxWork)
		defer done()
		v, err := r.handle(&call{ctx, arg, work})
		if err != nil {
			return err
		}
		answerJSON(ctx, fasthttp.StatusOK, v)
		return nil
	}
	if allowed != nil {
		return methodRefused(ctx, strings.Join(allowed, ", "))
	}
	return notFound("there is no %s; docs/api.md lists what there is", path)
}

func (r *route) match(path string) (arg string, ok bool) {
	prefix, suffix, takesArg := strings.Cut(r.path, "{}")
	if !takesArg {
		return "", path == r.path
	}
	raw, ok := strings.CutPrefix(path, prefix)
	if ok {
		raw, ok = strings.CutSuffix(raw, suffix)
	}
	if !ok || raw == "" || strings.Contains(raw, "/") {
		return "", false
	}
	arg, err := url.PathUnescape(raw)
	return arg, err == nil
}

// checkBody requires JSON where a body is accepted and no body elsewhere, so that no web page can have an effect with a
// simple request.
func checkBody(ctx *fasthttp.RequestCtx, wanted bool) error {
	kind, _, _ := strings.Cut(string(ctx.Request.Header.ContentType()), ";")
	kind = strings.TrimSpace(kind)
	switch {
	case wanted || (kind != "" && len(ctx.PostBody()) > 0):
		if !strings.EqualFold(kind, "application/json") {
			return &problem{
				status: fasthttp.StatusUnsupportedMediaType, Code: "not_json",
				Message: "send JSON with Content-Type: application/json",
			}
		}
	case len(ctx.PostBody()) > 0:
		return &problem{status: fasthttp.StatusBadRequest, Code: "unexpected_body", Message: "this request takes no body"}
	}
	return nil
}

func methodRefused(ctx *fasthttp.RequestCtx, allow string) error {
	ctx.Response.Header.Set("Allow", allow)
	return &problem{status: fasthttp.StatusMethodNotAllowed, Code: "method_refused", Message: "this path takes " + allow}
}
