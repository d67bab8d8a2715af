package verdict

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
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
		question := Question{Prefix: of[1], Until: at.Add(time.Hour), All: true, Read: 99, Most: 50, Window: "1h", Reason: "formula: awake"}
		doubt := Doubt{Subject: home, Group: 7, Until: at.Add(time.Hour), Score: 0.25, Factors: [bans.MaxFactors]bans.Factor{{Name: "pages", Value: 3, Amount: 0.5}}}
		p.Ask(&question)
		p.Doubt(&doubt)
		p.Doubt(&Doubt{Subject: sub(identity.KindI, 2), Group: 7, Until: at.Add(time.Hour), Score: 0.3})
		p.Doubt(&Doubt{Subject: sub(identity.KindI, 2), Group: 7})
		visitor := sub(identity.KindI, 3)
		p.standing.Observe(visitor, home.ID, at.Add(-24*time.Hour))
		p.standing.Observe(visitor, home.ID, at)
		for _, share := range []float64{0.5, 0.75} {
			p.Barely(of[1], share, at)
		}
		gone := identity.Prefix{ID: ip("198.51.100.7").ID, Bits: 128, Group: groupOf("shop")}
		p.Barely(gone, 1, at)
		p.Barely(gone, 0, at)
		p.Near(of[0], at.Add(time.Hour))
		p.Portion(groupOf("shop"), 45, at)
		p.ListBare(7, at.Add(time.Hour))
		p.ListBare(8, at.Add(time.Hour))
		p.ListBare(8, at)
		p.Beat(3 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		late := newWorldOver(t, st, nil, part(PartGateway)).start()
		time.Sleep(time.Second)
		synctest.Wait()
		for name, w := range map[string]*world{"a gateway": g, "one that starts later": late} {
			var q Question
			if !w.questions.find(&q, ip("192.0.2.9").ID, groupOf("shop"), at.UnixNano(), func(bool, bool) bool { return false }, func(only uint32) bool { return only == 1 }) || q.Read != 99 || q.Window != "1h" || q.Reason != "formula: awake" || !q.All {
				t.Errorf("%s has the question %+v", name, q)
			}
			var d Doubt
			if !w.doubts.find(&d, home, 7, at.UnixNano()) || d.Score != doubt.Score || d.Factors != doubt.Factors {
				t.Errorf("%s has the doubt %+v", name, d)
			}
			if w.doubts.find(&d, sub(identity.KindI, 2), 7, at.UnixNano()) {
				t.Errorf("%s has a doubt that was taken back", name)
			}
			if !w.standing.Established(visitor) || w.EstablishedAt(home.ID) != 1 {
				t.Errorf("%s does not know who is established", name)
			}
			for addr, want := range map[string]float64{"192.0.2.9": 0.75, "192.0.3.9": 0, "198.51.100.7": 0} {
				if got := w.Bareness("shop", netip.MustParseAddr(addr)); got != want || w.Bareness("other", netip.MustParseAddr(addr)) != 0 {
					t.Errorf("%s believes that %s reads barely: %v, want %v", name, addr, got, want)
				}
			}
			for addr, want := range map[string]bool{"192.0.2.7": true, "192.0.2.9": false} {
				id := identity.Identity{N: 1, Subjects: [identity.MaxSubjects]identity.Subject{ip(addr)}}
				if got := w.IsNear(&id, &Settings{Group: groupOf("shop")}, at); got != want {
					t.Errorf("%s believes that %s is near its budget: %v", name, addr, got)
				}
			}
			if n := w.dailyOf(groupOf("shop"), at); n != 45 {
				t.Errorf("%s lets spent passes stand in for %d documents", name, n)
			}
			for client, want := range map[uint32]bool{7: true, 8: false} {
				if _, _, got := w.bareClients.Find(client, at.UnixNano()); got != want {
					t.Errorf("%s has listed client %d: %v", name, client, got)
				}
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
	w.Ask(&Question{Until: w.clock.now().Add(time.Hour)})
	w.Doubt(&Doubt{Subject: ip("192.0.2.1"), Until: w.clock.now().Add(time.Hour)})
	w.Barely(identity.Prefix{}, 1, w.clock.now())
	w.Portion(7, 45, w.clock.now())
	w.Beat(0)
	if pos, err := w.st.Position(ctx, conclusionTopic); err != nil || pos != "@0" {
		t.Errorf("the topic is at %s, %v", pos, err)
	}
}

func FuzzConclusions(f *testing.F) {
	c := newClock()
	w := newWorldOver(f, newStore(true, c.now), c, part(PartProcessor))
	w.Ask(&Question{Prefix: identity.Prefix{Bits: 120}, Until: c.now().Add(time.Hour), Window: "1h"})
	w.Doubt(&Doubt{Subject: ip("192.0.2.1"), Until: c.now().Add(time.Hour), Factors: [bans.MaxFactors]bans.Factor{{Name: "pages", Value: 3, Amount: 0.5}}})
	w.standing.Observe(sub(identity.KindI, 3), ip("192.0.2.1").ID, c.now())
	w.Barely(identity.Prefix{Bits: 120}, 0.5, c.now())
	w.Near(identity.Prefix{Bits: 128}, c.now().Add(time.Hour))
	w.Portion(7, 45, c.now())
	w.Beat(time.Second)
	f.Add(w.said.more(nil))
	f.Add([]byte("x\x01y"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		g := newWorldOver(t, newStore(true, c.now), c, part(PartGateway))
		_ = g.heardConclusions(msg)
		g.questions.Drop(func(p identity.Prefix) bool {
			if p.Bits > 128 {
				t.Errorf("a question about %+v", p)
			}
			return false
		})
	})
}
