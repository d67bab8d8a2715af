package peers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/spravka"
	"antirobot/store"
)

// world is gateways with one store.
type world struct {
	t  *testing.T
	kv store.KV
	at time.Time
}

func ring(t *testing.T) *spravka.Ring {
	t.Helper()
	r, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Unix(1_700_000_000, 0))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kv := store.NewMemory(time.Now)
	t.Cleanup(func() { _ = kv.Close() })
	return &world{t, kv, time.Now()}
}

// gateway is a gateway at an address, with its certificate if it has one.
func (w *world) gateway(r *spravka.Ring, name, url string, cert *tls.Certificate) *Peers {
	_, address, _ := strings.Cut(url, "://")
	return New(Deps{
		KV: w.kv, Ring: func() *spravka.Ring { return r }, Timeout: time.Minute, Now: func() time.Time { return w.at }, Log: zerolog.Nop(),
		Self: func() Peer { return Peer{Name: name, Address: address, Pin: PinOf(cert), Version: "1"} },
	})
}

// listener answers what gateways ask, and says who asked.
func listener(t *testing.T, way func(http.Handler) *httptest.Server, who *Peers) *httptest.Server {
	t.Helper()
	s := way(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := who.Asked([]byte(r.Header.Get("Authorization")), r.RequestURI)
		switch {
		case !ok:
			w.WriteHeader(401)
		case r.URL.Path == "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		default:
			_, _ = io.WriteString(w, "to "+name)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestAsk: a gateway that has told of itself is asked, in the clear and by TLS, and knows who asks; who has gone is not, and who
// went without a word is named.
func TestAsk(t *testing.T) {
	w, r := newWorld(t), ring(t)
	a := w.gateway(r, "a", "http://127.0.0.1:1", nil)
	plain, secret := &Peers{Deps: Deps{}}, &Peers{Deps: Deps{}}
	one, two := listener(t, httptest.NewServer, plain), listener(t, httptest.NewTLSServer, secret)
	*plain = *w.gateway(r, "plain", one.URL, nil)
	*secret = *w.gateway(r, "secret", two.URL, &two.TLS.Certificates[0])
	mute := w.gateway(r, "mute", "", nil)
	for _, p := range []*Peers{a, plain, secret, mute} {
		p.tell(t.Context())
	}
	ask := func(target, want string) {
		t.Helper()
		answers, err := a.Ask(t.Context(), target)
		got := ""
		for _, x := range answers {
			got += x.Name + " " + string(x.Body)
			if x.Err != nil || x.Status != 200 {
				got += "failed"
			}
			got += "; "
		}
		if err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", target, got, err, want)
		}
	}
	ask("/api/journal?q=a+b", "mute failed; plain to a; secret to a; ")
	if answers, _ := a.Ask(t.Context(), "/away"); answers[1].Status != 302 || len(answers[1].Body) > 100 {
		t.Errorf("a redirect was followed: %+v", answers[1])
	}
	mute.stop = func() {} // as if it had been started
	if err := mute.Close(); err != nil {
		t.Fatal(err)
	}
	one.Close()
	ask("/", "plain failed; secret to a; ")
	w.at = w.at.Add(2 * toldFor)
	ask("/", "")
}

// TestForged: who can write to the store, but lacks the ring, has nobody asked; a certificate other than the one that was told is
// refused; and a seal is good for one question, to one gateway, for a minute.
func TestForged(t *testing.T) {
	w, r := newWorld(t), ring(t)
	a := w.gateway(r, "a", "http://127.0.0.1:1", nil)
	b := &Peers{}
	s := listener(t, httptest.NewTLSServer, b)
	*b = *w.gateway(r, "b", s.URL, &s.TLS.Certificates[0])
	w.gateway(ring(t), "stranger", "http://127.0.0.1:2", nil).tell(t.Context())
	forged, _ := json.Marshal([]told{{"x", w.at.Add(time.Hour), "x.y"}})
	if others, err := a.known(t.Context()); err != nil || len(others) != 0 {
		t.Errorf("a stranger is asked: %+v %v", others, err)
	}
	for _, junk := range []string{string(forged), "[", strings.Repeat("x", maxPeers*maxTold+1)} {
		if err := w.kv.Put(t.Context(), directory, []byte(junk), 0); err != nil {
			t.Fatal(err)
		}
		if others, err := a.known(t.Context()); err != nil || len(others) != 0 {
			t.Errorf("%.20s is asked: %+v %v", junk, others, err)
		}
		b.tell(t.Context())
		if others, err := a.known(t.Context()); err != nil || len(others) != 1 {
			t.Errorf("over %.20s nobody can tell: %+v %v", junk, others, err)
		}
	}
	other := &Peers{}
	wrong := listener(t, httptest.NewTLSServer, other)
	*other = *w.gateway(r, "other", wrong.URL, &tls.Certificate{Certificate: [][]byte{{1}}})
	other.tell(t.Context())
	answers, err := a.Ask(t.Context(), "/")
	if err != nil || len(answers) != 2 || answers[0].Err != nil || answers[1].Err == nil || !strings.Contains(answers[1].Err.Error(), errPin.Error()) {
		t.Errorf("%+v %v", answers, err)
	}
	field := []byte(scheme + string(r.Seal(nil, spravka.PurposeGateway, question("b", "/x"), []byte("a"), w.at.Add(asksFor))))
	asked := func(p *Peers, target string, want bool) {
		t.Helper()
		if _, ok := p.Asked(field, target); ok != want {
			t.Errorf("%s is taken: %v", target, ok)
		}
	}
	asked(b, "/x", true)
	asked(b, "/y", false)
	asked(other, "/x", false)
	w.at = w.at.Add(2 * asksFor)
	asked(b, "/x", false)
}

// TestDirectory: gateways that tell at once don't lose each other.
func TestDirectory(t *testing.T) {
	w, r := newWorld(t), ring(t)
	const n = 8
	told := make(chan struct{}, n)
	for i := range n {
		go func() {
			w.gateway(r, string(rune('a'+i)), "", nil).tell(context.Background())
			told <- struct{}{}
		}()
	}
	for range n {
		<-told
	}
	if others, err := w.gateway(r, "z", "", nil).known(t.Context()); err != nil || len(others) != n {
		t.Errorf("%d told, %d are known: %v", n, len(others), err)
	}
}

// FuzzDirectory: whatever stands in the store, nothing is asked that was not sealed.
func FuzzDirectory(f *testing.F) {
	f.Add([]byte(`[{"key":"a","until":"2100-01-02T15:04:05Z","seal":"k.x"}]`))
	f.Add([]byte(`[null]`))
	r, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Unix(1_700_000_000, 0))})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newWorld(t)
		if err := w.kv.Put(t.Context(), directory, text, 0); err != nil {
			t.Fatal(err)
		}
		if others, err := w.gateway(r, "a", "", nil).known(t.Context()); err != nil || len(others) != 0 {
			t.Errorf("%s: %+v %v", text, others, err)
		}
	})
}
