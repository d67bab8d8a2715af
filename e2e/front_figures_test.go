package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// traffic counts what a tab asks for.
type traffic struct {
	mu       sync.Mutex
	requests int
	bytes    float64
}

func watch(t *testing.T, ctx context.Context) *traffic {
	t.Helper()
	w := new(traffic)
	chromedp.ListenTarget(ctx, func(e any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e := e.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") && !strings.HasSuffix(e.Request.URL, "/favicon.ico") { // the site's own
				w.requests++ // a redirect is one more
			}
		case *network.EventLoadingFinished:
			w.bytes += e.EncodedDataLength
		}
	})
	run(t, ctx, "watch", network.Enable(), network.SetCacheDisabled(true))
	return w
}

func (w *traffic) take() (requests int, bytes float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests, bytes = w.requests, w.bytes
	w.requests, w.bytes = 0, 0
	return requests, bytes
}

// silentSettings ask robots for the silent check alone, for a service in YAML.
const silentSettings = "    captcha: {steps: {robot: silent, top: silent}}\n"

// TestFrontFigures prints the figures of docs/people.md and docs/frontend.md, with FIGURES=1 from enough rounds to quote,
// and checks what these documents promise.
func TestFrontFigures(t *testing.T) {
	ctx := browser(t)
	w := watch(t, ctx)
	idle := chromedp.Sleep(150 * time.Millisecond)
	for _, p := range ownPages(t) {
		p.open(t, ctx)
		run(t, ctx, "settle", idle)
		w.take()
		run(t, ctx, "load once more", chromedp.Reload(), chromedp.WaitVisible("h1", chromedp.ByQuery), idle)
		requests, bytes := w.take()
		t.Logf("%-16s %6.0f bytes with header fields and picture, %d requests", p.name, bytes, requests)
		if p.name != "form" && p.name != "form-too-large" && p.name != "wrong" && bytes > 30<<10 {
			t.Errorf("%s weighs %.0f bytes", p.name, bytes)
		}
	}

	rounds := 1
	if os.Getenv("FIGURES") != "" {
		rounds = 10
	}
	door := func(name string, most int, prepare func(), ask func() (shown, passed time.Duration)) {
		var shown, passed []float64
		var requests int
		for range rounds {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			prepare()
			run(t, ctx, "settle", idle)
			w.take()
			s, p := ask()
			shown, passed = append(shown, s.Seconds()*1000), append(passed, p.Seconds()*1000)
			requests, _ = w.take()
		}
		t.Logf("%-24s %d requests from the challenged one to the answer; shown after %.0f ms, from the first key to the answer %.0f ms (medians of %d)",
			name, requests, median(shown), median(passed), rounds)
		if requests > most {
			t.Errorf("%s takes %d requests", name, requests)
		}
	}
	measure := func(show, answer []chromedp.Action) (shown, passed time.Duration) {
		began := time.Now()
		run(t, ctx, "show", show...)
		shown = time.Since(began)
		began = time.Now()
		run(t, ctx, "answer", answer...)
		return shown, time.Since(began)
	}
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	write := serve(t, formSite(t), "--trusted-proxies", "127.0.0.1")
	front := serve(t, appSite(t).URL, "--trusted-proxies", "127.0.0.1")
	n := 0
	newcomer := func(g *gateway) { // an address earns 20 passes an hour
		n++
		addr := fmt.Sprintf("198.51.%d.1", n)
		g.ban("ip:"+addr, "1h")
		run(t, ctx, "come from "+addr, network.SetExtraHTTPHeaders(network.Headers{"X-Forwarded-For": addr}))
	}
	arrived := chromedp.WaitVisible(`//pre[contains(.,"site got")]`)
	loaded := chromedp.Poll(`(() => { const i = document.querySelector('main img'); return i && i.complete && i.naturalWidth > 0; })()`, nil, chromedp.WithPollingInterval(2*time.Millisecond))
	door("page", 5, func() { newcomer(g) }, func() (time.Duration, time.Duration) {
		return measure([]chromedp.Action{chromedp.Navigate(g.url + "/page"), loaded},
			[]chromedp.Action{chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"site got")]`)})
	})
	check := configuredFront(t, site(t).URL, silentSettings, "--trusted-proxies", "127.0.0.1")
	checkFront := configuredFront(t, appSite(t).URL, silentSettings, "--trusted-proxies", "127.0.0.1")
	for _, d := range []struct {
		name   string
		slower float64
	}{{"page, silent", 1}, {"… on a slow phone", 6}} {
		if d.slower > 1 && rounds == 1 {
			continue // a figure, and no other way
		}
		run(t, ctx, "speed", emulation.SetCPUThrottlingRate(d.slower))
		door(d.name, 5, func() { newcomer(check) }, func() (time.Duration, time.Duration) {
			return measure(nil, []chromedp.Action{chromedp.Navigate(check.url + "/page"), arrived})
		})
	}
	run(t, ctx, "full speed", emulation.SetCPUThrottlingRate(1))
	// The fourth leads from the check to the form's own address, with a 307 that keeps its method and fields.
	door("form", 4, func() {
		newcomer(write)
		write.tryAPI("DELETE", fmt.Sprintf("/api/bans?subject=ip:198.51.%d.1", n), nil)
		run(t, ctx, "write", chromedp.Navigate(write.url+"/write"), chromedp.SendKeys("textarea", "text", chromedp.ByQuery))
		write.ban(fmt.Sprintf("ip:198.51.%d.1", n), "1h")
	}, func() (time.Duration, time.Duration) {
		return measure([]chromedp.Action{chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible(field, chromedp.ByQuery), loaded},
			[]chromedp.Action{chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`#got`, chromedp.ByQuery)})
	})
	toil := configuredFront(t, site(t).URL, workSettings, "--trusted-proxies", "127.0.0.1")
	door("page, work", 7, func() { newcomer(toil) }, func() (time.Duration, time.Duration) {
		return measure([]chromedp.Action{chromedp.Navigate(toil.url + "/page"), loaded, chromedp.WaitVisible(offerButton, chromedp.ByQuery)},
			[]chromedp.Action{chromedp.Focus(offerButton, chromedp.ByQuery), chromedp.KeyEvent("\r"), chromedp.WaitVisible(`//pre[contains(.,"site got")]`)})
	})
	var a *app
	openedSilent := func() (time.Duration, time.Duration) {
		return measure(nil, []chromedp.Action{chromedp.ActionFunc(func(context.Context) error {
			a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'x'})); true`, nil)
			if r := a.result("r"); r.Value.Body != "x" || strings.Contains(a.events(), "challenge") {
				t.Errorf("a silent check: %+v, events %s", r, a.events())
			}
			return nil
		})})
	}
	open := func(g *gateway, path string) func() {
		return func() {
			n++
			addr := fmt.Sprintf("198.51.%d.1", n)
			run(t, ctx, "come from "+addr, network.SetExtraHTTPHeaders(network.Headers{"X-Forwarded-For": addr}))
			a = openApp(t, ctx, g.url+path, "")
			g.ban("ip:"+addr, "1h")
		}
	}
	door("script, silent", 6, open(checkFront, "/app"), openedSilent)
	frontWork := configuredFront(t, appSite(t).URL, workSettings, "--trusted-proxies", "127.0.0.1")
	for _, d := range []struct {
		name, path string
		slower     float64 // in pieces only: Chromium slows the page down, not its Workers
	}{{"dialog, work, Worker", "/loose", 1}, {"dialog, work, pieces", "/app", 1}, {"… on a slow phone", "/app", 6}} {
		run(t, ctx, "speed", emulation.SetCPUThrottlingRate(d.slower))
		door(d.name, 7, open(frontWork, d.path), func() (time.Duration, time.Duration) {
			began := time.Now()
			a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'x'})); true`, nil)
			a.asked()
			shown := time.Since(began)
			began = time.Now()
			a.eval(`(`+workButton+`).click(); true`, nil)
			a.result("r")
			return shown, time.Since(began)
		})
	}
	run(t, ctx, "full speed", emulation.SetCPUThrottlingRate(1))
	door("dialog", 5, open(front, "/app"), func() (time.Duration, time.Duration) {
		began := time.Now()
		a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'x'})); true`, nil)
		a.asked()
		shown := time.Since(began)
		began = time.Now()
		a.typed(testAnswer + "\r")
		a.result("r")
		return shown, time.Since(began)
	})
}
