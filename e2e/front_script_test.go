package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestScriptRepeatsRequests challenges each kind of request once: the person answers, and the caller gets what it asked for
// without noticing.
func TestScriptRepeatsRequests(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	ctx := browser(t)
	for _, c := range []struct{ name, call, want string }{
		{"fetch GET", `robot.fetch('/api/list?a=1', {headers: {'X-Mine': 'yes'}})`, `GET /api/list?a=1 "" yes ""`},
		{"fetch POST JSON", `robot.fetch('/api/save', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"a":"ё"}'})`, `POST /api/save "application/json"  "{\"a\":\"ё\"}"`},
		{"fetch POST form", `robot.fetch('/api/save', {method: 'POST', body: new URLSearchParams({a: '1 2'})})`, `POST /api/save "application/x-www-form-urlencoded;charset=UTF-8"  "a=1+2"`},
		{"fetch PUT bytes that change afterwards", `(() => { const b = new Uint8Array([65, 66]); const p = robot.fetch('/api/save', {method: 'PUT', body: b}); b[0] = 90; return p; })()`, `PUT /api/save ""  "AB"`},
		{"fetch of a Request with a body", `robot.fetch(new Request('/api/save', {method: 'POST', body: 'text', headers: {'X-Mine': 'r'}}))`, `POST /api/save "text/plain;charset=UTF-8" r "text"`},
		{"fetch DELETE of a URL", `robot.fetch(new URL('/api/one', location.href), {method: 'DELETE'})`, `DELETE /api/one ""  ""`},
		{"XHR GET", xhrCall(`x.open('GET', '/api/list'); x.setRequestHeader('X-Mine', 'x'); x.send()`), `GET /api/list "" x ""`},
		{"XHR POST", xhrCall(`x.open('POST', '/api/save'); x.send('hello')`), `POST /api/save "text/plain;charset=UTF-8"  "hello"`},
		{"XHR POST for JSON", xhrCall(`x.responseType = 'json'; x.open('POST', '/api/save'); x.setRequestHeader('Content-Type', 'application/json'); x.send('{}')`), `POST /api/save "application/json"  "{}"`},
		{"XHR for bytes", xhrCall(`x.responseType = 'arraybuffer'; x.open('GET', '/api/bytes'); x.send()`), `GET /api/bytes ""  ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, g.url+"/app", "")
			g.ban("ip:127.0.0.1", "10m")
			defer g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`robot.install({fetch: false, xhr: true}); keep('r', `+c.call+`); true`, nil)
			a.asked()
			a.typed(testAnswer + "\r")
			r := a.result("r")
			if got := fmt.Sprintf("%s %s %q %s %q", r.Value.Method, r.Value.URL, r.Value.Type, r.Value.Mine, r.Value.Body); got != c.want || r.Error != "" {
				t.Errorf("the service got %s %s\nwanted %s", got, r.Error, c.want)
			}
			a.gone()
			if got := a.events(); !strings.HasPrefix(got, "challenge shown ") || !strings.Contains(got, "answer:passed") || !strings.Contains(got, "replayed") {
				t.Errorf("events: %s", got)
			}
		})
	}
}

// TestScriptAsksOnce: five concurrent requests lead to one dialog and one answer.
func TestScriptAsksOnce(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`for (let i = 0; i < 5; i++) keep('r' + i, robot.fetch('/api/list?i=' + i, i % 2 ? {method: 'POST', body: 'b' + i} : {})); true`, nil)
	a.asked()
	var dialogs int
	a.eval(`document.querySelectorAll('antirobot-captcha').length`, &dialogs)
	if dialogs != 1 {
		t.Errorf("%d dialogs", dialogs)
	}
	a.typed(testAnswer + "\r")
	for i := range 5 {
		if r := a.result(fmt.Sprintf("r%d", i)); r.Value.URL != fmt.Sprintf("/api/list?i=%d", i) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	a.gone()
	if got := a.events(); strings.Count(got, "challenge") != 1 || strings.Count(got, "shown") != 1 || strings.Count(got, "passed") != 2 || strings.Count(got, "replayed") != 5 {
		t.Errorf("events: %s", got)
	}
	if solved := g.metric("antirobot_captcha_answers_total", `result="solved"`); solved != 1 {
		t.Errorf("%v answers", solved)
	}
}

// TestScriptAcrossTabs: the dialog is in the tab that the person is looking at; one answer serves both.
func TestScriptAcrossTabs(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	first := openApp(t, browser(t), g.url+"/app", "")
	second := openApp(t, tab(t, first.ctx), g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	run(t, first.ctx, "look at the first", page.BringToFront())
	first.eval(`keep('r', robot.fetch('/api/first', {method: 'POST', body: 'typed text'})); true`, nil)
	first.asked()
	run(t, second.ctx, "look at the second", page.BringToFront())
	second.eval(`keep('r', robot.fetch('/api/second')); true`, nil)
	second.asked()
	first.until(`!document.querySelector('antirobot-captcha') && robot.state === 'waiting'`)

	run(t, first.ctx, "back to the first", page.BringToFront())
	first.eval(`dispatchEvent(new Event('focus')); true`, nil) // a headless browser has no window that could get it
	first.asked()
	second.until(`!document.querySelector('antirobot-captcha') && robot.state === 'waiting'`)

	first.typed(testAnswer + "\r")
	for _, a := range []*app{first, second} {
		if r := a.result("r"); r.Error != "" || !strings.HasPrefix(r.Value.URL, "/api/") {
			t.Errorf("got %+v", r)
		}
		a.gone()
	}
	if solved := g.metric("antirobot_captcha_answers_total", `result="solved"`); solved != 1 {
		t.Errorf("%v answers", solved)
	}
}

// TestScriptWrongThenRight: a wrong answer brings a new picture, a message associated with the field, and the focus back. The page
// beneath the dialog still gets the scripts that it needs.
func TestScriptWrongThenRight(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	visitor(t).get(g.url+"/late.js").must(t, 200, "late")
	a := openApp(t, browser(t), g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('r', robot.fetch('/api/list')); true`, nil)
	a.asked()
	var before string
	a.eval(dialog+`.querySelector('img').src`, &before)
	a.typed("000000\r")
	a.until(dialog + `.querySelector('input').getAttribute('aria-invalid') === 'true'`)
	var now struct{ Src, Alert, Focus, Value, Described string }
	a.eval(`(() => { const d = `+dialog+`; const f = d.querySelector('input'); return {src: d.querySelector('img').src, alert: d.querySelector('[role=alert]').textContent,
		focus: d.activeElement.id, value: f.value, described: f.getAttribute('aria-describedby').split(' ').map((i) => d.getElementById(i).textContent).join('|')}; })()`, &now)
	var late string
	if a.eval(`import('/late.js').then((m) => m.default)`, &late); late != "late" {
		t.Errorf("a script of the page: %q", late)
	}
	if now.Src == before || !strings.Contains(now.Alert, "did not match") || now.Focus != "f" || now.Value != "" || !strings.HasPrefix(now.Described, now.Alert) {
		t.Errorf("after a wrong answer: %+v", now)
	}
	a.typed(testAnswer[:3] + " " + testAnswer[3:] + "\r")
	if r := a.result("r"); r.Value.URL != "/api/list" {
		t.Errorf("got %+v", r)
	}
	if got := a.events(); got != "challenge shown answer:wrong wrong answer:passed passed replayed" {
		t.Errorf("events: %s", got)
	}
}

// TestScriptCancel: Escape and the button lead to a named error, and the focus returns; the next request asks again.
func TestScriptCancel(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	ctx := browser(t)
	run(t, ctx, "hold back what is late", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`const plain = fetch;
			window.fetch = async (u, o) => { const r = await plain(u, o); if (u === '/api/late') await new Promise((ok) => { window.letGo = ok; }); return r; };`).Do(ctx)
		return err
	}))
	a := openApp(t, ctx, g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	// The second is challenged only after the first was cancelled: it was sent before, and does not ask once more.
	a.eval(`document.getElementById('more').focus(); keep('one', robot.fetch('/api/list').catch((e) => { results.code = {error: e.code}; throw e; })); keep('two', robot.fetch('/api/late')); true`, nil)
	a.asked()
	a.until(`window.letGo`)
	a.eval(dialog+`.querySelector('button[type=button].l').focus(); true`, nil)
	run(t, a.ctx, "escape", chromedp.KeyEvent("\u001b"))
	a.until(`results.one`)
	a.eval(`letGo(); true`, nil)
	for _, name := range []string{"one", "two"} {
		if r := a.result(name); r.Error != "AntirobotCancelled" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := a.result("code"); r.Error != "ECONNABORTED" {
		t.Errorf("libraries would repeat what has the code %q", r.Error)
	}
	a.gone()
	var focus string
	a.eval(`document.activeElement.id`, &focus)
	if focus != "more" {
		t.Errorf("the focus is on %q", focus)
	}
	a.eval(`robot.install({xhr: true}); keep('three', `+xhrCall(`x.open('GET', '/api/list'); x.send()`)+`); true`, nil)
	a.asked()
	a.eval(`[...`+dialog+`.querySelectorAll('button')].find((b) => b.textContent === 'Cancel').click(); true`, nil)
	if r := a.result("three"); r.Error != "XHR abort 4 0" { // what failed is repeated by libraries
		t.Errorf("XHR: %+v", r)
	}
	// Who aborts no longer waits, and the dialog of nobody closes.
	a.eval(`window.stop = new AbortController(); keep('four', robot.fetch('/api/list', {signal: stop.signal})); true`, nil)
	a.asked()
	a.eval(`stop.abort(); true`, nil)
	if r := a.result("four"); r.Error != "AbortError" {
		t.Errorf("aborted: %+v", r)
	}
	a.gone()
	var where string
	if a.eval(`location.pathname`, &where); where != "/app" {
		t.Errorf("the page went to %s", where)
	}
}

// TestScriptExpired: a phone that changes networks in the middle gets a new picture and no error message.
func TestScriptExpired(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL, "--trusted-proxies", "127.0.0.1")
	a := openApp(t, browser(t), g.url+"/app", "")
	from := func(addr string) {
		run(t, a.ctx, "come from "+addr, network.Enable(), network.SetExtraHTTPHeaders(network.Headers{"X-Forwarded-For": addr}))
		g.ban("ip:"+addr, "10m")
	}
	from("203.0.113.7")
	a.eval(`keep('r', robot.fetch('/api/list', {method: 'POST', body: 'kept'})); true`, nil)
	a.asked()
	from("198.51.100.9")
	a.typed(testAnswer + "\r")
	a.until(dialog + `.querySelector('[role=alert]').textContent.includes('nothing is lost')`)
	var invalid string
	a.eval(dialog+`.querySelector('input').getAttribute('aria-invalid')`, &invalid)
	if invalid == "true" {
		t.Error("an expired picture is told as a failure")
	}
	a.asked()
	a.typed(testAnswer + "\r")
	if r := a.result("r"); r.Value.Body != "kept" {
		t.Errorf("got %+v", r)
	}
	if got := a.events(); got != "challenge shown answer:expired answer:passed passed replayed" {
		t.Errorf("events: %s", got)
	}
}

// TestReadyBeforeStreams: an EventSource and a WebSocket, which can ask nobody, die before a pass; after robot.ready they open, and one
// answer serves both.
func TestReadyBeforeStreams(t *testing.T) {
	t.Parallel()
	upstream, send := streamSite(t)
	g := serve(t, upstream)
	a := &app{t, browser(t)}
	run(t, a.ctx, "open", chromedp.Navigate(g.url+"/app"), chromedp.WaitReady("body"))
	a.eval(`import('/captcha/antirobot.mjs').then((m) => { window.robot = m.createAntirobot(); window.log = []; window.results = {};
		window.keep = (name, promise) => { promise.then((v) => { results[name] = {value: {body: v}}; }, (e) => { results[name] = {error: e.name}; }); };
		window.hear = () => new Promise((yes, no) => { const s = new EventSource('/events'); s.onmessage = (e) => { s.close(); yes(e.data); }; s.onerror = () => { s.close(); no(new Error()); }; });
		window.talk = () => new Promise((yes, no) => { const s = new WebSocket('ws://' + location.host + '/ws'); s.onopen = () => s.send('hello'); s.onmessage = (e) => { s.close(); yes(e.data); }; s.onerror = () => no(new Error()); });
		return true; })`, nil)
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('deaf', hear()); keep('mute', talk()); true`, nil)
	for _, name := range []string{"deaf", "mute"} {
		if r := a.result(name); r.Error != "Error" {
			t.Fatalf("%s, before a pass: %+v", name, r)
		}
	}
	a.eval(`keep('heard', robot.ready('/events').then(hear)); keep('talked', robot.ready('ws://' + location.host + '/ws').then(talk)); true`, nil)
	a.asked()
	a.typed(testAnswer + "\r")
	if r := a.result("talked"); r.Value.Body != "echo hello" {
		t.Errorf("the WebSocket: %+v", r)
	}
	eventually(t, "the news is heard", func() bool {
		select {
		case send <- "news":
		default:
		}
		return value[bool](t, a.ctx, `'heard' in results`)
	})
	if r := a.result("heard"); r.Value.Body != "news" {
		t.Errorf("the EventSource: %+v", r)
	}
}
