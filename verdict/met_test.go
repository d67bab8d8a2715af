package verdict

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

// TestPeopleAreMetAtAddresses: an hour after a newcomer has turned out to be a person, and for three days from the last one on.
func TestPeopleAreMetAtAddresses(t *testing.T) {
	m, a, b := new(met), [16]byte{15: 1}, [16]byte{15: 2}
	f := func(after time.Duration, want bool) {
		t.Helper()
		if m.has(a, day0.Add(after)) != want {
			t.Errorf("after %v: not %v", after, want)
		}
	}
	f(0, false)
	if !m.put(a, day0) || m.put(a, day0.Add(time.Hour)) || !m.put(a, day0.Add(40*time.Hour)) {
		t.Error("what is told again is not what changes something")
	}
	f(40*time.Hour+50*time.Minute, true)
	f(111*time.Hour, true)
	f(113*time.Hour, false)
	if m.has(b, day0.Add(41*time.Hour)) || m.forget(b) || !m.forget(a) || m.forget(a) {
		t.Error("another address is known, or this one is not forgotten")
	}
	m.put(a, day0.Add(200*time.Hour))
	f(200*time.Hour+30*time.Minute, false)
	f(201*time.Hour, true)
}

// TestNobodyChoosesWhatIsForgotten: addresses that push one out in one process don't in another.
func TestNobodyChoosesWhatIsForgotten(t *testing.T) {
	a, b := &met{secret: 1}, &met{secret: 2}
	victim, found, also := [16]byte{15: 1}, 0, 0
	for n := range uint64(64 * metPlaces) {
		x := [16]byte{}
		binary.BigEndian.PutUint64(x[:], n+1)
		pa, _ := a.place(x)
		va, _ := a.place(victim)
		pb, _ := b.place(x)
		vb, _ := b.place(victim)
		if pa == va {
			found++
			if pb == vb {
				also++
			}
		}
	}
	if found < 16 || also > 8 {
		t.Errorf("of %d addresses that share a place, %d do so elsewhere", found, also)
	}
}

// TestWherePeopleAreMetNobodyIsAsked: newcomers from an address where others turned out to be people, or are established, are not asked
// for arriving like a campaign, until a robot is found there.
func TestWherePeopleAreMetNobodyIsAsked(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	w.AskArrivals(&Campaign{Mark: markOf(t, w, s, agentFirefox), Until: w.now().Add(99 * time.Hour)})
	f := func(name, addr string, want Verdict) [16]byte {
		t.Helper()
		v, id := newcomerFrom(addr, agentFirefox, w.now())
		var d Decision
		if w.Decide(&d, v, id, s); d.Verdict != want {
			t.Errorf("%s: %v for %v", name, d.Verdict, d.Cause)
		}
		return id.Subjects[0].ID
	}
	met := f("before", "192.0.2.7", Unsure)
	w.Meet(met, w.now())
	f("in the same visit", "192.0.2.7", Unsure)
	w.clock.advance(time.Hour + metUnit)
	f("later", "192.0.2.7", Human)
	f("at another address", "192.0.2.8", Unsure)
	w.Mistrust(met)
	f("beside a robot", "192.0.2.7", Unsure)
	office := f("an office, before", "192.0.2.9", Unsure)
	w.standing.Observe(sub(identity.KindI, 7), office, w.now())
	w.standing.Observe(sub(identity.KindI, 7), office, w.now().Add(24*time.Hour))
	f("an office", "192.0.2.9", Human)
}

// TestGatewaysHearWherePeopleAreMet: and that it is taken back.
func TestGatewaysHearWherePeopleAreMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		p := newWorldOver(t, st, nil, part(PartProcessor)).start()
		g := newWorldOver(t, st, nil, part(PartGateway)).start()
		kept, lost := [16]byte{15: 1}, [16]byte{15: 2}
		p.Meet(lost, time.Now())
		p.Mistrust(lost)
		p.Meet(kept, time.Now()) // last: the two may share a place
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if !g.met.has(kept, time.Now()) || g.met.has(lost, time.Now()) {
			t.Error("the gateway has not heard where people are met, or not that a robot is there")
		}
		closeAll(t, g, p)
	})
}
