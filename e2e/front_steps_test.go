package e2e

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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
