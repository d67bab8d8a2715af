package admin

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/cbb"
	"antirobot/servertest"
	"antirobot/verdict/tally"
)

func TestMetrics(t *testing.T) {
	extra := metrics.NewSet()
	extra.NewCounter("antirobot_extra_total").Add(7)
	l := start(t, DefaultConfig(), Deps{Version: "1.2.3", Metrics: extra})
	l.do("GET", "/api/status", "", "-Authorization", "")
	got, body, h := l.do("GET", "/metrics", "")
	if got != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("got %d %v", got, h)
	}
	for _, want := range []string{
		`antirobot_extra_total 7`, `antirobot_build_info{version="1.2.3"} 1`, `antirobot_admin_unauthorized_total 1`,
		`antirobot_admin_requests_total{status="4xx"} 1`, `process_resident_memory_bytes `, `go_goroutines `,
	} {
		if strings.Count(body, "\n"+want)+tally.One(strings.HasPrefix(body, want)) != 1 {
			t.Errorf("%q does not stand there once", want)
		}
	}
}

func TestHealthAndReadiness(t *testing.T) {
	var mu sync.Mutex
	store := StoreHealth{Backend: "pebble", Healthy: true}
	var stream *StreamHealth
	ready := []Check{{Name: "config", OK: true}, {Name: "drain", OK: true}}
	lists := &oneSource{stats: cbb.ListStats{Name: "x", Flag: "block", Kind: "url", Loaded: true}}
	l := start(t, DefaultConfig(), Deps{
		Version: "1", Started: time.Now().Add(-time.Minute), Lists: lists,
		Gateway: says{
			store:  func() StoreHealth { mu.Lock(); defer mu.Unlock(); return store },
			stream: func() *StreamHealth { mu.Lock(); defer mu.Unlock(); return stream },
			ready:  func() []Check { mu.Lock(); defer mu.Unlock(); return append([]Check(nil), ready...) },
		},
	})
	var h struct {
		Status string
		Store  StoreHealth
		Stream *StreamHealth
		Uptime float64  `json:"uptime_seconds"`
		Lists  []string `json:"lists_failing"`
	}
	l.ok(&h, "GET", "/healthz", "")
	if h.Status != "ok" || !h.Store.Healthy || h.Uptime < 60 {
		t.Errorf("healthy: %+v", h)
	}
	for _, healthy := range []bool{true, false} {
		mu.Lock()
		stream = &StreamHealth{Role: "gateway", Healthy: healthy}
		mu.Unlock()
		l.ok(&h, "GET", "/healthz", "")
		if h.Status == "ok" != healthy || *h.Stream != *stream {
			t.Errorf("with a stream that is well %t: %+v", healthy, h)
		}
	}
	mu.Lock()
	stream = nil
	store = StoreHealth{Backend: "pebble", Error: "disk is full"}
	ready[1] = Check{Name: "drain", Detail: "draining"}
	lists.stats.LastError, lists.stats.Failures = "timeout", 3
	mu.Unlock()
	l.ok(&h, "GET", "/healthz", "")
	if h.Status != "degraded" || h.Store.Error != "disk is full" || len(h.Lists) != 1 {
		t.Errorf("degraded: %+v", h)
	}
	got, body, _ := l.do("GET", "/readyz", "")
	if got != 503 || !strings.Contains(body, `{"name":"drain","ok":false,"detail":"draining"}`) {
		t.Errorf("draining: %d %s", got, body)
	}
	// A list that was never loaded keeps a node from being ready; ranges of crawlers that can't be fetched do not.
	for _, c := range []struct {
		kind   string
		loaded bool
		fails  int
		want   int
	}{{"url", true, 3, 200}, {"url", false, 3, 503}, {"file", false, 0, 503}, {"ranges", false, 0, 503}, {"ranges", false, 1, 200}} {
		mu.Lock()
		ready[1].OK = true
		lists.stats.Kind, lists.stats.Loaded, lists.stats.Failures = c.kind, c.loaded, c.fails
		mu.Unlock()
		if got, body, _ := l.do("GET", "/readyz", ""); got != c.want {
			t.Errorf("%+v: %d %s", c, got, body)
		}
	}
}

func TestProfiles(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	if got, body, _ := l.do("GET", "/debug/pprof/", ""); got != 200 || !strings.Contains(body, "heap\n") {
		t.Errorf("index: %d %s", got, body)
	}
	if got, body, _ := l.do("GET", "/debug/pprof/goroutine?debug=1", ""); got != 200 || !strings.HasPrefix(body, "goroutine profile: ") {
		t.Errorf("goroutine: %d %.80q", got, body)
	}
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0.05"} {
		if got, body, _ := l.do("GET", path, ""); got != 200 || !strings.HasPrefix(body, "\x1f\x8b") {
			t.Errorf("%s: %d %.40q is no gzipped profile", path, got, body)
		}
	}
	l.refused(404, "not_found", "", "GET", "/debug/pprof/nothing", "")
	for _, sec := range []string{"0", "-1", "x", "1e9", "NaN"} {
		l.refused(400, "invalid_field", "seconds", "GET", "/debug/pprof/profile?seconds="+sec, "")
	}
}

func TestShutdownEndsAProfile(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	done := make(chan int, 1)
	go func() {
		got, _, _ := l.do("GET", "/debug/pprof/trace?seconds=60", "")
		done <- got
	}()
	servertest.Eventually(t, "the profile runs", func() bool { return len(l.srv.profiles) > 0 })
	l.refused(409, "busy", "", "GET", "/debug/pprof/trace?seconds=1", "")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // before the profile would end by itself
	defer cancel()
	if err := l.srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != 200 {
		t.Errorf("the profile under way got %d", got)
	}
}
