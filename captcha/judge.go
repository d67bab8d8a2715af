package captcha

import (
	"context"
	"errors"
	"sync"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/spravka"
	"antirobot/store"
)

// retryUnavailable is how long a client is asked to wait when the store is unavailable.
const retryUnavailable = 5 * time.Second

// answers checks answers and earns passes.
type answers struct {
	*core
	issuer *issuer
	probes *probes
	ladder *ladder
	prices *prices
	watch  *watch
	spent  *bounded.Once
	turns  [256]sync.Mutex // of right answers to one key, by its nonce
	checks *bounded.Rate
}

// judge checks an answer and, if it is right, earns the pass.
func (an *answers) judge(q *Request, ch channel, p *params, at time.Time) (r result) {
	defer func() {
		an.count.answers[r.state].Inc()
		an.watch.noteTried(q, &r, at)
		switch {
		case !r.opened:
		case r.key.kind == silentCode || r.key.kind == pressCode:
			if r.state == stateFailed || r.state == stateSolved {
				an.ladder.climbs.note(q, r.state == stateSolved, at)
			}
		case r.key.kind != workCode:
		case r.state == stateSolved:
			an.count.work["solved"].Inc()
		case r.state == stateFailed || r.state == stateUsed:
			an.count.work["refused"].Inc()
		}
	}()
	k, kd, err := an.issuer.open(q, p.key, at)
	who := q.ID.Addr
	if err == nil && k.partner != 0 {
		who = k.addr // each of a partner's users has a separate rate, named again or not
	}
	if wait := an.checks.Take(an.checks.AddrKey(who, 0), at); wait > 0 {
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
	if !an.issuer.answerableBy(q, &k) || k.kind == workCode && !q.offersWork() {
		r.state = stateExpired
		return r
	}
	right, given := kd.check(k.secret, p.rep)
	r.robot, r.print = mechanical(&k, p.rep), q.readProof(p.key, p.proof)
	if right { // a second press waits for what the first one earns
		turn := &an.turns[k.nonce[0]]
		turn.Lock()
		defer turn.Unlock()
	}
	switch {
	case !given:
		r.state = stateEmpty
	case right && an.kept(q, &r, at):
		r.state = stateLost
	case right && an.early(q, &r, at):
		r.state = stateLimited
	case !an.spent.Add(k.nonce, at):
		r.state = q.again(&k)
	case k.kind == moveCode:
		an.moved(q, &r, right, at)
	case r.goesOn(right):
		r.state = stateNext
	case !right:
		r.state = stateFailed
	default:
		an.earn(q, &r, at)
	}
	return r
}

// answerableBy reports whether the key was made for whoever answers. A partner is trusted about its user: the pass is bound
// to the user that the key names. A visitor may answer from another network than that of the question (IPv4 and IPv6 of one
// browser, a phone between cells) if the browser brings the mark that it was given with it; price and pass stay with the
// network of the question.
func (is *issuer) answerableBy(q *Request, k *key) bool {
	if k.partner != 0 {
		return q.Partner == nil || k.partner == q.partnerHash()
	}
	return q.Partner == nil && is.shownTo(k, q)
}

// spendHold is for how much longer a spent key is kept than it matters: a server of the store whose clock is ahead by as much for a
// while, and expires by it, would let a key be spent again when the clock is right.
const spendHold = time.Hour

// spendKey spends a key for all nodes: stateSolved says that this is the first time. While the store is unavailable, only the
// node that made the key can tell: at another one it has expired, and the visitor gets a fresh question.
func (an *answers) spendKey(ctx context.Context, q *Request, k *key, what string) state {
	mine := [4]byte(k.nonce[len(k.nonce)-len(an.issuer.home):]) == an.issuer.home
	first, known := an.spend(ctx, q, append([]byte("captcha/key/"), k.nonce[:]...), an.cfg.KeyTTL, mine, what)
	switch {
	case first:
		return stateSolved
	case known:
		return q.again(k)
	case mine || q.Service.closed:
		return stateUnavailable
	}
	return stateExpired
}

// spend spends a key for all nodes. While the store is unavailable, a service that continues without it relies on this
// node's memory, which the caller has checked, and the key is spent in the store when it is back; known is false for a
// service that does not continue, and for a key that is not mine: another node's memory may know it.
func (co *core) spend(ctx context.Context, q *Request, key []byte, ttl time.Duration, mine bool, what string) (first, known bool) {
	ttl += spendHold
	first, err := co.store.Spend(ctx, key, ttl)
	if err == nil {
		return first, true
	}
	if !co.survives(q, what, err) || !mine {
		return false, false
	}
	if l, ok := co.store.(store.Later); ok {
		l.SpendLater(key, ttl)
	}
	return true, true
}

// earn spends the key for all nodes and makes the pass. The order matters: no pass before the key is durably spent.
func (an *answers) earn(q *Request, r *result, at time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), an.patience)
	defer cancel()
	switch r.state = an.spendKey(ctx, q, &r.key, "spend the answer"); r.state {
	case stateSolved:
	case stateUnavailable:
		r.wait = retryUnavailable
		return
	case stateUsed:
		if an.keptElsewhere(ctx, q, r, at) {
			r.state = stateLost
		}
		return
	default:
		return
	}
	e, wait, err := an.prices.takePass(ctx, q, r, at)
	if err != nil && !an.survives(q, "count the passes of an address and its network", err) {
		r.state, r.wait = stateUnavailable, retryUnavailable
		return
	}
	if wait > 0 {
		r.state, r.wait = stateLimited, wait
		return
	}
	if err == nil && r.key.kind == workCode && an.prices.underpaid(&r.key, &e) {
		an.count.work["underpaid"].Inc()
		r.state = stateExpired // its work no longer meets the price; the next challenge has the current one
		return
	}
	r.pass = spravka.Pass{
		ID: r.key.passID(), Born: at.Unix(), Expires: at.Add(an.cfg.Pass.Lifetime).Unix(),
		Allowance: an.cfg.worth(&r.key, &e), Earned: true, Scope: q.Service.id.Scope(q.View.Host), Partner: r.key.partner,
		Net: identity.NetKey(identity.NetOf(r.key.addr)), Agent: agentOf(q), Step: uint8(r.key.step()), Asked: uint8(r.key.asked),
	}
	if r.key.partner != 0 {
		r.pass.Agent = 0 // the agent that we see is the partner's
	}
	quick := r.quick()
	if quick && r.key.partner == 0 {
		r.pass.Shape = shapeOf(q)
	}
	if an.watch.isCampaign(identity.NetOf(r.key.addr), r.pass.Agent, at) || quick && an.watch.isShaped(q, &r.key, at) {
		r.pass.Allowance = min(r.pass.Allowance, an.cfg.Pass.Floor())
	}
	an.ladder.climbs.earn(&r.key, shareOf(r.key.step(), r.key.asked), q.Read, at)
	an.bind(q, r)
	an.keep(ctx, r)
	r.cookie = an.passCookie(q, &r.pass, at)
	r.state = stateSolved
}

// survives logs a failure of the store, and reports whether the service continues without it.
func (co *core) survives(q *Request, what string, err error) bool {
	co.count.failures.Inc()
	co.log.Error().Err(err).Str("request_id", q.RequestID).Str("service", q.Service.name).
		Bool("goes_on", !q.Service.closed).Msg("captcha: " + what)
	return !q.Service.closed
}
