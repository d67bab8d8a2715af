package outcomes

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
	"antirobot/store"
)

// TestMachinesAreKnownBySum: solvers who divide their answers among gateways, too few at each, are known at each by
// what all have counted, also at one that starts later; what each reports is its own, so that the sum of all is right;
// after two hours nothing is left.
func TestMachinesAreKnownBySum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := together{store.NewMemory(time.Now)}
		start := func() (*Tally, func()) {
			y := New(time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				y.Share(ctx, st, time.Now, func() { t.Error("the store fails") })
				close(done)
			}()
			synctest.Wait()
			return y, func() { stop(); <-done }
		}
		const least = 10
		challenges := func(y *Tally) Challenges { return y.Challenges(time.Now(), least) }
		neighbours := Campaign(identity.NetOf(netip.MustParseAddr("198.51.100.9")), 7)
		one, stopOne := start()
		two, stopTwo := start()
		solve := func(y *Tally, n int) {
			w := Who{Way: "page", Net: identity.NetOf(netip.MustParseAddr("198.51.100.7")), Agent: 7, Shape: 1}
			for range n {
				y.Count(time.Now(), &w, Count{Tried: 1, Solved: 1, Quick: 1})
			}
		}
		solve(one, 6)
		if got := challenges(one); len(got.MachinesSolve)+len(got.Campaigns) > 0 {
			t.Fatalf("six answers are machines: %+v", got)
		}
		solve(two, 6)
		time.Sleep(2 * tellEvery)
		synctest.Wait()
		three, stopThree := start()
		solve(three, 1)
		time.Sleep(2 * tellEvery)
		synctest.Wait()
		var all []Challenges
		for name, y := range map[string]*Tally{"one": one, "two": two, "one that starts later": three} {
			got := challenges(y)
			if fmt.Sprint(got.MachinesSolve) != "[198.51.100.0/24]" || len(got.Campaigns) != 2 ||
				!y.Machines(neighbours, least, time.Now()) {
				t.Errorf("%s: %v, %+v", name, got.MachinesSolve, got.Campaigns)
			}
			all = append(all, got)
		}
		if sum := Sum(all); sum.Total.Solved != 13 || len(sum.Campaigns) != 2 || sum.Campaigns[0].Solved != 13 ||
			len(sum.MachinesSolve) != 1 {
			t.Errorf("the sum: %+v", sum)
		}
		time.Sleep(3 * time.Hour)
		if got := challenges(one); one.Machines(neighbours, least, time.Now()) || len(got.MachinesSolve) > 0 {
			t.Errorf("three hours later: %+v", got)
		}
		stopThree()
		stopTwo()
		stopOne()
	})
}

// FuzzHeardAnswers: whatever stands in the feed, names and counts stay within their bounds.
func FuzzHeardAnswers(f *testing.F) {
	node := spravka.NewID()
	at := time.Unix(1.8e9, 0)
	head := append(node[:], 0, 0, 1, 0xa3, 0x1b, 0xb4, 0x90, 0)
	f.Add(appendAnswers(head, Name{ofNetwork, "198.51.100.0/24"}, &Count{Tried: 5, Solved: 4, Quick: 3}))
	f.Add([]byte(strings.Repeat("x", 40)))
	f.Fuzz(func(t *testing.T, msg []byte) {
		y := New(time.Hour)
		y.heard(msg, [16]byte{}, at)
		for i := range y.others {
			for of, rows := range y.others[i] {
				for name, n := range rows {
					if !kind(of).judged() || name == "" || len(name) > maxTallyName || n.Quick > n.Solved ||
						n.Solved > n.Tried || n.Quick < 0 {
						t.Errorf("kind %d, %q: %+v", of, name, n)
					}
				}
			}
		}
	})
}

// together is a store that several gateways use.
type together struct{ *store.Memory }

func (together) Shared() bool { return true }
