package captcha

import (
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// The price of a pass follows what its address and the networks around it have earned in the past day, and falls again as
// that fades: each pass is worth less than the one before, takes more work, and beyond some comes only at intervals that
// grow. Networks may earn like several households (level.places), and more where many established visitors are, as in an
// office or behind the addresses of a mobile carrier. An address counts for its neighbours with its first passes only:
// who shares a network with one solver pays little for it, and who rotates addresses pays for all of them.
//
// Counts cover the past hour and day: the clock's previous window counts in proportion to its remaining overlap.

// earned is how much was earned from an address and around it, in passes per household.
type earned struct {
	hour   float64 // by the address (IPv6: a /64) in an hour
	day    float64 // by whichever of its prefixes earned the most in a day
	prior  float64 // day, without the pass that was just counted
	n      int     // of levels
	levels [7]level
}

// level is one of the prefixes that contain an address.
type level struct {
	net    netip.Prefix
	places float64 // households that it may earn like
	day    float64 // passes in a day (hourly: in an hour), per place
	added  int64   // what the last pass added to it, in hundredths of a pass
	share  float64 // in which the level concerns the visitor; 0: wholly
	hourly bool    // the passes of an hour count, not those of a day
}

const (
	// household is how many established visitors count as one more household.
	household = 16
	// whole is a pass, in the unit of the counters: a check of the browser, which earns less than digits, counts less.
	whole = 100
	// spill is how many passes of a place count for the networks around it.
	spill = 4
)

// machines is the level at which all digits count together that were read faster than anybody types them, wherever they
// come from: a solver gets no more by using many addresses, and no person pays for it.
var machines = level{net: netip.PrefixFrom(netip.IPv6Unspecified(), 0), places: 2}

// strangers is the level at which all those count together who read unlike the site's people, wherever they come from, each
// by how much: a campaign earns no more by being in many networks.
var strangers = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// strangeHouseholds is how many households strangers may earn like together.
const strangeHouseholds = 2

// prices count the passes of addresses and networks.
type prices struct {
	*core
	visitors Visitors // nil: nobody is established
	manners  Manners  // nil: everybody reads alike
}

// Manners knows how much of what is read at a service from an address, or from the networks around it, is read as no browser
// of the site's people reads it: 0 to 1. *processor.Processor implements it.
type Manners interface {
	Bareness(service string, a netip.Addr) float64
}

// The prefixes that earn, and how many households each may earn like, whoever is there.
var (
	levels4 = [...]struct{ bits, places int }{{32, 1}, {24, 8}}
	levels6 = [...]struct{ bits, places int }{{64, 1}, {56, 2}, {48, 4}, {32, 8}}
)

// Visitors knows how many established visitors a network has: an address, a /24, or an IPv6 /64, /56, /48 or /32.
// *verdict.Cacher implements it.
type Visitors interface {
	EstablishedIn(net netip.Prefix) int
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// levelsOf sets the levels of an address, the smallest first.
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
			e.levels[i].places += float64(v.EstablishedIn(net)) / household
		}
	}
	e.n = len(list)
}

// asMachine adds the level of machines to those of an answer that took so long.
func (c *Config) asMachine(e *earned, kind byte, took time.Duration) {
	if kind == digitsCode && took < quickAnswer {
		e.levels[e.n] = machines
		e.n++
	}
}

// asStranger adds the levels of strangers, of an hour and of a day, as far as the service's visitors at the address are like them.
func (pr *prices) asStranger(e *earned, service string, a netip.Addr) {
	if pr.manners == nil {
		return
	}
	if share := pr.manners.Bareness(service, a); share > 0 {
		e.levels[e.n] = level{net: strangers, places: strangeHouseholds, share: lately(share), hourly: true}
		e.levels[e.n+1] = level{net: strangers, places: strangeHouseholds, share: share}
		e.n += 2
	}
}

// earned returns what has been earned from an address and around it.
func (pr *prices) earned(ctx context.Context, service string, a netip.Addr, at time.Time) (e earned, err error) {
	e.levelsOf(a, pr.visitors)
	pr.asStranger(&e, service, a)
	err = pr.add(ctx, &e, at, 0)
	return e, err
}

// lately returns the share in which the passes of an hour concern a stranger. One ban may be mistaken, and says half; several within an hour
// are not, so half is all. Who has hardly anything strange pays as for the day.
func lately(share float64) float64 { return min(4*share*share, 1) }

// add counts n more hundredths of a pass at all levels.
func (pr *prices) add(ctx context.Context, e *earned, at time.Time, n int64) error {
	count, err := pr.slide(ctx, netKey(e.levels[0].net, 'h'), hour, at, n)
	if err != nil {
		return err
	}
	e.hour = count / e.levels[0].places
	for i := range e.n {
		l := &e.levels[i]
		added := n
		if l.share > 0 {
			added = int64(float64(n) * l.share)
		}
		if count, err = pr.slideLevel(ctx, l, at, added); err != nil {
			return err
		}
		l.day, l.added = count/l.places, added
		if l.share > 0 {
			l.day *= l.share
		}
		e.day, e.prior = max(e.day, l.day), max(e.prior, l.before())
		if l.day > spill && !l.hourly {
			n = 0
		}
	}
	return nil
}

// before returns how many passes a place had earned before the last one.
func (l *level) before() float64 {
	last := float64(l.added) / whole / l.places
	if l.share > 0 {
		last *= l.share
	}
	return max(l.day-last, 0)
}

// uncount takes back the last pass.
func (pr *prices) uncount(ctx context.Context, e *earned, at time.Time) error {
	_, err := pr.slide(ctx, netKey(e.levels[0].net, 'h'), hour, at, -e.levels[0].added)
	for i := range e.n {
		if l := &e.levels[i]; l.added > 0 && err == nil {
			_, err = pr.slideLevel(ctx, l, at, -l.added)
		}
	}
	return err
}

// slideLevel is slide for what counts at a level.
func (pr *prices) slideLevel(ctx context.Context, l *level, at time.Time, n int64) (float64, error) {
	if l.hourly {
		return pr.slide(ctx, netKey(l.net, 'h'), hour, at, n)
	}
	return pr.slide(ctx, netKey(l.net, 'd'), day, at, n)
}

// slide adds hundredths of a pass to a counter, and returns how many passes it counted over the past length of time.
func (pr *prices) slide(ctx context.Context, key []byte, length time.Duration, at time.Time, n int64) (float64, error) {
	window, left := windowOf(at, length)
	now, err := pr.store.Incr(ctx, binary.BigEndian.AppendUint64(key, uint64(window)), n, 2*length) //nolint:gosec // a number of hours
	if err != nil {
		return 0, err
	}
	before, err := pr.store.Incr(ctx, binary.BigEndian.AppendUint64(key, uint64(window-1)), 0, 2*length) //nolint:gosec // the same
	return (float64(now) + float64(before)*float64(left)/float64(length)) / whole, err
}

// windowOf returns the number of a window of the clock, and the time left in it.
func windowOf(at time.Time, length time.Duration) (n int64, left time.Duration) {
	now := at.UnixNano()
	return now / int64(length), length - time.Duration(now%int64(length))
}

// netKey starts the keys of the counters of passes that a prefix earned, per hour or day.
func netKey(n netip.Prefix, by byte) []byte {
	as := n.Addr().As16()
	return append(append([]byte("captcha/net/"), as[:]...), byte(n.Bits()), by)
}

// workPrice is the price of a pass after so many in a day, in expected hashes: each adds a quarter of the first's.
func (c *Config) workPrice(earned float64) int64 {
	const most = 1 << 20 // keeps the product well within an int64
	return min(int64(float64(c.Work.Hashes)*(4+min(math.Floor(earned), most))/4), min(workGrowth*c.Work.Hashes, maxWork))
}
