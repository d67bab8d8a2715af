package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// LineLimits bounds the log lines of one kind, by network (/24, /48) and in total, so that a flood fills no disk.
// Omitted lines are counted, and the network's next line has their number.
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

// lines decides which lines are written. Half of the total is reserved for networks that wrote few lines lately
// (1/fewLines of their limit), so that hundreds of networks within their limits leave room for others. A table of fixed
// size evicts the network closest to rest, which allows more lines, never fewer. Safe for concurrent use; nil writes
// everything.
type lines struct {
	step, slack int64 // nanoseconds between two lines of a network; burst tolerance
	most        uint64
	now         atomic.Uint64 // second << 32 | lines written in it
	forgotten   atomic.Uint64 // omitted lines of evicted networks
	sets        [lineSets]lineSet
	out         *metrics.Counter
}

const lineSets, lineWays = 1024, 4

const fewLines = 256

type lineSet struct {
	mu   sync.Mutex
	keys [lineWays]uint64
	tat  [lineWays]int64 // theoretical arrival time, unix nanoseconds
	few  [lineWays]int64 // the same at 1/fewLines of the rate
	left [lineWays]uint64
}

func newLines(c LineLimits, out *metrics.Counter) *lines {
	if c.PerSecond == 0 {
		return nil
	}
	step := int64(time.Minute) / int64(c.NetworkPerMinute)
	return &lines{step: step, slack: step * int64(c.NetworkBurst-1), most: uint64(c.PerSecond), out: out}
}

// take reports whether a line that counts as several is written, and how many were omitted before it: of its key, and
// of evicted keys.
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
	if few-now <= l.slack { // of the burst at least one
		most = l.most
	}
	if tat-now > l.slack || !l.inSum(at, uint64(as), most) {
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

const usualLine = 512

// linesOf returns the weight of a line that quotes these texts: long ones, and bytes that JSON escapes as six, cost
// more disk.
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
