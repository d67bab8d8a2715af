package captcha

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
)

// state is the result of an answer.
type state uint8

const (
	stateSolved state = iota
	stateFailed
	stateExpired // the picture was too old, or the visitor's network changed: a new challenge, not a failure
	stateEmpty   // nothing was answered; spends nothing
	stateUsed    // the key was answered earlier
	stateHas     // rightly, by this visitor, who pressed twice and brings the pass
	stateLost    // rightly, a moment ago: the same pass again, in case the response was lost
	stateLimited
	stateNext        // one act of several: its next one follows
	stateMoved       // a pass from another network is good here, too
	stateUnmoved     // the browser has not proved that the pass is its own
	stateUnavailable // the store is unavailable, and the service then accepts no answer
	stateCount
)

func (s state) String() string {
	return outcomes.Answers[s]
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

func (r *result) problem() templates.Problem {
	if r.opened && (r.key.kind == silentCode || r.key.kind == pressCode || r.key.kind == moveCode) ||
		r.state == stateNext {
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

func (r *result) stay() string {
	if r.opened && r.key.kind == moveCode {
		return "1"
	}
	return ""
}

// statusText is the status for clients: "failed" is known from the original system, "expired" to our own pages and
// scripts.
func (r *result) statusText() string {
	if r == nil || r.state == stateNext || r.state == stateUnmoved {
		return ""
	}
	if r.state == stateExpired {
		return "expired"
	}
	return "failed"
}

func (r *result) keyOrNil() *key {
	if !r.opened {
		return nil
	}
	return &r.key
}

func (r *result) quick() bool {
	return r.robot || r.opened && r.key.read() && r.took < quickAnswer
}

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

const retryUnavailable = 5 * time.Second

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

// early reports whether a right answer comes before its turn, and sets the wait: it is not spent, so that a quick
// visitor need not read a second picture.
func (an *answers) early(q *Request, r *result, at time.Time) bool {
	k := &r.key
	if an.spent.Has(k.nonce) || q.earned(k) || k.kind == moveCode || k.kind == movingCode && !lastRound(k) {
		return false
	}
	r.wait = an.prices.exhaustedAt(q, k.addr, shareOf(k.step(), k.asked), at)
	r.early = r.wait > 0
	return r.early
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
		Allowance: an.cfg.worth(
			&r.key, &e,
		), Earned: true, Scope: q.Service.id.Scope(q.View.Host), Partner: r.key.partner,
		Net: identity.NetKey(
			identity.NetOf(r.key.addr),
		), Agent: agentOf(q), Step: uint8(r.key.step()), Asked: uint8(r.key.asked),
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

// spendHold is how much longer than necessary a spent key is kept: a store whose clock runs ahead would otherwise
// expire it early, and accept it again when the clock is right.
const spendHold = time.Hour

// spendKey spends a key for all nodes: stateSolved means the first time. While the store is unavailable, only the
// node that made the key can tell; at another one it counts as expired.
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

// spend spends a key for all nodes. While the store is unavailable, an open service relies on this node's memory,
// which the caller has checked, and the key is spent later; known is false for a closed service and for a key of
// another node.
func (co *core) spend(
	ctx context.Context, q *Request, key []byte, ttl time.Duration, mine bool, what string,
) (first, known bool) {
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

// survives logs a failure of the store, and reports whether the service continues without it.
func (co *core) survives(q *Request, what string, err error) bool {
	co.count.failures.Inc()
	co.log.Error().Err(err).Str("request_id", q.RequestID).Str("service", q.Service.name).
		Bool("goes_on", !q.Service.closed).Msg("captcha: " + what)
	return !q.Service.closed
}

// moved gives the visitor its pass for this network as well, if its browser proves that it earned it.
func (an *answers) moved(q *Request, r *result, right bool, at time.Time) {
	p := q.ID.Away
	r.state = stateUnmoved
	if !right || !p.Keyed() || r.print != p.Key || r.took > moveFor {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), an.patience)
	defer cancel()
	if an.spendKey(ctx, q, &r.key, "spend a move") != stateSolved {
		return
	}
	p.MoveTo(identity.NetKey(identity.NetOf(r.key.addr)))
	p.MoveTo(q.ID.NetKey())
	r.pass, r.cookie, r.state = p, an.passCookie(q, &p, at), stateMoved
}

// bind binds a pass to the browser that earned it, if that has proved itself and the pass is for one host: on the
// other hosts of a cookie domain a browser has other keys.
func (an *answers) bind(q *Request, r *result) {
	if !q.Service.bind || r.pass.Partner != 0 || q.Service.id.CookieDomain(q.View.Host) != "" {
		return
	}
	r.pass.Key = r.print
	r.pass.MoveTo(q.ID.NetKey())
}

// passCookie makes the field that hands out a pass. For a partner it always contains Domain, to be replaced by the
// partner's own: the seal covers service and partner, not that attribute.
func (co *core) passCookie(q *Request, p *spravka.Pass, at time.Time) HeaderField {
	domain := q.Service.id.CookieDomain(q.View.Host)
	if p.Partner != 0 && domain == "" {
		domain = string(q.View.Host)
	}
	token := co.keys.Ring().SealPass(nil, p)
	return q.cookieField(q.Service.cookie, token, domain, time.Duration(p.Expires-at.Unix())*time.Second)
}

// addPass hands out the pass of a right answer; over https and for a single host also under a second name, which no
// sibling domain and no unencrypted page can set.
func (an *answers) addPass(q *Request, a *Response, r *result) {
	a.Header = append(a.Header, r.cookie)
	name := q.Service.id.HostSpravkaCookie()
	if name == "" || r.pass.Partner != 0 || !q.secure() {
		return
	}
	_, rest, _ := strings.Cut(r.cookie.Value, "=")
	a.add(r.cookie.Name, name+"="+rest)
}

// keptFor is how long the same right answer gets the same pass again: the first response may have been lost.
const keptFor = time.Minute

func keptKey(k *key) []byte { return append([]byte("captcha/kept/"), k.nonce[:]...) }

func (an *answers) keep(ctx context.Context, r *result) {
	_ = an.store.Put(ctx, keptKey(&r.key), r.pass.AppendPacked(nil), keptFor)
}

// keptElsewhere is kept for an answer that another node has just spent and may still be making the pass of.
func (an *answers) keptElsewhere(ctx context.Context, q *Request, r *result, at time.Time) bool {
	for wait := 5 * time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		if an.kept(q, r, at) {
			return true
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
	}
	return false
}

// kept sets the pass that a right answer earned a moment ago, if it comes from the same browser again. The caller has
// checked that it comes from where the challenge was shown.
func (an *answers) kept(q *Request, r *result, at time.Time) bool {
	ctx, cancel := context.WithTimeout(context.Background(), an.patience)
	defer cancel()
	b, err := an.store.Get(ctx, nil, keptKey(&r.key))
	if err != nil {
		return false
	}
	p, ok := spravka.UnpackPass(b)
	if !ok || p.Agent != agentOf(q) && p.Partner == 0 || p.Keyed() && p.Key != r.print {
		return false
	}
	r.pass, r.cookie = p, an.passCookie(q, &p, at)
	return true
}

func (an *answers) repeat(q *Request, p *params, a *Response, at time.Time) {
	k, kd, err := an.issuer.open(q, p.key, at)
	if err != nil || k.channel != channelPage || !an.issuer.answerableBy(q, &k) {
		return
	}
	r := result{key: k, opened: true, print: q.readProof(p.key, p.proof)}
	if right, _ := kd.check(k.secret, p.rep); right && an.kept(q, &r, at) {
		an.addPass(q, a, &r)
	}
}

func agentOf(q *Request) uint64 { return agentOfView(q.View) }

func agentOfView(v *request.View) uint64 { return identity.AgentFamily(v.Get("User-Agent")) }

// againURL is where a visitor who waits tries again: with the same answer, if it was right and is not spent.
func (q *Request) againURL(p *params, l *link, r *result) string {
	page := q.showPath(l)
	if !r.early {
		return page
	}
	answer := url.Values{"key": {p.key}, "rep": {p.rep}}
	if p.proof != "" {
		answer.Set(fieldProof, p.proof)
	}
	if p.back != "" {
		answer.Set(fieldBack, p.back)
	}
	_, rest, _ := strings.Cut(page, "?")
	return q.prefix() + "/checkcaptcha?" + answer.Encode() + "&" + rest
}

// A browser has a key pair of its own (WebCrypto, ECDSA P-256), whose private half no script can read. It signs the
// challenge's key with the answer, and the pass is bound to the pair: in another network it counts only after the
// browser has signed once more, in a browser check that no person notices. Browsers without such keys or without
// scripts get unbound passes.

const proofMark = "~"

const (
	proofPoint = 64 // bytes of the public key: x and y
	proofSize  = proofPoint + 64
)

const moveFor = 2 * time.Minute

var proofLen = base64.RawURLEncoding.EncodedLen(proofSize)

func (p *params) cutProof() {
	rep, rest, ok := strings.Cut(p.rep, proofMark)
	if !ok {
		return
	}
	n := min(len(rest), proofLen)
	p.rep, p.proof = rep+rest[n:], rest[:n]
}

// proofText is the text that a browser signs: method, URL, and the challenge's key, which serves one answer and holds
// the time.
func (q *Request) proofText(key string) []byte {
	return []byte("antirobot\nPOST\n" + q.Base + q.Service.prefix + "/checkcaptcha\n" + key)
}

// readProof returns the fingerprint of the key pair that signed a challenge's key; zero if none did.
func (q *Request) readProof(key, proof string) (print [16]byte) {
	b, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || len(b) != proofSize {
		return print
	}
	point := append([]byte{4}, b[:proofPoint]...) // uncompressed, as SEC 1 has it
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return print
	}
	digest := sha256.Sum256(q.proofText(key))
	r, s := new(big.Int).SetBytes(b[proofPoint:proofPoint+32]), new(big.Int).SetBytes(b[proofPoint+32:])
	if !ecdsa.Verify(public, digest[:], r, s) {
		return print
	}
	sum := sha256.Sum256(point)
	copy(print[:], sum[:])
	return print
}
