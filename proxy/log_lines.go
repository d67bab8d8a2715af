package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// LineLimits bounds the log lines of one kind, by network (/24, /48) and in total, so that a flood fills no disk. Omitted
// lines are counted, and the network's next line has their number.
type LineLimits struct {
	PerSecond        int // of all networks; 0: every line is written
	NetworkPerMinute int // on average
	NetworkBurst     int
}

// DecisionLines bounds the lines about stopped requests; each reason of a network counts separately.
func DecisionLines() LineLimits {
	return LineLimits{PerSecond: 200, NetworkPerMinute: 60, NetworkBurst: 120}
}

// AccessLines bounds the lines of requests.
func AccessLines(perSecond int) LineLimits {
	return LineLimits{PerSecond: perSecond, NetworkPerMinute: 6000, NetworkBurst: 3000}
}

// lines decides which lines are written. Half of the sum is for networks that have written few lines of late, one in fewLines of what
// they may: otherwise some hundred networks that each stay within their own limit would leave no line to others. Networks are kept in a
// table of fixed size; the one closest to rest is forgotten, which can only allow it more lines, never fewer. It takes no global lock,
// and does not allocate. Safe for concurrent use; nil writes everything.
type lines struct {
	step, slack int64 // nanoseconds between two lines of a network; how far ahead of time a burst may run
	most        uint64
	now         atomic.Uint64 // the second, and in the lower 32 bits the lines written in it
	forgotten   atomic.Uint64 // omitted lines of networks that have been forgotten
	sets        [lineSets]lineSet
	out         *metrics.Counter
}

const lineSets, lineWays = 1024, 4

// fewLines: one in so many of the lines that a network may write is few.
const fewLines = 256

type lineSet struct {
	mu   sync.Mutex
	keys [lineWays]uint64
	tat  [lineWays]int64 // when the network would be at rest, unix nanoseconds
	few  [lineWays]int64 // when it would be if it might write one of fewLines
	left [lineWays]uint64
}

// newLines returns nil if every line is to be written.
func newLines(c LineLimits, out *metrics.Counter) *lines {
	if c.PerSecond == 0 {
		return nil
	}
	step := int64(time.Minute) / int64(c.NetworkPerMinute)
	return &lines{step: step, slack: step * int64(c.NetworkBurst-1), most: uint64(c.PerSecond), out: out}
}

// take reports whether a line is written that counts as so many, and how many were omitted before it: of the same key, and of other
// keys that have been forgotten.
func (l *lines) take(key uint64, at time.Time, as int) (left, others uint64, ok bool) {
	if l == nil {
		return 0, 0, true
	}
	now := at.UnixNano()
	s := &l.sets[key%lineSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(key)
	if s.keys[i] != key {
		if s.left[i] > 0 {
			l.forgotten.Add(s.left[i])
		}
		s.keys[i], s.tat[i], s.few[i], s.left[i] = key, 0, 0, 0
	}
	tat, few, most := max(s.tat[i], now), max(s.few[i], now), (l.most+1)/2
	if few-now <= l.slack { // one line of fewLines, and of the burst one at least
		most = l.most
	}
	if tat-now > l.slack || !l.inSum(at, uint64(as), most) { //nolint:gosec // positive
		s.left[i]++
		l.out.Inc()
		return 0, 0, false
	}
	s.tat[i], s.few[i] = tat+l.step*int64(as), few+fewLines*l.step*int64(as)
	left, s.left[i] = s.left[i], 0
	if l.forgotten.Load() > 0 {
		others = l.forgotten.Swap(0)
	}
	return left, others, true
}

// find returns the slot of a key, or the slot that it may take.
func (s *lineSet) find(key uint64) int {
	rest := 0
	for i := range s.keys {
		if s.keys[i] == key {
			return i
		}
		if s.tat[i] < s.tat[rest] {
			rest = i
		}
	}
	return rest
}

// inSum counts a line as so many in this second, unless there are as many as there may be already.
func (l *lines) inSum(at time.Time, as, most uint64) bool {
	second := uint64(at.Unix()) << 32
	for {
		was := l.now.Load()
		next := was + as
		switch {
		case was>>32 < second>>32:
			next = second + as
		case was&(1<<32-1) >= most:
			return false
		}
		if l.now.CompareAndSwap(was, next) {
			return true
		}
	}
}

// usualLine is how many bytes of its own a client may have in a line that counts as one.
const usualLine = 512

// linesOf returns as how many lines one counts that quotes these texts of a client: otherwise the longest ones, and bytes that take six
// when they are written, would fill twenty times as much disk as others.
func linesOf(texts ...[]byte) int {
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	if n <= usualLine/6 {
		return 1
	}
	for _, t := range texts {
		for _, c := range t {
			if c < ' ' || c >= 0x80 {
				n += 5
			} else if c == '"' || c == '\\' {
				n++
			}
		}
	}
	return 1 + n/usualLine
}
