package spravka

import (
	"testing"
	"time"
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
