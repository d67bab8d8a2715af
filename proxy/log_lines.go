package proxy

import (
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/bounded"
)

// LineLimits bounds the log lines of one kind, by network (/24, /48) and in total, so that a flood fills no disk.
// Omitted lines are counted, and the next line of the kind has their number.
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
// (1/fewLines of their limit), so that hundreds of networks within their limits leave room for others. Safe for
// concurrent use; nil writes everything.
type lines struct {
	networks, few *bounded.Rate
	most          uint64
	now           atomic.Uint64 // second << 32 | lines written in it
	left          atomic.Uint64 // omitted since the last line
	out           *metrics.Counter
}

const (
	lineNetworks = 4096
	fewLines     = 512
)

func newLines(c LineLimits, out *metrics.Counter) *lines {
	if c.PerSecond == 0 {
		return nil
	}
	step := time.Minute / time.Duration(c.NetworkPerMinute)
	return &lines{
		networks: bounded.NewRate(step, c.NetworkBurst, lineNetworks),
		few:      bounded.NewRate(fewLines*step, c.NetworkBurst/fewLines+1, lineNetworks),
		most:     uint64(c.PerSecond), out: out,
	}
}

// take reports whether a line that counts as several is written, and how many were omitted before it.
func (l *lines) take(key uint64, at time.Time, as int) (left uint64, ok bool) {
	if l == nil {
		return 0, true
	}
	most := l.most
	if l.few.Peek(key, at) > 0 {
		most = (most + 1) / 2
	}
	if l.networks.Peek(key, at) > 0 || !l.inSum(at, uint64(as), most) {
		l.left.Add(1)
		l.out.Inc()
		return 0, false
	}
	l.networks.TakeMany(key, at, as)
	l.few.TakeMany(key, at, as)
	return l.left.Swap(0), true
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
