package limits

import (
	"net/netip"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestPitfall12StateIsBounded floods the tables with addresses and keys.
func TestPitfall12StateIsBounded(t *testing.T) {
	p := NewPace(time.Minute, 1, 1024)
	now := start
	for i := range 200_000 {
		p.Take(uint64(i)*0x9e3779b97f4a7c15, now)
	}
	if n := len(p.sets) * ways; n > 2048 {
		t.Errorf("%d entries", n)
	}
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

func TestPaceKeys(t *testing.T) {
	p := NewPace(time.Minute, 1, 1024)
	key := func(a string, extra uint64) uint64 { return p.AddrKey(netip.MustParseAddr(a), extra) }
	f := func(a, b string, same bool) {
		t.Helper()
		if (key(a, 0) == key(b, 0)) != same {
			t.Errorf("%s and %s", a, b)
		}
	}
	f("203.0.113.7", "203.0.113.7", true)
	f("203.0.113.7", "::ffff:203.0.113.7", true)
	f("203.0.113.7", "203.0.113.8", false)
	f("2001:db8::1", "2001:db8::2:3", true)
	f("2001:db8::1", "2001:db8:0:1::1", false)
	if key("203.0.113.7", 1) == key("203.0.113.7", 2) {
		t.Error("two browsers are one")
	}
}

func TestPaceAgainstModel(t *testing.T) {
	p := NewPace(10*time.Second, 3, 1024)
	at, k := start, uint64(99)
	var times []time.Time
	for i := range 500 {
		at = at.Add(time.Duration(i*7919%9000) * time.Millisecond)
		wait := p.Peek(k, at)
		if got := p.Take(k, at); got != wait {
			t.Fatalf("peek says %v, take %v", wait, got)
		}
		if wait == 0 {
			times = append(times, at)
		}
		// Any window of n steps holds at most n+3.
		for j := range times {
			if n := int(at.Sub(times[j])/(10*time.Second)) + 3; len(times)-j > n+1 {
				t.Fatalf("%d within %v", len(times)-j, at.Sub(times[j]))
			}
		}
		if wait > 0 && p.Peek(k, at.Add(wait)) > 0 {
			t.Fatal("the wait is too short")
		}
	}
	if len(times) < 100 {
		t.Fatalf("only %d allowed", len(times))
	}
}
