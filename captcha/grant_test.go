package captcha

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// grantOf returns the cookie that a message's challenge set, as a browser sends it.
func grantOf(t *testing.T, a Response) string {
	t.Helper()
	for _, f := range a.Header {
		if f.Name == "Set-Cookie" && strings.HasPrefix(f.Value, grantCookie) {
			pair, _, _ := strings.Cut(f.Value, ";")
			return pair
		}
	}
	t.Fatalf("no grant in %v", a.Header)
	return ""
}

// passBorn adds to the identity a pass that was earned at the given time.
func passBorn(id *identity.Identity, n byte, at time.Time) {
	id.Passes[id.NPasses] = spravka.Pass{
		ID: [16]byte{n}, Born: at.Unix(), Expires: at.Add(time.Hour).Unix(), Earned: true, Allowance: 10,
	}
	id.NPasses++
}

func TestGrant(t *testing.T) {
	e := newEnv(t, nil)
	m, other := Message{1}, Message{1, 0, 0, 0, 9} // the same cookie
	asked := e.c.ChallengeMessageJSON(e.request("POST", "https://shop.example/comments"), &m, "SPAM")
	cookie := grantOf(t, asked)
	if !strings.Contains(asked.Get("Set-Cookie")+cookie, "antirobot_grant_01000000=") {
		t.Error(cookie)
	}
	take := func(m *Message, cookie string, pass func(*identity.Identity)) (string, bool) {
		t.Helper()
		q := e.request("POST", "https://shop.example/comments")
		q.View.Fields = append(q.View.Fields, request.Field{Name: []byte("Cookie"), Value: []byte("a=b; " + cookie)})
		if pass != nil {
			pass(q.ID)
		}
		decision, gone, ok := e.c.TakeGrant(q, m)
		if ok && (gone.Name != "Set-Cookie" || !strings.Contains(gone.Value, "Max-Age=0")) {
			t.Errorf("the cookie stays: %v", gone)
		}
		return decision, ok
	}
	with := func(n byte, at time.Time) func(*identity.Identity) {
		return func(id *identity.Identity) { passBorn(id, n, at) }
	}
	refused := func(what string, m *Message, cookie string, pass func(*identity.Identity)) {
		t.Helper()
		if d, ok := take(m, cookie, pass); ok {
			t.Errorf("%s: taken as %s", what, d)
		}
	}
	refused("without a pass", &m, cookie, nil)
	refused("a pass from before", &m, cookie, with(1, e.now().Add(-time.Second)))
	refused("an unearned pass", &m, cookie, func(id *identity.Identity) {
		passBorn(id, 1, e.now())
		id.Passes[0].Earned = false
	})
	refused("another message", &other, cookie, with(1, e.now()))
	refused("forged", &m, cookie[:len(cookie)-2]+"xx", with(1, e.now()))
	if d, ok := take(&m, cookie, func(id *identity.Identity) { with(1, e.now().Add(-time.Hour))(id); with(2, e.now())(id) }); !ok ||
		d != "SPAM" {
		t.Errorf("refused: %q %v", d, ok)
	}
	refused("a second time", &m, cookie, with(2, e.now()))
	third := Message{3}
	cookie3 := grantOf(t, e.c.ChallengeMessageJSON(e.request("POST", "https://shop.example/comments"), &third, "SPAM"))
	refused("another message with the same pass", &third, cookie3, with(2, e.now()))
	e.clock.Add(int64(31 * time.Minute))
	refused("too late", &third, cookie3, with(4, e.now()))
}

// TestGrantIsSpentOnce: of many concurrent requests with one grant, exactly one passes.
func TestGrantIsSpentOnce(t *testing.T) {
	e := newEnv(t, nil)
	m := Message{7}
	cookie := grantOf(t, e.c.ChallengeMessageJSON(e.request("POST", "https://shop.example/comments"), &m, "SPAM"))
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		q := e.request("POST", "https://shop.example/comments")
		q.View.Fields = append(q.View.Fields, request.Field{Name: []byte("Cookie"), Value: []byte(cookie)})
		passBorn(q.ID, 1, e.now())
		wg.Go(func() {
			if _, _, ok := e.c.TakeGrant(q, &m); ok {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d passed", taken.Load())
	}
}

// TestThrottled shows what a client is told that comes too fast.
func TestThrottled(t *testing.T) {
	e := newEnv(t, nil)
	q := e.request("GET", "https://shop.example/search")
	f := func(r Reader, want string) {
		t.Helper()
		a := e.c.Throttled(q, 1500*time.Millisecond, r)
		if a.Status != 429 || a.Get("Retry-After") != "2" || a.Get("Cache-Control") != "no-store" ||
			!strings.Contains(string(a.Body), want) {
			t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
		}
	}
	f(ReadsJSON, `{"type":"throttle","request-id":"`+q.RequestID+`","retry-after":2}`)
	f(ReadsPage, "A little too fast")
	f(ReadsNothing, "")
}

// TestQuarantined shows what a client is told when its request was quarantined.
func TestQuarantined(t *testing.T) {
	e := newEnv(t, nil)
	q := e.request("POST", "https://shop.example/comments")
	a := e.c.Quarantined(q, "SPAM", []string{"a<b", "c"})
	if a.Status != 409 || a.Get("Cache-Control") != "no-store" || a.Get("X-Antirobot-Verdict") != "blocked" || string(
		a.Body,
	) != `{"type":"quarantine","request-id":"`+q.RequestID+`","decision":"SPAM","tags":["a<b","c"]}`+"\n" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
}
