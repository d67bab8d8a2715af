package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/captcha"
	"antirobot/message"
	"antirobot/message/inline"
	"antirobot/problem"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/wire"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/verdict"
)

// Messages provides the message firewall, or an error. *message.Keeper implements it.
type Messages interface {
	System() (*message.System, error)
}

type moderation struct {
	*journey

	message captcha.Message     // fingerprint of the judged message
	written string              // its texts
	taken   captcha.HeaderField // removes the spent grant
}

// posted is a request whose message is read: the client's own, or one carried through a captcha.
type posted struct {
	header func(name string) []string
	query  string
	body   []byte
	err    error // the body is missing
}

// judgeMessage judges the message of a request that would be forwarded, if it is on a route. The body is forwarded
// unchanged.
func (j *moderation) judgeMessage() {
	at, own := j.svc.routeAt(j.view.Method, &j.paths)
	if at == nil || !own && !j.mayClaim() || j.Stopped() || j.decision.Cause == verdict.CauseOff ||
		j.decision.Cause == verdict.CauseWhite {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), at.cfg.Timeout)
	defer cancel()
	p := posted{header: j.headerValues, query: string(j.view.Query)}
	r := j.readRoute(ctx, at, own, &p)
	if r == nil {
		return
	}
	ruling := j.decision.RuleMessage()
	values := j.ruleMessage(ctx, r, &p, ruling, true)
	if ruling.Granted {
		return
	}
	if j.decision.Verdict == verdict.Human {
		j.putAside(ctx, r, &p, values, ruling, nil)
	}
	j.message, j.written = r.fingerprint(values, ruling), r.written(values)
	if j.decision.Verdict == verdict.Human {
		j.decision.Settle()
	}
}

func (j *moderation) headerValues(name string) []string { return headerValues(j.view, name) }

func headerValues(v *request.View, name string) (out []string) {
	for i := range v.Fields {
		if f := &v.Fields[i]; request.EqualCGI(f.Name, name) {
			out = append(out, string(f.Value))
		}
	}
	return out
}

// fingerprint binds a grant to a message's contents, or to why they are unknown.
func (r *messageRoute) fingerprint(values map[string]any, ruling *verdict.Ruling) captcha.Message {
	h := sha256.New()
	h.Write([]byte(r.name))
	h.Write([]byte{0})
	if values == nil {
		h.Write([]byte(ruling.Failed))
	} else {
		sum := r.read.Fingerprint(values)
		h.Write(sum[:])
	}
	return captcha.Message(h.Sum(nil))
}

// written returns the texts of a message from body and query, in the order of the sources.
func (r *messageRoute) written(values map[string]any) string {
	var texts []string
	for _, s := range r.read.Sources {
		text, ok := values[s.Attribute].(string)
		if ok && text != "" && s.From != "header" && s.From != "subject" && s.From != "address" &&
			!slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

const (
	failedTooLarge = "the body is too large"
	failedLate     = "the body did not come in time"
)

// ruleMessage fills in ruling, and returns the message's contents; nil: unreadable. With grants, a message whose sender
// solved a captcha is not judged again.
func (j *moderation) ruleMessage(ctx context.Context, r *messageRoute, p *posted, ruling *verdict.Ruling,
	grants bool,
) map[string]any {
	ruling.Route = r.name
	fail := func(action verdict.RuleAction, why string) {
		ruling.Action, ruling.Failed = action, why
	}
	system, d, err := j.messageDomain(r)
	var readings []map[string]any
	var values map[string]any // the first of them
	switch {
	case errors.Is(p.err, h1.ErrBodyTooLarge):
		fail(r.tooLarge, failedTooLarge)
	case errors.Is(p.err, errOtherRoute):
		fail(r.unreadable, p.err.Error())
	case p.err != nil:
		fail(r.late, failedLate)
	case err != nil:
		fail(r.failed, err.Error())
	default:
		if readings, err = r.read.Values(d, j.input(p)); err == nil {
			values = readings[0]
		}
		switch {
		case errors.Is(err, inline.ErrTooLarge):
			fail(r.tooLarge, failedTooLarge)
		case errors.Is(err, inline.ErrMissing):
			fail(r.missing, err.Error())
		case errors.Is(err, inline.ErrUnreadable):
			fail(r.unreadable, err.Error())
		case err != nil:
			fail(r.failed, err.Error())
		}
	}
	if grants && j.granted(r, values, ruling) || ruling.Failed != "" {
		j.svc.metrics.message(r.name, ruling)
		return values
	}
	err = j.judgeReadings(ctx, system, d, r, readings, ruling)
	if err != nil {
		ruling.Decision = ""
		if ctx.Err() != nil {
			fail(r.late, err.Error())
		} else {
			fail(r.failed, err.Error())
		}
	}
	if err == nil {
		j.settleGrey(ctx, r, d, values, ruling)
	}
	j.svc.metrics.message(r.name, ruling)
	return values
}

// judgeReadings runs the rules over each reading of a message: the worst counts.
func (j *moderation) judgeReadings(ctx context.Context, system *message.System, d *message.Domain, r *messageRoute,
	readings []map[string]any, ruling *verdict.Ruling,
) error {
	ruling.Decision = rules.Unknown
	ruling.Action = r.answers.Of(rules.Unknown)
	first := true
	var worst *float64 // score of a reading
	defer func() { ruling.Model = worst }()
	return system.JudgeInline(ctx, d, readings, r.cfg.Trace,
		func(p *rules.Program, run *rules.Run, score *float64, err error) {
			if score != nil && (worst == nil || *score > *worst) {
				kept := *score
				worst = &kept
			}
			action := r.answers.Of(run.Decision())
			if err == nil && !first && action <= ruling.Action {
				return
			}
			first = false
			ruling.Take(p, run)
			ruling.Route, ruling.Action = r.name, action
		})
}

func (j *moderation) granted(r *messageRoute, values map[string]any, ruling *verdict.Ruling) bool {
	if values == nil && ruling.Failed == "" {
		return false
	}
	m := r.fingerprint(values, ruling)
	j.message = m
	decision, gone, ok := j.snap.Captcha.TakeGrant(j.request(), &m)
	if !ok {
		return false
	}
	*ruling = verdict.Ruling{Route: r.name, Decision: decision, Granted: true, Stop: -1, Fired: ruling.Fired[:0]}
	j.taken = gone
	return true
}

func (j *moderation) messageDomain(r *messageRoute) (*message.System, *message.Domain, error) {
	if j.core.deps.Messages == nil {
		return nil, nil, message.ErrAway
	}
	system, err := j.core.deps.Messages.System()
	if err != nil {
		return nil, nil, err
	}
	partner := r.cfg.Partner
	if partner == "" {
		if all := system.Partners(); len(all) == 1 {
			partner = all[0]
		}
	}
	d, err := system.Domain(partner, r.cfg.Domain)
	return system, d, err
}

func (j *moderation) input(p *posted) inline.Input {
	return inline.Input{
		ContentType:     strings.Join(p.header("Content-Type"), ", "),
		ContentEncoding: strings.Join(p.header("Content-Encoding"), ","),
		Body:            p.body, Query: p.query, Header: p.header, Subject: j.id.Winner().String(), Address: j.id.Addr,
	}
}

// challengeMessage challenges the sender. The post is sealed into the page, or repeated by its script. Programs are
// refused.
func (j *moderation) challengeMessage(q *captcha.Request) captcha.Response {
	c, decision := j.snap.Captcha, j.decision.Message.Decision
	if decision == "" {
		decision = "FAILED"
	}
	switch k := j.kind(); {
	case k == kindXML:
		return c.ChallengeXML(q, false)
	case k == kindSubresource:
		return c.SubResource(q, false)
	case k == kindProgram:
		return j.refuse(q)
	case k.script():
		return c.ChallengeMessageJSON(q, &j.message, decision)
	default:
		q.Written = j.written
		return c.ChallengeMessageForm(q, &j.message, decision)
	}
}

// resend forwards a request that was carried through its captcha. If its message was not judged, it is now: it may be
// refused, but not challenged again.
func (j *journey) resend(a *captcha.Response) {
	r := a.Resend
	path, query, _ := strings.Cut(r.Target, "?")
	var paths request.Paths
	var of readings
	paths.Read([]byte(path))
	p := posted{query: query, body: r.Body, header: carriedHeader(r)}
	var route *messageRoute
	if svc := of.find(j.snap.Router, j.view.Host, &paths, false); svc != nil && j.decision.Cause != verdict.CauseOff {
		if at, own := svc.routeAt([]byte(r.Method), &paths); at != nil {
			route = j.moderation.routeOf(svc, at, own, &paths, &p)
		}
	}
	if route == nil {
		j.forward(a)
		return
	}
	ruling := j.decision.RuleMessage()
	if r.Grant != "" {
		ruling.Route, ruling.Decision, ruling.Granted = route.name, r.Grant, true
		j.svc.metrics.message(route.name, ruling)
	} else {
		j.moderation.judgeCarried(route, r, &p, ruling)
	}
	j.reporter.remember()
	if ruling.Action >= verdict.RuleQueue && j.svc.Verdict.Mode == verdict.Enforce {
		j.decision.Verdict = verdict.Human
		j.decision.Settle()
		refused := j.blocked(j.request())
		refused.Header = append(refused.Header, a.Header...) // the pass was earned
		j.answer(refused)
		return
	}
	j.forward(a)
}

func carriedHeader(r *captcha.SavedRequest) func(name string) []string {
	return func(name string) (out []string) {
		for _, f := range r.Header {
			if request.EqualFold(f.Name, name) {
				out = append(out, f.Value)
			}
		}
		return out
	}
}

func (j *moderation) judgeCarried(route *messageRoute, r *captcha.SavedRequest, p *posted, ruling *verdict.Ruling) {
	ctx, cancel := context.WithTimeout(context.Background(), route.cfg.Timeout)
	defer cancel()
	values := j.ruleMessage(ctx, route, p, ruling, false)
	j.putAside(ctx, route, p, values, ruling, r)
	if ruling.Action == verdict.RuleRobot {
		ruling.Action, ruling.Granted = verdict.RuleNone, true
	}
}

func (j *moderation) messageFields(dst []request.Field) []request.Field {
	if j.taken.Name == "" {
		return dst
	}
	return append(dst, request.Field{Name: nameSetCookie, Value: []byte(j.taken.Value)})
}

// maxClaims bounds the methods that a request claims in addition to its own; real clients claim one.
const maxClaims = 4

// ReadClaims sets the methods that the head of a request claims. It allocates only if there seems to be one.
func ReadClaims(v *request.View) {
	v.Claims, v.Overclaims = nil, false
	if !claims(v) {
		return
	}
	in := inline.Input{Query: string(v.Query), Header: func(name string) []string { return headerValues(v, name) }}
	methods, err := inline.Config{}.Overrides(in)
	addClaims(v, methods)
	v.Overclaims = v.Overclaims || err != nil
}

func addClaims(v *request.View, methods []string) {
	for _, m := range methods {
		same := func(have []byte) bool { return string(have) == m }
		if wire.ValidMethod([]byte(m)) && string(v.Method) != m && !slices.ContainsFunc(v.Claims, same) {
			v.Claims = append(v.Claims, []byte(m))
		}
	}
	if len(v.Claims) > maxClaims {
		v.Claims, v.Overclaims = v.Claims[:maxClaims], true
	}
}

func claims(v *request.View) bool {
	for i := range v.Fields {
		for _, name := range inline.OverrideFields {
			if request.EqualCGI(v.Fields[i].Name, name) {
				return true
			}
		}
	}
	return holds(v.Query, "method") || holds(v.Query, "charset") || holds(v.Query, "%u")
}

// holds reports whether a service may read word in a query: escaped, in any case, with control bytes between. No letter
// of word repeats the first.
func holds(query []byte, word string) bool {
	n := 0
	for i := 0; i < len(query); i++ {
		c := query[i]
		if c == '%' && i+2 < len(query) {
			if hi, lo := request.Unhex(query[i+1]), request.Unhex(query[i+2]); hi >= 0 && lo >= 0 {
				c, i = byte(hi<<4|lo), i+2
			}
		}
		if c <= ' ' || c >= 0x7f {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch c {
		case word[n]:
			n++
		case word[0]:
			n = 1
		default:
			n = 0
		}
		if n == len(word) {
			return true
		}
	}
	return false
}

// Frameworks let a request claim another method than its own (X-HTTP-Method-Override, _method). A message may be on the
// route of a claimed method, and rules see every method.

var errOtherRoute = errors.New("it claims a method that leads to another route")

// routeAt returns the route of a request with this method (own), or else the first one of its path, for claimed
// methods; nil: none.
func (s *Service) routeAt(method []byte, paths *request.Paths) (r *messageRoute, own bool) {
	if len(s.routes) == 0 {
		return nil, false
	}
	if r = s.messageRoute(method, paths); r != nil {
		return r, true
	}
	for _, path := range paths.All() {
		for _, r := range s.routes {
			if r.fits([]byte(r.method), path, true) {
				return r, false
			}
		}
	}
	return nil, false
}

func (j *moderation) mayClaim() bool {
	claims := func(f request.Field) bool {
		return slices.ContainsFunc(inline.OverrideFields[:],
			func(name string) bool { return request.EqualCGI(f.Name, name) })
	}
	return len(j.view.Query) > 0 || inline.HasFields(string(j.view.Get("Content-Type"))) ||
		slices.ContainsFunc(j.view.Fields, claims)
}

// readRoute returns the route of the client's message, and reads its body; nil: none, or the body is broken.
func (j *moderation) readRoute(ctx context.Context, at *messageRoute, own bool, p *posted) *messageRoute {
	by, _ := ctx.Deadline()
	read := func(r *messageRoute) bool {
		p.body, p.err = j.x.ReadBodyBy(r.read.MaxBody, by)
		// else forward reports it
		return p.err == nil || errors.Is(p.err, h1.ErrBodyTooLarge) || errors.Is(p.err, h1.ErrBodyLate)
	}
	fields := inline.HasFields(string(j.view.Get("Content-Type")))
	if (own || fields) && !read(at) {
		return nil
	}
	r := j.routeOf(j.svc, at, own, &j.paths, p)
	if r != nil && !own && !fields && !read(r) {
		return nil
	}
	return r
}

// routeOf returns the route of a message that was found at one: by its own method, or by a claimed one. An unreadable
// body may claim any.
func (j *moderation) routeOf(s *Service, at *messageRoute, own bool, paths *request.Paths, p *posted) *messageRoute {
	if p.err != nil || own && len(s.routes) == 1 {
		return at
	}
	methods, err := at.read.Overrides(j.input(p))
	if err != nil {
		return at
	}
	for _, m := range methods {
		r := s.messageRoute([]byte(m), paths)
		switch {
		case r == nil || own && r == at:
		case own:
			p.err = errOtherRoute
			return at
		default:
			return r
		}
	}
	if own {
		return at
	}
	return nil
}

// BodyConfig names the fields of a body that request rules see, as body.NAME. Zero fields get defaults.
type BodyConfig struct {
	Route   string          `mapstructure:"route"`    // a method and a path, as in a message route
	Fields  []inline.Source `mapstructure:"fields"`   // attribute is NAME
	MaxBody int64           `mapstructure:"max_body"` // bytes as sent
	Charset string          `mapstructure:"charset"`  // for texts that are not UTF-8 and name no charset
	Timeout time.Duration   `mapstructure:"timeout"`
}

func (c BodyConfig) withDefaults() BodyConfig {
	c.MaxBody = cmp.Or(c.MaxBody, 64<<10)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	return c
}

type bodyRoute struct {
	messageRoute

	read    inline.Config
	timeout time.Duration
}

func newBodyRoute(c BodyConfig) (*bodyRoute, error) {
	c = c.withDefaults()
	b := &bodyRoute{timeout: c.Timeout, read: inline.Config{Sources: c.Fields, MaxBody: c.MaxBody, Charset: c.Charset}}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	b.parse(c.Route, bad)
	if err := b.read.Validate(); err != nil {
		bad("%s", strings.ReplaceAll(err.Error(), "sources", "fields"))
	}
	if c.MaxBody > maxRouteBody {
		bad("max_body: more than %d MiB would be kept in memory for each request", maxRouteBody>>20)
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		bad("timeout: %v is not between 10ms and 1m", c.Timeout)
	}
	return b, errors.Join(errs...)
}

func validBodies(list []BodyConfig) (errs []error) {
	for i := range list {
		if _, err := newBodyRoute(list[i]); err != nil {
			errs = append(errs, problem.At(fmt.Sprintf("bodies[%d]", i), err))
		}
	}
	return errs
}

func newBodyRoutes(list []BodyConfig) []*bodyRoute {
	routes := make([]*bodyRoute, 0, len(list))
	for i := range list {
		b, err := newBodyRoute(list[i])
		if err != nil {
			panic("BUG: a route that Validate let pass: " + err.Error())
		}
		routes = append(routes, b)
	}
	return routes
}

// bodyProblem is the field of View.Posted that says why other fields may be missing or unreliable.
const bodyProblem = "problem"

// readPosted reads the fields of the body for rules, if the request is on a route. An unreadable body is a problem that
// rules can test.
func (j *moderation) readPosted() {
	if len(j.svc.bodies) == 0 {
		return
	}
	for _, fold := range []bool{false, true} {
		for _, b := range j.svc.bodies {
			for _, path := range j.paths.All() {
				if b.fits(j.view.Method, path, fold) {
					j.readBodyOf(b)
					return
				}
			}
		}
	}
	if b := j.claimedBody(); b != nil {
		j.readBodyOf(b)
	}
}

// claimedBody returns the route of a method that the request claims; nil: none. An unreadable body may claim any.
func (j *moderation) claimedBody() *bodyRoute {
	if !j.mayClaim() {
		return nil
	}
	for _, b := range j.svc.bodies {
		for _, path := range j.paths.All() {
			if !b.fits([]byte(b.method), path, true) {
				continue
			}
			p := posted{header: j.headerValues, query: string(j.view.Query)}
			if inline.HasFields(string(j.view.Get("Content-Type"))) {
				p.body, p.err = j.x.ReadBodyBy(b.read.MaxBody, time.Now().Add(b.timeout))
			}
			methods, err := b.read.Overrides(j.input(&p))
			if p.err != nil || err != nil || slices.ContainsFunc(methods,
				func(m string) bool { return request.EqualFold(m, b.method) }) {
				return b
			}
		}
	}
	return nil
}

func (j *moderation) readBodyOf(b *bodyRoute) {
	p := posted{header: j.headerValues, query: string(j.view.Query)}
	p.body, p.err = j.x.ReadBodyBy(b.read.MaxBody, time.Now().Add(b.timeout))
	switch {
	case errors.Is(p.err, h1.ErrBodyTooLarge):
		j.post(bodyProblem, "large")
		return
	case errors.Is(p.err, h1.ErrBodyLate):
		j.post(bodyProblem, "late")
		return
	case p.err != nil:
		return // forward reports it
	}
	methods, _ := b.read.Overrides(j.input(&p)) // an error is reported below
	addClaims(j.view, methods)
	texts, err := b.read.Texts(j.input(&p))
	switch {
	case errors.Is(err, inline.ErrTooLarge):
		j.post(bodyProblem, "large")
	case err != nil:
		j.post(bodyProblem, "unreadable")
	}
	for _, t := range texts {
		if t.Several {
			j.post(bodyProblem, "several")
		}
		j.post(t.Attribute, t.Text)
	}
}

// post adds a field for rules; the first of a name counts.
func (j *moderation) post(name, value string) {
	j.view.Posted = append(j.view.Posted, request.Field{Name: []byte(name), Value: []byte(value)})
}
