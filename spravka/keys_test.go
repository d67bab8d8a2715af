package spravka

import (
	"slices"
	"testing"
	"time"

	"antirobot/request"
)

// TestKeysArePrepared: a ring is in use once committed, and no ring is refused.
func TestKeysArePrepared(t *testing.T) {
	ring := func() *Ring {
		r, err := NewRing([]Key{MakeKey(time.Unix(1.8e9, 0))})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, second := ring(), ring()
	k := NewKeys(first)
	if _, err := k.Prepare(nil); err == nil || k.Ring() != first {
		t.Errorf("no ring: %v", err)
	}
	commit, err := k.Prepare(second)
	if err != nil || k.Ring() != first {
		t.Fatalf("prepared is in use already, or %v", err)
	}
	if commit(); k.Ring() != second {
		t.Error("committed, and not in use")
	}
}

// TestHashKey: gateways with one ring hash alike, also after a rotation; rings without a key in common don't.
func TestHashKey(t *testing.T) {
	one, other := newRing(t), newRing(t)
	rotated, err := one.Rotate(start.Add(time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := one.HashKey(), rotated.HashKey(); a != b || a == (request.HashKey{}) {
		t.Errorf("%x, and after a rotation %x", a, b)
	}
	if one.HashKey() == other.HashKey() {
		t.Error("two rings have one key")
	}
}

// TestTicketKeys: gateways with one ring have the same keys; those of the days around open, and so do those of keys
// that were rotated out of sealing.
func TestTicketKeys(t *testing.T) {
	ring := newRing(t)
	keys := ring.TicketKeys(start)
	if !slices.Equal(keys, ring.TicketKeys(start.Add(time.Minute))) {
		t.Error("the keys of one day differ")
	}
	for _, shift := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		other := ring.TicketKeys(start.Add(shift))
		if other[0] == keys[0] || !slices.Contains(keys, other[0]) {
			t.Errorf("what was sealed %v later does not open, or with the same key", shift)
		}
	}
	if slices.Contains(keys, ring.TicketKeys(start.Add(72 * time.Hour))[0]) {
		t.Error("keys do not end")
	}
	next, err := ring.Rotate(start.Add(time.Hour), 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if after := next.TicketKeys(start); after[0] == keys[0] || !slices.Contains(after, keys[0]) {
		t.Error("after a rotation")
	}
}
