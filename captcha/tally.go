package captcha

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"antirobot/captcha/limits"
	"antirobot/identity"
)

// AlarmConfig says when a network appears to solve by machine.
type AlarmConfig struct {
	// Solved is the least number of right answers that a network gives within the hour or two.
	Solved int64 `mapstructure:"solved"`
	// Quick is the time within which nobody can read and type the digits.
	Quick time.Duration `mapstructure:"quick"`
	// Revoke takes back the passes of a campaign while it goes on: of the kind of browser in the network, not of its
	// neighbours; of a shape those that quick answers have earned.
	Revoke bool `mapstructure:"revoke"`
}

// Where machines solve, this share of the right answers is quick, and this share of the attempts is right.
const (
	quickShare = 0.5
	rightShare = 0.9
)

const (
	tallySpan     = time.Hour
	tallyNetworks = 4096 // per span
	rowTries      = 16   // rows that are looked at to find one that may give way
	tallyShown    = 200  // networks in an answer
	othersRow     = "others"
)

type tallyOf uint8

const (
	ofWay tallyOf = iota
	ofLanguage
	ofNetwork
	ofCampaign
	ofShape
	ofDevice
	tallyKinds
)

// tally counts challenges, in two spans. Safe for concurrent use: challenges are no hot path.
type tally struct {
	mu   sync.Mutex
	at   time.Time // of the current span
	from time.Time // of the previous one
	now  span
	was  span

	shared bool                         // answers are told to other gateways
	untold map[tallyName]ChallengeCount // of this one
	others [2]span                      // what they have told of the present span, and of the one before

	loaded  *limits.Once
	awaited awaitedTable
}

func newTally(keyTTL time.Duration) *tally { return &tally{loaded: limits.NewOnce(keyTTL, loadedKeys)} }

type span [tallyKinds]map[string]ChallengeCount

// add adds to the counts of a row; beyond the most there may be, to those of the others. Who answers is given a row in which nobody
// has answered rightly: names are free, and a flood of them is not to hide those by whom machines are known.
func (s *span) add(of tallyOf, name string, more *ChallengeCount) {
	m := s[of]
	n, known := m[name]
	if !known && len(m) >= tallyNetworks && !(more.Tried > 0 && makeRoom(m)) {
		name = othersRow
		n = m[name]
	}
	n.add(more)
	if m == nil {
		m = map[string]ChallengeCount{}
		s[of] = m
	}
	m[name] = n
}

// makeRoom adds one of a few rows, taken at random, to those of the others, if nobody has answered rightly there.
func makeRoom(m map[string]ChallengeCount) bool {
	left := rowTries
	for name, n := range m {
		if n.Solved == 0 && name != othersRow {
			others := m[othersRow]
			others.add(&n)
			delete(m, name)
			m[othersRow] = others
			return true
		}
		if left--; left == 0 {
			break
		}
	}
	return false
}

// turn starts a new span.
func (t *tally) turn(at time.Time) {
	gap := at.Sub(t.at)
	if gap < tallySpan && t.now[0] != nil {
		return
	}
	t.was, t.from = t.now, t.at
	t.others[1], t.others[0] = t.others[0], span{}
	if gap >= 2*tallySpan {
		t.was, t.from, t.others[1] = span{}, at, span{}
	}
	t.at = at
	for i := range t.now {
		t.now[i] = map[string]ChallengeCount{}
	}
}

// count adds to the counts of a challenge's way, language, device, network, kind of browser there, and shape, if that is known.
func (t *tally) count(at time.Time, w *who, more ChallengeCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	for of, name := range [tallyKinds]string{w.way, w.lang, w.net.String(), campaignName(w.net, w.agent), w.shape, w.device} {
		if name == "" {
			continue
		}
		t.now.add(tallyOf(of), name, &more) //nolint:gosec // a few kinds
		if t.shared && more.Tried > 0 && tallyOf(of).judged() {
			t.toTell(tallyName{tallyOf(of), name}, &more)
		}
	}
}

// wayOf returns the way in which a challenge is presented.
func wayOf(q *Request, ch channel, p *params) string {
	switch {
	case ch == channelXML:
		return "xml"
	case p != nil && wantsJSON(q, p):
		return "script"
	case p != nil && p.saved != "":
		return "form"
	}
	return "page"
}

func (c *Captcha) noteShown(q *Request, way string, at time.Time) {
	w := c.who(q, way, q.Partner != nil) // without a shape: who only looks sends other fields
	more := ChallengeCount{Shown: 1}
	if way == "work" { // which the script of a loaded page asks for
		more.Loaded = 1
	}
	c.tally.count(at, &w, more)
}

// noteTried counts an answer; an empty one, or one that was not checked, does not count.
func (c *Captcha) noteTried(q *Request, way string, r *result, at time.Time) {
	if r.opened && r.key.kind == moveCode {
		return
	}
	if r.opened {
		way = r.key.way(way)
	}
	switch r.state {
	case stateSolved, stateFailed, stateUsed:
	default:
		return
	}
	w := c.who(q, way, q.Partner != nil || r.key.partner != 0)
	if r.opened {
		w.net = identity.NetOf(r.key.addr) // whoever answers from elsewhere, the pass is theirs
	}
	w.shape = shapeName(q)
	if r.key.partner != 0 {
		w.agent, w.shape = 0, ""
	} else if c.quick(r) {
		defer c.noteCampaign(netip.Prefix{}, shapeOf(q), at)
	}
	defer c.noteCampaign(w.net, w.agent, at)
	more := ChallengeCount{Tried: 1}
	if r.state == stateSolved {
		c.noteEarned(&r.pass, &w, at)
		more.Solved, more.Seconds = 1, r.took.Seconds()
		if c.quick(r) {
			more.Quick = 1
		}
	}
	c.tally.count(at, &w, more)
}

// Challenges returns the outcomes of the challenges of the last hour or two.
func (c *Captcha) Challenges() Challenges {
	t := c.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(c.now())
	out := Challenges{Since: t.from.UTC(), MachinesSolve: []string{}, Campaigns: []ChallengeRow{}}
	if t.from.IsZero() {
		out.Since = t.at.UTC()
	}
	var rows [tallyKinds][]ChallengeRow
	for of := range tallyKinds {
		rows[of] = t.rows(of)
	}
	out.Ways, out.Languages, out.Devices, out.Networks = rows[ofWay], rows[ofLanguage], rows[ofDevice], rows[ofNetwork]
	for i := range out.Ways {
		out.Total.add(&out.Ways[i].ChallengeCount)
	}
	machines := func(of tallyOf, r *ChallengeRow) bool {
		all := t.elsewhere(of, r.Name)
		all.add(&r.ChallengeCount)
		return r.Name != othersRow && all.machines(&c.cfg.Alarm)
	}
	for i := range out.Networks {
		if r := &out.Networks[i]; machines(ofNetwork, r) {
			out.MachinesSolve = append(out.MachinesSolve, r.Name)
		}
	}
	out.Networks = out.Networks[:min(len(out.Networks), tallyShown)]
	for _, of := range [...]tallyOf{ofCampaign, ofShape} {
		for i := range rows[of] {
			if r := &rows[of][i]; len(out.Campaigns) < tallyShown && machines(of, r) {
				out.Campaigns = append(out.Campaigns, *r)
			}
		}
	}
	return out
}

func (n *ChallengeCount) machines(a *AlarmConfig) bool {
	return n.Solved >= a.Solved && float64(n.Quick) >= quickShare*float64(n.Solved) && float64(n.Solved) >= rightShare*float64(n.Tried)
}

// rows returns the counts of both spans, the most shown first.
func (t *tally) rows(of tallyOf) []ChallengeRow {
	sum := map[string]ChallengeCount{}
	for _, s := range [...]span{t.was, t.now} {
		for name, n := range s[of] {
			x := sum[name]
			x.add(&n)
			sum[name] = x
		}
	}
	out := make([]ChallengeRow, 0, len(sum))
	for name, n := range sum {
		out = append(out, ChallengeRow{name, n})
	}
	slices.SortFunc(out, func(a, b ChallengeRow) int {
		return cmp.Or(cmp.Compare(b.Shown+b.Tried, a.Shown+a.Tried), cmp.Compare(a.Name, b.Name))
	})
	return out
}
