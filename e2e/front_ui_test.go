package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestScriptInterfaces: interfaces other than the dialog.
func TestScriptInterfaces(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	ctx := browser(t)
	// own is an interface of a front end's own: wrong once, another picture, then right.
	const own = `(s) => { (async () => {
		const seen = [s.challenge.length, s.challenge.forwarded, s.challenge.test, await s.answer('000000'), await s.renew(), await s.answer('` + testAnswer + `'), s.signal.aborted];
		window.seen = seen.join(' ');
	})(); }`
	const seen = "6 false true wrong new passed true"
	f := func(name, options, prepare string, ask func(a *app)) {
		t.Run(name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, g.url+"/app", options)
			if prepare != "" {
				a.eval(prepare+`; true`, nil)
			}
			g.ban("ip:127.0.0.1", "10m")
			defer g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'b'})); true`, nil)
			ask(a)
		})
	}
	right := func(a *app) {
		a.t.Helper()
		if r := a.result("r"); r.Value.Body != "b" {
			a.t.Errorf("got %+v", r)
		}
		a.gone()
	}
	f("a function", `{ui: `+own+`}`, "", func(a *app) {
		right(a)
		var got string
		if a.eval(`window.seen`, &got); got != seen {
			a.t.Errorf("the function saw %q, wanted %q", got, seen)
		}
	})
	f("a listener that prevents the dialog", ``, `robot.on('challenge', (e) => { e.preventDefault(); (`+own+`)(e.detail); })`, func(a *app) {
		right(a)
		if got := a.events(); strings.Contains(got, "shown") {
			a.t.Errorf("events: %s", got)
		}
	})
	f("none", `{ui: 'none'}`, "", func(a *app) {
		if r := a.result("r"); r.Error != "AntirobotCancelled" {
			a.t.Errorf("got %+v", r)
		}
	})
	f("an element of the page", `{ui: document.getElementById('here')}`, "", func(a *app) {
		a.asked()
		var modal bool
		if a.eval(`!!document.querySelector('#here > antirobot-captcha').shadowRoot.querySelector('dialog')`, &modal); modal {
			a.t.Error("a dialog inside the page")
		}
		a.typed(testAnswer + "\r")
		right(a)
	})
	f("redirect", `{ui: 'redirect'}`, `history.replaceState(null, '', '/app?tab=2#part')`, func(a *app) {
		var where string
		run(a.t, ctx, "answer on the page", chromedp.WaitVisible(`input[name=rep]`, chromedp.ByQuery),
			chromedp.SendKeys(`input[name=rep]`, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible("#more", chromedp.ByQuery), chromedp.Location(&where))
		if want := g.url + "/app?tab=2#part"; where != want {
			a.t.Errorf("came back to %s, wanted %s", where, want)
		}
	})
	f("texts, theme and language of the site's own", `{lang: 'ru', theme: 'dark', text: {challenge_heading: 'Мой заголовок'}}`, "", func(a *app) {
		a.asked()
		var got string
		a.eval(`(() => { const b = `+dialog+`.querySelector('dialog'); return [b.lang, b.dir, b.className, b.querySelector('h2').textContent, b.querySelector('label').textContent, new URL(b.querySelector('audio').src).searchParams.get('lang')].join('|'); })()`, &got)
		if want := "ru|ltr|r d|Мой заголовок|Цифры с картинки или из записи|ru"; got != want {
			a.t.Errorf("got %q, wanted %q", got, want)
		}
		a.typed(testAnswer + "\r")
		right(a)
	})
}

// TestScriptByHand: without wrapping anything, a front end recognises, reads, solves and repeats by itself.
func TestScriptByHand(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "{exclude: ['/api/left', /secret/, (u) => u.search === '?no']}")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('r', (async () => {
		const r = await fetch('/api/list');
		const c = robot.isChallenge(r) && await robot.read(r);
		const again = await r.json(); // still readable
		await robot.solve(c);
		const right = await fetch('/api/list');
		return {method: [robot.isChallenge(right), await robot.read(right), again.type, c.forwarded].join(' ')};
	})()); true`, nil)
	a.asked()
	a.typed(testAnswer + "\r")
	if r := a.result("r"); r.Value.Method != "false  captcha false" {
		t.Errorf("got %+v", r)
	}
	run(t, a.ctx, "forget the pass", network.ClearBrowserCookies())
	var left string
	a.eval(`(async () => { const out = []; for (const u of ['/api/left/x', '/api/secret', '/api/a?no', '/checkcaptcha?format=json']) out.push((await (await robot.fetch(u)).json()).type); return out.join(' '); })()`, &left)
	if left != "captcha captcha captcha captcha" {
		t.Errorf("what is excluded: %s", left)
	}
}

// TestScriptInstall: patching is a choice, and can be undone.
func TestScriptInstall(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "")
	var got string
	a.eval(`(() => {
		const f = window.fetch, x = window.XMLHttpRequest;
		const undo = robot.install({fetch: true, xhr: true});
		const patched = [fetch === robot.fetch, XMLHttpRequest !== x, new XMLHttpRequest() instanceof x, XMLHttpRequest.DONE, new XMLHttpRequest().readyState];
		undo();
		return [...patched, window.fetch === f, window.XMLHttpRequest === x].join(' ');
	})()`, &got)
	if want := "true true true 4 0 true true"; got != want {
		t.Errorf("got %s, wanted %s", got, want)
	}
}

// TestScriptWithoutFetchMetadata: on plain http, browsers do not say what a request is for, so the gateway answers a script
// with its page; the response header identifies it, and the request is repeated anyway.
func TestScriptWithoutFetchMetadata(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	ctx := shell(t, chromedp.Flag("host-resolver-rules", "MAP app.test 127.0.0.1"))
	base := strings.Replace(g.url, "127.0.0.1", "app.test", 1)
	for _, call := range []string{
		`robot.fetch('/api/list')`, `robot.fetch('/api/list', {method: 'POST', body: new URLSearchParams({a: 1})})`,
		xhrCall(`x.open('GET', '/api/list'); x.send()`), xhrCall(`x.responseType = 'json'; x.open('GET', '/api/list'); x.send()`),
	} {
		run(t, ctx, "forget the pass", network.ClearBrowserCookies())
		a := openApp(t, ctx, base+"/app", "")
		g.ban("ip:127.0.0.1", "10m")
		a.eval(`robot.install({xhr: true}); keep('r', `+call+`); true`, nil)
		a.asked()
		a.typed(testAnswer + "\r")
		if r := a.result("r"); r.Value.URL != "/api/list" {
			t.Errorf("%s: %+v", call, r)
		}
		g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	}
}

// TestScriptKeepsToItsOrigins: a challenge from an origin that was not named is not shown, and a challenge that leads
// elsewhere is refused.
func TestScriptKeepsToItsOrigins(t *testing.T) {
	t.Parallel()
	front := appSite(t).URL
	g := configuredFront(t, appSite(t).URL, fmt.Sprintf("    captcha: {cors_origins: [%q]}\n", front))
	ctx := browser(t)
	a := openApp(t, ctx, front+"/app?"+url.Values{"script": {g.url + "/captcha/antirobot.js"}}.Encode(), "")
	g.ban("ip:127.0.0.1", "10m")
	var got string
	a.eval(`(async () => {
		const r = await robot.fetch('`+g.url+`/api/list');
		const lie = (x) => new Response(JSON.stringify({type: 'captcha', captcha: {key: 'k', 'img-url': '/i', 'audio-url': '/a', 'check-url': '/c', 'captcha-page': '/p', ...x}}), {headers: {'X-Antirobot-Verdict': 'captcha'}});
		const at = (r) => Object.defineProperty(r, 'url', {value: location.origin + '/x'});
		const out = [robot.isChallenge(r), r.ok];
		for (const x of [{'check-url': 'https://evil.test/'}, {'captcha-page': 'javascript:alert(1)'}, {'img-url': '//evil.test/'}]) {
			const r = at(lie(x)); r.clone = () => r;
			out.push(await robot.read(r).then(() => 'read', (e) => e.name));
		}
		return out.join(' ');
	})()`, &got)
	if want := "true true TypeError TypeError TypeError"; got != want {
		t.Errorf("got %s, wanted %s", got, want)
	}
}

// TestScriptModule: the same as a module.
func TestScriptModule(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "")
	var got string
	a.eval(`import('/captcha/antirobot.mjs').then((m) => Object.keys(m).sort().join(' '))`, &got)
	if want := "AntirobotBlocked AntirobotCancelled AntirobotNotReplayable createAntirobot"; got != want {
		t.Errorf("the module exports %s", got)
	}
}
