package spravka

import (
	"errors"
	"sync/atomic"
)

// Keys is the ring in use, which a reload replaces. Make it with NewKeys; safe for concurrent use.
type Keys struct{ ring atomic.Pointer[Ring] }

// NewKeys returns Keys that start with ring r.
func NewKeys(r *Ring) *Keys {
	k := new(Keys)
	k.ring.Store(r)
	return k
}

// Ring returns the ring in use.
func (k *Keys) Ring() *Ring { return k.ring.Load() }

// Prepare prepares the switch to another ring, and returns the function that makes it.
func (k *Keys) Prepare(next *Ring) (commit func(), err error) {
	if next == nil {
		return nil, errors.New("spravka: there is no key ring")
	}
	return func() { k.ring.Store(next) }, nil
}
