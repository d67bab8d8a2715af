package processor

import (
	"testing"

	"antirobot/bounded"
	"antirobot/identity"
)

// TestSpread: addresses side by side, and keys that differ in their kind alone, spread evenly over the shards, and in another
// way with another seed.
func TestSpread(t *testing.T) {
	const n = 1 << 14
	one, other := newSeed(), newSeed()
	var shards [bounded.Shards]int
	same := 0
	for i := range n {
		k := identity.Subject{Kind: identity.Kind(1 + i&1), ID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 14: byte(i >> 9), 15: byte(i >> 1)}}
		h := one.subject(k)
		shards[h%bounded.Shards]++
		if h == other.subject(k) {
			same++
		}
	}
	for i, got := range shards {
		if want := n / bounded.Shards; got < want/2 || got > 2*want {
			t.Errorf("%d of %d keys in shard %d, want about %d", got, n, i, want)
		}
	}
	if same > 0 {
		t.Errorf("%d keys have one hash with both seeds", same)
	}
}
