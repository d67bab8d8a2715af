package e2e

import (
	"context"
	"crypto/sha256"
	bytesof "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	xhtml "golang.org/x/net/html"
)

// TestStepsOnThePage: the button is pressed by keyboard alone; a moving picture is answered with the arrows' buttons and by
// typing; without JavaScript a silent check leads to the digits by itself. Each ends on the page that was asked for. Whoever
// has pressed comes to the page from a banned address elsewhere, too, without being asked: the browser proves that it is the same,
// even if it takes long for its first signature, as it does on a busy machine.
func TestStepsOnThePage(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	there := chromedp.WaitVisible(`//pre[contains(.,"site got")]`)
	open := func(step, wait string) *gateway {
		t.Helper()
		g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: "+step+"}}\n", "--trusted-proxies", "127.0.0.1")
		run(t, ctx, "forget", network.ClearBrowserCookies())
		if step == "press" {
			run(t, ctx, "sign slowly", chromedp.ActionFunc(func(ctx context.Context) error {
				_, err := page.AddScriptToEvaluateOnNewDocument(`{
					const sign = SubtleCrypto.prototype.sign;
					SubtleCrypto.prototype.sign = async function (...of) {
						if (!sessionStorage.slow) await new Promise((go) => setTimeout(go, 1500));
						sessionStorage.slow = 'once';
						const signature = await sign.apply(this, of);
						document.documentElement.dataset.signed = '';
						return signature;
					};
				}`).Do(ctx)
				return err
			}))
		}
		g.ban("ip:127.0.0.1", "1h")
		run(t, ctx, step, chromedp.Navigate(g.url+"/page"), chromedp.WaitVisible(wait, chromedp.ByQuery))
		return g
	}

	g := open("press", "#press")
	checkAxe(t, ctx, axe(t), "a press")
	tabTo(t, ctx, `e.id === 'press'`)
	run(t, ctx, "press", chromedp.WaitReady("html[data-signed]", chromedp.ByQuery), chromedp.KeyEvent("\r"), there)
	g.ban("ip:203.0.113.9", "1h")
	run(t, ctx, "go elsewhere", comeFrom("203.0.113.9"), chromedp.Navigate(g.url+"/page"), there, comeFrom(""))
	if moved := g.metric("antirobot_captcha_answers_total", `result="moved"`); moved != 1 {
		t.Errorf("moved %v times, want once", moved)
	}

	run(t, ctx, "what a phone's keyboard leaves", chromedp.EmulateViewport(390, 400))
	open("dynamic", ".arrows button")
	run(t, ctx, "focus", chromedp.Focus(field, chromedp.ByQuery))
	inView(t, ctx, "a moving picture", "main img", ".arrows button", field, "button.go")
	run(t, ctx, "a desk", chromedp.EmulateViewport(1100, 640))
	checkAxe(t, ctx, axe(t), "a moving picture")
	run(t, ctx, "the arrows", chromedp.Click(".arrows button", chromedp.ByQuery))
	if got := value[string](t, ctx, `document.querySelector('`+field+`').value`); got != "←" {
		t.Errorf("the button writes %q", got)
	}
	for round := range 2 {
		key := value[string](t, ctx, `document.querySelector('[name=key]').value`)
		run(t, ctx, "answer", chromedp.Evaluate(`document.querySelector('`+field+`').value = ''`, nil), chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery))
		if round == 0 {
			run(t, ctx, "the next picture", chromedp.WaitVisible(`//form[.//input[@name="key" and @value!="`+key+`"]]//img[@class="moving"]`), chromedp.WaitVisible(".arrows button", chromedp.ByQuery))
		}
	}
	run(t, ctx, "arrive", there)

	run(t, ctx, "switch JavaScript off", emulation.SetScriptExecutionDisabled(true))
	open("silent", field)
	run(t, ctx, "answer", chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), there)
}

// TestMovingWithoutScripts: where a moving picture is asked for, Chromium without JavaScript and a text browser see digits, and no
// other picture is made; after an error they see digits again. With JavaScript only the moving picture is made.
func TestMovingWithoutScripts(t *testing.T) {
	t.Parallel()
	made := func(g *gateway) float64 {
		shown := 0.0
		for _, result := range []string{"made", "shared"} { // challenges that ask for the same digits share a picture
			shown += g.metric("antirobot_captcha_media_total", `medium="image"`, `result="`+result+`"`)
		}
		return shown
	}
	open := func() *gateway {
		g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: dynamic}}\n")
		g.ban("ip:127.0.0.1", "1h")
		return g
	}

	g, ctx := open(), browser(t)
	there := chromedp.WaitVisible(`//pre[contains(.,"site got")]`)
	run(t, ctx, "with JavaScript", chromedp.Navigate(g.url+"/page"), chromedp.WaitVisible(".arrows button", chromedp.ByQuery),
		chromedp.WaitVisible(`//p[contains(.,"Dots drift")]`), chromedp.WaitVisible(`//button[@name="step" and contains(.,"digits")]`))
	if loaded := value[bool](t, ctx, `((i) => i.naturalWidth > 0 && i.naturalWidth === i.naturalHeight)(document.querySelector('img.moving'))`); !loaded || made(g) != 1 {
		t.Errorf("the picture: moving %v, %v made", loaded, made(g))
	}
	wrong := strings.Repeat("2", len(testAnswer))
	run(t, ctx, "choose digits", chromedp.Click(`[name=step]`, chromedp.ByQuery), chromedp.WaitVisible(`main img:not(.moving)`, chromedp.ByQuery),
		chromedp.SendKeys(field, wrong+"\r", chromedp.ByQuery), chromedp.WaitVisible("#problem", chromedp.ByQuery), chromedp.WaitVisible(`main img:not(.moving)`, chromedp.ByQuery),
		chromedp.Click("a.keep", chromedp.ByQuery), chromedp.WaitNotPresent("#problem", chromedp.ByQuery), chromedp.WaitVisible(`main img:not(.moving)`, chromedp.ByQuery))

	g = open()
	run(t, ctx, "without JavaScript", network.ClearBrowserCookies(), withoutJavaScript(), chromedp.Navigate(g.url+"/page"), chromedp.WaitVisible(`main img[height="80"]`, chromedp.ByQuery),
		chromedp.WaitVisible(`//p[contains(.,"digits from the picture")]`), chromedp.WaitNotPresent(".arrows", chromedp.ByQuery))
	run(t, ctx, "a wrong answer", chromedp.SendKeys(field, wrong+"\r", chromedp.ByQuery), chromedp.WaitVisible("#problem", chromedp.ByQuery), chromedp.WaitVisible(`main img[height="80"]`, chromedp.ByQuery),
		chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), there)
	if n := made(g); n != 2 {
		t.Errorf("%v pictures were made for two challenges", n)
	}

	t.Run("Firefox", func(t *testing.T) {
		f := launchFirefox(t)
		if err := f.scripts(false); err != nil {
			t.Fatal(err)
		}
		g = open()
		f.open(g.url + "/page")
		f.find(`main img[height="80"]`)
		f.keys(field, testAnswer+"\ue007")
		settled(t, "Firefox is there", func() (bool, error) {
			source, err := f.try("WebDriver:GetPageSource", nil)
			s, _ := source.(string)
			return strings.Contains(s, "site got"), err
		})
		if n := made(g); n != 1 {
			t.Errorf("Firefox: %v pictures were made", n)
		}
	})

	g = open()
	text := visitor(t)
	asked := text.get(g.url+"/page").must(t, 302, "")
	shown := text.get(asked.Header.Get("Location")).must(t, 200, "Type the digits from the picture")
	words, pictures := textOf(t, shown.body)
	if strings.Contains(words, "Dots drift") || strings.Contains(words, "←") || len(pictures) != 1 {
		t.Errorf("a text browser shows %v and\n%s", pictures, words)
	}
	text.get(g.url+pictures[0]).must(t, 200, "PNG")
	text.do("POST", g.url+"/checkcaptcha", answered(t, shown.body, testAnswer), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
	text.get(g.url+"/page").must(t, 200, "site got")
}

// textOf returns what a browser that knows no scripts, styles and attributes such as hidden shows of a page, and its pictures.
func textOf(t *testing.T, page string) (words string, pictures []string) {
	t.Helper()
	nodes, err := xhtml.ParseWithOptions(strings.NewReader(page), xhtml.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range nodes.Descendants() {
		switch {
		case n.Type == xhtml.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style":
			b.WriteString(n.Data)
		case n.Type == xhtml.ElementNode && n.Data == "img":
			for _, a := range n.Attr {
				if a.Key == "src" {
					pictures = append(pictures, a.Val)
				}
			}
		}
	}
	return b.String(), pictures
}

// comeFrom makes a browser come from an address, through a proxy before the gateway; empty: from its own.
func comeFrom(address string) chromedp.Action {
	headers := network.Headers{}
	if address != "" {
		headers["X-Forwarded-For"] = address
	}
	return chromedp.Tasks{network.Enable(), network.SetExtraHTTPHeaders(headers)}
}

// makeKeys gives the page's origin the browser's key pair, as the script of a challenge would. A challenge waits a second for it,
// and on a busy machine that may be too short to make one.
func makeKeys(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, "make the browser's keys", chromedp.Evaluate(`(async () => {
		const asked = (r) => new Promise((resolve, reject) => { r.onsuccess = () => resolve(r.result); r.onerror = () => reject(r.error); });
		const opening = indexedDB.open('antirobot', 1);
		opening.onupgradeneeded = () => opening.result.createObjectStore('keys');
		const db = await asked(opening);
		const made = await crypto.subtle.generateKey({name: 'ECDSA', namedCurve: 'P-256'}, false, ['sign']);
		await asked(db.transaction('keys', 'readwrite').objectStore('keys').put(made, 0));
		db.close();
	})()`, nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// TestSilentCheckSaysNothingAtOnce: a silent check shows nothing for 0.3 s, and then in words what happens, without anything that
// moves; one that can't go on leads to the digits by itself.
func TestSilentCheckSaysNothingAtOnce(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: silent}}\n")
	g.ban("ip:127.0.0.1", "1h")
	ctx := browser(t)
	held := make(chan fetch.RequestID, 10)
	chromedp.ListenTarget(ctx, func(e any) {
		if e, ok := e.(*fetch.EventRequestPaused); ok {
			held <- e.RequestID
		}
	})
	run(t, ctx, "hold the part back", fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: "*/captcha/image*"}}),
		chromedp.ActionFunc(func(ctx context.Context) error { // the page is not loaded before its part
			_, _, _, _, err := page.Navigate(g.url + "/page").Do(ctx)
			return err
		}))
	part := <-held
	if delay := value[float64](t, ctx, `document.querySelector('main').getAnimations()[0].effect.getTiming().delay`); delay != 300 {
		t.Errorf("the page says something after %v ms", delay)
	}
	at := func(ms string) string {
		return value[string](t, ctx, `document.getAnimations().forEach((a) => { a.pause(); a.currentTime = `+ms+`; }), getComputedStyle(document.querySelector('h1')).visibility`)
	}
	if early, late := at("299"), at("301"); early != "hidden" || late != "visible" {
		t.Errorf("before 0.3 s the page is %s, and then %s", early, late)
	}
	if n := value[int](t, ctx, `document.querySelectorAll('img, svg, progress, [role=progressbar]').length`); n != 0 {
		t.Errorf("%d things besides words", n)
	}
	checkAxe(t, ctx, axe(t), "a silent check")
	run(t, ctx, "lose the part", fetch.FailRequest(part, network.ErrorReasonConnectionReset), fetch.Disable(), chromedp.WaitVisible(field, chromedp.ByQuery))
}

// TestStorageIsDenied: a browser that lets pages keep nothing but cookies answers as any other, and is not asked again when it
// goes to another network at once.
func TestStorageIsDenied(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: press}}\n", "--trusted-proxies", "127.0.0.1")
	g.ban("ip:203.0.113.1", "1h")
	g.ban("ip:198.51.100.1", "1h")
	ctx := browser(t)
	there := chromedp.WaitVisible(`//pre[contains(.,"site got")]`)
	run(t, ctx, "deny", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`for (const name of ['indexedDB', 'localStorage', 'sessionStorage', 'caches'])
			Object.defineProperty(window, name, {get() { throw new DOMException('denied', 'SecurityError'); }});`).Do(ctx)
		return err
	}), comeFrom("203.0.113.1"), chromedp.Navigate(g.url+"/page"), chromedp.WaitVisible("#press", chromedp.ByQuery), chromedp.Click("#press", chromedp.ByQuery), there)
	run(t, ctx, "go elsewhere", comeFrom("198.51.100.1"), chromedp.Navigate(g.url+"/more"), there)
	run(t, ctx, "and back", comeFrom("203.0.113.1"), chromedp.Navigate(g.url+"/page"), there)
	if n := g.metric("antirobot_captcha_answers_total", `result="solved"`); n != 1 {
		t.Errorf("%v questions were answered", n)
	}
}

// TestServiceAsksForAPress: a form that the service wants a press for goes on with it, once, to its own address.
func TestServiceAsksForAPress(t *testing.T) {
	t.Parallel()
	var posted atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		passed := r.Header.Get("X-Antirobot-Passed")
		switch {
		case r.Method != http.MethodPost:
			fmt.Fprint(w, `<!doctype html><title>Buy</title><form method=post action=/pay><textarea name=text></textarea><button id=send>Pay</button></form>`)
		case posted.Add(1) == 1 && passed == "":
			w.Header().Set("X-Antirobot-Require", "press")
			w.WriteHeader(http.StatusForbidden)
		default:
			fmt.Fprintf(w, `<!doctype html><title>Thanks</title><pre id=got>%s after %s</pre>`, html.EscapeString(r.PostFormValue("text")), html.EscapeString(passed))
		}
	}))
	t.Cleanup(service.Close)
	g := serve(t, service.URL)
	ctx := browser(t)
	var got, where string
	run(t, ctx, "pay", chromedp.Navigate(g.url+"/buy"), chromedp.SendKeys("textarea", "ten & one", chromedp.ByQuery), chromedp.Click("#send", chromedp.ByQuery),
		chromedp.WaitVisible("#press", chromedp.ByQuery), chromedp.Click("#press", chromedp.ByQuery), chromedp.Text("#got", &got, chromedp.ByQuery), chromedp.Location(&where))
	if !strings.HasPrefix(got, "ten & one after press;at=") || where != g.url+"/pay" || posted.Load() != 2 {
		t.Errorf("%q at %s, %d requests", got, where, posted.Load())
	}
}

// TestMovingPictureInDialog: antirobot.js shows a moving picture with arrows, keys and sound; an act leads to the next picture,
// the last one on; digits are a button away. At another address the pass moves along, without a dialog.
func TestMovingPictureInDialog(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, appSite(t).URL, "    captcha: {steps: {robot: dynamic}}\n", "--trusted-proxies", "127.0.0.1")
	a := openApp(t, browser(t), g.url+"/app", "")
	makeKeys(t, a.ctx)
	g.ban("ip:127.0.0.1", "1h")
	run(t, a.ctx, "what a phone's keyboard leaves", chromedp.EmulateViewport(390, 400))
	a.eval(`keep('r', robot.fetch('/api/list', {method: 'POST', body: 'kept'})); true`, nil)
	a.asked()
	checkAxe(t, a.ctx, axe(t), "a moving picture in the dialog")
	a.inView("img", "input", "form>div>.b>.g")
	const field, image = dialog + `.querySelector('input')`, dialog + `.querySelector('img')`
	a.eval(`[...`+dialog+`.querySelectorAll('button')].find((b) => b.textContent === '←').click(); true`, nil)
	run(t, a.ctx, "a key", chromedp.KeyEvent(kb.ArrowUp))
	var got, src, audio string
	a.eval(field+`.value`, &got)
	a.eval(image+`.src`, &src)
	a.eval(dialog+`.querySelector('audio').src`, &audio)
	if got != "←↑" || strings.Replace(src, "/image", "/audio", 1)+"&lang=en" != audio {
		t.Errorf("the field has %q, the sound of %s is %s", got, src, audio)
	}
	a.until(image + `.naturalHeight === ` + image + `.naturalWidth`)
	a.eval(`Object.assign(`+field+`, {value: ''}).focus(); true`, nil)
	a.typed(testAnswer + "\r")
	a.until(image + `.src !== '` + src + `' && ` + field + `.value === ''`)
	a.typed(testAnswer + "\r")
	if r := a.result("r"); r.Value.URL != "/api/list" || r.Value.Body != "kept" {
		t.Errorf("got %+v", r)
	}
	if got := a.events(); got != "challenge shown answer:next answer:passed passed replayed" {
		t.Errorf("events: %s", got)
	}
	g.ban("ip:203.0.113.9", "1h")
	run(t, a.ctx, "go elsewhere", comeFrom("203.0.113.9"))
	a.eval(`log.length = 0; keep('s', robot.fetch('/api/list', {method: 'POST', body: 'kept'})); true`, nil)
	if r := a.result("s"); r.Value.Body != "kept" || a.events() != "passed replayed" {
		t.Errorf("elsewhere: %+v, events %s", r, a.events())
	}
}

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

// workSettings offer the way without a puzzle, for a service in YAML.
const workSettings = "    captcha: {work: true}\n"

// slowWork makes the work last long enough to look at it.
const slowWork = "captcha: {work: {hashes: 100000000}}\n"

const offerButton = `#work button`

// tabTo moves the focus by keyboard until the expression is true for the focused element.
func tabTo(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for range 40 {
		run(t, ctx, "tab", chromedp.KeyEvent("\t"))
		if value[bool](t, ctx, `((e) => !!(`+expression+`))(document.activeElement)`) {
			return
		}
	}
	t.Fatalf("the keyboard never reaches %s", expression)
}

// TestWorkOnThePage: somebody who cannot or will not read digits lets the browser work, by keyboard alone and with every
// picture and sound blocked, and reaches their destination.
func TestWorkOnThePage(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, workSettings)
	g.ban("ip:127.0.0.1", "1h")
	ctx := browser(t)
	run(t, ctx, "no pictures, no sound", network.Enable(), network.SetBlockedURLs([]string{"*/captcha/image*", "*/captcha/audio*"}))
	target := g.url + "/page?a=1&b=2#part"
	navigate(target, offerButton)(t, ctx)
	if w := value[int](t, ctx, `document.querySelector('main img').naturalWidth`); w != 0 {
		t.Fatalf("the picture is there, %d wide", w)
	}
	tabTo(t, ctx, `e.matches('#work button')`)
	var where string
	run(t, ctx, "let it work", chromedp.KeyEvent("\r"), chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where))
	if where != target {
		t.Errorf("landed on %s, wanted %s", where, target)
	}
	if n := g.metric(`antirobot_captcha_work_total{result="solved"}`); n != 1 {
		t.Errorf("%.0f passes by work", n)
	}
	run(t, ctx, "go on as a human", chromedp.Navigate(g.url+"/next"), chromedp.WaitVisible(`//pre[contains(.,"GET /next")]`))
}

// TestWorkIsHeard: progress is announced in words; the page stays responsive; the work can be stopped, and the digits are
// still there; errors are announced.
func TestWorkIsHeard(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, workSettings+slowWork)
	g.ban("ip:127.0.0.1", "1h")
	ctx := browser(t)
	said := func() string {
		return value[string](t, ctx, `document.querySelector('#work [role=status]').textContent`)
	}
	saysSoon := func(want string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for !strings.Contains(said(), want) {
			if time.Now().After(deadline) {
				t.Fatalf("never said %q, but %q", want, said())
			}
			time.Sleep(30 * time.Millisecond)
		}
	}
	navigate(g.url+"/page?a=1", offerButton)(t, ctx)
	offer := value[string](t, ctx, `document.querySelector('#work button').textContent`)
	if s := said(); s != "" || !strings.Contains(offer, "Without digits") {
		t.Errorf("before: %q, offered %q", s, offer)
	}
	run(t, ctx, "begin", chromedp.Click(offerButton, chromedp.ByQuery))
	saysSoon("working")
	if b := value[string](t, ctx, `document.querySelector('#work button').textContent`); b != "Cancel" {
		t.Errorf("the button says %q", b)
	}
	// The page is not held up: work in its own thread would stop it for the better part of a minute.
	var longest float64
	run(t, ctx, "look", chromedp.Evaluate(`new Promise((ok) => { let last = performance.now(), most = 0, n = 0;
		const tick = () => { const now = performance.now(); most = Math.max(most, now - last); last = now; ++n < 60 ? setTimeout(tick, 5) : ok(most); }; tick(); })`, &longest,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if longest > 2000 {
		t.Errorf("the page stood still for %.0f ms", longest)
	}
	checkAxe(t, ctx, axe(t), "at work")
	if low := value[string](t, ctx, `(() => { const r = document.querySelector('#work button').getBoundingClientRect(); return r.height < 24 || r.width < 24 ? r.width + 'x' + r.height : ''; })()`); low != "" {
		t.Errorf("the button is %s", low)
	}
	run(t, ctx, "stop", chromedp.Click(offerButton, chromedp.ByQuery))
	saysSoon("Stopped")
	run(t, ctx, "answer all the same", chromedp.SendKeys(field, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"site got")]`))

	for _, c := range []struct{ path, want string }{{"/captcha/work.js", "did not work"}, {"/checkcaptcha", "did not work"}} {
		run(t, ctx, "forget", network.ClearBrowserCookies())
		navigate(g.url+"/page?a=1", offerButton)(t, ctx)
		broken, stop := context.WithCancel(ctx)
		chromedp.ListenTarget(broken, func(e any) {
			if e, ok := e.(*fetch.EventRequestPaused); ok {
				go func() { _ = chromedp.Run(broken, fetch.FailRequest(e.RequestID, network.ErrorReasonConnectionRefused)) }()
			}
		})
		run(t, ctx, "break "+c.path, fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: "*" + c.path + "*"}}))
		run(t, ctx, "begin", chromedp.Click(offerButton, chromedp.ByQuery))
		saysSoon(c.want)
		run(t, ctx, "mend", fetch.Disable())
		stop()
	}
}

// TestWorkIsHiddenWithoutJavaScript: work is not offered if it can't be done.
func TestWorkIsHiddenWithoutJavaScript(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, workSettings)
	g.ban("ip:127.0.0.1", "1h")
	ctx := browser(t)
	run(t, ctx, "switch JavaScript off", emulation.SetScriptExecutionDisabled(true))
	navigate(g.url+"/page", field)(t, ctx)
	if visible := nodeVisible(t, ctx, offerButton); visible {
		t.Error("the offer is shown without JavaScript")
	}
}

// nodeVisible asks the browser, not the page, whether something has a box.
func nodeVisible(t *testing.T, ctx context.Context, selector string) bool {
	t.Helper()
	run(t, ctx, "switch JavaScript on", emulation.SetScriptExecutionDisabled(false)) // the page was loaded without
	return value[bool](t, ctx, `document.querySelector('`+selector+`').checkVisibility()`)
}

// TestWorkKeepsAForm: a carried form is sent on after work just as after digits.
func TestWorkKeepsAForm(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, formSite(t), workSettings)
	ctx := browser(t)
	run(t, ctx, "write", chromedp.Navigate(g.url+"/write"), chromedp.SendKeys("input[name=name]", "Анна"), chromedp.SendKeys("textarea", "a long text & more, ещё"))
	g.ban("ip:127.0.0.1", "10m")
	var got string
	run(t, ctx, "send", chromedp.Click("#send"), chromedp.WaitVisible(offerButton, chromedp.ByQuery))
	run(t, ctx, "work", chromedp.Click(offerButton, chromedp.ByQuery), chromedp.WaitVisible("#got", chromedp.ByQuery), chromedp.Text("#got", &got, chromedp.ByQuery))
	if want := "a long text & more, ещё from Анна, cookie true"; got != want {
		t.Errorf("the service got %q, wanted %q", got, want)
	}
}

// workButton is the offer in the dialog of antirobot.js.
const workButton = dialog + `.querySelectorAll('button.l:not([hidden])')[1]`

// work is the task from the JSON, done here as docs/frontend.md describes it, without any of our scripts.
type work struct {
	Seed  string
	Parts int
	Below uint32
}

func (w *work) do(t *testing.T) string {
	t.Helper()
	seed, err := hex.DecodeString(w.Seed)
	if err != nil || len(seed) != 16 || w.Parts < 1 || w.Below < 1 {
		t.Fatalf("work %+v: %v", w, err)
	}
	var found []string
	for p := range w.Parts {
		for n := uint32(0); ; n++ {
			sum := sha256.Sum256(bytesof.BigEndian.AppendUint32(bytesof.BigEndian.AppendUint32(seed[:16:16], uint32(p)), n))
			if bytesof.BigEndian.Uint32(sum[:]) < w.Below {
				found = append(found, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return strings.Join(found, ".")
}

// offered asks for work as a script does.
func (g *gateway) offered(v *client) challenge {
	g.t.Helper()
	return v.do("POST", g.url+"/checkcaptcha", "format=json&new=1&kind=work", "Content-Type", "application/x-www-form-urlencoded").must(g.t, 200, `"work":{`).challenge(g.t)
}

func (g *gateway) works(v *client, key, rep string) *response {
	g.t.Helper()
	return v.do("POST", g.url+"/checkcaptcha", "format=json&key="+key+"&rep="+rep, "Content-Type", "application/x-www-form-urlencoded")
}

// cheapWork lets a test work a lot.
const cheapWork = "captcha: {work: {hashes: 1024}}\n"

// TestPitfall03WorkIsSpentOnce: an answer is valid for one pass, for its network and its host, even after kill -9.
func TestPitfall03WorkIsSpentOnce(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, workSettings+cheapWork, "--trusted-proxies", "127.0.0.1")
	earned := func(r *response) bool {
		return r.StatusCode == 200 && strings.Contains(r.body, `"success"`) || r.setsCookie("spravka")
	}
	here := from(t, "203.0.113.7")
	c := g.offered(here)
	rep := c.Captcha.Work.do(t)
	if earned(g.works(from(t, "198.51.100.7"), c.Captcha.Key, rep)) {
		t.Error("another network takes the pass")
	}
	other := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	if earned(here.do("POST", other+"/checkcaptcha", "format=json&key="+c.Captcha.Key+"&rep="+rep, "Content-Type", "application/x-www-form-urlencoded")) {
		t.Error("another host takes the pass")
	}
	if !earned(g.works(here, c.Captcha.Key, rep)) {
		t.Fatal("the work is right")
	}
	g.kill(9)
	g.run()
	g.works(here, c.Captcha.Key, rep) // gives the same pass again
	if n := g.metric("antirobot_captcha_answers_total", `result="solved"`); n != 0 {
		t.Error("the answer counts again after a restart")
	}
	if next := g.offered(here); earned(g.works(here, next.Captcha.Key, rep)) {
		t.Error("work that was done before another key was made counts for it")
	}
}

// TestPitfall12WorkInBulk: a robot that does the work for a hundred challenges and answers all of them at once gets at best
// a few passes at the first price.
func TestPitfall12WorkInBulk(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, site(t).URL, workSettings+"captcha: {work: {hashes: 1024}}\n", "--trusted-proxies", "127.0.0.1")
	robot := from(t, "203.0.113.7")
	var keys, reps []string
	for range 100 {
		c := g.offered(robot)
		keys, reps = append(keys, c.Captcha.Key), append(reps, c.Captcha.Work.do(t))
	}
	var wg sync.WaitGroup
	var passes atomic.Int32
	for i := range keys {
		wg.Go(func() {
			if strings.Contains(g.works(from(t, "203.0.113.7"), keys[i], reps[i]).body, `"success"`) {
				passes.Add(1)
			}
		})
	}
	wg.Wait()
	// A quarter more for each, refused above twice the price: five at most, twice that around the turn of an hour, and fewer
	// where the answers are counted before the first is looked at.
	if n := passes.Load(); n > 10 {
		t.Errorf("%d passes at the first price", n)
	}
	t.Logf("%d of 100 answers at the first price earned a pass", passes.Load())
}

// TestWorkForALoginAlone: a login among other pages is a separate service, which offers work; the rest of the site does
// not.
func TestWorkForALoginAlone(t *testing.T) {
	t.Parallel()
	s := site(t).URL
	g := configured(t, `
captcha: {work: {hashes: 1024}}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: login, prefixes: [/login], captcha: {work: true, prefix: /login}}
  - {name: rest}
`, s)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	rest := v.get(v.get(g.url+"/a").must(t, 302, "").Header.Get("Location")).must(t, 200, `name="rep"`)
	if strings.Contains(rest.body, `id="work"`) {
		t.Error("the rest of the site offers work")
	}
	to := v.get(g.url+"/login/form?x=1").must(t, 302, "").Header.Get("Location")
	page := v.get(to).must(t, 200, `data-url="/login/captcha/work.js"`)
	v.get(g.url+"/login/captcha/work.js").must(t, 200, "antirobotWork")
	o := v.do("POST", g.url+"/login/checkcaptcha", "format=json&new=1&kind=work", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, `"work":{`).challenge(t)
	form, err := url.ParseQuery(answered(t, page.body, o.Captcha.Work.do(t)))
	if err != nil {
		t.Fatal(err)
	}
	form.Set("key", o.Captcha.Key)
	back := v.do("POST", g.url+"/login/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "").Header.Get("Location")
	if back != g.url+"/login/form?x=1" {
		t.Errorf("back to %s", back)
	}
	v.get(back).must(t, 200, "site got GET /login/form?x=1")
}

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

// TestEvidenceReachesTheFactors: what a page says of its browser is known of its visitor afterwards; a service that has not
// asked for it has no such script.
func TestEvidenceReachesTheFactors(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: shop, hosts: [localhost], upstream: {urls: [%q]}, captcha: {evidence: true}}
  - {name: other, hosts: ["127.0.0.1"], upstream: {urls: ["http://127.0.0.1:1"]}}
`, site(t).URL)
	shop := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	v := visitor(t)
	for range 4 {
		v.get(shop+"/page").must(t, 200, "/page")
	}
	script := v.get(shop+"/captcha/evidence.js").must(t, 200, "sendBeacon")
	var told struct{ Seal, To string }
	line, _, _ := strings.Cut(script.body, ";\n")
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "var antirobotSeal=")), &told); err != nil {
		t.Fatalf("%v: %.200s", err, script.body)
	}
	v.do("POST", shop+told.To, "1 "+told.Seal+" 3", "Content-Type", "text/plain;charset=UTF-8").must(t, 204, "")
	eventually(t, "the factor", func() bool {
		return strings.Contains(string(g.api("GET", "/api/subjects/ip:127.0.0.1", nil)), `"page_automation"`)
	})
	visitor(t).get(g.url+"/captcha/evidence.js").must(t, 404, "")
}

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
