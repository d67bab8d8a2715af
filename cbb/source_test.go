package cbb

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFetchWithETag(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Sat, 22 Aug 2026 10:00:00 GMT")
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("192.0.2.0/24\n"))
	})
	l := open(t, urlList(srv.URL), nil)
	if got := said(l, "192.0.2.1", ""); got != "- - - -" {
		t.Errorf("before: %s", got)
	}
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	if got := said(l, "192.0.2.1", ""); got != "- - f -" {
		t.Errorf("after: %s", got)
	}
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	if r := srv.last(); r.Header.Get("If-Modified-Since") == "" || r.Header.Get("If-None-Match") == "" {
		t.Errorf("the second request is not conditional: %v", r.Header)
	}
	if got := said(l, "192.0.2.1", ""); got != "- - f -" {
		t.Errorf("after 304: %s", got)
	}
	if st := l.Stats().Lists[0]; st.Entries != 1 || st.LastError != "" || st.Checked.IsZero() {
		t.Errorf("stats %+v", st)
	}
}

func TestErrorsKeepTheLastGoodCopy(t *testing.T) {
	srv := serveText(t, strings.Repeat("192.0.2.7\n", 20))
	cfg := urlList(srv.URL)
	l := open(t, cfg, func(d *Deps) {
		d.bounds.fetch = 2 * time.Second // all of it is waited for by one case; none of the others takes as long on a busy machine
		d.bounds.bytes = 10_000
	})
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	zipped := func(n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(bytes.Repeat([]byte("192.0.2.8\n"), n))
		_ = z.Close()
		return b.Bytes()
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
	}
	bomb := zipped(100_000) // not while the client's patience runs
	for _, tc := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "answers 500"},
		{"empty", text(""), "empty"},
		{"garbage", text("<html>\n<body>\nLogin\n"), "bad lines"},
		{"everybody", text("0.0.0.0/0\n"), "wider"},
		{"large", text(strings.Repeat("192.0.2.8\n", 1100)), "too large"},
		{"large, chunked", func(w http.ResponseWriter, _ *http.Request) {
			for range 1100 {
				_, _ = w.Write([]byte("192.0.2.8\n"))
				w.(http.Flusher).Flush()
			}
		}, "too large"},
		{"bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, "too large"},
		{"bomb in a file", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb) }, "too large"},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = w.Write([]byte("192.0.2.8\n"))
		}, "unexpected EOF"},
		{"gzip cut short", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(zipped(100)[:40]) }, "unexpected EOF"},
		{"foreign encoding", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		}, "encoding"},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("192.0.2.8\n"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "timeout"},
		{"to a file", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "scheme"},
		{"round and round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, "redirects"},
	} {
		srv.become(tc.h)
		err := refresh(t, l, "f")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), srv.URL) {
			t.Errorf("%s: the error shows the URL: %v", tc.name, err)
		}
		if got := said(l, "192.0.2.7", ""); got != "- - f -" {
			t.Errorf("%s: the list is lost: %s", tc.name, got)
		}
		if got := said(l, "192.0.2.8", ""); got != "- - - -" {
			t.Errorf("%s: half a list is in force: %s", tc.name, got)
		}
		if st := l.Stats().Lists[0]; st.LastError == "" || st.Failures == 0 {
			t.Errorf("%s: nobody is told: %+v", tc.name, st)
		}
	}
	srv.become(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(zipped(100)) })
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	if got := said(l, "192.0.2.8", ""); got != "- - f -" {
		t.Errorf("a good copy after bad ones: %s", got)
	}
	if st := l.Stats().Lists[0]; st.LastError != "" || st.Failures != 0 {
		t.Errorf("the error stays: %+v", st)
	}
}

func TestRedirectNeverGoesBackToPlainHTTP(t *testing.T) {
	f := func(from, to string, want bool) {
		t.Helper()
		l := open(t, urlList(from), func(d *Deps) {
			d.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.String() == to {
					return answer(http.StatusOK, "192.0.2.1\n"), nil
				}
				return answer(http.StatusFound, "", "Location", to), nil
			})
		})
		if err := refresh(t, l, "f"); (err == nil) != want {
			t.Errorf("%s to %s: %v", from, to, err)
		}
	}
	f("https://a.example/", "https://b.example/", true)
	f("http://a.example/", "https://b.example/", true)
	f("https://a.example/", "http://a.example/", false)
}

func TestBadLinesAreCountedAndNamed(t *testing.T) {
	srv := serveText(t, "192.0.2.1\nnonsense\n192.0.2.2\n")
	l := open(t, urlList(srv.URL), nil)
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	built := l.snap.Load()
	if err := refresh(t, l, "f"); err != nil || l.snap.Load() != built {
		t.Errorf("the same bytes make a new table: %v", err)
	}
	st := l.Stats().Lists[0]
	if st.Entries != 2 || st.Bad != 1 || len(st.BadLines) != 1 || st.BadLines[0].Line != 2 ||
		st.BadLines[0].Text != "nonsense" {
		t.Errorf("%+v", st)
	}
}

// The whole loop under a fake clock: five minutes, retries that double, an hour at most, and Retry-After.
func TestRefreshTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		status, header := 200, []string{}
		l := open(t, urlList("http://lists.example/x"), func(d *Deps) {
			d.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(began))
				return answer(status, "192.0.2.1\n", header...), nil
			})
		})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		set := func(s int, h ...string) {
			mu.Lock()
			defer mu.Unlock()
			status, header, at = s, h, nil
		}
		gaps := func() (out []time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			for i := 1; i < len(at); i++ {
				out = append(out, at[i]-at[i-1])
			}
			return out
		}
		near := func(got, want time.Duration) bool { return got >= want*9/10 && got <= want*11/10 }

		time.Sleep(16 * time.Minute)
		for _, g := range gaps() {
			if !near(g, 5*time.Minute) {
				t.Errorf("good: %v", gaps())
			}
		}
		if len(gaps()) < 2 {
			t.Errorf("good: %v", gaps())
		}

		set(500)
		time.Sleep(6 * time.Hour)
		got := gaps()
		for i, want := range []time.Duration{15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600} {
			if i >= len(got) || !near(got[i], want*time.Second) {
				t.Fatalf("failing: %v", got)
			}
		}

		set(503, "Retry-After", "7200")
		time.Sleep(12 * time.Hour)
		if got := gaps(); len(got) < 2 || !near(got[1], 2*time.Hour) {
			t.Errorf("asked to wait two hours: %v", got)
		}

		set(200)
		time.Sleep(4 * time.Hour)
		if got := gaps(); len(got) < 10 || !near(got[3], 5*time.Minute) {
			t.Errorf("good again: %v", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhiteListsDaily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		cfg := config(
			func(c *Config) { c.Lists = []ListConfig{{Name: "w", Flag: "white", URL: "http://lists.example/x"}} },
		)
		l := open(t, cfg, func(d *Deps) {
			d.Transport = roundTrip(
				func(*http.Request) (*http.Response, error) { n.Add(1); return answer(200, "192.0.2.1\n"), nil },
			)
		})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		if n.Load() != 1 || said(l, "192.0.2.1", "") != "- w - -" {
			t.Errorf("%d fetches in 20 hours", n.Load())
		}
		time.Sleep(7 * time.Hour)
		synctest.Wait()
		if n.Load() != 2 {
			t.Errorf("%d fetches in 27 hours", n.Load())
		}
		closeLists(t, l)
	})
}

func TestRealServerThroughTheLoop(t *testing.T) {
	srv := serveText(t, "192.0.2.0/24\n")
	l := open(t, urlList(srv.URL+"/list?token=secret"), nil)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 0; said(l, "192.0.2.1", "") != "- - f -"; i++ {
		if i == 500 {
			t.Fatalf("never in force: %+v", l.Stats().Lists)
		}
		time.Sleep(10 * time.Millisecond) // a real socket: no bubble
	}
	var b bytes.Buffer
	l.writeMetrics(&b)
	if !strings.Contains(b.String(), `antirobot_cbb_list_entries{list="f",flag="block",kind="url"} 1`) ||
		strings.Contains(b.String(), "secret") {
		t.Errorf("metrics:\n%s", b.String())
	}
}

// The order of the decision is verdict's; here both sides of each pair must be seen.
func TestPairsThatTheVerdictOrders(t *testing.T) {
	srv := serveText(t, "192.0.2.0/24\n")
	l := open(t, config(func(c *Config) {
		c.Lists = []ListConfig{{Name: "f", Flag: "block", URL: srv.URL}, list("shop", White, "203.0.113.0/24")}
		c.Lists[1].Service = "shop"
		c.White = []string{"192.0.2.7", "198.51.100.0/24"}
		c.Block = []string{"198.51.100.7"}
		c.Ban = []string{"203.0.113.7"}
	}), nil)
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	f := func(addr, service, want string) {
		t.Helper()
		if got := said(l, addr, service); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	f("192.0.2.7", "", "- inline f -")          // white beats a fetched block
	f("198.51.100.7", "", "inline inline - -")  // an own block beats white
	f("203.0.113.7", "", "- - - inline")        // white of another service
	f("203.0.113.7", "shop", "- shop - inline") // of this one
	f("203.0.113.7", "other", "- - - inline")   // of a third
	f("192.0.2.8", "shop", "- - f -")           // lists for all services
}
