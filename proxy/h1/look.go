package h1

import "time"

const lookEvery = 2 * time.Second

func (x *Exchange) look(now time.Time) error {
	switch {
	case x.goOn == nil || !x.answered || now.Before(x.lookBy):
		return nil
	case x.lookBy.IsZero():
	case !x.goOn():
		x.m.revoked.Inc()
		return errRevoked
	}
	x.lookBy = now.Add(lookEvery)
	return nil
}

// look reports whether the tunnel may go on. Both directions call it, one looks.
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
