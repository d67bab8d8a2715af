package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
)

// ownPage is one of the gateway's pages, reached as a visitor would reach it.
type ownPage struct {
	name     string
	open, on func(t *testing.T, ctx context.Context) // on is the way from the page before it in the list, if that is open; nil: there is none
}

// field is the selector of the field for the answer.
const field = `input[name=rep]`

func navigate(url string, wait string) func(*testing.T, context.Context) {
	return func(t *testing.T, ctx context.Context) {
		t.Helper()
		run(t, ctx, "open "+url, chromedp.Navigate(url), chromedp.WaitVisible(wait, chromedp.ByQuery))
	}
}

// ownPages starts gateways in all the states that a visitor can meet.
func ownPages(t *testing.T) []ownPage {
	t.Helper()
	g := configuredFront(t, formSite(t), workSettings)
	down := serve(t, "http://"+freePort(t))
	blocked := serve(t, site(t).URL)
	blocked.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "1h", "reason": "test"})
	limited := configuredFront(t, site(t).URL, "captcha: {passes_per_day: 1}\n")
	limited.ban("ip:127.0.0.1", "1h")
	limited.solve(visitor(t), "/")
	banned := func(open func(*testing.T, context.Context)) func(*testing.T, context.Context) {
		return func(t *testing.T, ctx context.Context) {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			g.ban("ip:127.0.0.1", "1h")
			open(t, ctx)
		}
	}
	captcha := banned(navigate(g.url+"/page?a=1", field))
	wrong := func(t *testing.T, ctx context.Context) {
		run(t, ctx, "answer wrong", chromedp.SendKeys(field, "000000\r", chromedp.ByQuery), chromedp.WaitVisible(`[aria-invalid=true]`, chromedp.ByQuery))
	}
	return []ownPage{
		{name: "captcha", open: captcha},
		{name: "wrong", open: func(t *testing.T, ctx context.Context) { captcha(t, ctx); wrong(t, ctx) }, on: wrong},
		{name: "form", open: func(t *testing.T, ctx context.Context) {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			navigate(g.url+"/write", "textarea")(t, ctx)
			g.ban("ip:127.0.0.1", "1h")
			run(t, ctx, "send", chromedp.SendKeys("textarea", "a text", chromedp.ByQuery), chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible(field, chromedp.ByQuery))
		}},
		{name: "form-too-large", open: func(t *testing.T, ctx context.Context) {
			run(t, ctx, "forget", network.ClearBrowserCookies())
			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			navigate(g.url+"/write", "textarea")(t, ctx)
			g.ban("ip:127.0.0.1", "1h")
			run(t, ctx, "send", chromedp.SetValue("textarea", strings.Repeat("x", 80<<10), chromedp.ByQuery), chromedp.Click("#send", chromedp.ByQuery), chromedp.WaitVisible(".warn", chromedp.ByQuery))
		}},
		{name: "cookies-off", open: banned(func(t *testing.T, ctx context.Context) {
			navigate(g.url+"/page?a=1", field)(t, ctx)
			run(t, ctx, "forget, and load again", network.ClearBrowserCookies(), chromedp.Reload(), chromedp.WaitVisible(".warn", chromedp.ByQuery))
		})},
		{name: "blocked-403", open: navigate(blocked.url+"/", "h1")},
		{name: "limited-429", open: navigate(limited.url+"/", "h1")},
		{name: "down-502", open: navigate(down.url+"/", "h1")},
		{name: "not-found", open: navigate(g.url+"/captcha/nothing", "h1")},
	}
}

// axe returns the source of axe-core, which make deps installs.
func axe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(servertest.Module(t, "axe-core"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkAxe runs axe-core on the page with all its rules for WCAG 2.2 A and AA and for best practice.
func checkAxe(t *testing.T, ctx context.Context, source, name string) {
	t.Helper()
	var result json.RawMessage
	if !value[bool](t, ctx, `'axe' in window`) {
		run(t, ctx, "load axe", chromedp.Evaluate(source, nil))
	}
	run(t, ctx, "axe on "+name, chromedp.Evaluate(`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then((r) => ({ran: r.passes.length, violations: r.violations.map((v) => v.id + ': ' + v.help + ' ' + v.nodes.map((n) => n.html.slice(0, 120) + ' ' + n.failureSummary).join(' | '))}))`,
		&result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
			return p.WithAwaitPromise(true).WithReturnByValue(true)
		}))
	var r struct {
		Ran        int
		Violations []string
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	if r.Ran < 10 {
		t.Errorf("%s: axe passed %d rules only", name, r.Ran)
	}
	for _, v := range r.Violations {
		t.Errorf("%s: %s", name, v)
	}
}

func colourScheme(t *testing.T, ctx context.Context, dark bool) {
	t.Helper()
	run(t, ctx, "colours", emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: map[bool]string{false: "light", true: "dark"}[dark]},
	}))
}

// TestAxe finds no violation on any page, light and dark, nor in the dialog of antirobot.js, nor on the demo's pages.
func TestAxe(t *testing.T) {
	t.Parallel()
	source := axe(t)
	pages := ownPages(t)
	ctx := browser(t)
	for _, p := range pages {
		p.open(t, ctx)
		for _, dark := range []bool{false, true} { // the page follows, as it does for a person who changes it
			colourScheme(t, ctx, dark)
			checkAxe(t, ctx, source, fmt.Sprintf("%s, dark %t", p.name, dark))
		}
	}
	t.Run("dialog", func(t *testing.T) {
		g := configuredFront(t, appSite(t).URL, workSettings)
		for _, options := range []string{"{theme: 'light'}", "{theme: 'dark', lang: 'ar'}", "{ui: document.getElementById('here')}"} {
			a := openApp(t, ctx, g.url+"/app", options)
			g.ban("ip:127.0.0.1", "1h")
			a.eval(`keep('r', robot.fetch('/api/list')); true`, nil)
			a.asked()
			a.typed("000000\r")
			a.until(dialog + `.querySelector('[aria-invalid=true]')`)
			a.asked()
			checkAxe(t, ctx, source, "dialog "+options)
			run(t, ctx, "leave", chromedp.Navigate("about:blank"))
			g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
		}
	})
	t.Run("demo", func(t *testing.T) {
		g := start(t, "demo", "--traffic", "0", "--captcha-test-answer", testAnswer, "--log-level", "info")
		for _, path := range []string{"/", "/gallery", "/guestbook", "/guestbook/rules", "/list", "/live", "/search", "/play", "/nothing"} {
			navigate(g.url+path, "h1")(t, ctx)
			checkAxe(t, ctx, source, "demo "+path)
		}
		run(t, ctx, "spam", chromedp.Navigate(g.url+"/guestbook"), chromedp.SendKeys("[name=words]", "Win money at our online casino, free spins and a bonus"),
			chromedp.Submit("[name=words]"), chromedp.WaitVisible("blockquote.written"))
		checkAxe(t, ctx, source, "what was written")
	})
}

// value evaluates an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) (v T) {
	t.Helper()
	run(t, ctx, expression, chromedp.Evaluate(expression, &v))
	return v
}

// inView fails unless all that the selectors name stands in the window as it is scrolled.
func inView(t *testing.T, ctx context.Context, what string, selectors ...string) {
	t.Helper()
	screen := fmt.Sprintf(`%q.split(' | ').filter((s) => { const r = document.querySelector(s).getBoundingClientRect(); return r.top < 0 || r.bottom > innerHeight; })
		.map((s) => { const r = document.querySelector(s).getBoundingClientRect(); return s + ' from ' + r.top + ' to ' + r.bottom; }).join()`, strings.Join(selectors, " | "))
	if out := value[string](t, ctx, screen); out != "" {
		t.Errorf("%s: out of view: %s", what, out)
	}
	viewport(t, ctx, "keyboard/"+what)
}

// TestPagePoints checks the ten points of the captcha page in a real browser; the numbers are those of docs/people.md.
func TestPagePoints(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "1h")
	ctx := browser(t)
	open := navigate(g.url+"/page?a=1", field)
	wrong := func(t *testing.T) {
		open(t, ctx)
		run(t, ctx, "answer wrong", chromedp.SendKeys(field, "000000\r", chromedp.ByQuery), chromedp.WaitVisible(`[aria-invalid=true]`, chromedp.ByQuery))
	}
	forget := func(t *testing.T) { run(t, ctx, "forget", network.ClearBrowserCookies()) }

	t.Run("1 the alt says what the picture is for", func(t *testing.T) {
		open(t, ctx)
		alt := value[string](t, ctx, `document.querySelector('main img').alt`)
		if len(alt) < 20 || strings.ContainsAny(alt, "0123456789") {
			t.Errorf("alt %q", alt)
		}
	})
	t.Run("2 picture and sound", func(t *testing.T) {
		open(t, ctx)
		if w := value[int](t, ctx, `document.querySelector('main img').naturalWidth`); w != 480 {
			t.Errorf("the picture is %d wide", w)
		}
		var seconds float64
		run(t, ctx, "play", chromedp.Evaluate(`new Promise((ok, no) => { const a = document.querySelector('audio'); a.muted = true; a.onloadedmetadata = () => ok(a.duration); a.onerror = () => no(new Error('no sound')); a.load(); a.play(); })`, &seconds,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if seconds < 3 {
			t.Errorf("%.1f seconds of sound", seconds)
		}
	})
	t.Run("3 the field takes what people type and paste", func(t *testing.T) {
		for _, typed := range []string{"314159", " 314 159 ", "٣١٤١٥٩", "۳۱۴۱۵۹", "\uff13\uff11\uff14\uff11\uff15\uff19", "३१४१५९"} {
			forget(t)
			open(t, ctx)
			got := value[string](t, ctx, `(() => { const f = document.querySelector('`+field+`'); return [f.type, f.inputMode, f.pattern, f.autocomplete, f.maxLength, f.placeholder].join('|'); })()`)
			if got != "text|numeric|[0-9]*|off|-1|" {
				t.Errorf("the field is %s", got)
			}
			run(t, ctx, "paste", chromedp.Focus(field, chromedp.ByQuery), chromedp.ActionFunc(func(ctx context.Context) error {
				return input.InsertText(typed).Do(ctx)
			}), chromedp.Click("form#challenge button.go", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"site got")]`))
		}
		forget(t)
	})
	t.Run("4 label and order", func(t *testing.T) {
		open(t, ctx)
		got := value[string](t, ctx, `(() => {
			const f = document.querySelector('`+field+`'), l = f.labels[0];
			const order = ['.reason', 'main img', '`+field+`', 'button.go', '.ways a', 'a.keep', 'details'].map((s) => document.querySelector(s));
			const sorted = order.every((e, i) => !i || order[i - 1].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING);
			return [l.checkVisibility(), l.textContent.length > 10, sorted].join(' ');
		})()`)
		if got != "true true true" {
			t.Errorf("label visible, long enough, order: %s", got)
		}
		// The same order by the keyboard.
		var seen []string
		for range 8 {
			run(t, ctx, "tab", chromedp.KeyEvent("\t"))
			seen = append(seen, value[string](t, ctx, `(() => { const e = document.activeElement; return e.className || e.name || e.localName; })()`))
		}
		if got := strings.Join(seen, " "); strings.Index(got, "rep") > strings.Index(got, "go") || !strings.Contains(got, "go a keep") || strings.Contains(got, "audio") {
			t.Errorf("Tab goes to %s", got)
		}
	})
	t.Run("4 picture, field and button together above a phone's keyboard", func(t *testing.T) {
		run(t, ctx, "what the keyboard leaves", chromedp.EmulateViewport(390, 400))
		defer run(t, ctx, "a desk", chromedp.EmulateViewport(1100, 640))
		for _, tag := range []string{"en", "de", "hi"} {
			speak(t, ctx, tag)
			forget(t)
			open(t, ctx)
			run(t, ctx, "focus", chromedp.Focus(field, chromedp.ByQuery))
			inView(t, ctx, "asked in "+tag, "main img", field, "button.go")
			if n := value[int](t, ctx, `new Set([...document.querySelectorAll('.ways > a')].map((e) => e.getBoundingClientRect().top)).size`); n != 1 {
				t.Errorf("sound and another picture are in %d rows in %s", n, tag)
			}
			wrong(t)
			inView(t, ctx, "wrong in "+tag, "main img", ".error", field, "button.go")
		}
		speak(t, ctx, "en")
	})
	t.Run("5 wrong", func(t *testing.T) {
		open(t, ctx)
		before := value[string](t, ctx, `document.querySelector('main img').src`)
		wrong(t)
		got := value[string](t, ctx, `(() => { const f = document.querySelector('`+field+`');
			const e = document.getElementById(f.getAttribute('aria-describedby').split(' ')[0]);
			return [document.title.startsWith('Error:'), document.activeElement === f, f.value === '', e.getAttribute('role'), e.checkVisibility(), document.querySelector('main img').src !== `+strconv.Quote(before)+`].join(' '); })()`)
		if got != "true true true alert true true" {
			t.Errorf("title, focus, empty field, role, visible, new picture: %s", got)
		}
	})
	t.Run("6 no hurry", func(t *testing.T) {
		open(t, ctx)
		if n := value[int](t, ctx, `document.querySelectorAll('meta[http-equiv=refresh], time, [role=timer]').length`); n != 0 {
			t.Errorf("%d countdowns", n)
		}
		// A key that can't be answered any more is a new picture without a reproach.
		run(t, ctx, "expired", chromedp.Evaluate(`location.search += '&status=expired'`, nil), chromedp.WaitVisible(`.error`, chromedp.ByQuery))
		got := value[string](t, ctx, `[document.querySelector('.error').textContent, document.querySelector('`+field+`').getAttribute('aria-invalid')].join('|')`)
		if !strings.Contains(got, "nothing is lost") || !strings.HasSuffix(got, "|false") {
			t.Errorf("expired: %s", got)
		}
	})
	t.Run("7 without JavaScript, and large enough to hit", func(t *testing.T) {
		run(t, ctx, "switch JavaScript off", emulation.SetScriptExecutionDisabled(true))
		defer run(t, ctx, "switch JavaScript on", emulation.SetScriptExecutionDisabled(false))
		open(t, ctx)
		var before, after, audio string
		var ok bool
		run(t, ctx, "another picture", chromedp.AttributeValue("main img", "src", &before, &ok, chromedp.ByQuery), chromedp.Click("a.keep", chromedp.ByQuery), chromedp.Sleep(300*time.Millisecond),
			chromedp.WaitVisible(field, chromedp.ByQuery), chromedp.AttributeValue("main img", "src", &after, &ok, chromedp.ByQuery), chromedp.AttributeValue("audio", "src", &audio, &ok, chromedp.ByQuery))
		if before == after || !strings.Contains(audio, "/captcha/audio") {
			t.Errorf("pictures %s and %s, sound %s", before, after, audio)
		}
		// One way to listen: the browser's player here, and with JavaScript the link, which plays.
		if got := value[string](t, ctx, `[document.querySelector('audio').checkVisibility(), document.querySelector('.ways a').checkVisibility()].join(' ')`); got != "true false" {
			t.Errorf("player and link are visible: %s", got)
		}
		small := value[string](t, ctx, `[...document.querySelectorAll('a:not([hidden]), button:not(.unseen), input:not([type=hidden]), summary')].filter((e) => { const r = e.getBoundingClientRect(); return r.width < 24 || r.height < 24; }).map((e) => e.outerHTML).join()`)
		if small != "" {
			t.Errorf("smaller than 24 pixels: %s", small)
		}
	})
	t.Run("8 looks", func(t *testing.T) {
		for _, zoom := range []int64{320, 1100} {
			run(t, ctx, "size", chromedp.EmulateViewport(zoom, 640))
			open(t, ctx)
			if value[bool](t, ctx, `document.documentElement.scrollWidth > document.documentElement.clientWidth`) {
				t.Errorf("scrolls sideways at %d", zoom)
			}
		}
		open(t, ctx)
		run(t, ctx, "focus", chromedp.Focus(field, chromedp.ByQuery), chromedp.KeyEvent("\t"))
		if w := value[string](t, ctx, `getComputedStyle(document.activeElement).outlineWidth`); w != "3px" {
			t.Errorf("the focus ring is %s wide", w)
		}
		colourScheme(t, ctx, true)
		dark := value[string](t, ctx, `getComputedStyle(document.body).backgroundColor`)
		colourScheme(t, ctx, false)
		if light := value[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); light == dark {
			t.Errorf("dark is as light: %s", dark)
		}
		run(t, ctx, "forced colours", emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}))
		if b := value[string](t, ctx, `getComputedStyle(document.querySelector('button.go')).borderTopColor`); b == "rgba(0, 0, 0, 0)" {
			t.Errorf("in forced colours the button has no border")
		}
		run(t, ctx, "usual colours", emulation.SetEmulatedMedia())
		if n := value[int](t, ctx, `document.getAnimations().length`); n != 0 {
			t.Errorf("%d things move", n)
		}
		// The switch keeps the way back.
		run(t, ctx, "speak Arabic", chromedp.Click(`button[name=switch][value=ar]`, chromedp.ByQuery), chromedp.WaitVisible(`html[dir=rtl]`, chromedp.ByQuery))
		got := value[string](t, ctx, `[document.documentElement.lang, getComputedStyle(document.querySelector('h1')).direction, getComputedStyle(document.querySelector('`+field+`')).direction, getComputedStyle(document.querySelector('code')).direction].join(' ')`)
		if got != "ar rtl ltr ltr" {
			t.Errorf("Arabic: %s", got)
		}
		var where string
		run(t, ctx, "answer", chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where))
		if where != g.url+"/page?a=1" {
			t.Errorf("landed on %s", where)
		}
		forget(t)
	})
	t.Run("9 why, and whom to tell", func(t *testing.T) {
		open(t, ctx)
		run(t, ctx, "ask why", chromedp.Click("summary", chromedp.ByQuery), chromedp.WaitVisible("details p", chromedp.ByQuery))
		if id := value[string](t, ctx, `document.querySelector('footer code').textContent`); len(id) != 26 {
			t.Errorf("request id %q", id)
		}
	})
	t.Run("10 nothing from third parties, nothing kept, no artificial wait", func(t *testing.T) {
		v := visitor(t)
		r := v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer",
		} {
			if !strings.Contains(r.Header.Get(name), want) {
				t.Errorf("%s: %s", name, r.Header.Get(name))
			}
		}
		var foreign []string
		host := strings.TrimPrefix(g.url, "http://")
		weight := 0
		chromedp.ListenTarget(ctx, func(e any) {
			switch e := e.(type) {
			case *network.EventRequestWillBeSent:
				if u, err := url.Parse(e.Request.URL); err == nil && u.Host != host && u.Scheme != "data" {
					foreign = append(foreign, e.Request.URL)
				}
			case *network.EventLoadingFinished:
				weight += int(e.EncodedDataLength)
			}
		})
		run(t, ctx, "watch", network.Enable(), network.SetCacheDisabled(true))
		open(t, ctx)
		run(t, ctx, "settle", chromedp.Sleep(200*time.Millisecond))
		if len(foreign) > 0 {
			t.Errorf("asked third parties: %v", foreign)
		}
		t.Logf("the captcha page with its picture and all header fields: %d bytes", weight)
		if weight < 5000 || weight > 30<<10 {
			t.Errorf("the page weighs %d bytes", weight)
		}
		began := time.Now()
		run(t, ctx, "answer", chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"site got")]`))
		t.Logf("from the first key to the page that was asked for: %v", time.Since(began).Round(time.Millisecond))
	})
}
