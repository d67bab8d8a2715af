package captcha

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"antirobot/store"
)

// The price of a pass follows the passes that its address and the networks around it earned in the past day, and
// falls as they fade: each pass is worth less than the one before, takes more work, and beyond some number passes
// come at growing intervals. Networks may earn like several households (level.places), and more if they have many
// established visitors. An address counts for its neighbours with its first passes only, so neighbours of one solver
// pay little, and rotating addresses does not pay.
//
// Counts cover the past day: the clock's previous window counts in proportion to its remaining overlap.

// earned is how much was earned from an address and around it, in passes per household.
type earned struct {
	day    float64 // by whichever of its prefixes earned the most in a day
	prior  float64 // day, without the pass that was just counted
	n      int     // of levels
	levels [7]level
}

type level struct {
	net    netip.Prefix
	places float64 // households that it may earn like
	day    float64 // passes in a day, per place
	added  int64   // what the last pass added to it, in hundredths of a pass
}

const (
	// household is how many established visitors count as one more household.
	household = 16
	// whole is a pass, in the unit of the counters: a check of the browser, which earns less than digits, counts less.
	whole = 100
	// spill is how many passes of a place count for the networks around it.
	spill = 4
)

// machines is the level of all digits that were read faster than people type, from everywhere: more addresses earn a
// solver no more, and no person pays for it.
var machines = level{net: netip.PrefixFrom(netip.IPv6Unspecified(), 0), places: 2}

// The prefixes that earn, and how many households each may earn like at least.
var (
	levels4 = [...]struct{ bits, places int }{{32, 1}, {24, 8}}
	levels6 = [...]struct{ bits, places int }{{64, 1}, {56, 2}, {48, 4}, {32, 8}}
)

// Visitors counts the established visitors of a network: an address, a /24, or an IPv6 /64, /56, /48 or /32.
// *verdict.Cacher implements it.
type Visitors interface {
	KnownIn(net netip.Prefix) int
}

const day = 24 * time.Hour

// prices count the passes of addresses and networks.
type prices struct {
	*core
	visitors Visitors // nil: no visitor is established
}

func (e *earned) levelsOf(a netip.Addr, v Visitors) {
	a = a.Unmap().WithZone("")
	list := levels6[:]
	if a.Is4() {
		list = levels4[:]
	}
	for i, l := range list {
		net, _ := a.Prefix(l.bits) // the zero Addr belongs to the zero Prefix
		e.levels[i] = level{net: net, places: float64(l.places)}
		if v != nil {
			e.levels[i].places += float64(v.KnownIn(net)) / household
		}
	}
	e.n = len(list)
}

func (c *Config) asMachine(e *earned, kind byte, took time.Duration) {
	if kind == digitsCode && took < quickAnswer {
		e.levels[e.n] = machines
		e.n++
	}
}

func (pr *prices) earned(ctx context.Context, a netip.Addr, at time.Time) (e earned, err error) {
	e.levelsOf(a, pr.visitors)
	err = pr.add(ctx, &e, at, 0)
	return e, err
}

// add counts n more hundredths of a pass at all levels.
func (pr *prices) add(ctx context.Context, e *earned, at time.Time, n int64) error {
	for i := range e.n {
		l := &e.levels[i]
		count, err := pr.slide(ctx, l.net, at, n)
		if err != nil {
			return err
		}
		l.day, l.added = count/l.places, n
		e.day, e.prior = max(e.day, l.day), max(e.prior, l.before())
		if l.day > spill {
			n = 0
		}
	}
	return nil
}

func (l *level) before() float64 {
	return max(l.day-float64(l.added)/whole/l.places, 0)
}

func (pr *prices) uncount(ctx context.Context, e *earned, at time.Time) error {
	for i := range e.n {
		if l := &e.levels[i]; l.added > 0 {
			if _, err := pr.slide(ctx, l.net, at, -l.added); err != nil {
				return err
			}
		}
	}
	return nil
}

// slide adds hundredths of a pass to a network's counter, and returns the passes over the past day.
func (pr *prices) slide(ctx context.Context, net netip.Prefix, at time.Time, n int64) (float64, error) {
	window := uint64(at.UnixNano() / int64(day))               //nolint:gosec // after 1970
	left := 1 - float64(at.UnixNano()%int64(day))/float64(day) // of the previous window
	key := func(window uint64) []byte {
		return binary.BigEndian.AppendUint64(netKey("captcha/net/", net), window)
	}
	now, err := pr.store.Incr(ctx, key(window), n, 2*day)
	if err != nil {
		return 0, err
	}
	before, err := pr.store.Incr(ctx, key(window-1), 0, 2*day)
	return (float64(now) + float64(before)*left) / whole, err
}

func netKey(prefix string, n netip.Prefix) []byte {
	as := n.Addr().As16()
	return append(append([]byte(prefix), as[:]...), byte(n.Bits()))
}

// Passes beyond those that a household may earn freely in a day come one at a time, an interval apart. The interval
// grows with the square of the excess, from no more than it takes to read a picture up to longest_wait. A pass may be
// earned early by that time, so that an answer to a shown picture counts at once.

// reading is the time that it takes to read a picture and to type its digits: shorter intervals are none.
const reading = 10 * time.Second

// intervalOf returns the interval between passes of one household that earned inDay.
func (c *Config) intervalOf(inDay float64) time.Duration {
	free := float64(c.PassesPerDay)
	over := max(inDay-free+1, 0) / free
	return time.Duration(min(over*over, 1) * float64(c.LongestWait))
}

// interval returns the interval before a pass of a level that earned inDay per household: a network of several
// households has proportionally more passes, and a share of a pass comes after that share of the interval.
func (c *Config) interval(l *level, inDay, share float64) time.Duration {
	d := time.Duration(float64(c.intervalOf(inDay)) * share / l.places)
	if d <= reading {
		return 0
	}
	return d
}

// takePass counts a pass for the address of the answer's key, or returns how long the next one has to wait.
func (pr *prices) takePass(
	ctx context.Context, q *Request, r *result, at time.Time,
) (e earned, wait time.Duration, err error) {
	e.levelsOf(r.key.addr, pr.visitors)
	pr.cfg.asMachine(&e, r.key.kind, r.took)
	counts := int64(worthOf(r.key.step(), r.key.asked, whole))
	if err = pr.add(ctx, &e, at, counts); err != nil {
		return e, 0, err
	}
	for i := range e.n {
		l := &e.levels[i]
		due := pr.cfg.interval(l, l.before(), float64(counts)/whole)
		if due == 0 && pr.cfg.interval(l, l.day, 1) == 0 {
			continue // no wait after it, either
		}
		wait, err = pr.takeTurn(ctx, l, due, at)
		if err != nil {
			return e, 0, err
		}
		if wait > 0 {
			return e, wait, pr.uncount(ctx, &e, at)
		}
	}
	return e, 0, nil
}

const lastPass = "captcha/last/"

func (pr *prices) takeTurn(
	ctx context.Context, l *level, interval time.Duration, at time.Time,
) (wait time.Duration, err error) {
	key, now := netKey(lastPass, l.net), binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())) //nolint:gosec // after 1970
	for {
		last, left, err := pr.sinceLast(ctx, l, interval, at)
		if err != nil || left > 0 {
			return left, err
		}
		// Of several at once one is the next; without an interval the order does not matter.
		done, err := pr.store.Swap(ctx, key, last, now, max(pr.cfg.LongestWait, time.Hour))
		if done || err != nil || interval == 0 {
			return 0, err
		}
	}
}

// sinceLast returns the stored time of a level's last pass, nil: long ago.
func (pr *prices) sinceLast(
	ctx context.Context, l *level, interval time.Duration, at time.Time,
) (last []byte, wait time.Duration, err error) {
	last, err = pr.store.Get(ctx, nil, netKey(lastPass, l.net))
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil || len(last) != 8 {
		return last, 0, err
	}
	then := time.Unix(0, int64(binary.BigEndian.Uint64(last))) //nolint:gosec // after 1970
	if then.After(at.Add(interval)) {
		return last, 0, nil // a clock was wrong
	}
	return last, max(then.Add(interval-reading).Sub(at), 0), nil
}

// exhausted returns how long q's address must wait for its next pass by a step, so that a visitor knows before doing
// any work. If the store does not answer, no visitor waits.
func (pr *prices) exhausted(q *Request, step Step, at time.Time) (wait time.Duration) {
	return pr.exhaustedAt(q, q.ID.Addr, shareOf(step, step), at)
}

func (pr *prices) exhaustedAt(q *Request, addr netip.Addr, share float64, at time.Time) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), pr.patience)
	defer cancel()
	e, err := pr.earned(ctx, addr, at)
	if err != nil {
		return 0
	}
	for i := range e.n {
		interval := pr.cfg.interval(&e.levels[i], e.levels[i].day, share)
		if interval == 0 {
			continue
		}
		if _, left, err := pr.sinceLast(ctx, &e.levels[i], interval, at); err == nil {
			wait = max(wait, left)
		}
	}
	return wait
}

// workPrice is the price of a pass in expected hashes: each earned in the day adds a quarter of the first's.
func (c *Config) workPrice(earned float64) int64 {
	const most = 1 << 20 // keeps the product well within an int64
	return min(
		int64(float64(c.Work.Hashes)*(4+min(math.Floor(earned), most))/4), min(workGrowth*c.Work.Hashes, maxWork),
	)
}

func (pr *prices) presentWorkPrice(q *Request, at time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pr.patience)
	defer cancel()
	e, err := pr.earned(ctx, q.ID.Addr, at)
	if err != nil {
		return pr.cfg.workPrice(0), fmt.Errorf("count passes: %w", err)
	}
	return pr.cfg.workPrice(e.day), nil
}

// underpaid reports whether a pass that was just counted costs more work than its key asked for. Passes are counted
// before this, so that concurrent answers count each other.
func (pr *prices) underpaid(k *key, e *earned) bool {
	_, paid, _ := parseWork(k.secret)
	return paid*workSlack < pr.cfg.workPrice(e.prior)
}

// workSlack is by what factor the price may have risen between start and end of the work: people in one office work
// at the same time, while a client that hoards cheap challenges exceeds it.
const workSlack = 2
