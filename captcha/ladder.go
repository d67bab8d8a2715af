package captcha

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/picture"
	"antirobot/identity"
)

// question is what the ladder says about one challenge.
type question struct {
	step   Step  // the step that is asked for
	move   bool  // first, the browser may prove that a pass from another network is its own
	earned int64 // the passes that the address earned within the last hour, as far as this node remembers
	way    way   // in which digits are presented
}

// level says how hard the picture of digits is made, 0 to maxLevel.
func (a question) level() uint8 {
	if a.step > stepDigits {
		return maxLevel // in place of a dynamic puzzle
	}
	return uint8(min(a.earned/passesPerLevel, maxLevel)) //nolint:gosec // at most maxLevel
}

const (
	maxLevel       = picture.MaxLevel
	passesPerLevel = 5
)

// climbs is the memory behind the ladder: how many passes an address earned, and who was checked. Safe for concurrent use.
type climbs struct {
	earned *bounded.Rate // by address
	checks *bounded.Rate // by visitor: the checks of the browser
	let    *bounded.Rate // by address: passes that checks earned for what was read
}

// A pass is forgotten in passFades. A failed check raises its visitor by one step, and so do checksPerStep checks that were
// passed: whoever is checked all the time is asked for more, and a browser that loses its passes does not go in circles. A
// step fades in stepFades.
const (
	passFades     = 3 * time.Minute
	passParts     = 4 // in which a pass is counted: a check of the browser, which earns less than digits, counts less
	stepFades     = 8 * time.Minute
	checksPerStep = 4
	climbsAhead   = 256 // how many are remembered at once

	// For what its network has read an address is checked silently as often as a pass is worth, per household; then it is asked for digits,
	// until a day has passed: else a driver that hides would read as much for checks as a solver does for digits.
	letChecks = 4
	letFades  = 24 * time.Hour / letChecks
)

func newClimbs(entries int) climbs {
	return climbs{
		earned: bounded.NewRate(passFades/passParts, climbsAhead*passParts, entries),
		checks: bounded.NewRate(stepFades/checksPerStep, climbsAhead, entries),
		let:    bounded.NewRate(letFades, climbsAhead, entries),
	}
}

// passes returns how many passes an address earned within the last hour.
func (c *climbs) passes(a netip.Addr, at time.Time) int64 {
	return int64(c.earned.Ahead(c.earned.AddrKey(a, 0), at) / passFades)
}

// earn counts the pass that an address has earned by an answer to k, or the share of one that it counts for; read says that it was asked
// for what its network has read.
func (c *climbs) earn(k *key, share float64, read bool, at time.Time) {
	if read && k.step() < stepDigits {
		c.let.Take(c.let.AddrKey(k.addr, 0), at)
	}
	of := c.earned.AddrKey(k.addr, 0)
	for range max(1, int(share*passParts)) {
		c.earned.Take(of, at)
	}
}

// visitorKey is the checks limiter's key of a visitor: the strongest identity, or the address and the kind of browser.
func (c *climbs) visitorKey(q *Request) uint64 {
	w := q.ID.Winner()
	if w.Kind == identity.KindIP {
		return c.checks.AddrKey(q.ID.Addr, agentOf(q))
	}
	return c.checks.Key(append([]byte{byte(w.Kind)}, w.ID[:]...))
}

// note counts a check that was answered; a failed one counts as checksPerStep.
func (c *climbs) note(q *Request, passed bool, at time.Time) {
	n := checksPerStep
	if passed {
		n = 1
	}
	key := c.visitorKey(q)
	for range n {
		c.checks.Take(key, at)
	}
}

// step is the step that a right answer to the key passes.
func (k *key) step() Step {
	switch k.kind {
	case silentCode, moveCode:
		return stepSilent
	case pressCode:
		return stepPress
	case movingCode:
		return stepDynamic
	default:
		return stepDigits
	}
}

// worth is what a right answer to k earns, given what was earned including it: never less than the floor of all passes, or
// than its kind earns where that is smaller.
func (c *Config) worth(k *key, e *earned) uint32 {
	full := c.Pass.AllowanceOf(e.prior)
	return max(worthOf(k.step(), k.asked, full), min(full, c.Pass.Floor()))
}

// read reports whether the key's answer is read or heard by somebody, rather than worked out by the browser.
func (k *key) read() bool { return k.kind == digitsCode || k.kind == movingCode }

// least is the least step that q is asked for, whatever it costs: the one that the service asks for, if it does.
func (q *Request) least() Step {
	if q.Require != stepNone {
		return q.Require
	}
	return q.Service.ladder.first(q.Unsure)
}

// ladder chooses the steps that visitors are asked for.
type ladder struct {
	*core
	climbs   climbs
	visitors Visitors
}

// ask chooses the step for q, from the least one that may be asked for.
func (ld *ladder) ask(q *Request, least Step, at time.Time) question {
	var e earned
	e.levelsOf(q.ID.Addr, ld.visitors)
	earned := int64(float64(ld.climbs.passes(q.ID.Addr, at)) / e.levels[0].places)
	if ld.cfg.TestAnswer != "" {
		earned = 0 // tests of a site solve as often as they like
	}
	if q.Read && least < stepDigits && float64(ld.climbs.let.Ahead(ld.climbs.let.AddrKey(q.ID.Addr, 0), at)) > (letChecks-0.5)*float64(letFades)*e.levels[0].places {
		least = q.Service.ladder.climb(least, int64(stepDigits-least), 0)
	}
	failed := int64(ld.climbs.checks.Ahead(ld.climbs.visitorKey(q), at) / stepFades)
	return question{step: q.Service.ladder.climb(least, failed, earned), earned: earned}
}

// A link says in its u which step its visitor is asked for at least, and in which network: elsewhere, and when the link has
// expired, the present verdict alone decides.
const (
	linkPasses = 2 // characters
	linkStep   = 1 // a digit
	linkNet    = 3 // characters
	linkTail   = linkPasses + linkStep + linkNet
)

func (q *Request) linkTail(least Step) string {
	return cmp.Or(q.passMark(), noPasses) + string('0'+byte(least)) + q.netMark()
}

// noPasses stands in links where the visitor had none.
const noPasses = "--"

// passes is the mark of the passes that the visitor of a link had when it was made; empty if the link does not say.
func (l *link) passes() string {
	if len(l.u) < linkTail {
		return ""
	}
	return l.u[len(l.u)-linkTail:][:linkPasses]
}

// netMark is a short mark of q's network.
func (q *Request) netMark() string {
	b := binary.BigEndian.AppendUint64(nil, identity.NetKey(identity.NetOf(q.ID.Addr)))
	return base64.RawURLEncoding.EncodeToString(b)[:linkNet]
}

// leastOf is the least step for the visitor of a link of ours.
func (ls *links) leastOf(q *Request, l *link, at time.Time) Step {
	rest, mine := strings.CutSuffix(l.u, q.netMark())
	if !mine || rest == "" || !ls.fresh(q, l, at) {
		return q.least()
	}
	said := Step(rest[len(rest)-1] - '0')
	if said < stepSilent || said > stepDynamic {
		return q.least()
	}
	return max(said, q.Require)
}
