package verdict

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
	"antirobot/verdict/quota"
)

func part(p Part) func(*options) { return func(o *options) { o.Part = p } }

// TestConclusionsReachGateways: what a processor concludes holds at a gateway that runs, and at one that starts later.
func TestConclusionsReachGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		p := newWorldOver(t, st, nil, part(PartProcessor)).start()
		g := newWorldOver(t, st, nil, part(PartGateway)).start()
		at := time.Now()
		home := ip("192.0.2.7")
		var of [4]identity.Prefix
		identity.Prefixes(&of, home.ID, groupOf("shop"))
		v, id := newRequest(at, "192.0.2.7")
		group, client := groupOf("shop"), clientOf(id, v)
		over := Excess{Client: client, Excess: quota.Excess{Scope: quota.ScopeClient, Prefix: identity.HouseholdOf(home.ID, group), Until: at.Add(time.Hour), Read: 99, Most: 50, Window: "1h", Bare: true}}
		around := Excess{Excess: quota.Excess{Scope: quota.ScopeNetwork, Prefix: of[1], New: true, Until: at.Add(time.Hour), Read: 900, Most: 800, Window: "24h"}}
		doubt := Doubt{Subject: home, Group: 7, Until: at.Add(time.Hour), Score: 0.25, Factors: [bans.MaxFactors]bans.Factor{{Name: "pages", Value: 3, Amount: 0.5}}}
		p.Exceeds(&over)
		p.Exceeds(&around)
		p.KnowReader(7, group, false, true, at.Add(time.Hour))
		p.KnowReader(8, group, true, false, at.Add(time.Hour))
		p.Doubt(&doubt)
		p.Doubt(&Doubt{Subject: sub(identity.KindI, 2), Group: 7, Until: at.Add(time.Hour), Score: 0.3})
		p.Doubt(&Doubt{Subject: sub(identity.KindI, 2), Group: 7})
		visitor := sub(identity.KindI, 3)
		p.grades.Observe(visitor, home.ID, at.Add(-24*time.Hour), false)
		p.grades.Observe(visitor, home.ID, at, false)
		p.Beat(3 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		late := newWorldOver(t, st, nil, part(PartGateway)).start()
		time.Sleep(time.Second)
		synctest.Wait()
		for name, w := range map[string]*world{"a gateway": g, "one that starts later": late} {
			if x, _, ok := w.clients.Find(readerKey{client, group}, at.UnixNano()); !ok || x.Read != 99 || x.Window != "1h" || !x.Bare || x.Scope != quota.ScopeClient {
				t.Errorf("%s has %+v of the client", name, x)
			}
			if x, _, ok := w.networks.Find(of[1], at.UnixNano()); !ok || x.Most != 800 || !x.New || x.Scope != quota.ScopeNetwork {
				t.Errorf("%s has %+v of the network", name, x)
			}
			near, _, _ := w.readers.Find(readerKey{7, group}, at.UnixNano())
			recorded, _, _ := w.readers.Find(readerKey{8, group}, at.UnixNano())
			if !near.near || near.record || !recorded.record {
				t.Errorf("%s knows %+v and %+v", name, near, recorded)
			}
			var d Doubt
			if !w.hasDoubt(&d, home, 7, at.UnixNano()) || d.Score != doubt.Score || d.Factors != doubt.Factors {
				t.Errorf("%s has the doubt %+v", name, d)
			}
			if w.hasDoubt(&d, sub(identity.KindI, 2), 7, at.UnixNano()) {
				t.Errorf("%s has a doubt that was taken back", name)
			}
			if !isKnown(w, visitor) || w.KnownAt(home.ID) != 1 {
				t.Errorf("%s does not know who is established", name)
			}
			if heard, age := w.Heard(); at.Sub(heard).Abs() > time.Second || age != 3*time.Second {
				t.Errorf("%s has heard of a processor at %v, age %v", name, heard, age)
			}
		}
		closeAll(t, late, g, p)
	})
}

// TestOneProcessTellsNobody: without roles, nothing is written for others.
func TestOneProcessTellsNobody(t *testing.T) {
	w := newWorld(t)
	w.Exceeds(&Excess{Client: 1, Excess: quota.Excess{Until: w.clock.now().Add(time.Hour)}})
	w.KnowReader(1, 1, true, true, w.clock.now().Add(time.Hour))
	w.Doubt(&Doubt{Subject: ip("192.0.2.1"), Until: w.clock.now().Add(time.Hour)})
	w.Beat(0)
	if pos, err := w.st.Position(ctx, decisionTopic); err != nil || pos != "@0" {
		t.Errorf("the topic is at %s, %v", pos, err)
	}
}

func FuzzConclusions(f *testing.F) {
	c := newClock()
	w := newWorldOver(f, newStore(true, c.now), c, part(PartProcessor))
	w.Exceeds(&Excess{Excess: quota.Excess{Prefix: identity.Prefix{Bits: 120}, New: true, Until: c.now().Add(time.Hour), Window: "1h"}})
	w.KnowReader(1, 1, true, true, c.now().Add(time.Hour))
	w.Doubt(&Doubt{Subject: ip("192.0.2.1"), Until: c.now().Add(time.Hour), Factors: [bans.MaxFactors]bans.Factor{{Name: "pages", Value: 3, Amount: 0.5}}})
	w.grades.Observe(sub(identity.KindI, 3), ip("192.0.2.1").ID, c.now(), false)
	w.Beat(time.Second)
	f.Add(w.feed.more(nil))
	f.Add([]byte("x\x01y"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		g := newWorldOver(t, newStore(true, c.now), c, part(PartGateway))
		_ = g.apply(msg)
		g.networks.Drop(func(p identity.Prefix) bool {
			if p.Bits > 128 {
				t.Errorf("an excess of %+v", p)
			}
			return false
		})
	})
}
