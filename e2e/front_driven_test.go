package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestDrivenBrowsersAreAskedForDigits: where a silent check or a press is asked for, on its page and in the dialog, a browser that says it is driven, and one that
// hides it but is inspected, see digits, and are served nothing before these are answered. Not where nobody is to look.
func TestDrivenBrowsersAreAskedForDigits(t *testing.T) {
	t.Parallel()
	gate := func(t *testing.T, settings, step string) *gateway {
		t.Helper()
		return start(t, "serve", "--config", configFile(t, settings+"services: [{name: app, upstream: {urls: [%q]}, captcha: {steps: {robot: "+step+"}}}]", appSite(t).URL))
	}
	unsolved := func(t *testing.T, g *gateway) {
		t.Helper()
		if n := g.metric("antirobot_captcha_answers_total", `result="solved"`); n != 0 {
			t.Errorf("%v challenges were solved", n)
		}
	}

	t.Run("Chromium that hides", func(t *testing.T) {
		t.Parallel()
		ctx := browser(t)
		run(t, ctx, "hide", chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(hide).Do(ctx)
			return err
		}))
		for _, step := range []string{"silent", "press"} {
			g := gate(t, "", step)
			g.ban("ip:127.0.0.1", "1h")
			run(t, ctx, step, chromedp.Navigate(g.url+"/"), chromedp.WaitVisible(field, chromedp.ByQuery))
			unsolved(t, g)
		}

		g := gate(t, "captcha: {look_for_drivers: false}\n", "silent")
		g.ban("ip:127.0.0.1", "1h")
		run(t, ctx, "nobody looks", chromedp.Navigate(g.url+"/"), chromedp.WaitVisible("#more", chromedp.ByQuery))

		g = gate(t, "", "silent")
		a := openApp(t, ctx, g.url+"/", `{}`)
		g.ban("ip:127.0.0.1", "1h")
		a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'x'})); true`, nil)
		a.asked()
		unsolved(t, g)
	})
	t.Run("Firefox that says so", func(t *testing.T) {
		t.Parallel()
		f := launchFirefox(t)
		g := gate(t, "", "silent")
		g.ban("ip:127.0.0.1", "1h")
		f.open(g.url + "/")
		eventually(t, "the digits", func() bool { return f.eval("return !!document.querySelector('"+field+"')") == true })
		unsolved(t, g)
	})
}
