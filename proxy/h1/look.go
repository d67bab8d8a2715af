package h1

import "time"

// lookEvery is how often an answer that takes longer, or a tunnel, asks whether it may go on.
const lookEvery = 2 * time.Second

// look fails if the answer that is being relayed may not go on. It reads no clock: whoever waits for the service has just done so.
func (x *Exchange) look(now time.Time) error {
	switch {
	case x.goOn == nil || !x.answered || now.Before(x.lookBy):
		return nil
	case x.lookBy.IsZero(): // it has only begun
	case !x.goOn():
		x.m.revoked.Inc()
		return errRevoked
	}
	x.lookBy = now.Add(lookEvery)
	return nil
}

// look reports whether the tunnel may go on. Both directions ask, and one of them looks.
func (t *tunnel) look(now time.Time) bool {
	if t.goOn == nil {
		return true
	}
	by := t.lookBy.Load()
	if now.UnixNano() < by || !t.lookBy.CompareAndSwap(by, now.Add(lookEvery).UnixNano()) || t.goOn() {
		return true
	}
	t.revoked.Store(true)
	return false
}
