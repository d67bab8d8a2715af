package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

func visitorAt(addr string) (identity.Subject, netip.Addr) {
	a := netip.MustParseAddr(addr)
	return identity.AddrSubject(a), a
}

// TestTurns: whoever has as many requests under way as it may waits until one has been judged, and no longer than for a
// while; others go on.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(false)
		who, addr := visitorAt("203.0.113.7")
		var taken [turnsOfVisitor][2]uint16
		for i := range taken {
			if !turns.take(&taken[i], who, addr) {
				t.Fatalf("turn %d has to be waited for", i)
			}
		}
		var one, other [2]uint16
		if turns.take(&one, who, addr) {
			t.Fatal("there are more turns than there may be")
		}
		if who, addr := visitorAt("198.51.100.7"); !turns.take(&other, who, addr) {
			t.Error("another visitor waits")
		}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		begin := time.Now()
		for i := range 3 {
			all.Go(func() {
				var turn [2]uint16
				turns.wait(&turn, who, addr)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if turn[0] != taken[0][0] || turn[1] != taken[0][1] {
					t.Errorf("turn %v, not that of the visitor", turn)
				}
			})
			synctest.Wait()
		}
		for i := range 2 {
			turns.Judged(&verdict.Event{Turn: taken[i]})
			synctest.Wait()
		}
		mu.Lock()
		if len(order) != 2 || order[0] != 0 || order[1] != 1 || time.Since(begin) != 0 {
			t.Errorf("went on: %v after %v", order, time.Since(begin))
		}
		mu.Unlock()
		all.Wait()
		if took := time.Since(begin); took != 3*turnDrip {
			t.Errorf("the last one waited for %v", took)
		}
		begin = time.Now()
		for range 2 * turnWait / turnDrip {
			all.Go(func() { turns.wait(new([2]uint16), who, addr) })
		}
		all.Wait()
		if took := time.Since(begin); took != turnWait {
			t.Errorf("of many who wait the last one did for %v", took)
		}
		for range turnsOfVisitor + 1 + 2*turnWait/turnDrip {
			turns.end(taken[0])
		}
		turns.end(other)
		for i := range turns.visitors {
			if n, of := turns.visitors[i].n.Load(), turns.networks[i].n.Load(); n != 0 || of != 0 {
				t.Fatalf("%d and %d turns are left", n, of)
			}
		}
	})
}

// TestTurnsOfANetwork: newcomers of a network have turns in common; whoever has a cookie does not need them.
func TestTurnsOfANetwork(t *testing.T) {
	turns := NewTurns(false)
	for i := range turnsOfNetwork {
		who, addr := visitorAt(netip.AddrFrom4([4]byte{203, 0, 113, byte(i % 250)}).String())
		if !turns.take(new([2]uint16), who, addr) {
			t.Fatalf("turn %d of the network has to be waited for", i)
		}
	}
	who, addr := visitorAt("203.0.113.251")
	if turns.take(new([2]uint16), who, addr) {
		t.Error("the network has no end of turns")
	}
	var turn [2]uint16
	if known := (identity.Subject{Kind: identity.KindI, ID: [16]byte{1}}); !turns.take(&turn, known, addr) ||
		turn[1] != 0 {
		t.Errorf("who is known takes %v", turn)
	}
}

func BenchmarkTurns(b *testing.B) {
	turns := NewTurns(false)
	who, addr := visitorAt("203.0.113.7")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var turn [2]uint16
			if turns.take(&turn, who, addr) {
				turns.end(turn)
			}
		}
	})
}

// TestTurnsAtOnce: turns are neither lost nor made by many who take and end them at once.
func TestTurnsAtOnce(t *testing.T) {
	turns := NewTurns(false)
	who, addr := visitorAt("203.0.113.7")
	var under, most atomic.Int64
	var all sync.WaitGroup
	for range 400 {
		all.Go(func() {
			for range 20 {
				var turn [2]uint16
				if !turns.take(&turn, who, addr) {
					turns.wait(&turn, who, addr)
				}
				n := under.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				under.Add(-1)
				turns.end(turn)
			}
		})
	}
	all.Wait()
	if most.Load() > turnsOfVisitor {
		t.Errorf("%d at once", most.Load())
	}
	for i := range turns.visitors {
		if turns.visitors[i].n.Load() != 0 || turns.networks[i].n.Load() != 0 || turns.visitors[i].queued.Load() != 0 {
			t.Fatal("turns are left")
		}
	}
	if raceEnabled {
		return
	}
	var turn [2]uint16
	if n := testing.AllocsPerRun(100, func() { turns.take(&turn, who, addr); turns.end(turn) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
