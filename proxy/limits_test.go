package proxy

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/verdict"
)

func visitorAt(addr string) (identity.Subject, netip.Addr) {
	a := netip.MustParseAddr(addr)
	return identity.AddrSubject(a), a
}

// TestInFlight: whoever has as many requests under way as it may waits until one has been judged, and no longer than
// for a while; others go on.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewInFlight(false)
		who, addr := visitorAt("203.0.113.7")
		var taken [inFlightOfVisitor][2]uint16
		for i := range taken {
			if !slots.take(&taken[i], who, addr) {
				t.Fatalf("slot %d has to be waited for", i)
			}
		}
		var one, other [2]uint16
		if slots.take(&one, who, addr) {
			t.Fatal("there are more turns than there may be")
		}
		if who, addr := visitorAt("198.51.100.7"); !slots.take(&other, who, addr) {
			t.Error("another visitor waits")
		}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		begin := time.Now()
		for i := range 3 {
			all.Go(func() {
				var slot [2]uint16
				slots.wait(&slot, who, addr)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if slot[0] != taken[0][0] || slot[1] != taken[0][1] {
					t.Errorf("slot %v, not that of the visitor", slot)
				}
			})
			synctest.Wait()
		}
		for i := range 2 {
			slots.Judged(&verdict.Event{Turn: taken[i]})
			synctest.Wait()
		}
		mu.Lock()
		if len(order) != 2 || order[0] != 0 || order[1] != 1 || time.Since(begin) != 0 {
			t.Errorf("went on: %v after %v", order, time.Since(begin))
		}
		mu.Unlock()
		all.Wait()
		if took := time.Since(begin); took != 3*slotDrip {
			t.Errorf("the last one waited for %v", took)
		}
		begin = time.Now()
		for range 2 * slotWait / slotDrip {
			all.Go(func() { slots.wait(new([2]uint16), who, addr) })
		}
		all.Wait()
		if took := time.Since(begin); took != slotWait {
			t.Errorf("of many who wait the last one did for %v", took)
		}
		for range inFlightOfVisitor + 1 + 2*slotWait/slotDrip {
			slots.end(taken[0])
		}
		slots.end(other)
		for i := range slots.visitors {
			if n, of := slots.visitors[i].n.Load(), slots.networks[i].n.Load(); n != 0 || of != 0 {
				t.Fatalf("%d and %d turns are left", n, of)
			}
		}
	})
}

// TestInFlightOfANetwork: newcomers of a network have turns in common; whoever has a cookie does not need them.
func TestInFlightOfANetwork(t *testing.T) {
	slots := NewInFlight(false)
	for i := range inFlightOfNetwork {
		who, addr := visitorAt(netip.AddrFrom4([4]byte{203, 0, 113, byte(i % 250)}).String())
		if !slots.take(new([2]uint16), who, addr) {
			t.Fatalf("slot %d of the network has to be waited for", i)
		}
	}
	who, addr := visitorAt("203.0.113.251")
	if slots.take(new([2]uint16), who, addr) {
		t.Error("the network has no end of turns")
	}
	var slot [2]uint16
	if known := (identity.Subject{Kind: identity.KindI, ID: [16]byte{1}}); !slots.take(&slot, known, addr) ||
		slot[1] != 0 {
		t.Errorf("who is known takes %v", slot)
	}
}

func BenchmarkInFlight(b *testing.B) {
	slots := NewInFlight(false)
	who, addr := visitorAt("203.0.113.7")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var slot [2]uint16
			if slots.take(&slot, who, addr) {
				slots.end(slot)
			}
		}
	})
}

// TestInFlightAtOnce: turns are neither lost nor made by many who take and end them at once.
func TestInFlightAtOnce(t *testing.T) {
	slots := NewInFlight(false)
	who, addr := visitorAt("203.0.113.7")
	var under, most atomic.Int64
	var all sync.WaitGroup
	for range 400 {
		all.Go(func() {
			for range 20 {
				var slot [2]uint16
				if !slots.take(&slot, who, addr) {
					slots.wait(&slot, who, addr)
				}
				n := under.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				under.Add(-1)
				slots.end(slot)
			}
		})
	}
	all.Wait()
	if most.Load() > inFlightOfVisitor {
		t.Errorf("%d at once", most.Load())
	}
	for i := range slots.visitors {
		if slots.visitors[i].n.Load() != 0 || slots.networks[i].n.Load() != 0 || slots.visitors[i].queued.Load() != 0 {
			t.Fatal("turns are left")
		}
	}
	if raceEnabled {
		return
	}
	var slot [2]uint16
	if n := testing.AllocsPerRun(100, func() { slots.take(&slot, who, addr); slots.end(slot) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestProgramsAreLimited: a program that asks more often than programs may is told to wait, and neither a browser nor a
// neighbour is.
func TestProgramsAreLimited(t *testing.T) {
	e := newCheckEnv(t, func(c *CheckConfig) { c.Style = styleFull })
	e.check.core.programs.clients = bounded.NewRate(1<<40, 3, 16)
	ask := func(addr, agent string) *http.Response {
		return e.send("POST /hook HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: " + addr +
			"\r\nX-Forwarded-Proto: http\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n" +
			"Content-Length: 0\r\nUser-Agent: " + agent + "\r\n\r\n")
	}
	const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
		"Safari/537.36"
	for range 3 {
		if res := ask("203.0.113.5", "Stripe/1.0"); res.StatusCode != 200 {
			t.Fatalf("%d within the limit", res.StatusCode)
		}
	}
	res := ask("203.0.113.5", "Stripe/1.0")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") ||
		res.Header.Get("X-Antirobot-Verdict") != "blocked" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := ask("203.0.113.5", browser); res.StatusCode != 200 {
		t.Errorf("a browser there: %d", res.StatusCode)
	}
	if res := ask("203.0.113.6", "Stripe/1.0"); res.StatusCode != 200 {
		t.Errorf("a neighbour: %d", res.StatusCode)
	}
}
