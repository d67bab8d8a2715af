package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/verdict"
)

// faulty is a Sink that panics.
type faulty struct{}

func (faulty) Offer(*verdict.Event) bool { panic("a fault of ours") }

// TestPanicHoldsNothing: what a request holds when its journey panics, before or after its answer begins, is given
// back: its turn, and its place among the documents under way.
func TestPanicHoldsNothing(t *testing.T) {
	e := newCheckEnv(t, nil)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "a page")
	}))
	t.Cleanup(site.Close)
	set := metrics.NewSet()
	cfg := upstream.DefaultConfig()
	cfg.URLs, cfg.Service = []string{site.URL}, "shop"
	group, err := upstream.New(cfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	was := e.check.core.snap.Load()
	known := was.Router.services[0]
	router, err := NewRouter([]*Service{{
		Name: "shop", Hosts: []string{"shop.example"}, Verdict: known.Verdict, Identity: known.Identity,
		Captcha: known.Captcha, Config: DefaultServiceConfig(), Upstream: group,
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := e.check.core.deps
	d.Sink, d.InFlight, d.Metrics = faulty{}, NewInFlight(false), set
	g, err := New(&Snapshot{Router: router, Captcha: was.Captcha}, d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := h1.NewServer(h1.DefaultConfig(), h1.Deps{Handler: g, Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { _ = s.Serve(ln, h1.ListenerOptions{}); close(served) }()
	place := g.pagesInFlight.of(netip.MustParseAddr("127.0.0.1"))
	for _, others := range []int32{0, fewInFlight} { // told of when its answer ends, and when it begins
		place.Store(others)
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, "GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		_, _ = io.ReadAll(c) // the panic costs the connection
		_ = c.Close()
		if n := place.Load(); n != others {
			t.Errorf("%d documents are under way, and %d of others", n, others)
		}
		for i := range d.InFlight.visitors {
			if v, w := d.InFlight.visitors[i].n.Load(), d.InFlight.networks[i].n.Load(); v != 0 || w != 0 {
				t.Errorf("beside %d others: a visitor keeps %d slots, a network %d", others, v, w)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.Shutdown(ctx)
	<-served
	if n := set.GetOrCreateCounter("antirobot_http_panics_total").Get(); n != 2 {
		t.Errorf("%d panics", n)
	}
}
