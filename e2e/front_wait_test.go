package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// usedBySomebody lets somebody else at the address earn a pass.
func (g *gateway) usedBySomebody(t *testing.T, lang string) {
	t.Helper()
	g.ban("ip:127.0.0.1", "1h")
	eventually(t, "a pass of somebody else", func() bool {
		v := visitor(t).speaks(lang)
		r := v.get(v.get(g.url+"/page").Header.Get("Location") + "&step=digits")
		if r.StatusCode != 200 {
			return false
		}
		form := formOf(t, r.body)
		form.Set("rep", testAnswer)
		return v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").StatusCode == 303
	})
}

// TestWaitGoesOn: where the next pass of an address is not due yet, the page counts down in words and goes on by itself, to the
// question and from there to the page that was asked for; a form is carried along. Without scripts it says when to press.
func TestWaitGoesOn(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, formSite(t), "captcha: {passes_per_day: 1, longest_wait: 14s}\n")
	ctx := browser(t)
	used := func(lang string) { t.Helper(); g.usedBySomebody(t, lang) }
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
	run(t, ctx, "press", chromedp.Click("main a.go", chromedp.ByQuery))
	eventually(t, "the question after the press", func() bool {
		var shown bool // while the page changes nothing can be asked of it
		err := chromedp.Run(ctx, chromedp.Evaluate(`!!document.querySelector('#rep') || (document.querySelector('main a.go')?.click(), false)`, &shown))
		return err == nil && shown
	})
}

// TestDialogWaitGoesOn: where the pass is not due yet, the dialog counts down in words, of which only the first are read out, and
// gives the answer again by itself, once somebody looks at the tab. It can be closed meanwhile.
func TestDialogWaitGoesOn(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, appSite(t).URL, "captcha: {passes_per_day: 1, longest_wait: 22s}\n")
	ctx := browser(t)
	asked := func(lang, already string) *app {
		run(t, ctx, "forget the pass", network.ClearBrowserCookies())
		a := openApp(t, ctx, g.url+"/app?lang="+lang, "")
		g.ban("ip:127.0.0.1", "1h")
		a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'b'})); true`, nil)
		a.asked()
		a.eval(`window.said = (`+dialog+`).querySelector('[role=status]'); window.heard = [];
			new MutationObserver((all) => all.forEach((r) => r.addedNodes.forEach((n) => n.nodeType === 3 && heard.push(n.data)))).observe(said, {childList: true}); true`, nil)
		g.usedBySomebody(t, already)
		a.typed(testAnswer + "\r")
		return a
	}
	a := asked("ru", "en")
	a.until(`heard.some((x) => /^Попробовать снова можно через \d+ секунд.*само\.$/.test(x)) && (` + dialog + `).querySelector('[role=alert]').textContent.startsWith('За короткое время')`)
	a.until(`said.querySelector('[aria-live=off]') && heard.length === 2 && said.textContent !== heard[1]`)
	checkAxe(t, ctx, axe(t), "dialog at a wait")
	screen(t, ctx, "dialog-wait")
	// To the page the wait is over, but it is looked at only later; to the gateway it may not be over then.
	a.eval(`Object.defineProperty(document, 'hidden', {value: true, configurable: true}); const now = Date.now; Date.now = () => now() + 3600000; true`, nil)
	a.until(`said.textContent.includes('через 0 секунд')`)
	if got := a.events(); got != "challenge shown answer:limited" {
		t.Errorf("while nobody looked: %s", got)
	}
	a.eval(`delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); true`, nil)
	if r := a.result("r"); r.Value.Body != "b" {
		t.Errorf("got %+v", r)
	}
	a.gone()
	if got := a.events(); !strings.HasPrefix(got, "challenge shown answer:limited answer:") || !strings.HasSuffix(got, "answer:passed passed replayed") {
		t.Errorf("events: %s", got)
	}
	var heard []string
	if a.eval(`heard`, &heard); len(heard) != 2*strings.Count(a.events(), "limited")+1 { // that it checks, and how long it is, each time
		t.Errorf("read out: %q", heard)
	}

	g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	b := asked("de", "fr")
	b.until(`said.querySelector('[aria-live=off]')`)
	run(t, ctx, "close", chromedp.KeyEvent("\u001b"))
	if r := b.result("r"); r.Error != "AntirobotCancelled" {
		t.Errorf("closed: %+v", r)
	}
	b.gone()
}

// TestCheckWaitGoesOn: where the pass is not due yet, a press and a silent check say so, count down, and are done again by themselves,
// without digits; those are a button away. An interface of one's own is told how long to wait.
func TestCheckWaitGoesOn(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"press", "silent"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			longest := map[string]string{"press": "44s", "silent": "88s"}[step] // of which it waits its share
			g := configuredFront(t, appSite(t).URL, "    captcha: {steps: {robot: "+step+"}}\n"+
				"captcha: {passes_per_day: 1, longest_wait: "+longest+"}\n")
			ctx := browser(t)
			asked := func(options, already string) *app {
				run(t, ctx, "forget the pass", network.ClearBrowserCookies())
				a := openApp(t, ctx, g.url+"/app?lang=ru", options)
				g.usedBySomebody(t, already)
				a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'b'})); true`, nil)
				return a
			}
			a := asked("", "en")
			a.until(`!!(` + dialog + `)?.activeElement`)
			if step == "press" {
				a.eval(`(`+dialog+`).querySelector('.g').click(); true`, nil)
			}
			a.until(`(` + dialog + `).querySelector('[role=alert]').textContent.startsWith('За короткое время')`)
			a.until(`/^Попробовать снова можно через \d+ секунд.*само\.$/.test((` + dialog + `).querySelector('[role=status]').textContent)`)
			var seen []string
			a.eval(`[...(`+dialog+`).querySelectorAll('button, input, [role=alert], [role=status]')].filter((e) => e.checkVisibility()).map((e) => e.localName)`, &seen)
			if got, want := strings.Join(seen, " "), map[string]string{"press": "button button button p p", "silent": "button button p p"}[step]; got != want {
				t.Errorf("the dialog shows %s, want %s", got, want)
			}
			checkAxe(t, ctx, axe(t), "a check that has to wait")
			screen(t, ctx, "dialog-wait-"+step)
			if r := a.result("r"); r.Value.Body != "b" {
				t.Errorf("got %+v", r)
			}
			a.gone()

			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			b := asked(`{ui: (s) => { window.own = s; }}`, "de")
			b.until(`window.own`)
			if step == "press" {
				b.eval(`own.check('xm9.900.80').then((o) => { window.outcome = o; }); true`, nil)
				b.until(`window.outcome === 'limited'`)
			}
			b.until(`own.retryAfter > 0 && own.retryAfter <= 22`)
			b.eval(`own.cancel(); true`, nil)
			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)

			c := asked("", "fr")
			c.until(`!!(` + dialog + `)?.activeElement`)
			if step == "press" {
				c.eval(`(`+dialog+`).querySelector('.g').click(); true`, nil)
			}
			c.until(`/\d/.test((` + dialog + `).querySelector('[role=status]').textContent)`)
			c.eval(`[...(`+dialog+`).querySelectorAll('button')].find((b) => /цифры/.test(b.textContent)).click(); true`, nil)
			c.until(`(` + dialog + `).querySelector('input').checkVisibility() && !(` + dialog + `).querySelector('[role=status]').textContent`)
		})
	}
}
