package outcomes

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	loadedKeys  = 1 << 16 // challenges whose picture or sound was sent, remembered so that each counts once
	awaitedMost = 1 << 12 // passes that were earned of late and not used yet; a power of two
)

// Loads reports whether the picture or the sound of a challenge is sent for the first time.
func (t *Tally) Loads(nonce [16]byte, at time.Time) bool { return t.loaded.Add(nonce, at) }

// awaited is a pass that was earned here and has not been used.
type awaited struct {
	id  [16]byte
	who Who
	at  time.Time
}

// awaitedTable holds passes by the hash of their ID, which is random; a later one takes the place of an earlier one, which is then
// not counted. Looking one up takes no lock.
type awaitedTable [awaitedMost]atomic.Pointer[awaited]

func (t *awaitedTable) place(id *[16]byte) *atomic.Pointer[awaited] {
	return &t[binary.BigEndian.Uint16(id[:])%awaitedMost]
}

// Earned waits for the first use of a pass.
func (t *Tally) Earned(id *[16]byte, w *Who, at time.Time) {
	t.awaited.place(id).Store(&awaited{*id, *w, at})
}

// CameBack counts a solver who uses a pass for the first time, and reports whether there was one: within an hour, and only for passes
// that were earned at this gateway. It takes no lock and allocates nothing unless there is something to count.
func (t *Tally) CameBack(id *[16]byte, now func() time.Time) bool {
	place := t.awaited.place(id)
	a := place.Load()
	if a == nil || a.id != *id || !place.CompareAndSwap(a, nil) {
		return false
	}
	at := now()
	if at.Sub(a.at) > spanFor {
		return false
	}
	t.Count(at, &a.who, Count{CameBack: 1})
	return true
}
