package cbb

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReconfigure(t *testing.T) {
	a, b := serveText(t, "192.0.2.1\n"), serveText(t, "192.0.2.2\n")
	cfg := config(func(c *Config) {
		c.Lists = []ListConfig{{Name: "a", Flag: "block", URL: a.URL}}
		c.Block = []string{"198.51.100.1"}
	})
	l := open(t, cfg, nil)
	if err := refresh(t, l, "a"); err != nil {
		t.Fatal(err)
	}
	before := l.snap.Load()

	bad := cfg
	bad.Block = []string{"198.51.100.2", "nonsense"}
	bad.Patterns = []PatternConfig{{Name: "x", Flag: "block", PathRegex: "("}}
	err := reconfigure(l, bad)
	if err == nil || !strings.Contains(err.Error(), "block[1]: ") ||
		!strings.Contains(err.Error(), "patterns[0].path_regex: ") {
		t.Errorf("not all is said: %v", err)
	}
	if l.snap.Load() != before {
		t.Error("a bad configuration changed something")
	}

	next := cfg
	next.Lists = append([]ListConfig{{Name: "b", Flag: "ban", URL: b.URL}}, cfg.Lists...)
	next.Block = nil
	if err := reconfigure(l, next); err != nil {
		t.Fatal(err)
	}
	if got := said(l, "192.0.2.1", "") + "," + said(l, "198.51.100.1", ""); got != "- - a -,- - - -" {
		t.Errorf("the copy of a list that stayed, and an entry that went: %s", got)
	}
	if len(a.seen) != 1 {
		t.Errorf("a list that stayed was fetched again: %d", len(a.seen))
	}
	if err := refresh(t, l, "b"); err != nil || said(l, "192.0.2.2", "") != "- - - b" {
		t.Errorf("the new list: %v", err)
	}

	off := false
	next.Lists[0].Enabled = &off
	if err := reconfigure(l, next); err != nil || said(l, "192.0.2.2", "") != "- - - -" {
		t.Errorf("switched off: %v", err)
	}
}

func TestReconfigureWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		cfg := urlList("http://lists.example/a")
		l := open(t, cfg, func(d *Deps) {
			d.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.URL.Path]++
				return answer(200, "192.0.2.1\n"), nil
			})
		})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cfg.Lists = []ListConfig{{Name: "g", Flag: "ban", URL: "http://lists.example/b"}}
		cfg.Crawlers.ProvisionalRequests++
		if err := reconfigure(l, cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		mu.Lock()
		if asked["/a"] != 1 || asked["/b"] < 10 {
			t.Errorf("asked %v", asked)
		}
		mu.Unlock()
		if got := said(l, "192.0.2.1", ""); got != "- - - g" {
			t.Errorf("%s", got)
		}
		closeLists(t, l)
	})
}
