package captcha

import (
	"context"
	"errors"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
)

// state is the result of checking an answer.
type state uint8

const (
	stateSolved state = iota
	stateFailed
	stateExpired // the picture was too old, or the visitor's network changed: a new challenge, not a failure
	stateEmpty   // nothing was answered; spends nothing
	stateUsed    // the key was answered earlier
	stateHas     // … and rightly: the visitor, who pressed twice, brings the pass that it earned
	stateLost    // … and rightly, a moment ago: the visitor, who may not have got it, is given the same pass again
	stateLimited
	stateNext        // one act of several: its next one follows
	stateMoved       // a pass from another network is good here, too
	stateUnmoved     // … is not: its browser has not proved itself
	stateUnavailable // the store is unavailable, and the service then accepts no answer
	stateCount
)

func (s state) String() string {
	return [...]string{"solved", "failed", "expired", "empty", "used", "earned", "repeated", "limited", "next", "moved", "not-moved", "unavailable"}[s]
}

// result is a judged answer.
type result struct {
	state  state
	key    key
	opened bool          // key is set
	wait   time.Duration // with stateLimited and stateUnavailable
	early  bool          // with stateLimited: the answer is right, not spent, and can be given again after wait
	took   time.Duration
	next   *key     // with stateNext
	robot  bool     // it was pressed as machines press
	print  [16]byte // of the key pair with which the browser has proved itself; zero: with none
	pass   spravka.Pass
	cookie HeaderField
}

// note copies the result into the answer, for events.
func (r *result) note(a *Response) {
	a.Took, a.Work = r.took, r.opened && !r.key.read()
	switch r.state {
	case stateSolved:
		a.Outcome, a.Pass = OutcomeSolved, r.pass
	case stateFailed, stateUsed:
		a.Outcome = OutcomeFailed
	case stateLimited:
		a.Outcome = OutcomeLimited
	default:
		a.Outcome = OutcomeNone
	}
}

func (r *result) status() int {
	if r.state == stateUnavailable {
		return 503
	}
	return 429
}

// problem is what the next page says. Who fails a check of the browser did nothing wrong.
func (r *result) problem() templates.Problem {
	if r.opened && (r.key.kind == silentCode || r.key.kind == pressCode || r.key.kind == moveCode) || r.state == stateNext {
		return templates.ProblemNone
	}
	switch r.state {
	case stateExpired:
		return templates.ProblemExpired
	case stateEmpty:
		return templates.ProblemEmpty
	case stateUsed:
		return templates.ProblemUsed
	default:
		return templates.ProblemFailed
	}
}

// stay is 1 for a visitor who is not asked again to move a pass.
func (r *result) stay() string {
	if r.opened && r.key.kind == moveCode {
		return "1"
	}
	return ""
}

// statusText is what clients are told: "failed" is known from the original system, "expired" to our own pages and scripts.
func (r *result) statusText() string {
	if r == nil || r.state == stateNext || r.state == stateUnmoved {
		return ""
	}
	if r.state == stateExpired {
		return "expired"
	}
	return "failed"
}

// retryUnavailable is how long a client is asked to wait when the store is unavailable.
const retryUnavailable = 5 * time.Second

// judge checks an answer and, if it is right, earns the pass.
func (c *Captcha) judge(q *Request, ch channel, p *params, at time.Time) (r result) {
	defer func() {
		c.count.answers[r.state].Inc()
		c.noteTried(q, wayOf(q, ch, p), &r, at)
		switch {
		case !r.opened:
		case r.key.kind == silentCode || r.key.kind == pressCode:
			if r.state == stateFailed || r.state == stateSolved {
				c.climbs.note(q, r.state == stateSolved, at)
			}
		case r.key.kind != workCode:
		case r.state == stateSolved:
			c.count.work["solved"].Inc()
		case r.state == stateFailed || r.state == stateUsed:
			c.count.work["refused"].Inc()
		}
	}()
	k, kd, err := c.open(q, p.key, at)
	who := q.ID.Addr
	if err == nil && k.partner != 0 {
		who = k.addr // each of a partner's users has a separate rate, named again or not
	}
	if wait := c.checks.Take(c.checks.AddrKey(who, 0), at); wait > 0 {
		return result{state: stateLimited, wait: wait}
	}
	switch {
	case errors.Is(err, errKeyExpired):
		return result{state: stateExpired}
	case err != nil || k.channel != ch:
		return result{state: stateFailed}
	}
	r.key, r.opened = k, true
	r.took = at.Sub(time.UnixMilli(k.issued))
	if !c.answerableBy(q, &k) || k.kind == workCode && !q.offersWork() {
		r.state = stateExpired
		return r
	}
	right, given := kd.check(k.secret, p.rep)
	r.robot, r.print = mechanical(&k, p.rep), q.readProof(p.key, p.proof)
	switch {
	case !given:
		r.state = stateEmpty
	case right && c.kept(q, &r, at):
		r.state = stateLost
	case right && c.early(q, &r, at):
		r.state = stateLimited
	case !c.spent.Add(k.nonce, at):
		r.state = q.again(&k)
	case k.kind == moveCode:
		c.moved(q, &r, right, at)
	case r.goesOn(right):
		r.state = stateNext
	case !right:
		r.state = stateFailed
	default:
		c.earn(q, &r, at)
	}
	return r
}

// answerableBy reports whether the key was made for whoever answers. A partner is trusted about its user: the pass is bound
// to the user that the key names. A visitor may answer from another network than that of the question (IPv4 and IPv6 of one
// browser, a phone between cells) if the browser brings the mark that it was given with it; price and pass stay with the
// network of the question.
func (c *Captcha) answerableBy(q *Request, k *key) bool {
	if k.partner != 0 {
		return q.Partner == nil || k.partner == q.partnerHash()
	}
	return q.Partner == nil && c.shownTo(k, q)
}

// spendHold is for how much longer a spent key is kept than it matters: a server of the store whose clock is ahead by as much for a
// while, and expires by it, would let a key be spent again when the clock is right.
const spendHold = time.Hour

// spend spends a key for all nodes. While the store is unavailable, a service that continues without it relies on this
// node's memory, which the caller has checked, and the key is spent in the store when it is back; known is false for a
// service that does not continue.
func (c *Captcha) spend(ctx context.Context, q *Request, key []byte, ttl time.Duration, what string) (first, known bool) {
	ttl += spendHold
	first, err := c.store.Spend(ctx, key, ttl)
	if err == nil {
		return first, true
	}
	if !c.survives(q, what, err) {
		return false, false
	}
	if l, ok := c.store.(store.Later); ok {
		l.SpendLater(key, ttl)
	}
	return true, true
}

// earn spends the key for all nodes and makes the pass. The order matters: no pass before the key is durably spent.
func (c *Captcha) earn(q *Request, r *result, at time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.StoreTimeout)
	defer cancel()
	first, known := c.spend(ctx, q, append([]byte("captcha/key/"), r.key.nonce[:]...), c.cfg.KeyTTL, "spend the answer")
	if !known {
		r.state, r.wait = stateUnavailable, retryUnavailable
		return
	}
	if !first {
		r.state = q.again(&r.key)
		return
	}
	e, wait, err := c.takePass(ctx, q, r, at)
	if err != nil && !c.survives(q, "count the passes of an address and its network", err) {
		r.state, r.wait = stateUnavailable, retryUnavailable
		return
	}
	if wait > 0 {
		r.state, r.wait = stateLimited, wait
		return
	}
	if err == nil && r.key.kind == workCode && c.underpaid(&r.key, &e) {
		c.count.work["underpaid"].Inc()
		r.state = stateExpired // its work no longer meets the price; the next challenge has the current one
		return
	}
	r.pass = spravka.Pass{
		ID: r.key.passID(), Born: at.Unix(), Expires: at.Add(c.cfg.Pass.Lifetime).Unix(),
		Allowance: c.cfg.worth(&r.key, &e), Earned: true, Scope: q.Service.id.Scope(q.View.Host), Partner: r.key.partner,
		Net: identity.NetKey(identity.NetOf(r.key.addr)), Agent: agentOf(q), Step: uint8(r.key.step()), Asked: uint8(r.key.asked),
	}
	if r.key.partner != 0 {
		r.pass.Agent = 0 // the agent that we see is the partner's
	}
	quick := c.quick(r)
	if quick && r.key.partner == 0 {
		r.pass.Shape = shapeOf(q)
	}
	if c.isCampaign(identity.NetOf(r.key.addr), r.pass.Agent, at) || quick && c.isShaped(q, &r.key, at) {
		r.pass.Allowance = min(r.pass.Allowance, uint32(c.cfg.Pass.AllowanceFloor)) //nolint:gosec // at most 1000000
	}
	c.climbs.earn(&r.key, c.cfg.shareOf(r.key.step(), r.key.asked), q.Read, at)
	c.bind(q, r)
	c.keep(ctx, r)
	r.cookie = c.passCookie(q, &r.pass, at)
	r.state = stateSolved
}

// survives logs a failure of the store, and reports whether the service continues without it.
func (c *Captcha) survives(q *Request, what string, err error) bool {
	c.count.failures.Inc()
	c.log.Error().Err(err).Str("request_id", q.RequestID).Str("service", q.Service.name).
		Bool("goes_on", !q.Service.closed).Msg("captcha: " + what)
	return !q.Service.closed
}

// Check handles /checkcaptcha.
func (c *Captcha) Check(q *Request) Response {
	switch q.method() {
	case "OPTIONS":
		return c.preflight(q)
	case "GET", "POST":
	default:
		return c.notAllowed(q, "GET, POST, OPTIONS")
	}
	at := c.now()
	p := readParams(q)
	p.choose(q)
	switch asScript := wantsJSON(q, &p); {
	case q.BodyTooLarge && asScript:
		return c.Failed(q, 413, ReadsJSON)
	case q.BodyTooLarge:
		return c.Failed(q, 413, ReadsPage)
	case asScript:
		return c.checkJSON(q, &p, at)
	}
	if p.saved != "" {
		return c.checkForm(q, &p, at)
	}
	return c.checkPage(q, &p, at)
}

func (c *Captcha) checkJSON(q *Request, p *params, at time.Time) Response {
	if p.fresh != "" { // another picture: nothing was answered
		return c.freshJSON(q, p, at)
	}
	r := c.judge(q, channelPage, p, at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateLost:
		a = c.own(q, 200, typeJSON, verdictCaptcha)
		c.cors(q, &a)
		c.addPass(q, &a, &r)
		c.noteSolved(q, &a, at)
		a.Body = []byte(solvedJSON)
	case stateLimited, stateUnavailable:
		a = c.limitedJSON(q, r.status(), r.wait)
	default:
		l := p.link()
		c.follow(q, &l, r.keyOrNil(), at)
		if r.opened {
			q.Require = max(q.least(), r.key.asked)
		}
		a = c.challengeJSON(q, &l, &r, 200, at)
	}
	r.note(&a)
	return a
}

// freshJSON returns another challenge. A script that sends its visitor to the captcha page says here where the visitor is
// now: retpath is read as X-Retpath-Y is.
func (c *Captcha) freshJSON(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if to, ok := q.readRetpath(p.retpath); ok && p.s == "" {
		l = c.signLink(q, to, false, at)
	} else {
		c.follow(q, &l, nil, at)
	}
	if p.kind == kindWork && q.offersWork() {
		return c.workJSON(q, &l, at)
	}
	if k, _, err := c.open(q, p.key, at); err == nil {
		q.Require = max(q.least(), k.asked)
	}
	return c.challengeJSON(q, &l, nil, 200, at)
}

func (r *result) keyOrNil() *key {
	if !r.opened {
		return nil
	}
	return &r.key
}

// checkPage answers a visitor of the captcha page: on to their destination, or back to a new picture.
func (c *Captcha) checkPage(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if p.fresh != "" || p.toLang != "" || p.step != "" { // a language or digits were chosen: nothing was answered
		if p.back != "" {
			return c.tooLargePage(q, p, templates.ProblemNone, at)
		}
		c.follow(q, &l, nil, at)
		return c.seeOther(q, q.Base+q.Service.showURL(&l, "lang", p.lang, fieldStep, c.instead(q, p, at)))
	}
	r := c.judge(q, channelPage, p, at)
	to := c.follow(q, &l, r.keyOrNil(), at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateHas, stateLost:
		if p.back != "" {
			a = c.message(q, p, 200, verdictCaptcha, templates.GoBack, "")
		} else {
			a = c.seeOther(q, to)
		}
		if r.state != stateHas {
			c.addPass(q, &a, &r)
			c.noteSolved(q, &a, at)
		}
	case stateLimited:
		a = c.limited(q, p, r.wait, q.againURL(p, &l, &r))
	case stateUnavailable:
		a = c.message(q, p, 503, verdictCaptcha, templates.Unavailable, q.Service.showURL(&l))
		a.after(r.wait)
	default:
		if p.back != "" {
			a = c.tooLargePage(q, p, r.problem(), at)
			break
		}
		status := string(r.problem())
		next := ""
		if r.state == stateNext {
			next = c.seal(q, r.next, l.url, at)
		}
		if status == string(templates.ProblemUsed) {
			status = "failed"
		}
		a = c.seeOther(q, q.Base+q.Service.showURL(&l, "status", status, "lang", p.lang, "key", next, fieldStep, c.instead(q, p, at), fieldStay, r.stay()))
	}
	r.note(&a)
	return a
}

// seeOther redirects: with 303 after a POST, so that a reload repeats nothing, otherwise with 302.
func (c *Captcha) seeOther(q *Request, to string) Response {
	code := 302
	if q.method() == "POST" {
		code = 303
	}
	a := c.own(q, code, "", verdictCaptcha)
	a.add("Location", to)
	a.add("Referrer-Policy", "no-referrer")
	return a
}
