package proxy

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/proxy/traces"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/label"
)

// reporter tells the processor, logs, metrics and the journal about a journey's request.
type reporter struct {
	*journey
	noted verdict.Note
}

func (j *journey) report() {
	took := time.Since(j.view.At)
	if j.svc != nil {
		j.ended(took)
		j.reporter.count(took)
		j.reporter.learnLoad()
		j.reporter.countAnswer(took)
		if j.core.deps.Journal != nil {
			j.reporter.note(took)
		}
	}
	if j.core.deps.Access != nil {
		j.reporter.logAccess(took)
	}
	j.reporter.offerTrace()
}

// learnLoad reports the time to the head of the service's answer: with the wait for a connection, without the client's
// upload.
func (j *reporter) learnLoad() {
	r := &j.result
	switch {
	case r.Took == 0 || j.failure != nil && r.Status == 0 && h1.Status(j.failure) < 500:
		return // nothing was forwarded, or the client is at fault
	case r.Status == 0:
		r.HeadAt, r.Waited = r.Took, r.Took
	}
	j.core.deps.Decider.Took(j.view, j.svc.Verdict, r.Waited, j.svc.Upstream.Waiting())
}

// countAnswer runs the rules over answers, except for own pages and allowed requests.
func (j *reporter) countAnswer(took time.Duration) {
	d := &j.decision
	if j.ownPage || j.declined || j.status == 0 || d.Cause == verdict.CauseOff || d.Cause == verdict.CauseWhite {
		return
	}
	if r, ok := j.svc.Verdict.Rules.(verdict.AnswerRules); ok {
		r.Answered(j.view, &j.id, j.svc.Verdict, &verdict.Answer{
			Status: j.status, ContentType: j.result.ContentType, Bytes: j.result.BytesOut, Took: took,
			Verdict: d.Verdict,
		})
	}
}

func (j *reporter) tell(took time.Duration) {
	if j.ownPage && j.outcome == captcha.OutcomeNone {
		return
	}
	if j.embed && j.decision.Stops() {
		j.declined = true
	}
	f := Facts{
		Status: j.status, ContentType: j.result.ContentType, Bytes: j.result.BytesOut, Took: took,
		Kind: KindOf(j.outcome), Work: j.work, Evidence: j.evidence, Uncounted: j.declined,
	}
	if len(j.result.Read) > 0 {
		var ok bool
		if f.Mark, ok = label.ReadField(j.result.Read); !ok {
			j.core.metrics.badLabels.Inc()
		}
	}
	j.told(&f)
}

func (j *reporter) told(f *Facts) {
	if j.Tell(f) {
		j.core.deps.Decider.Counted(j.requestID, &j.decision, &j.event, j.svc.Verdict)
	}
}

// namesStatic reports whether v, of kind k, claims to be for a subresource, which does not count towards the pace.
func namesStatic(v *request.View, k request.Kind) bool {
	return k == request.KindPart && len(v.Named) == 0 || k == request.KindSocket || v.NamesPart()
}

func (j *reporter) count(took time.Duration) {
	m := j.svc.metrics
	if j.ownPage {
		m.own.Inc()
	} else {
		j.svc.counts[j.decision.Verdict][j.decision.Cause].Inc()
	}
	m.whole.observe(took)
}

// remember stores the decision for `why`, and logs it unless human. It runs before the answer: a stream may run for
// hours.
func (j *reporter) remember() {
	if j.ownPage && j.decision.Verdict != verdict.Blocked && j.decision.Message == nil {
		return
	}
	d := &j.decision
	d.Trace = j.traced.ID()
	j.core.deps.Decider.Decisions().Record(j.requestID, d, j.view, &j.id, j.svc.Verdict)
	j.noteRefusal()
	if d.Verdict == verdict.Human && !d.Paid {
		return
	}
	if j.core.deps.Log.GetLevel() > zerolog.InfoLevel {
		return
	}
	left, ok := j.core.decisions.take(j.lineKey(uint64(d.Verdict)<<8|uint64(d.Cause)), j.view.At,
		j.lineCounts())
	if !ok {
		return
	}
	e := leftOut(j.core.deps.Log.Info(), left)
	j.scratch = d.Subject.Append(j.scratch[:0])
	e = e.Bytes("request_id", j.idText[:]).Str("service", j.svc.Name).Stringer("verdict", d.Verdict).
		Stringer("cause", d.Cause).Bytes("subject", j.scratch).Str("reason", j.reason())
	e = j.nameTrace(j.describe(e))
	if d.Paid {
		e = e.Bool("paid", true).Uint32("left", d.Left)
	}
	if d.Mode != verdict.Enforce {
		e = e.Stringer("mode", d.Mode)
	}
	e.Msg("decision")
}

// describe adds the request and the strongest features to a decision's line.
func (j *reporter) describe(e *zerolog.Event) *zerolog.Event {
	d, v := &j.decision, j.view
	j.scratch = j.id.Addr.AppendTo(j.scratch[:0])
	e = e.Bytes("client", j.scratch).Bytes("method", v.Method).Bytes("host", v.Host).Bytes("path", loggedPath(v))
	if j.core.deps.AccessFields {
		e = quoteFields(e, v)
	}
	factors := &d.Ban.Factors
	if d.Cause == verdict.CauseDoubt {
		factors = &d.Doubt.Factors
	}
	if d.Score > 0 {
		e = e.Float32("score", d.Score)
	}
	j.scratch = j.scratch[:0]
	for i := range factors {
		if factors[i].Name == "" {
			break
		}
		if i > 0 {
			j.scratch = append(j.scratch, ", "...)
		}
		j.scratch = append(j.scratch, factors[i].Name...)
	}
	if len(j.scratch) > 0 {
		e = e.Bytes("factors", j.scratch)
	}
	return e
}

// noteRefusal adds the status with which a client was refused that can't answer a challenge. It runs after both
// remember and the answer, in either order.
func (j *reporter) noteRefusal() {
	if (j.status == 403 || j.status == 429) && !j.ownPage && j.Stopped() &&
		(j.kind() == kindProgram || j.kind() == kindSubresource) {
		j.core.deps.Decider.Decisions().Answered(j.requestID, &j.decision, j.status)
	}
}

// lineKey is the client's network, and the subject of the line.
func (j *reporter) lineKey(about uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15 // golden ratio: spreads a small number over all bits
	return identity.NetKey(identity.NetOf(j.id.Addr)) ^ about*odd
}

func leftOut(e *zerolog.Event, left uint64) *zerolog.Event {
	if left > 0 {
		e = e.Uint64("left_out", left)
	}
	return e
}

// rememberOwn stores the decision about a robot's visit to a page that shows its own request ID, with the service's
// mode.
func (j *reporter) rememberOwn() {
	if j.decision.Verdict != verdict.Robot || j.decision.Paid {
		return
	}
	d := j.decision
	d.Mode, d.Trace = j.svc.Verdict.Mode, j.traced.ID()
	j.core.deps.Decider.Decisions().Record(j.requestID, &d, j.view, &j.id, j.svc.Verdict)
}

// Bounds of quoted texts, in bytes.
const (
	maxLoggedPath  = 1024
	maxLoggedField = 256
)

// logAccess writes a line for the request, without cookies, answers and query, which hold keys and passes. A keyed hash
// tells queries apart.
func (j *reporter) logAccess(took time.Duration) {
	if j.core.deps.Access.GetLevel() > zerolog.InfoLevel {
		return
	}
	left, ok := j.core.accesses.take(j.lineKey(0), j.view.At, j.lineCounts())
	if !ok {
		return
	}
	e := leftOut(j.core.deps.Access.Info(), left)
	j.scratch = j.id.Addr.AppendTo(j.scratch[:0])
	e = e.Bytes("request_id", j.idText[:]).Bytes("client", j.scratch).Bytes("method", j.view.Method).
		Bytes("host", j.view.Host).Bytes("path", loggedPath(j.view)).Stringer("asks", j.wants()).
		Int("status", j.status).Int64("bytes_in", j.result.BytesIn).Int64("bytes_out", j.result.BytesOut).
		Dur("ms", took)
	if len(j.view.Query) > 0 {
		e = e.Hex("query_hash", binary.BigEndian.AppendUint32(j.scratch[:0],
			uint32(j.core.deps.Hash.Sum(j.view.Query))))
	}
	if kind := mediaType(j.result.ContentType); len(kind) > 0 {
		e = e.Bytes("content_type", kind)
	}
	if j.view.HTTP3 {
		e = e.Str("protocol", "HTTP/3")
	}
	if len(j.view.JA4) > 0 {
		e = e.Bytes("ja4", j.view.JA4)
	}
	if len(j.view.Frames) > 0 {
		e = e.Bytes("h2", j.view.Frames)
	}
	if j.view.Behind > 0 && j.view.Peer == j.id.Addr {
		e = e.Dur("behind_ms", j.view.Behind)
	}
	if j.core.deps.AccessFields {
		e = quoteFields(e, j.view)
	}
	if j.svc != nil {
		e = e.Str("service", j.svc.Name).Stringer("verdict", j.decision.Verdict)
	}
	if j.failure != nil {
		e = e.Str("error", j.failure.Error())
	}
	j.nameTrace(e).Msg("request")
}

func mediaType(t []byte) []byte {
	t, _, _ = bytes.Cut(t, []byte(";"))
	return t[:min(len(t), maxLoggedField)]
}

func quoteFields(e *zerolog.Event, v *request.View) *zerolog.Event {
	agent, referer := quotedFields(v)
	if len(agent) > 0 {
		e = e.Bytes("user_agent", agent)
	}
	if len(referer) > 0 {
		e = e.Bytes("referer", referer)
	}
	return e
}

func quotedFields(v *request.View) (agent, referer []byte) {
	agent = v.Get("User-Agent")
	referer = quotedReferer(v.Get("Referer"))
	return agent[:min(len(agent), maxLoggedField)], referer[:min(len(referer), maxLoggedField)]
}

func quotedReferer(referer []byte) []byte {
	if i := bytes.IndexAny(referer, "?#"); i >= 0 {
		referer = referer[:i]
	}
	_, host, ok := bytes.Cut(referer, []byte("//"))
	if !ok {
		return referer
	}
	host, _, _ = bytes.Cut(host, []byte("/"))
	if i := bytes.LastIndexByte(host, '@'); i >= 0 {
		_, referer, _ = bytes.Cut(referer, host[:i+1])
	}
	return referer
}

func loggedPath(v *request.View) []byte { return v.Path[:min(len(v.Path), maxLoggedPath)] }

func (j *reporter) lineCounts() int {
	var agent, referer []byte
	if j.core.deps.AccessFields {
		agent, referer = quotedFields(j.view)
	}
	return linesOf(loggedPath(j.view), agent, referer, j.view.Method, j.view.Host)
}

// reason is the deciding list entry, rule or ban in words.
func (j *reporter) reason() string {
	d := &j.decision
	switch {
	case d.Entry != nil:
		return d.Entry.List + ": " + j.core.deps.Decider.Decisions().Describe(d.Entry, "ip:"+j.id.Addr.String())
	case d.Ruling() != nil:
		return d.Ruling().Why()
	default:
		return d.Ban.Reason
	}
}

// note writes to the journal: requests that were not simply human, captcha outcomes, and a sample of the others.
func (j *reporter) note(took time.Duration) {
	d := &j.decision
	share, wanted := float32(1), j.outcome != captcha.OutcomeNone && j.outcome != captcha.OutcomeEvidence
	if !wanted && !j.ownPage {
		if wanted = d.Told() != verdict.Human || d.Paid || d.Message != nil &&
			d.Message.Action != verdict.RuleNone; !wanted {
			share, wanted = j.core.deps.Journal.Human(j.requestID)
		}
	}
	if !wanted && !(j.ownPage && d.Verdict == verdict.Blocked) {
		return
	}
	n := &j.noted
	d.Note(n, j.requestID, j.view, &j.id, j.svc.Verdict)
	n.Trace = j.traced.ID()
	n.Kind, n.Status, n.Took, n.BytesOut, n.Work, n.Share = KindOf(j.outcome), uint16(j.status), took,
		j.result.BytesOut, j.work, share
	j.core.deps.Journal.Note(n)
}

type traced struct {
	traces.Context
	decidedFrom, decidedTo, calledAt time.Time
}

var nameTraceparent = []byte("Traceparent")

// beginTrace decides whether the request is traced. A trusted peer may pass a trace on.
func (j *journey) beginTrace() {
	if t := j.core.deps.Traces; t != nil {
		t.Begin(&j.traced.Context, j.requestID, j.view.Get("Traceparent"), j.core.deps.Resolver.Trusts(j.x.View.Peer))
	}
}

func (j *journey) decideTraced() {
	j.traced.decidedFrom = time.Now()
	j.Decide()
	j.traced.decidedTo = time.Now()
}

// appendTrace appends the field that continues the trace. That of an untraced request is passed on unchanged.
func (j *relay) appendTrace(dst []request.Field) []request.Field {
	if !j.traced.Sampled() {
		return dst
	}
	j.traced.calledAt = time.Now()
	return append(dst, request.Field{Name: nameTraceparent, Value: j.traced.Header()})
}

func (j *reporter) nameTrace(e *zerolog.Event) *zerolog.Event {
	if !j.traced.Sampled() {
		return e
	}
	j.scratch = j.traced.AppendID(j.scratch[:0])
	return e.Bytes("trace_id", j.scratch)
}

const maxTraced = 256

func (j *reporter) offerTrace() {
	if !j.traced.Sampled() {
		return
	}
	r := traces.Request{
		Context: j.traced.Context, ID: string(j.idText[:]), At: j.view.At, End: time.Now(),
		Method:      string(j.view.Method),
		Host:        string(j.view.Host[:min(len(j.view.Host), maxTraced)]),
		Path:        string(j.view.Path[:min(len(j.view.Path), maxTraced)]),
		DecidedFrom: j.traced.decidedFrom, DecidedTo: j.traced.decidedTo, Status: j.status,
	}
	if j.svc != nil {
		r.Service, r.Verdict, r.Cause, r.Mode = j.svc.Name, j.decision.Told().String(), j.decision.Cause.String(),
			j.decision.Mode.String()
	}
	if j.failure != nil {
		r.Failure = j.failure.Error()
	}
	if !j.traced.calledAt.IsZero() {
		r.CalledAt, r.HeadAt, r.CallTook = j.traced.calledAt, j.result.HeadAt, j.result.Took
		r.Answer, r.Upstream = j.result.Status, j.result.Addr
	}
	j.core.deps.Traces.Offer(&r)
}
