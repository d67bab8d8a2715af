package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// rested are browsers that no test uses at present: one at a time does, so that its tab is the one in front. Each context is that of
// a first tab, which stays empty.
var rested = make(chan context.Context, 64)

// launch starts a browser that outlives the test.
func launch(t *testing.T) context.Context {
	t.Helper()
	dir, err := os.MkdirTemp("", "antirobot-profile-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, ended := chromedp.NewExecAllocator(context.Background(), switches(t, headlessShell, dir)...)
	ctx, _ = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // the tests' own steps say what fails
	ctx = context.WithValue(ctx, ending{}, func() {
		closing, late := context.WithTimeout(ctx, 10*time.Second)
		_ = chromedp.Cancel(closing) // one that is killed leaves processes that may still write there
		late()
		ended()
		removed(dir)
	})
	if err := chromedp.Run(ctx); err != nil {
		end(ctx)
		t.Fatalf("start %s: %v", headlessShell, err)
	}
	return ctx
}

// ending is the key of what ends a launched browser.
type ending struct{}

func end(p context.Context) { p.Value(ending{}).(func())() }

// forget closes the tabs that a test has left in p, and makes p forget what it has met.
func forget(p context.Context) error {
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	open, err := chromedp.Targets(ctx)
	if err != nil {
		return err
	}
	c := chromedp.FromContext(p)
	for _, o := range open {
		if o.Type == "page" && o.TargetID != c.Target.TargetID {
			if err := target.CloseTarget(o.TargetID).Do(cdp.WithExecutor(ctx, c.Browser)); err != nil {
				return err
			}
		}
	}
	return chromedp.Run(ctx, network.ClearBrowserCache(), network.ClearBrowserCookies())
}

// endRested ends the browsers that were launched, when all tests are over.
func endRested() {
	for {
		select {
		case p := <-rested:
			end(p)
		case f := <-restedFirefox:
			f.end()
		default:
			return
		}
	}
}

// TestBrowserForgets: whoever gets a browser that another test has used meets it as if it were new.
func TestBrowserForgets(t *testing.T) {
	t.Parallel()
	var known, loaded atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Header.Get("Cookie") != "" {
			known.Add(1)
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		if r.URL.Path == "/kept.js" {
			loaded.Add(1)
			w.Header().Set("Content-Type", "text/javascript")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s1", Path: "/", MaxAge: 3600})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>x</title><p id=there>x<script src=/kept.js></script>`)
	}))
	t.Cleanup(s.Close)
	p := launch(t)
	t.Cleanup(func() { end(p) })
	for n := range 2 {
		ctx := tab(t, p)
		run(t, ctx, "open", chromedp.Navigate(fmt.Sprintf("%s/?%d", s.URL, n)), chromedp.WaitVisible("#there"))
		if err := forget(p); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its tabs are closed", func() bool {
			open, err := chromedp.Targets(p)
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(open, func(o *target.Info) bool { return strings.HasPrefix(o.URL, s.URL) })
		})
	}
	f := launchFirefox(t)
	for n := range 2 {
		f.open(fmt.Sprintf("%s/?firefox%d", s.URL, n))
		if err := f.forget(); err != nil {
			t.Fatal(err)
		}
	}
	if known.Load() != 0 || loaded.Load() != 4 {
		t.Errorf("%d pages were asked for with a cookie, the script loaded %d times", known.Load(), loaded.Load())
	}
}
