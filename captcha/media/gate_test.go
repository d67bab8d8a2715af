package media

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 2, queue: 3, wait: time.Second}
		var entered, refused atomic.Int32
		for range 10 {
			go func() {
				if !g.enter(Picture, 7) {
					refused.Add(1)
					return
				}
				entered.Add(1)
				time.Sleep(600 * time.Millisecond)
				g.leave()
			}()
		}
		synctest.Wait()
		if entered.Load() != 2 || refused.Load() != 5 {
			t.Errorf("at once: %d entered, %d refused", entered.Load(), refused.Load())
		}
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		if entered.Load() != 4 {
			t.Errorf("then %d", entered.Load())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l := &g.lines[Picture]
		if entered.Load() != 4 || refused.Load() != 6 || len(l.waiters) != 0 || g.free != 2 {
			t.Errorf("in the end %d entered, %d refused, %d wait, %d free", entered.Load(), refused.Load(),
				len(l.waiters), g.free)
		}
	})
}

// TestGateNetworksTakeTurns: a network that floods delays another by only one turn, and its newest waiters make room
// for those of other networks.
func TestGateNetworksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1, queue: 20, wait: time.Minute}
		const render = 10 * time.Millisecond
		var flood, refused atomic.Int32
		for range 100 {
			go func() {
				if !g.enter(Picture, 1) {
					refused.Add(1)
					return
				}
				time.Sleep(render)
				flood.Add(1)
				g.leave()
			}()
		}
		synctest.Wait()
		if refused.Load() != 79 {
			t.Fatalf("%d of the flood were refused at once", refused.Load())
		}
		var people atomic.Int32
		for net := range uint64(5) {
			go func() {
				began := time.Now()
				if !g.enter(Picture, 100+net) {
					t.Error("a person was refused")
					return
				}
				if waited := time.Since(began); waited > 7*render {
					t.Errorf("a person waited %v", waited)
				}
				time.Sleep(render)
				people.Add(1)
				g.leave()
			}()
		}
		time.Sleep(time.Second)
		if people.Load() != 5 || refused.Load() != 84 || flood.Load() != 16 {
			t.Errorf("%d people, %d of the flood, %d refused", people.Load(), flood.Load(), refused.Load())
		}
	})
}

// TestGateMediaTakeTurns: a line of sounds that is full, from ever new networks, delays each picture by one sound.
func TestGateMediaTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1, queue: 100, wait: time.Minute}
		const render = 10 * time.Millisecond
		make := func(m Medium, net uint64) bool {
			if !g.enter(m, net) {
				return false
			}
			time.Sleep(render)
			g.leave()
			return true
		}
		for net := range uint64(120) {
			go make(Sound, net)
		}
		synctest.Wait()
		for net := range uint64(3) {
			began := time.Now()
			if !make(Picture, net) || time.Since(began) > 3*render {
				t.Errorf("a picture took %v", time.Since(began))
			}
		}
		time.Sleep(time.Minute)
	})
}
