package verdict

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

// TestBlockedCookiesAskOnce: a browser that keeps no cookie is not asked again for a minute after its right answer; that
// costs its pass as much as if it had been sent, and serves neither another browser nor another address nor another site.
func TestBlockedCookiesAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOver(t, newStore(false, nil), nil).start()
		defer w.Close()
		s := service(t)
		w.ban(ip("192.0.2.1"))
		w.ban(ip("192.0.2.9"))
		p := pass(time.Now(), 1, 100, "192.0.2.1")
		v, id := newRequest(time.Now(), "192.0.2.1")
		w.Issued(&p, v, id)
		for i := range latestPages {
			if d := w.ask(s, "192.0.2.1"); !d.Paid || d.PassID != p.ID {
				t.Fatalf("document %d is not paid", i+1)
			}
		}
		if a, _ := w.Allowance(p.ID); a.Spent != latestPages {
			t.Errorf("%d units are spent, want %d", a.Spent, latestPages)
		}
		if w.ask(s, "192.0.2.1").Paid {
			t.Error("more documents than a person reads in a minute are paid")
		}
		other := pass(time.Now(), 2, 100, "192.0.2.1")
		w.Issued(&other, v, id)
		if w.ask(s, "192.0.2.9").Paid {
			t.Error("another address is paid for")
		}
		neighbour := func(edit func(v *identity.Identity, host *[]byte, agent *[]byte)) bool {
			v, id := newRequest(time.Now(), "192.0.2.1")
			edit(id, &v.Host, &v.Fields[0].Value)
			var d Decision
			w.Decide(&d, v, id, s)
			return d.Paid
		}
		if string(v.Fields[0].Name) != "User-Agent" {
			t.Fatalf("the first field is %s", v.Fields[0].Name)
		}
		if neighbour(func(_ *identity.Identity, _, agent *[]byte) { *agent = []byte("curl/8") }) {
			t.Error("another browser is paid for")
		}
		if neighbour(func(_ *identity.Identity, host, _ *[]byte) { *host = []byte("other.example") }) {
			t.Error("another site is paid for")
		}
		time.Sleep(latestFor)
		if w.ask(s, "192.0.2.1").Paid {
			t.Error("a minute later it is still paid for")
		}
		// Whoever brings the pass keeps it for themselves.
		third := pass(time.Now(), 3, 100, "192.0.2.1")
		v, id = newRequest(time.Now(), "192.0.2.1")
		w.Issued(&third, v, id)
		if !w.askWith(s, &third, "192.0.2.1").Paid || w.ask(s, "192.0.2.1").Paid {
			t.Error("a pass that came back pays for a neighbour")
		}
	})
}
