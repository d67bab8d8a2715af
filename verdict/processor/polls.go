package processor

import (
	"sync/atomic"

	"antirobot/verdict"
)

// polls remembers which calls an address has made lately: a page that waits for news asks for the same again and again,
// at each of forty desks, and reads nothing by it. It is a table of fixed size without locks; who is pushed out is new
// once more. The zero value is ready. Safe for concurrent use.
type polls [1 << 17]atomic.Uint64 // tag 32, minute 24, times 8

const (
	pollMinutes = 60 // within which the same call is a repetition
	pollCounts  = 8  // repetitions of which one counts for the limits of calls
)

// repeated is what is known of a call: whether the address has made it lately, and whether it counts for the limits.
type repeated struct{ again, counts bool }

// see notes a call. One that sends something may be answered with something else each time: it is the same only if the
// answer is as long.
func (t *polls) see(e *verdict.Event) repeated {
	key := hashID(e.Subjects[e.N-1].ID) ^ e.Target ^ uint64(e.Service)<<48
	if e.Number >= stampFrom { // a number that is a time only keeps caches away
		key ^= e.Target ^ e.Path
	}
	if e.Method != 'G' {
		if e.Advised {
			return repeated{counts: true}
		}
		key ^= (e.BytesOut + 1) * 0x9e3779b97f4a7c15
	}
	key *= 0x9e3779b97f4a7c15
	key ^= key >> 29
	place := &t[key%uint64(len(t))]
	w := place.Load()
	minute := uint64(e.At.Unix()/60) & (1<<24 - 1) //nolint:gosec // after 1970
	if w>>32 != key>>32 || (minute-(w>>8&(1<<24-1)))&(1<<24-1) > pollMinutes {
		place.Store(key>>32<<32 | minute<<8)
		return repeated{counts: true}
	}
	n := (w + 1) & 0xff
	place.Store(key>>32<<32 | minute<<8 | n)
	return repeated{again: true, counts: n%pollCounts == 0}
}
