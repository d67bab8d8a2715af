package verdict

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// newcomerFrom is a browser that opens a page from outside and brings nothing.
func newcomerFrom(addr, agent string, at time.Time) (*request.View, *identity.Identity) {
	v, id := newRequest(at, addr)
	v.Method, v.Path = []byte("GET"), []byte("/item/7")
	v.Fields = []request.Field{{Name: []byte("User-Agent"), Value: []byte(agent)}, {Name: []byte("Accept"), Value: []byte("text/html")}}
	return v, id
}

const (
	agentFirefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
	agentChrome  = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)

// markOf is how a newcomer arrives at a service.
func markOf(t *testing.T, w *world, s *Settings, agent string) uint64 {
	t.Helper()
	v, id := newcomerFrom("192.0.2.1", agent, w.now())
	var d Decision
	var e Event
	w.Decide(&d, v, id, s)
	d.Event(&e, v, id, s)
	mark, ok := e.Arrival(s.Group)
	if !ok {
		t.Fatal("it is no arrival")
	}
	return mark
}

// TestNewcomersOfACampaignAreAsked: with their first page, and nobody else: neither who brings our cookie, nor who arrives in another
// way, nor on a path where nobody is to be asked; a pass pays; it ends by itself, or when it is over.
func TestNewcomersOfACampaignAreAsked(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	x := Campaign{Mark: markOf(t, w, s, agentFirefox), Until: w.now().Add(10 * time.Minute), Robots: 12, People: 1}
	f := func(name, agent string, want Verdict, edit func(*identity.Identity), s *Settings) *Decision {
		t.Helper()
		v, id := newcomerFrom("192.0.2.9", agent, w.now())
		if edit != nil {
			edit(id)
		}
		d := new(Decision)
		w.Decide(d, v, id, s)
		if d.Verdict != want || (d.Cause == CauseCampaign) != (want == Unsure || d.Paid) || want == Unsure && d.Step != StepCheck {
			t.Errorf("%s: %v for %v", name, d.Verdict, d.Cause)
		}
		return d
	}
	f("before", agentFirefox, Human, nil, s)
	w.AskArrivals(&x)
	d := f("a newcomer", agentFirefox, Unsure, nil, s)
	if c := d.Campaign.story(); c == nil || c.Robots != 12 || c.People != 1 {
		t.Errorf("the story is %+v", c)
	}
	f("another browser", agentChrome, Human, nil, s)
	f("our cookie", agentFirefox, Human, func(id *identity.Identity) { id.IBirth = 1 }, s)
	f("a known browser", agentFirefox, Human, func(id *identity.Identity) {
		id.Subjects[0], id.Subjects[1], id.N = sub(identity.KindI, 1), id.Subjects[0], 2
	}, s)
	f("a pass alone, which is spent", agentFirefox, Unsure, func(id *identity.Identity) {
		id.Subjects[0], id.Subjects[1], id.N = sub(identity.KindSpravka, 1), id.Subjects[0], 2
	}, s)
	f("nobody is to be asked", agentFirefox, Human, nil, service(t, func(c *ServiceConfig) { c.Campaign = "nothing" }))
	x.Until = time.Time{}
	w.AskArrivals(&x)
	f("taken back", agentFirefox, Human, nil, s)
	if n := w.campaigns.Len(); n != 0 {
		t.Errorf("%d campaigns are left", n)
	}
}

// TestCampaignsReachGateways: what a processor has found, and that it is over, is known to gateways.
func TestCampaignsReachGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		p := newWorldOver(t, st, nil, part(PartProcessor)).start()
		g := newWorldOver(t, st, nil, part(PartGateway)).start()
		x := Campaign{Mark: 9, Until: time.Now().Add(time.Hour), Robots: 20, People: 1}
		p.AskArrivals(&x)
		p.AskArrivals(&Campaign{Mark: 10, Until: time.Now().Add(time.Hour)})
		p.AskArrivals(&Campaign{Mark: 10})
		time.Sleep(time.Second)
		synctest.Wait()
		heard, _, _ := g.campaigns.Find(9, time.Now().UnixNano())
		if !heard.Until.Equal(x.Until) || g.campaigns.Len() != 1 {
			t.Errorf("the gateway has %+v", heard)
		}
		if heard.Until = x.Until; heard != x {
			t.Errorf("the gateway has %+v, not %+v", heard, x)
		}
		closeAll(t, g, p)
	})
}

// BenchmarkNewcomer is a newcomer's page while there is a campaign of others: the decision and the event.
func BenchmarkNewcomer(b *testing.B) {
	w := newWorld(b)
	s := service(b)
	for i := range uint64(16) {
		w.AskArrivals(&Campaign{Mark: i + 1, Until: w.now().Add(time.Hour)})
	}
	v, id := newcomerFrom("192.0.2.7", agentFirefox, w.now())
	var d Decision
	var e Event
	b.ReportAllocs()
	for range b.N {
		w.Decide(&d, v, id, s)
		d.Event(&e, v, id, s)
	}
}
