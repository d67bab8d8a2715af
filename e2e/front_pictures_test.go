package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestPicturesOfTheDocs opens what docs/people.md shows, as visitors of a real site see it: without a test answer. With
// SCREENS set it writes the pictures to the folder docs in there; they are copied to docs/images by hand, after a review.
func TestPicturesOfTheDocs(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, "captcha: {passes_per_day: 1}\ndefaults:\n  upstream: {urls: [%q]}\n", formSite(t)))
	work := start(t, "serve", "--config", configFile(t, "%sdefaults:\n  upstream: {urls: [%q]}\n  captcha: {work: true}\n", slowWork, site(t).URL))
	blocked := serve(t, site(t).URL)
	blocked.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "1h", "reason": "test"})
	limited := configuredFront(t, site(t).URL, "captcha: {passes_per_day: 1, longest_wait: 1m}\n")
	limited.ban("ip:127.0.0.1", "1h")
	demo := start(t, "demo", "--traffic", "0", "--log-level", "info")
	ctx := browser(t)
	banned := func(g *gateway) {
		run(t, ctx, "forget", network.ClearBrowserCookies())
		g.ban("ip:127.0.0.1", "1h")
	}
	loaded := `document.querySelector('main img').naturalWidth > 0`
	for _, p := range []struct {
		name          string
		width, height int64
		lang          string
		open          func(ctx context.Context, a *app)
	}{
		{"captcha", 500, 820, "en", func(ctx context.Context, a *app) {
			banned(g)
			navigate(g.url+"/page", field)(t, ctx)
			a.until(loaded)
		}},
		{"captcha-ar", 500, 820, "ar", func(ctx context.Context, a *app) {
			banned(g)
			navigate(g.url+"/page", field)(t, ctx)
			a.until(loaded)
		}},
		{"work", 500, 900, "en", func(ctx context.Context, a *app) {
			banned(work)
			navigate(work.url+"/page", offerButton)(t, ctx)
			a.until(loaded)
			run(t, ctx, "work", chromedp.Click(offerButton, chromedp.ByQuery))
			a.until(`document.querySelector('#work [role=status]').textContent.includes('working')`)
		}},
		{"form", 500, 900, "en", func(ctx context.Context, a *app) {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			navigate(g.url+"/write", "textarea")(t, ctx)
			g.ban("ip:127.0.0.1", "1h")
			run(t, ctx, "send", chromedp.SendKeys("textarea", "a text", chromedp.ByQuery), chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible(field, chromedp.ByQuery))
			a.until(loaded)
		}},
		{"dialog", 760, 720, "en", func(ctx context.Context, a *app) {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			navigate(demo.url+"/list", "#more")(t, ctx)
			a.eval(`window.log = []; window.results = {}; true`, nil)
			demo.ban("ip:127.0.0.1", "1h")
			run(t, ctx, "load", chromedp.Click("#more", chromedp.ByQuery))
			a.asked()
		}},
		{"blocked", 500, 490, "en", func(ctx context.Context, _ *app) { navigate(blocked.url+"/", "h1")(t, ctx) }},
		{"limited", 500, 490, "en", func(ctx context.Context, _ *app) {
			limited.solve(visitor(t), "/")
			navigate(limited.url+"/", "h1")(t, ctx)
		}},
	} {
		run(t, ctx, fmt.Sprintf("%s, %d wide", p.name, p.width), chromedp.EmulateViewport(p.width, p.height))
		speak(t, ctx, p.lang)
		a := &app{t, ctx}
		run(t, ctx, "begin", chromedp.Navigate("about:blank"))
		p.open(ctx, a)
		if value[bool](t, ctx, `document.documentElement.scrollWidth > document.documentElement.clientWidth || !!document.querySelector('.test')`) {
			t.Errorf("%s scrolls sideways, or shows a test", p.name)
		}
		viewport(t, ctx, "docs/"+p.name)
	}
}
