package verdict

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
)

// TestBanOfOneClient: a ban on one client of an address does not stop its neighbours, also after a restart; another ban on
// the address does, however soon it ends.
func TestBanOfOneClient(t *testing.T) {
	const addr = "192.0.2.1"
	s := service(t)
	w := newWorld(t)
	v, id := newRequest(w.now(), addr)
	me := clientOf(id, v)
	decide := func(w *world, fields ...string) *Decision {
		v, id := newRequest(w.now(), addr)
		for i := range v.Fields {
			if string(v.Fields[i].Name) == "User-Agent" && len(fields) > 0 {
				v.Fields[i].Value = []byte(fields[0])
			}
		}
		d := &Decision{}
		w.Decide(d, v, id, s)
		return d
	}
	w.ban(ip(addr), func(b *bans.Ban) {
		b.Source, b.Score, b.Until, b.Only = bans.SourceProcessor, 1, day0.Add(time.Hour), me
	})
	again := newWorldOver(t, w.st, w.clock).start()
	defer again.Close()
	for _, w := range []*world{w, again} {
		if d := decide(w); d.Verdict != Robot || !d.OneClient() || !d.Ban.Story().OneClient {
			t.Errorf("the client itself: %v, %+v", d.Verdict, d.Ban)
		}
		if d := decide(w, "another browser"); d.Verdict != Human {
			t.Errorf("its neighbour: %v, %+v", d.Verdict, d.Ban)
		}
	}
	w.ban(ip(addr), func(b *bans.Ban) { b.Until = day0.Add(time.Minute) })
	if d := decide(w, "another browser"); d.Verdict != Robot || d.OneClient() {
		t.Errorf("under a ban on the address: %v, %+v", d.Verdict, d.Ban)
	}
}

// TestClientsOfAnAddress: what tells clients apart.
func TestClientsOfAnAddress(t *testing.T) {
	v, id := newRequest(day0, "192.0.2.1")
	is := clientOf(id, v)
	if is == 0 || clientOf(id, v) != is {
		t.Errorf("the client is %d", is)
	}
	v.JA4 = []byte("t13d1516h2_8daaf6152771_02713d6af862")
	if clientOf(id, v) == is {
		t.Error("another handshake is the same client")
	}
	_, id = newRequest(day0, "192.0.2.2")
	if v.JA4 = nil; clientOf(id, v) == is {
		t.Error("the same browser at another address is the same client")
	}
	if clientOf(&identity.Identity{}, v) != 0 {
		t.Error("nobody is a client")
	}
}
