package bounded

import (
	"net/netip"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestPitfall12RateIsBounded floods the table with keys.
func TestPitfall12RateIsBounded(t *testing.T) {
	p := NewRate(time.Minute, 1, 1024)
	for i := range 200_000 {
		p.Take(uint64(i)*0x9e3779b97f4a7c15, start)
	}
	if n := len(p.sets) * ways; n > 2048 {
		t.Errorf("%d entries", n)
	}
}

func TestCounts(t *testing.T) {
	c := NewCounts[string](time.Minute, 1<<10)
	at := start.Truncate(time.Minute)
	for i := range 7 {
		if got := c.Take("a", at, 5); got != (i < 5) {
			t.Errorf("event %d: %v", i, got)
		}
	}
	if n := c.Count("a", at.Add(59*time.Second)); n != 5 {
		t.Errorf("%d counted, want 5", n)
	}
	if !c.Take("b", at, 5) || !c.Take("a", at.Add(time.Minute), 5) {
		t.Error("another key or window does not begin at zero")
	}
	if c.Take("c", at, 0) {
		t.Error("an event beyond a limit of 0 is allowed")
	}
}

func TestExpiring(t *testing.T) {
	e := NewExpiring[int, string](2)
	for k, v := range []string{"a", "b", "c"} {
		if got := e.Put(k, start.Add(time.Duration(k+1)*time.Minute), v); got != (k < 2) {
			t.Errorf("put %d: %v", k, got)
		}
	}
	if e.Refused() != 1 {
		t.Errorf("%d refused", e.Refused())
	}
	if v, until, ok := e.Find(1, start.UnixNano()); v != "b" || !until.Equal(start.Add(2*time.Minute)) || !ok {
		t.Errorf("found %q until %v: %v", v, until, ok)
	}
	if _, _, ok := e.Find(1, start.Add(2*time.Minute).UnixNano()); ok {
		t.Error("a value holds beyond its time")
	}
	e.Sweep(start.Add(time.Minute).UnixNano())
	if _, _, ok := e.Find(0, start.UnixNano()); ok || e.Len() != 1 {
		t.Errorf("%d left after a sweep", e.Len())
	}
}

func TestRateKeys(t *testing.T) {
	p := NewRate(time.Minute, 1, 1024)
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

func TestRateAgainstModel(t *testing.T) {
	p := NewRate(10*time.Second, 3, 1024)
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
