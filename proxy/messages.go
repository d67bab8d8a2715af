package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"antirobot/captcha"
	"antirobot/message"
	"antirobot/message/inline"
	"antirobot/proxy/h1"
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
