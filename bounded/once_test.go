package bounded

import (
	"testing"
	"time"
)

// TestPitfall12OnceIsBounded floods the tables with keys.
func TestPitfall12OnceIsBounded(t *testing.T) {
	now := start
	s := NewOnce(time.Hour, 6400)
	var id [16]byte
	for i := range 100_000 {
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), 1
		if !s.Add(id, now) {
			t.Fatal("a new key is spent")
		}
		if s.Add(id, now) {
			t.Fatal("a spent key is new")
		}
	}
	held := 0
	for i := range s.shards {
		held += len(s.shards[i].young) + len(s.shards[i].old)
	}
	if held > 6400 {
		t.Errorf("%d keys held", held)
	}
}

func TestOnceForgetsOnlyWhatExpired(t *testing.T) {
	s := NewOnce(30*time.Minute, 1<<20)
	at := start
	for i := range 200 {
		id := [16]byte{7, byte(i)}
		if !s.Add(id, at) {
			t.Fatal("new is spent")
		}
		for age := time.Duration(0); age < 30*time.Minute; age += 5 * time.Minute {
			for j := i; j >= 0 && j > i-8; j-- {
				if at.Sub(start.Add(time.Duration(j)*4*time.Minute)) < 30*time.Minute && s.Add([16]byte{7, byte(j)}, at) {
					t.Fatalf("key %d was forgotten before it expired", j)
				}
			}
		}
		at = at.Add(4 * time.Minute)
	}
}
