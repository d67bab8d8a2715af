package verdict

import (
	"fmt"
	"testing"

	"antirobot/identity"
)

// TestPreflightsOfTheStopped: beside a balancer so many preflights of an address go on in a day, and of a network so many more; what is
// asked again costs nothing, nor does a second look at the same preflight.
func TestPreflightsOfTheStopped(t *testing.T) {
	w := newWorld(t)
	f := func(addr string, n int, count bool) bool {
		t.Helper()
		v, id := newRequest(w.now(), addr)
		v.Method, v.Path = []byte("OPTIONS"), fmt.Appendf(nil, "/item/%d", n)
		v.Target = v.Path
		return w.Preflight(v, id, count)
	}
	passed := func(addr string, from, to int) (n int) {
		t.Helper()
		for i := from; i < to; i++ {
			first := f(addr, i, false)
			if second := f(addr, i, true); second != first {
				t.Fatalf("%s %d: looked at %v, counted %v", addr, i, first, second)
			} else if second {
				n++
			}
		}
		return n
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d went on, wanted %d", what, got, want)
		}
	}
	about := func(what string, got, most int) { // addresses may share a place with their network, by a secret
		t.Helper()
		if got > most || got < most-5 {
			t.Errorf("%s: %d went on, wanted %d", what, got, most)
		}
	}
	want("an address", passed("192.0.2.1", 0, 100), 20)
	want("the same page again", passed("192.0.2.1", 0, 20), 20)
	got := 0
	for n := 2; n < 100; n++ {
		got += passed(fmt.Sprintf("192.0.2.%d", n), 0, 30)
	}
	about("a /24, without that address", got, 8*20-20)
	got = 0
	for n := range 1000 {
		got += passed(fmt.Sprintf("2001:db8:%x:%x::1", n>>8, n&0xff), 0, 1)
	}
	about("a /32", got, 8*20)
	w.clock.advance(oneDay)
	want("the next day", passed("192.0.2.1", 0, 100), 20)
	for i := range 2 {
		w.Observe(page(w.now(), "198.51.100.1", sub(identity.KindI, i+1)))
		w.Observe(page(w.now().Add(oneDay), "198.51.100.1", sub(identity.KindI, i+1)))
	}
	want("an office", passed("198.51.100.1", 0, 100), 3*20)
	v, id := newRequest(w.now(), "192.0.2.1")
	if n := testing.AllocsPerRun(100, func() { w.Preflight(v, id, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
