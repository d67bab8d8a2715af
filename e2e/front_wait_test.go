package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestWaitGoesOn: where the next pass of an address is not due yet, the page counts down in words and goes on by itself, to the
// question and from there to the page that was asked for; a form is carried along. Without scripts it says when to press.
func TestWaitGoesOn(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, formSite(t), "captcha: {passes_per_day: 1, passes_per_hour: 1000, longest_wait: 14s}\n")
	ctx := browser(t)
	used := func(lang string) { // somebody else at the address has just earned a pass
		t.Helper()
		g.ban("ip:127.0.0.1", "1h")
		eventually(t, "a pass of somebody else", func() bool {
			v := visitor(t).speaks(lang)
			r := v.get(v.get(g.url + "/page").Header.Get("Location"))
			if r.StatusCode != 200 {
				return false
			}
			form := formOf(t, r.body)
			form.Set("rep", testAnswer)
			return v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").StatusCode == 303
		})
	}
	used("en")
	speak(t, ctx, "ru")
	run(t, ctx, "meet the wait", chromedp.Navigate(g.url+"/page?a=1"), chromedp.WaitVisible("#wait", chromedp.ByQuery))
	first := value[string](t, ctx, `document.getElementById('wait').textContent`)
	if !strings.HasPrefix(first, "Попробовать снова можно через ") || !value[bool](t, ctx, `document.getElementById('then').checkVisibility()`) {
		t.Errorf("the page says %q", first)
	}
	screen(t, ctx, "wait")
	eventually(t, "another second", func() bool {
		return value[string](t, ctx, `(document.getElementById('wait') || {}).textContent || ''`) != first
	})
	run(t, ctx, "go on by itself", chromedp.WaitVisible(field, chromedp.ByQuery), chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery))
	eventually(t, "the page that was asked for", func() bool {
		return value[string](t, ctx, `location.pathname + location.search`) == "/page?a=1"
	})

	run(t, ctx, "forget", network.ClearBrowserCookies())
	g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	run(t, ctx, "write", chromedp.Navigate(g.url+"/write"), chromedp.WaitVisible("textarea", chromedp.ByQuery), chromedp.SendKeys("textarea", "kept words", chromedp.ByQuery))
	used("de")
	run(t, ctx, "send", chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible("#wait", chromedp.ByQuery), chromedp.WaitVisible(field, chromedp.ByQuery),
		chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//*[contains(.,"kept words")]`))

	run(t, ctx, "forget", network.ClearBrowserCookies())
	used("fr")
	run(t, ctx, "without scripts", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(g.url+"/page?a=2"), chromedp.WaitVisible("#wait", chromedp.ByQuery))
	if value[bool](t, ctx, `document.getElementById('then').checkVisibility()`) {
		t.Error("without scripts the page promises to go on")
	}
	eventually(t, "the question after the press", func() bool {
		run(t, ctx, "press", chromedp.Click("main a.go", chromedp.ByQuery), chromedp.WaitReady("h1", chromedp.ByQuery))
		return value[bool](t, ctx, `!!document.querySelector('#rep')`)
	})
}
