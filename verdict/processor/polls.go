package processor

import (
	"sync/atomic"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// polls remembers which calls an address has made recently: a page that polls for news repeats the same request, at
// each of forty desks, and reads nothing by it. It is a table of fixed size without locks; an evicted call counts as
// new again. The zero value is ready to use. Safe for concurrent use.
type polls [1 << 17]atomic.Uint64 // tag 32, minute 24, times 8

const (
	pollMinutes = 60 // within which the same call is a repetition
	pollCounts  = 8  // number of repetitions that count as one for the limits of calls
)

// repeated is what is known of a call: whether the address made it recently, and whether it counts for the limits.
type repeated struct{ again, counts bool }

// see records a call. A call that sends something may be answered differently each time, by GET, too, where a service reads
// bodies of that: it counts as the same only if the answer has the same length.
func (t *polls) see(e *verdict.Event) repeated {
	key := tally.Hash(e.Subjects[e.N-1].ID) ^ e.Target ^ uint64(e.Service)<<48
	if e.Number >= client.StampFrom { // what only defeats caches is left out, and all that stands before it is not
		key ^= e.Target ^ e.Path ^ uint64(e.Series)*0x517cc1b727220a95
	}
	if e.Method != 'G' || e.Headers&client.HasBody != 0 {
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

// scripts remembers which scripts anybody has loaded. A site has some hundreds, which each of its visitors loads. What nobody else has
// loaded may be data that a service wraps into a script (JSONP), whoever asks for it. The zero value is ready for use. Safe for concurrent use.
type scripts [1 << 13]atomic.Uint64

// first reports whether an event is the first that loads a script.
func (t *scripts) first(e *verdict.Event, group uint32) bool {
	if e.Type != verdict.TypeScript || e.Advised {
		return false
	}
	key := e.Target ^ uint64(group+1)*0x9e3779b97f4a7c15
	return t[key%uint64(len(t))].Swap(key) != key
}
