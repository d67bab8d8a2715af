package spravka

import (
	"errors"
	"sync/atomic"
)

// Keys is the ring in use, which a reload replaces. Make it with NewKeys; safe for concurrent use.
type Keys struct{ ring atomic.Pointer[Ring] }

// NewKeys returns Keys that begin with a ring.
func NewKeys(r *Ring) *Keys {
	k := new(Keys)
	k.ring.Store(r)
	return k
}

// Ring returns the ring in use.
func (k *Keys) Ring() *Ring { return k.ring.Load() }

// Prepare makes ready for another ring, and returns what puts it into use.
func (k *Keys) Prepare(next *Ring) (commit func(), err error) {
	if next == nil {
		return nil, errors.New("spravka: there is no key ring")
	}
	return func() { k.ring.Store(next) }, nil
}
