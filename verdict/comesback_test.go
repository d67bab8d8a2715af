package verdict

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

// TestWhoComesBackIsAsked: the client that is named, and nobody else, whoever is behind its address; not with our cookie, nor where people
// were met, nor on a path where nobody is to be asked; until it is taken back or over.
func TestWhoComesBackIsAsked(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	f := func(name, addr, agent string, want Verdict, edit func(*identity.Identity), s *Settings) (e Event) {
		t.Helper()
		v, id := newcomerFrom(addr, agent, w.now())
		if edit != nil {
			edit(id)
		}
		var d Decision
		w.Decide(&d, v, id, s)
		if d.Verdict != want || (d.Cause == CauseCampaign) != (want == Unsure) || want == Unsure && d.Campaign.Robots != 12 {
			t.Errorf("%s: %v for %v", name, d.Verdict, d.Cause)
		}
		d.Event(&e, v, id, s)
		return e
	}
	e := f("the first page", "192.0.2.9", agentFirefox, Human, nil, s)
	x := Campaign{Mark: 9, Client: e.Client, Until: w.now().Add(10 * time.Minute), Share: 1, Robots: 12}
	w.AskArrivals(&x)
	f("the next one", "192.0.2.9", agentFirefox, Unsure, nil, s)
	f("another browser there", "192.0.2.9", agentChrome, Human, nil, s)
	f("the same browser elsewhere", "192.0.2.10", agentFirefox, Human, nil, s)
	f("with our cookie", "192.0.2.9", agentFirefox, Human, func(id *identity.Identity) { id.IBirth = 1 }, s)
	f("nobody is to be asked", "192.0.2.9", agentFirefox, Human, nil, service(t, func(c *ServiceConfig) { c.Campaign = "nothing" }))
	w.AskArrivals(&Campaign{Mark: 9, Client: e.Client})
	f("taken back", "192.0.2.9", agentFirefox, Human, nil, s)
	w.AskArrivals(&x)
	w.clock.advance(11 * time.Minute)
	f("over", "192.0.2.9", agentFirefox, Human, nil, s)
	x.Until = w.now().Add(3 * time.Hour)
	w.AskArrivals(&x)
	w.Meet(e.Subjects[e.N-1].ID, w.now())
	w.clock.advance(2 * time.Hour)
	f("people were met there", "192.0.2.9", agentFirefox, Human, nil, s)
}

// TestWhoComesBackIsBounded: a full table takes no more.
func TestWhoComesBackIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range uint32(maxBack + 9) {
		w.AskArrivals(&Campaign{Client: 1 + i, Until: w.now().Add(time.Hour), Share: 1})
	}
	if n := w.back.n.Load(); n != maxBack {
		t.Errorf("%d are asked", n)
	}
}

// TestWhoComesBackReachesGateways: whom a processor has found, and that it is over, is known to gateways; what is cut short is refused.
func TestWhoComesBackReachesGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		p := newWorldOver(t, st, nil, part(PartProcessor)).start()
		g := newWorldOver(t, st, nil, part(PartGateway)).start()
		x := Campaign{Mark: 9, Like: LikeManner, Client: 77, Until: time.Now().Add(time.Hour).Truncate(time.Millisecond), Share: 1, Robots: 20, People: 1, Bare: 7}
		p.AskArrivals(&x)
		p.AskArrivals(&Campaign{Client: 78, Until: time.Now().Add(time.Hour), Share: 1})
		p.AskArrivals(&Campaign{Client: 78})
		time.Sleep(time.Second)
		synctest.Wait()
		heard, _, _ := g.back.find(77, time.Now().UnixNano())
		if until := heard.Until; !until.Equal(x.Until) || g.back.n.Load() != 1 {
			t.Errorf("the gateway has %+v", heard)
		}
		if heard.Until = x.Until; heard != x {
			t.Errorf("the gateway has %+v, not %+v", heard, x)
		}
		body := g.appendCampaign([]byte{0, 0, 0, 0}, &x)
		for n := range body {
			if g.heardBack(body[:n]) {
				t.Errorf("%d bytes are taken", n)
			}
		}
		if g.heardBack(body) {
			t.Error("it names no client")
		}
		closeAll(t, g, p)
	})
}
