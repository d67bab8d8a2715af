package verdict

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/request"
)

// WhenConfig says when a service challenges the visitors that the gateway itself takes for robots, or is unsure about. All
// conditions that are given must hold. Lists, rules and bans of the operator are not concerned.
type WhenConfig struct {
	Load     LoadConfig    `mapstructure:"load"`     // only while the service is busy
	Path     time.Duration `mapstructure:"path"`     // only where an answer takes at least this long on average; 0: everywhere
	Networks []string      `mapstructure:"networks"` // only from these, or from those on lists of these names; none: from everywhere
}

// LoadConfig says when a service is busy. From half of a limit on a growing share of visitors is challenged, beyond it all.
type LoadConfig struct {
	Slow  time.Duration `mapstructure:"slow"`  // the average time to an answer; 0: it does not matter
	Queue int           `mapstructure:"queue"` // the average number of requests that wait for a connection; 0: it does not matter
}

const maxWhenNetworks = 1000

func (c *WhenConfig) validate() error {
	var errs []error
	duration := func(key string, d time.Duration) {
		if d != 0 && (d < time.Millisecond || d > 10*time.Minute) {
			errs = append(errs, fmt.Errorf("when.%s: %v is not between 1ms and 10m; 0 is no condition", key, d))
		}
	}
	duration("load.slow", c.Load.Slow)
	duration("path", c.Path)
	if c.Load.Queue < 0 || c.Load.Queue > 1_000_000 {
		errs = append(errs, fmt.Errorf("when.load.queue: %d is not between 0 and 1000000", c.Load.Queue))
	}
	if len(c.Networks) > maxWhenNetworks {
		errs = append(errs, fmt.Errorf("when.networks: %d are too many, the limit is %d", len(c.Networks), maxWhenNetworks))
	}
	for i, n := range c.Networks {
		if _, err := request.ParseNetwork(n); err != nil && !namesList(n) {
			errs = append(errs, fmt.Errorf("when.networks[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// namesList reports whether n, which is no network, has the form of a list's name.
func namesList(n string) bool { return n != "" && !strings.ContainsAny(n, "/:% ") }

// maxNamesShown is how many lists an error names.
const maxNamesShown = 20

// CheckLists returns an error for each name in networks that is none of the given ones, which are those of the lists of networks.
func (c *WhenConfig) CheckLists(names []string) error {
	shown := strings.Join(names[:min(len(names), maxNamesShown)], ", ")
	if n := len(names) - maxNamesShown; n > 0 {
		shown += fmt.Sprintf(" and %d more", n)
	}
	var errs []error
	for i, n := range c.Networks {
		if _, err := request.ParseNetwork(n); err != nil && namesList(n) && !slices.Contains(names, n) {
			errs = append(errs, fmt.Errorf("when.networks[%d]: %.60q is neither a network such as 10.0.0.0/8 nor a list of networks that is in use; "+
				"the lists are %s", i, n, shown))
		}
	}
	return errors.Join(errs...)
}

// when is a WhenConfig prepared for use.
type when struct {
	LoadConfig
	path     time.Duration
	anywhere bool // the network does not matter
	networks []netip.Prefix
	lists    []string // of networks, by their names
	key      any      // LoadConfig, boxed once
}

// byLoad reports whether it matters how busy the service is.
func (w *when) byLoad() bool { return w != nil && (w.Slow != 0 || w.Queue != 0) }

// prepare returns nil where there is no condition. The configuration is valid.
func (c *WhenConfig) prepare() *when {
	w := &when{LoadConfig: c.Load, key: c.Load, path: c.Path, anywhere: len(c.Networks) == 0}
	for _, n := range c.Networks {
		if p, err := request.ParseNetwork(n); err == nil {
			w.networks = append(w.networks, p)
		} else {
			w.lists = append(w.lists, n)
		}
	}
	if !w.byLoad() && w.path == 0 && w.anywhere {
		return nil
	}
	return w
}

// Waiver is why a visitor is not challenged that otherwise would be.
type Waiver uint8

// The waivers.
const (
	NotWaived       Waiver = iota
	WaivedNetwork          // the network is not among those of when.networks
	WaivedPath             // the path costs too little
	WaivedLoad             // the service is not busy, or not busy enough for this address
	WaivedLooks            // a page needs it to look and work like one, see exemptions
	WaivedWellKnown        // it is a file that programs look for at a fixed place
	WaivedServed           // it is a subresource of the page that the client has just been served
)

var waiverWords = [...]string{
	"", "its network is not one of those that are asked (verdict.when)", "the path costs too little (verdict.when)",
	"the service is not busy (verdict.when)", "a page needs this part, and nobody is asked for it",
	"programs look for this file at a fixed place, and it always passes",
	"it is a part of the page that its client has just been served",
}

// String returns the reason in words.
func (w Waiver) String() string { return waiverWords[w] }

// costs remembers how long an answer takes on average at each path, and at each shape of paths. It is a table of fixed size
// without locks, see Paths: a slot is a tag of 32 bits, the time in tenths of milliseconds, and how many answers count. The
// zero value is ready for use.
type costs [pathPlaces]atomic.Uint64

const (
	costUnit   = 100 * time.Microsecond
	costBits   = 24 // of the time: up to 27 minutes
	costNBits  = 8
	costMemory = 32 // answers that the average is over
	costProof  = 3  // answers of a path, or of its shape, that prove something
)

func (t *costs) slot(key uint64) (n, units uint64) {
	w := t[key%pathPlaces].Load()
	if tag(w) != tag(key) {
		return 0, 0
	}
	return w & (1<<costNBits - 1), w >> costNBits & (1<<costBits - 1)
}

func (t *costs) note(k pathKey, took time.Duration) {
	x := float64(min(uint64(max(took, 0)/costUnit), 1<<costBits-1)) //nolint:gosec // not negative
	for _, key := range [...]uint64{k.exact, k.shape} {
		n, units := t.slot(key)
		n = min(n+1, costMemory)
		next := uint64(max(float64(units)+(x-float64(units))/float64(n), 0))
		t[key%pathPlaces].Store(tag(key) | next<<costNBits | n)
	}
}

// of returns the average time of a path; 0 if it is not known yet.
func (t *costs) of(k pathKey) time.Duration {
	for _, key := range [...]uint64{k.exact, k.shape} {
		if n, units := t.slot(key); n >= costProof {
			return time.Duration(units) * costUnit //nolint:gosec // 24 bits
		}
	}
	return 0
}

const (
	// loadMemory is the time over which a load is averaged, and forgotten when nothing is answered.
	loadMemory = 10 * time.Second
	// slewTime is the least time until all visitors are challenged, and until none is again.
	slewTime = 10 * time.Second
	// slewStep is for how long one observation counts at most: after silence, a slow answer says little.
	slewStep = time.Second
)

// Loads knows how busy each service is. Reading one takes no lock. Safe for concurrent use.
type Loads struct {
	byService sync.Map // service group (uint32) to *serviceLoad
	costs     costs
	paths     *Paths
}

// serviceLoad is averages over some seconds, in which each answer counts by the time since the last. Of two answers that are
// noted at once, one may be lost.
type serviceLoad struct {
	name  string
	at    atomic.Int64  // unix nanoseconds of the last answer; never goes back
	took  atomic.Uint64 // seconds to an answer, as the bits of a float64
	queue atomic.Uint64 // requests that wait, as the bits of a float64
	// shares says for each LoadConfig how many visitors are challenged (*slew); reloads keep them.
	shares sync.Map
}

// Took records how long a service took for an answer, and how many requests were waiting for it then.
func (l *Loads) Took(v *request.View, s *Settings, took time.Duration, waiting int64) {
	x, ok := l.byService.Load(s.Group)
	if !ok {
		x, _ = l.byService.LoadOrStore(s.Group, &serviceLoad{name: s.Name})
	}
	load, at := x.(*serviceLoad), v.At.Add(took).UnixNano()
	load.note(at, took, waiting)
	if s.when.byLoad() {
		load.share(s.when, at)
	}
	load.shares.Range(func(c, share any) bool {
		limits := c.(LoadConfig)
		share.(*slew).toward(load.level(&limits, at), at)
		return true
	})
	l.costs.note(l.paths.keyOf(s, v), took)
}

// ForgetLoad forgets how busy a service was that is gone.
func (l *Loads) ForgetLoad(service string) { l.byService.Delete(groupOf(service)) }

// share returns the share of the visitors of a service that is challenged, 0 to 1.
func (l *Loads) share(s *Settings, at int64) float64 {
	x, ok := l.byService.Load(s.Group)
	if !ok {
		return 0
	}
	return x.(*serviceLoad).share(s.when, at)
}

func (l *serviceLoad) share(w *when, at int64) float64 {
	x, ok := l.shares.Load(w.key)
	if !ok {
		x, _ = l.shares.LoadOrStore(w.key, new(slew))
	}
	return x.(*slew).toward(l.level(&w.LoadConfig, at), at)
}

// write prints the loads as metrics.
func (l *Loads) write(w io.Writer, at int64) {
	l.byService.Range(func(_, x any) bool {
		load := x.(*serviceLoad)
		seconds, queue := load.now(at)
		fmt.Fprintf(w, "antirobot_service_answer_seconds{service=%q} %g\n", load.name, seconds)
		fmt.Fprintf(w, "antirobot_service_queue{service=%q} %g\n", load.name, queue)
		return true
	})
}

// note adds an answer. It may be reported long after it began, and after others: then it counts for no time.
func (l *serviceLoad) note(at int64, took time.Duration, queue int64) {
	was := l.at.Load()
	if at <= was || !l.at.CompareAndSwap(was, at) {
		return
	}
	weight := 1 - math.Exp(-float64(at-was)/float64(loadMemory))
	average := func(of *atomic.Uint64, x float64) {
		was := math.Float64frombits(of.Load())
		of.Store(math.Float64bits(was + (x-was)*weight))
	}
	average(&l.took, took.Seconds())
	average(&l.queue, float64(queue))
}

// now returns the averages at a time.
func (l *serviceLoad) now(at int64) (seconds, queue float64) {
	left := math.Exp(-float64(max(at-l.at.Load(), 0)) / float64(loadMemory))
	return math.Float64frombits(l.took.Load()) * left, math.Float64frombits(l.queue.Load()) * left
}

// level says how busy the service is, 0 to 1.
func (l *serviceLoad) level(c *LoadConfig, at int64) (busy float64) {
	seconds, queue := l.now(at)
	if c.Slow > 0 {
		busy = 2*seconds/c.Slow.Seconds() - 1
	}
	if c.Queue > 0 {
		busy = max(busy, 2*queue/float64(c.Queue)-1)
	}
	return min(max(busy, 0), 1)
}

// slew is a share that follows a level, by the whole range in slewTime at most. The zero value is 0. Safe for concurrent
// use.
type slew struct {
	at    atomic.Int64
	share atomic.Uint64 // the bits of a float64
}

func (s *slew) toward(level float64, at int64) float64 {
	share, was := math.Float64frombits(s.share.Load()), s.at.Load()
	if at <= was || !s.at.CompareAndSwap(was, at) {
		return share
	}
	if level > share {
		share = min(level, share+float64(min(at-was, int64(slewStep)))/float64(slewTime))
	} else {
		share = max(level, share-float64(at-was)/float64(slewTime))
	}
	s.share.Store(math.Float64bits(share))
	return share
}
