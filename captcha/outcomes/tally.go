package outcomes

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/spravka"
)

// Machines give at least these shares of quick among right, and of right among all answers.
const (
	quickShare = 0.5
	rightShare = 0.9
)

const (
	spanFor   = time.Hour
	mostRows  = 4096 // per span
	rowTries  = 16   // rows tried to find one to evict
	mostShown = 200  // networks in an answer
	othersRow = "others"
)

// kind is what rows are counted by.
type kind uint8

const (
	ofWay kind = iota
	ofLanguage
	ofNetwork
	ofCampaign
	ofShape
	ofDevice
	kinds
)

// Tally counts challenges, in two spans. It is safe for concurrent use, as challenges are no hot path; made by New.
type Tally struct {
	mu   sync.Mutex
	at   time.Time // of the current span
	from time.Time // of the previous one
	now  span
	was  span

	shared bool           // answers are published to other gateways
	untold map[Name]Count // not yet published
	others [2]span        // theirs, of the present span and the one before

	loaded  *bounded.Once
	awaited awaitedTable
}

// New makes a Tally of challenges that can be answered for as long as keyTTL.
func New(keyTTL time.Duration) *Tally { return &Tally{loaded: bounded.NewOnce(keyTTL, loadedKeys)} }

type span [kinds]map[string]Count

// add adds to a row; beyond mostRows, to the others. An answer may evict a row without right answers: names are free,
// and a flood of them must not hide solvers.
func (s *span) add(of kind, name string, more *Count) {
	m := s[of]
	n, known := m[name]
	if !known && len(m) >= mostRows && !(more.Tried > 0 && makeRoom(m)) {
		name = othersRow
		n = m[name]
	}
	n.add(more)
	if m == nil {
		m = map[string]Count{}
		s[of] = m
	}
	m[name] = n
}

// makeRoom moves one of a few random rows without right answers to the others.
func makeRoom(m map[string]Count) bool {
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

// turn starts a new span if the present one is over.
func (t *Tally) turn(at time.Time) {
	gap := at.Sub(t.at)
	if gap < spanFor && t.now[0] != nil {
		return
	}
	t.was, t.from = t.now, t.at
	t.others[1], t.others[0] = t.others[0], span{}
	if gap >= 2*spanFor {
		t.was, t.from, t.others[1] = span{}, at, span{}
	}
	t.at = at
	for i := range t.now {
		t.now[i] = map[string]Count{}
	}
}

// Who holds the keys that a challenge is counted by.
type Who struct {
	Way, Language, Device string
	Net                   netip.Prefix
	Agent                 uint64 // the kind of browser
	Shape                 uint64 // 0: not known
}

// Name names a row by which machines are recognized.
type Name struct {
	of   kind
	name string
}

// Campaign names the solvers of a network that use one kind of browser.
func Campaign(n netip.Prefix, agent uint64) Name {
	return Name{ofCampaign, n.String() + " " + hexOf(agent)}
}

// Shape names the clients of one shape in all networks.
func Shape(shape uint64) Name { return Name{ofShape, "shape " + hexOf(shape)} }

// String returns the name as reports have it.
func (n Name) String() string { return n.name }

func hexOf(n uint64) string {
	digits := strconv.FormatUint(n, 16)
	return strings.Repeat("0", 16-len(digits)) + digits
}

// Count counts a challenge or an answer under all its keys.
func (t *Tally) Count(at time.Time, w *Who, more Count) {
	shape := ""
	if w.Shape != 0 {
		shape = Shape(w.Shape).name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	names := [kinds]string{w.Way, w.Language, w.Net.String(), Campaign(w.Net, w.Agent).name, shape, w.Device}
	for of, name := range names {
		if name == "" {
			continue
		}
		t.now.add(kind(of), name, &more) //nolint:gosec // a few kinds
		if t.shared && more.Tried > 0 && kind(of).judged() {
			t.toTell(Name{kind(of), name}, &more)
		}
	}
}

// Challenges returns the report. least is the number of right answers by which machines are recognized.
func (t *Tally) Challenges(at time.Time, least int64) Challenges {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	out := Challenges{Since: t.from.UTC(), MachinesSolve: []string{}, Campaigns: []Row{}}
	if t.from.IsZero() {
		out.Since = t.at.UTC()
	}
	var rows [kinds][]Row
	for of := range kinds {
		rows[of] = t.rows(of)
	}
	out.Ways, out.Languages, out.Devices, out.Networks = rows[ofWay], rows[ofLanguage], rows[ofDevice], rows[ofNetwork]
	for i := range out.Ways {
		out.Total.add(&out.Ways[i].Count)
	}
	machines := func(of kind, r *Row) bool {
		all := t.elsewhere(of, r.Name)
		all.add(&r.Count)
		return r.Name != othersRow && all.machines(least)
	}
	for i := range out.Networks {
		if r := &out.Networks[i]; machines(ofNetwork, r) {
			out.MachinesSolve = append(out.MachinesSolve, r.Name)
		}
	}
	out.Networks = out.Networks[:min(len(out.Networks), mostShown)]
	for _, of := range [...]kind{ofCampaign, ofShape} {
		for i := range rows[of] {
			if r := &rows[of][i]; len(out.Campaigns) < mostShown && machines(of, r) {
				out.Campaigns = append(out.Campaigns, *r)
			}
		}
	}
	return out
}

// Machines reports whether a name with at least this number of right answers appears to solve by machine.
func (t *Tally) Machines(n Name, least int64, at time.Time) bool {
	count := t.of(n, at)
	return count.machines(least)
}

func (t *Tally) of(n Name, at time.Time) Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	sum := t.was[n.of][n.name]
	now, others := t.now[n.of][n.name], t.elsewhere(n.of, n.name)
	sum.add(&now)
	sum.add(&others)
	return sum
}

func (n *Count) machines(least int64) bool {
	return n.Solved >= least && float64(n.Quick) >= quickShare*float64(n.Solved) &&
		float64(n.Solved) >= rightShare*float64(n.Tried)
}

// rows returns the counts of both spans, the most shown first.
func (t *Tally) rows(of kind) []Row {
	sum := map[string]Count{}
	for _, s := range [...]span{t.was, t.now} {
		for name, n := range s[of] {
			x := sum[name]
			x.add(&n)
			sum[name] = x
		}
	}
	out := make([]Row, 0, len(sum))
	for name, n := range sum {
		out = append(out, Row{name, n})
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Shown+b.Tried, a.Shown+a.Tried), cmp.Compare(a.Name, b.Name))
	})
	return out
}

const (
	loadedKeys  = 1 << 16 // challenges that count as loaded once
	awaitedMost = 1 << 12 // passes earned lately and not used yet; a power of two
)

// Loads reports whether a challenge is loaded for the first time.
func (t *Tally) Loads(nonce [16]byte, at time.Time) bool { return t.loaded.Add(nonce, at) }

// awaited is a pass that has not been used.
type awaited struct {
	id  [16]byte
	who Who
	at  time.Time
}

// awaitedTable holds passes by their random ID; a later pass evicts an earlier one. A lookup takes no lock.
type awaitedTable [awaitedMost]atomic.Pointer[awaited]

func (t *awaitedTable) place(id *[16]byte) *atomic.Pointer[awaited] {
	return &t[binary.BigEndian.Uint16(id[:])%awaitedMost]
}

// Earned waits for the first use of a pass.
func (t *Tally) Earned(id *[16]byte, w *Who, at time.Time) {
	t.awaited.place(id).Store(&awaited{*id, *w, at})
}

// CameBack counts the passes that are used for the first time, within an hour, and returns how many there were. It
// takes no lock and allocates nothing unless there is something to count.
func (t *Tally) CameBack(passes []spravka.Pass, now func() time.Time) (n int) {
	for i := range passes {
		place := t.awaited.place(&passes[i].ID)
		a := place.Load()
		if a == nil || a.id != passes[i].ID || !place.CompareAndSwap(a, nil) {
			continue
		}
		at := now()
		if at.Sub(a.at) > spanFor {
			continue
		}
		t.Count(at, &a.who, Count{CameBack: 1})
		n++
	}
	return n
}
