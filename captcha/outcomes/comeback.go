package outcomes

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"antirobot/spravka"
)

const (
	loadedKeys  = 1 << 16 // challenges that count as loaded once
	awaitedMost = 1 << 12 // passes earned lately and not used yet; a power of two
)

// Loads reports whether a challenge is loaded for the first time.
func (t *Tally) Loads(nonce [16]byte, at time.Time) bool { return t.loaded.Add(nonce, at) }

// awaited is a pass that has not been used.
type awaited struct {
	id  [16]byte
	who Who
	at  time.Time
}

// awaitedTable holds passes by their random ID; a later pass evicts an earlier one. A lookup takes no lock.
type awaitedTable [awaitedMost]atomic.Pointer[awaited]

func (t *awaitedTable) place(id *[16]byte) *atomic.Pointer[awaited] {
	return &t[binary.BigEndian.Uint16(id[:])%awaitedMost]
}

// Earned waits for the first use of a pass.
func (t *Tally) Earned(id *[16]byte, w *Who, at time.Time) {
	t.awaited.place(id).Store(&awaited{*id, *w, at})
}

// CameBack counts the passes that are used for the first time, within an hour, and returns how many there were. It
// takes no lock and allocates nothing unless there is something to count.
func (t *Tally) CameBack(passes []spravka.Pass, now func() time.Time) (n int) {
	for i := range passes {
		place := t.awaited.place(&passes[i].ID)
		a := place.Load()
		if a == nil || a.id != passes[i].ID || !place.CompareAndSwap(a, nil) {
			continue
		}
		at := now()
		if at.Sub(a.at) > spanFor {
			continue
		}
		t.Count(at, &a.who, Count{CameBack: 1})
		n++
	}
	return n
}
