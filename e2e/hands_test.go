package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestByWhatPagesAreOpened: the factors of a real browser whose links are clicked as people do, are clicked by a script, and whose cache a driver turns off.
func TestByWhatPagesAreOpened(t *testing.T) {
	t.Parallel()
	const scripted = `document.querySelector("#next").click()`
	one := browser(t, withWindow(t), chromedp.Flag("disable-features", unused)) // pages are left as people leave them
	inChromium := func(before chromedp.Action, click chromedp.Action) func(t *testing.T, url string) {
		return func(t *testing.T, url string) {
			if err := forget(one); err != nil {
				t.Fatal(err)
			}
			ctx := tab(t, one)
			run(t, ctx, "begin", before, chromedp.Navigate(url+"/page/1"))
			for i := 2; i < 11; i++ {
				run(t, ctx, "go on", chromedp.WaitVisible(fmt.Sprintf("#on%d", i)), click)
			}
			run(t, ctx, "arrive", chromedp.WaitVisible("#on11"))
		}
	}
	inFirefox := func(click func(f *firefox)) func(t *testing.T, url string) {
		return func(t *testing.T, url string) {
			f := launchFirefox(t)
			f.open(url + "/page/1")
			for i := 2; i < 11; i++ {
				eventually(t, "the page", func() bool { return f.eval(fmt.Sprintf("return !!document.querySelector('#on%d')", i)) == true })
				click(f)
			}
			eventually(t, "the last page", func() bool { return f.eval("return !!document.querySelector('#on11')") == true })
		}
	}
	nothing := chromedp.Tasks{}
	for _, c := range []struct {
		name                string
		walk                func(t *testing.T, url string)
		unclicked, uncached float64
	}{
		{"Chromium, clicks", inChromium(nothing, chromedp.Click("#next")), 0, 0},
		{"Chromium, a script clicks", inChromium(nothing, chromedp.Evaluate(scripted, nil)), 1, 0},
		{"Chromium, without a cache", inChromium(network.SetCacheDisabled(true), chromedp.Click("#next")), 0, 1},
		{"Firefox, clicks", inFirefox(func(f *firefox) { f.click("#next") }), 0, 0},
		{"Firefox, a script clicks", inFirefox(func(f *firefox) { f.eval(scripted) }), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) { // one after another, in the same browsers
			pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				var n int
				if _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); err != nil {
					return // a frame
				}
				fmt.Fprintf(w, `<!doctype html><title>%d</title><p id="on%d"><a id="next" href="/page/%d">on</a></p><iframe src="/frame/%d"></iframe>`, n, n+1, n+1, n)
			}))
			t.Cleanup(pages.Close)
			g := configured(t, `services: [{name: site, upstream: {urls: [%q]}}]`, pages.URL)
			c.walk(t, g.url)
			var s session
			eventually(t, "its factors", func() bool {
				s = g.session("ip:127.0.0.1")
				return s.factor("unclicked_share") != "unknown"
			})
			got, want := s.factor("unclicked_share")+", "+s.factor("uncached_share"), fmt.Sprintf("%v, %v", c.unclicked, c.uncached)
			if got != want {
				t.Errorf("unclicked_share, uncached_share are %s, want %s", got, want)
			}
		})
	}
}
