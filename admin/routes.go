package admin

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/journal"
	"antirobot/message/rpc"
	"antirobot/spelling"
)

// call is one request of the API: the handler reads it and returns a value to be shown as JSON with status 200, or an
// error.
type call struct {
	*fasthttp.RequestCtx
	who   Caller
	acted bool            // the journal has it
	arg   string          // what stood in the place of {} in the path, decoded
	work  context.Context // bounds what is done for the request; a RequestCtx must not outlive its handler, this one may
}

// streamed is what a handler returns that has answered itself.
type streamed struct{}

// maxWork bounds what one request of the API may take.
const maxWork = 30 * time.Second

// route binds a method and a path to a handler. {} in a path is a segment that is an argument.
type route struct {
	method, path string
	query        string                              // the names of the parameters that it takes; a route that merges takes gateways, too
	body         bool                                // takes a JSON body
	role         Role                                // the least that may call it
	handle       func(*call) (any, error)            // the value, or streamed
	merge        func(*call, *gathered) (any, error) // of the answers of several gateways; nil: each knows the same
}

func (s *Server) table() []route {
	d := &s.deps
	subjects := &subjectCalls{s.api}
	lists := &listCalls{s.api}
	journal := &journalCalls{s.api}
	messages := &messageCalls{s.api}
	queue := &queueCalls{s.api}
	gateway := &gatewayCalls{s.api}
	return slices.Concat(
		[]route{
			{"GET", "/api/status", "", false, Viewer, gateway.status, mergeStatus},
			{"GET", "/api/subjects/{}", "", false, Viewer, subjects.subject, mergeSubject},
			{"DELETE", "/api/subjects/{}", "", false, Operator, subjects.eraseSubject, nil},
			{"GET", "/api/whoami", "", false, Viewer, gateway.whoAmI, nil},
			{"GET", "/api/openapi.json", "", false, Viewer, gateway.openAPI, nil},
			{"GET", "/api/messages", "partner domain log text tag first last limit", false, Viewer, messages.searchMessages, nil},
			{"GET", "/api/messages/usage", "", false, Viewer, messages.messageUsage, nil},
			{"POST", "/api/messages/{}/mark", "", true, Operator, messages.markMessage, nil},
			{"DELETE", "/api/messages/{}/mark", "marker partner domain log model attribute", false, Operator, messages.unmarkMessage, nil},
		},
		only(d.Bans != nil, "the table of bans",
			route{"GET", "/api/bans", "subject service limit after", false, Viewer, subjects.listBans, nil},
			route{"POST", "/api/bans", "", true, Operator, subjects.makeBan, nil},
			route{"DELETE", "/api/bans", "subject service", false, Operator, subjects.liftBan, nil}),
		only(d.Lists != nil, "the block base", route{"GET", "/api/lists", "", false, Viewer, lists.listSources, nil},
			route{"GET", "/api/lists/{}", "silent limit after", false, Viewer, lists.listEntries, nil},
			route{"POST", "/api/lists/{}", "", true, Operator, lists.addEntry, nil},
			route{"DELETE", "/api/lists/{}", "entry service", false, Operator, lists.removeEntry, nil}),
		only(d.Labels != nil, "the table of labels",
			route{"GET", "/api/labels", "limit after", false, Viewer, subjects.listLabels, nil},
			route{"POST", "/api/labels", "", true, Operator, subjects.setLabel, nil},
			route{"DELETE", "/api/labels", "subject request", false, Operator, subjects.removeLabel, nil}),
		only(d.Learning != nil, "learning", route{"GET", "/api/learn", "", false, Viewer, gateway.learnt, nil},
			route{"POST", "/api/learn/rollback", "", true, Operator, gateway.rollBackLearnt, nil}),
		only(d.Gateway != nil, "a configuration that can be read again",
			route{"POST", "/api/reload", "", false, Admin, gateway.reload, nil},
			route{"POST", "/api/backup", "", true, Admin, gateway.backup, nil}),
		only(d.Passes != nil, "revocation", route{"POST", "/api/revoke", "", true, Admin, subjects.revoke, nil}),
		only(d.Decisions != nil, "the memory of decisions",
			route{"GET", "/api/decisions/{}", "", false, Viewer, subjects.decision, mergeDecision},
			route{"GET", "/api/messages/recent", "limit", false, Viewer, messages.recentMessages, nil}),
		only(d.Challenges != nil, "a captcha",
			route{"GET", "/api/challenges", "", false, Viewer, gateway.challenges, mergeChallenges}),
		only(d.Counters != nil, "the counters",
			route{"POST", "/api/counters/update", "wait", true, Admin, gateway.updateCounters, nil},
			route{"POST", "/api/counters/read", "", true, Viewer, gateway.readCounters, nil}),
		only(d.Attack != nil, "the switch", route{"GET", "/api/attack", "", false, Viewer, gateway.attackState, nil},
			route{"POST", "/api/attack", "", true, Operator, gateway.attack, nil},
			route{"DELETE", "/api/attack", "", false, Operator, gateway.attackOver, nil}),
		only(d.Training != nil, "a training log (processor.training.sample)",
			route{"GET", "/api/events", "since unlabelled", false, Admin, gateway.events, nil}),
		only(d.Alarms != nil, "alarms", route{"GET", "/api/alarms", "", false, Viewer, gateway.alarms, mergeAlarms},
			route{"POST", "/api/alarms/test", "", false, Operator, gateway.testAlarms, nil}),
		only(d.Journal != nil, "the journal",
			route{"GET", "/api/journal", "q subject limit before after", false, Viewer, journal.searchJournal, mergeJournal},
			route{"DELETE", "/api/journal", "subject", false, Operator, journal.erase, nil},
			route{"GET", "/api/journal/top", "by q limit", false, Viewer, journal.top, mergeTop},
			route{"GET", "/api/journal/figures", "by from to top", false, Viewer, journal.figures, mergeFigures},
			route{"GET", "/api/journal/{}", "", false, Viewer, journal.told, mergeTold}),
		only(d.Pushes != nil, "configuration from the store (it needs keys.secret_file)",
			route{"GET", "/api/push", "", false, Viewer, gateway.pushState, nil},
			route{"POST", "/api/push", "", true, Admin, gateway.push, nil},
			route{"POST", "/api/push/rollback", "", true, Admin, gateway.rollback, nil}),
		only(d.Queue != nil, "the queue of messages",
			route{"GET", "/api/queue", "state service sender limit", false, Viewer, queue.listQueue, nil},
			route{"DELETE", "/api/queue", "state service sender all", false, Operator, queue.eraseQueue, nil},
			route{"POST", "/api/queue/{}/approve", "", true, Operator, queue.approveQueued, nil},
			route{"POST", "/api/queue/{}/refuse", "", true, Operator, queue.refuseQueued, nil},
			route{"POST", "/api/queue/{}/teach", "", true, Operator, queue.teachQueued, nil},
			route{"GET", "/api/queue/{}", "", false, Viewer, queue.showQueued, nil},
			route{"DELETE", "/api/queue/{}", "", false, Operator, queue.eraseQueued, nil}),
	)
}

// only returns the routes of a part; if it is not there, they say so.
func only(there bool, part string, routes ...route) []route {
	for i := range routes {
		if !there {
			routes[i].handle = func(*call) (any, error) { return nil, absentPart(part) }
		}
	}
	return routes
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
	case strings.HasPrefix(path, "/api/"):
		if codec, ok := messageCodec(path); ok {
			err = s.messages(ctx, codec)
		} else {
			err = s.serveAPI(ctx, path)
		}
	case inConsole(path) && s.console != nil:
		s.console.Serve(ctx)
	case strings.HasPrefix(path, rpc.AkismetPrefix):
		err = s.akismet(ctx, path)
	default:
		err = notFound("nothing is here; /api/status, /metrics, /healthz, /readyz and /debug/pprof/ are")
	}
	if err != nil {
		answerProblem(ctx, err)
	}
}

func (s *Server) serveAPI(ctx *fasthttp.RequestCtx, path string) error {
	if who, ok := s.asker(ctx); ok {
		return s.answer(ctx, path, who)
	}
	who, err := s.requireToken(ctx, Viewer)
	if err != nil {
		return err
	}
	return s.answer(ctx, path, who)
}

// answer calls the handler of a path for a caller, if the caller's role allows it.
func (s *Server) answer(ctx *fasthttp.RequestCtx, path string, who Caller) error {
	if len(ctx.PostBody()) > maxBody { // the server takes more where messages may be longer
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
		if err := who.may(r.role); err != nil {
			return err
		}
		if who.gateway && r.merge == nil {
			return notFound("%s is not for other gateways", r.path)
		}
		if err := checkBody(ctx, r.body); err != nil {
			return err
		}
		if !who.gateway { // what a gateway asks only reads, and may be of a later version
			if err := checkParameters(ctx, r.takes()); err != nil {
				return err
			}
		}
		work, done := context.WithTimeout(context.Background(), maxWork)
		defer done()
		c := &call{RequestCtx: ctx, who: who, arg: arg, work: work}
		v, err := s.everywhere(c, r)
		if err != nil {
			return err
		}
		if r.role > Viewer && !c.acted {
			s.act(c, journal.Act{What: strings.ToLower(r.method) + " " + strings.TrimPrefix(r.path, "/api/"), Subject: arg})
		}
		if _, ok := v.(streamed); !ok {
			answerJSON(ctx, fasthttp.StatusOK, v)
		}
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

func (r *route) takes() []string {
	names := strings.Fields(r.query)
	if r.merge != nil {
		names = append(names, "gateways")
	}
	return names
}

// checkParameters refuses parameters of other names: a misspelt one that is ignored would lift another ban, or erase more, than was meant.
func checkParameters(ctx *fasthttp.RequestCtx, takes []string) error {
	for k := range ctx.QueryArgs().All() {
		name := string(k)
		if slices.Contains(takes, name) {
			continue
		}
		said := "this call takes no parameters in its query"
		if best := spelling.Nearest(name, takes); best != "" {
			said = fmt.Sprintf("there is no parameter %q; did you mean %s?", clipped(name), best)
		} else if len(takes) > 0 {
			said = fmt.Sprintf("there is no parameter %q; there are: %s", clipped(name), strings.Join(takes, ", "))
		}
		return &problem{status: fasthttp.StatusBadRequest, Code: "unknown_field", Message: said, Field: clipped(name)}
	}
	return nil
}

func methodRefused(ctx *fasthttp.RequestCtx, allow string) error {
	ctx.Response.Header.Set("Allow", allow)
	return &problem{status: fasthttp.StatusMethodNotAllowed, Code: "method_refused", Message: "this path takes " + allow}
}
