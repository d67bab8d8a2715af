package verdict

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// loads knows how busy each service is. A reader takes no lock. The zero value is ready for use.
type loads struct {
	mu sync.Mutex // of writers
	by atomic.Pointer[map[uint32]*serviceLoad]
}

// serviceLoad is how busy a service is: averages over some seconds, in which each answer counts by the time since the last. What
// two answers write at once may be lost, which does no harm.
type serviceLoad struct {
	name  string
	at    atomic.Int64  // unix nanoseconds of the last answer; never goes back
	took  atomic.Uint64 // seconds to an answer, as the bits of a float64
	queue atomic.Uint64 // requests that wait, likewise
	mu    sync.Mutex    // of who adds to ramps
	ramps atomic.Pointer[[]*ramp]
}

// ramp is the share of visitors that is asked because of one set of limits.
type ramp struct {
	LoadConfig
	share atomic.Uint64 // at the last answer, as the bits of a float64
}

const (
	// loadMemory is the time over which a load is averaged, and forgotten when nothing is answered.
	loadMemory = 10 * time.Second
	// rampTime is what it takes at least until all visitors are asked, and until none is again.
	rampTime = 10 * time.Second
	// rampStep is for how long one answer speaks at most: after silence, a slow one says little.
	rampStep = time.Second
	// maxRamps is how many sets of limits of a service are kept; with more, as after many reloads, all begin anew.
	maxRamps = 64
)

func (l *loads) of(group uint32) *serviceLoad {
	if m := l.by.Load(); m != nil {
		return (*m)[group]
	}
	return nil
}

// add returns the load of a service, and begins one.
func (l *loads) add(s *Settings) *serviceLoad {
	if x := l.of(s.Group); x != nil {
		return x
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := map[uint32]*serviceLoad{s.Group: {name: s.Name}}
	if m := l.by.Load(); m != nil {
		for group, x := range *m {
			next[group] = x
		}
	}
	l.by.Store(&next)
	return next[s.Group]
}

// forget forgets a service.
func (l *loads) forget(group uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.by.Load()
	if m == nil || (*m)[group] == nil {
		return
	}
	next := maps.Clone(*m)
	delete(next, group)
	l.by.Store(&next)
}

// ForgetLoad forgets how busy a service was that is gone.
func (c *Cacher) ForgetLoad(service string) { c.loads.forget(groupOf(service)) }

// ramp returns the one of these limits, and begins it.
func (l *serviceLoad) ramp(c *LoadConfig) *ramp {
	of := func(r *ramp) bool { return r.LoadConfig == *c }
	list := l.all()
	if i := slices.IndexFunc(list, of); i >= 0 {
		return list[i]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	list = l.all()
	if i := slices.IndexFunc(list, of); i >= 0 {
		return list[i]
	}
	if len(list) >= maxRamps {
		list = nil
	}
	r := &ramp{LoadConfig: *c}
	list = append(slices.Clip(list), r)
	l.ramps.Store(&list)
	return r
}

func (l *serviceLoad) all() []*ramp {
	if list := l.ramps.Load(); list != nil {
		return *list
	}
	return nil
}

// note adds an answer.
func (l *serviceLoad) note(at int64, took time.Duration, queue int64) {
	ramps := l.all()
	for _, r := range ramps {
		r.share.Store(math.Float64bits(l.shareAt(r, at)))
	}
	gap := l.advance(at)
	weight := 1 - math.Exp(-float64(gap)/float64(loadMemory))
	average := func(of *atomic.Uint64, x float64) {
		was := math.Float64frombits(of.Load())
		of.Store(math.Float64bits(was + (x-was)*weight))
	}
	average(&l.took, took.Seconds())
	average(&l.queue, float64(queue))
	up := float64(min(gap, int64(rampStep))) / float64(rampTime)
	for _, r := range ramps {
		share, level := math.Float64frombits(r.share.Load()), l.level(&r.LoadConfig, at)
		if level > share {
			r.share.Store(math.Float64bits(min(level, share+up)))
		}
	}
}

// advance returns the time since the last answer. One is told of when it has ended, which may be long after it began, and after others: it
// speaks for no time then, and takes none back.
func (l *serviceLoad) advance(at int64) (gap int64) {
	for {
		was := l.at.Load()
		if at <= was {
			return 0
		}
		if l.at.CompareAndSwap(was, at) {
			return at - was
		}
	}
}

// now returns the averages at a time.
func (l *serviceLoad) now(at int64) (seconds, queue float64) {
	left := math.Exp(-float64(max(at-l.at.Load(), 0)) / float64(loadMemory))
	return math.Float64frombits(l.took.Load()) * left, math.Float64frombits(l.queue.Load()) * left
}

// level says how busy the service is, 0 to 1.
func (l *serviceLoad) level(c *LoadConfig, at int64) float64 {
	seconds, queue := l.now(at)
	busy := 0.0
	if c.Slow > 0 {
		busy = 2*seconds/c.Slow.Seconds() - 1
	}
	if c.Queue > 0 {
		busy = max(busy, 2*queue/float64(c.Queue)-1)
	}
	return min(max(busy, 0), 1)
}

// asks returns the share of visitors that is asked, 0 to 1. It follows the level, and is nowhere steeper than a ramp: with
// each answer it may rise by the time since the last, and it falls with time.
func (l *serviceLoad) asks(c *LoadConfig, at int64) float64 {
	if l == nil {
		return 0
	}
	return l.shareAt(l.ramp(c), at)
}

// shareAt returns what is left of a share when no answer came since the last.
func (l *serviceLoad) shareAt(r *ramp, at int64) float64 {
	share := math.Float64frombits(r.share.Load())
	level := l.level(&r.LoadConfig, at)
	if level >= share {
		return share
	}
	return max(level, share-float64(max(at-l.at.Load(), 0))/float64(rampTime))
}

// write prints the loads as metrics.
func (l *loads) write(w io.Writer, at int64) {
	m := l.by.Load()
	if m == nil {
		return
	}
	for _, x := range *m {
		seconds, queue := x.now(at)
		fmt.Fprintf(w, "antirobot_service_answer_seconds{service=%q} %g\nantirobot_service_queue{service=%q} %g\n", x.name, seconds, x.name, queue)
	}
}
