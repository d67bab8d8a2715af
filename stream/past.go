package stream

import "time"

// Past remembers the positions of a partition's last seconds: where a successor begins, and what to drop. The zero
// value is empty. Not safe for concurrent use.
type Past struct {
	seconds []second
	bytes   int64
	last    time.Duration
}

// second is what came within about a second.
type second struct {
	pos  string
	at   time.Duration // when that came
	size int64         // of all of them
}

// Add adds a batch: its position, its time by the engine's clock, and its bytes.
func (p *Past) Add(pos string, at time.Duration, size int64) {
	if n := len(p.seconds); n == 0 || at-p.seconds[n-1].at > time.Second {
		p.seconds = append(p.seconds, second{pos: pos, at: at})
	}
	p.seconds[len(p.seconds)-1].size += size
	p.bytes += size
	p.last = max(p.last, at)
}

// Drop forgets the seconds older than keep, and the oldest beyond a number of bytes; never the newest. It returns the
// start of the rest; empty if nothing was dropped.
func (p *Past) Drop(keep time.Duration, most int64) string {
	n := 0
	for ; n < len(p.seconds)-1 && (p.bytes > most || p.last-p.seconds[n].at > keep); n++ {
		p.bytes -= p.seconds[n].size
	}
	if n == 0 {
		return ""
	}
	p.seconds = append(p.seconds[:0], p.seconds[n:]...)
	return p.seconds[0].pos
}

// From returns the start of the last seconds within by and most bytes; at least the newest second. Empty without one.
func (p *Past) From(by time.Duration, most int64) (pos string) {
	for i := len(p.seconds) - 1; i >= 0; i-- {
		s := &p.seconds[i]
		if most -= s.size; pos != "" && (most < 0 || p.last-s.at > by) {
			break
		}
		pos = s.pos
	}
	return pos
}
