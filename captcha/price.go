package captcha

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"time"

	"antirobot/identity"
)

// The cost of a pass follows what its address and its network have earned, and falls again as that fades: the allowance
// shrinks and the work grows. An address that has earned as many passes as an hour should need gets one pass per moment,
// and moments grow from an eighth of a share of the hour to a whole one. Where there are many established visitors, as in
// an office, proportionally more passes are allowed.
//
// Counts cover the past hour and day: the clock's previous window counts in proportion to its remaining overlap.

// earned is how many passes were earned, in proportion to how many visitors are established there.
type earned struct {
	address   float64 // by the address (IPv6: a /64) in an hour
	hour, day float64 // by its /24 or /48
}

// household is how many established visitors at an address count as one more household.
const household = 16

// Visitors knows how many established visitors an address has (given its Subject's ID). *verdict.Cacher implements it.
type Visitors interface {
	EstablishedAt(addr [16]byte) int
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// earned counts n more passes of an address, and returns what has been earned there, including them.
func (c *Captcha) earned(ctx context.Context, a netip.Addr, at time.Time, n int64) (e earned, err error) {
	var errs [3]error
	e.address, errs[0] = c.slide(ctx, passesKey(a), hour, at, n)
	e.hour, errs[1] = c.slide(ctx, netKey(a, 'h'), hour, at, n)
	e.day, errs[2] = c.slide(ctx, netKey(a, 'd'), day, at, n)
	if err := errors.Join(errs[:]...); err != nil {
		return e, err
	}
	company := c.company(a)
	return earned{e.address / company, e.hour / company, e.day / company}, nil
}

// company returns as how many households an address counts.
func (c *Captcha) company(a netip.Addr) float64 {
	if c.visitors == nil {
		return 1
	}
	return 1 + float64(c.visitors.EstablishedAt(identity.AddrSubject(a).ID))/household
}

// slide adds to a counter, and returns its count over the past length of time.
func (c *Captcha) slide(ctx context.Context, key []byte, length time.Duration, at time.Time, n int64) (float64, error) {
	window, left := windowOf(at, length)
	now, err := c.store.Incr(ctx, binary.BigEndian.AppendUint64(key, uint64(window)), n, 2*length) //nolint:gosec // a number of hours
	if err != nil {
		return 0, err
	}
	before, err := c.store.Incr(ctx, binary.BigEndian.AppendUint64(key, uint64(window-1)), 0, 2*length) //nolint:gosec // the same
	return float64(now) + float64(before)*float64(left)/float64(length), err
}

// windowOf returns the number of a window of the clock, and the time left in it.
func windowOf(at time.Time, length time.Duration) (n int64, left time.Duration) {
	now := at.UnixNano()
	return now / int64(length), length - time.Duration(now%int64(length))
}

// moments is the number of parts into which a share of the hour is divided.
const moments = 8

// momentOf returns the interval between passes for an address that has earned n in the past hour.
func (c *Config) momentOf(n float64) time.Duration {
	over := n - float64(c.PassesPerHour) + 1
	if over <= 0 {
		return 0
	}
	parts := min(math.Ceil(over*moments/float64(c.PassesPerHour)), moments)
	return max(hour/time.Duration(c.PassesPerHour)*time.Duration(parts)/moments, time.Second)
}

// takePass counts a pass of an address, or returns how long it has to wait for the next one.
func (c *Captcha) takePass(ctx context.Context, a netip.Addr, at time.Time) (e earned, wait time.Duration, err error) {
	if e, err = c.earned(ctx, a, at, 1); err != nil {
		return e, 0, err
	}
	one := 1 / c.company(a)
	if moment := c.cfg.momentOf(e.address - one); moment > 0 {
		n, left := windowOf(at, moment)
		granted, err := c.store.Take(ctx, momentKey(a, moment, n), 1, 1, moment)
		if err != nil {
			return e, 0, err
		}
		if granted <= 0 {
			_, err = c.earned(ctx, a, at, -1)
			return e, left, err
		}
	}
	if next := c.cfg.momentOf(e.address); next > 0 { // a pass just earned counts in the next one's moment
		n, _ := windowOf(at, next)
		_, err = c.store.Incr(ctx, momentKey(a, next, n), 1, next)
	}
	return e, 0, err
}

// exhausted returns how long an address must wait for its next pass, so that it is told before doing any work. If the store
// does not answer, nobody waits.
func (c *Captcha) exhausted(q *Request, at time.Time) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.StoreTimeout)
	defer cancel()
	a := q.ID.Addr
	n, err := c.slide(ctx, passesKey(a), hour, at, 0)
	if err != nil {
		return 0
	}
	moment := c.cfg.momentOf(n / c.company(a))
	if moment == 0 {
		return 0
	}
	window, left := windowOf(at, moment)
	if taken, err := c.store.Incr(ctx, momentKey(a, moment, window), 0, moment); err != nil || taken == 0 {
		return 0
	}
	return left
}

// passesKey starts the keys of the counters of passes that an address (IPv6: a /64) earned.
func passesKey(a netip.Addr) []byte {
	s := identity.AddrSubject(a)
	return append([]byte("captcha/passes/"), s.ID[:]...)
}

// netKey starts the keys of the counters of passes that a /24 or /48 earned, per hour or day.
func netKey(a netip.Addr, by byte) []byte {
	n := identity.NetOf(a)
	as := n.Addr().As16()
	return append(append([]byte("captcha/net/"), as[:]...), byte(n.Bits()), by)
}

// momentKey is the key of the counter of passes that an address earned in a moment.
func momentKey(a netip.Addr, moment time.Duration, n int64) []byte {
	s := identity.AddrSubject(a)
	b := append([]byte("captcha/share/"), s.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(moment)) //nolint:gosec // positive
	return binary.BigEndian.AppendUint64(b, uint64(n))   //nolint:gosec // positive
}

// allowance is the worth of a pass earned by a challenge of this kind, given what was earned including it.
func (c *Config) allowance(kind byte, e earned) uint32 {
	n := c.Pass.AllowanceOf(e.hour, e.day)
	if kind == workCode {
		n = max(1, uint32(int64(n)*c.Work.AllowancePercent/100)) //nolint:gosec // a share of n
	}
	return n
}

// workPrice is the price of the next pass, in expected hashes: a quarter more for each pass that the address earned in the
// hour, or in proportion to its network's passes in a day beyond those with a full allowance; whichever is larger.
func (c *Config) workPrice(e earned) int64 {
	const most = 1 << 20 // keeps the product well within an int64
	full := float64(max(c.Pass.FullPasses, 1))
	byAddress := float64(c.Work.Hashes) * (4 + min(math.Floor(e.address), most)) / 4
	byNetwork := float64(c.Work.Hashes) * max(min(math.Floor(e.day), most), full) / full
	return min(int64(max(byAddress, byNetwork)), c.Work.MaxHashes)
}

// before returns what was earned before the last pass, given the address's company.
func (e earned) before(company float64) earned {
	one := 1 / company
	return earned{max(e.address-one, 0), max(e.hour-one, 0), max(e.day-one, 0)}
}
