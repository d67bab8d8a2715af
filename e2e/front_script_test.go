package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
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

// TestScriptBlocked: a block is a named error with the request's ID, in fetch and in the middle of a dialog.
func TestScriptBlocked(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('asked', robot.fetch('/api/list')); true`, nil)
	a.asked()
	g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
	a.typed(testAnswer + "\r")
	if r := a.result("asked"); r.Error != "AntirobotBlocked" {
		t.Errorf("in the middle: %+v", r)
	}
	a.gone()
	a.eval(`robot.on('blocked', (e) => { window.number = e.detail.requestId; }); keep('r', robot.fetch('/api/list')); true`, nil)
	if r := a.result("r"); r.Error != "AntirobotBlocked" {
		t.Errorf("fetch: %+v", r)
	}
	var number string
	if a.eval(`window.number`, &number); len(number) != 26 {
		t.Errorf("request id %q", number)
	}
	a.eval(`robot.install({xhr: true}); keep('x', new Promise((ok) => { const x = new XMLHttpRequest(); x.open('GET', '/api/list'); x.onload = () => ok({status: x.status}); x.send(); })); true`, nil)
	a.until(`results.x && results.x.value.status === 403`)
}

// TestScriptOffline loses the network between the picture and the answer, and again before the repeat.
func TestScriptOffline(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "")
	g.ban("ip:127.0.0.1", "10m")
	offline := func(is bool) {
		run(t, a.ctx, "network", network.Enable(), network.EmulateNetworkConditions(is, 0, -1, -1))
	}
	a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'a long text'})); true`, nil)
	a.asked()
	offline(true)
	a.typed(testAnswer + "\r")
	a.until(dialog + `.querySelector('[role=alert]').textContent.includes('cannot be reached')`)
	var value string
	if a.eval(dialog+`.querySelector('input').value`, &value); value != testAnswer {
		t.Errorf("what was typed is gone: %q", value)
	}
	// A new picture while the network is away says the same, and nothing breaks.
	a.eval(dialog+`.querySelector('button.l').click(); true`, nil)
	a.until(dialog + `.querySelector('[role=status]').textContent === '' && ` + dialog + `.querySelector('[role=alert]').textContent !== ''`)
	offline(false)
	a.typed("\r")
	if r := a.result("r"); r.Value.Body != "a long text" {
		t.Errorf("got %+v", r)
	}
	if got := a.events(); got != "challenge shown answer:offline answer:passed passed replayed" {
		t.Errorf("events: %s", got)
	}
}

// TestScriptReplaySafety: a request that can't or may not be repeated ends in a named error after the answer, and the next
// attempt succeeds.
func TestScriptReplaySafety(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	ctx := browser(t)
	// The body is read for the repeat only once the challenge has come, as on a busy machine.
	late := `((clone) => {
		Request.prototype.clone = function() { return {body: clone.call(this).body.pipeThrough(new TransformStream({
			async transform(piece, to) { while (!log.includes('challenge')) await new Promise((f) => setTimeout(f, 10)); to.enqueue(piece); }}))}; };
		return robot.fetch(new Request('/api/save', {method: 'POST', body: 'late'}));
	})(Request.prototype.clone)`
	stream := `new ReadableStream({start(c) { c.enqueue(new TextEncoder().encode('x')); c.close(); }})`
	for _, c := range []struct{ name, options, call, want string }{
		{"a request with a body", ``, `robot.fetch(new Request('/api/save', {method: 'POST', body: 'x'.repeat(20)}))`, ""},
		{"a body that is read late", ``, late, ""},
		{"a request whose body is too large", `{maxBody: 10}`, `robot.fetch(new Request('/api/save', {method: 'POST', body: 'x'.repeat(20)}))`, "AntirobotNotReplayable"},
		{"a body that is too large", `{maxBody: 10}`, `robot.fetch('/api/save', {method: 'POST', body: new Blob(['x'.repeat(20)])})`, "AntirobotNotReplayable"},
		{"a safe method", `{replay: 'safe'}`, `robot.fetch('/api/list')`, ""},
		{"an unsafe method", `{replay: 'safe'}`, `robot.fetch('/api/list', {method: 'POST'})`, "AntirobotNotReplayable"},
		{"never", `{replay: 'never'}`, `robot.fetch('/api/list')`, "AntirobotNotReplayable"},
		{"asked for and refused", `{replay: async (r, c) => r.method === 'GET' && !c.forwarded}`, `robot.fetch('/api/list', {method: 'PUT', body: 'x'})`, "AntirobotNotReplayable"},
		{"asked for and allowed", `{replay: async (r, c) => r.method === 'PUT' && !c.forwarded}`, `robot.fetch('/api/list', {method: 'PUT', body: 'x'})`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, g.url+"/app", c.options)
			g.ban("ip:127.0.0.1", "10m")
			defer g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', `+c.call+`); true`, nil)
			a.asked()
			a.typed(testAnswer + "\r")
			if r := a.result("r"); r.Error != c.want {
				t.Errorf("%+v, wanted %q", r, c.want)
			}
			a.eval(`keep('again', `+c.call+`); true`, nil)
			if r := a.result("again"); r.Error != "" {
				t.Errorf("the next try: %+v", r)
			}
		})
	}
	// Streams of an init need HTTP/2 to be sent at all: here it is enough that they are not touched.
	a := openApp(t, ctx, g.url+"/app", "")
	a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: `+stream+`, duplex: 'half'})); true`, nil)
	if r := a.result("r"); r.Error != "TypeError" {
		t.Errorf("a stream over HTTP/1.1: %+v", r)
	}
}

// TestScriptAcrossOrigins: a page calls an API on another port of its site, and on another site altogether, with
// credentials. The page's script comes from the gateway, and one line installs it.
func TestScriptAcrossOrigins(t *testing.T) {
	t.Parallel()
	front := appSite(t).URL // http://127.0.0.1:port, not behind the gateway
	ctx := browser(t)
	for _, c := range []struct{ name, api, settings string }{
		{"another port", "127.0.0.1", ""},
		{"another site", "localhost", "cross_site: true, "},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			g := configuredFront(t, appSite(t).URL, fmt.Sprintf("    captcha: {%scors_origins: [%q]}\n", c.settings, front))
			api := strings.Replace(g.url, "127.0.0.1", c.api, 1)
			a := &app{t, ctx}
			run(t, ctx, "open", chromedp.Navigate(front+"/app?"+url.Values{
				"script": {api + "/captcha/antirobot.js"}, "attr": {`data-install="fetch xhr" data-credentials=include`},
			}.Encode()), chromedp.WaitVisible("h1", chromedp.ByQuery))
			g.ban("ip:127.0.0.1", "10m")
			a.eval(`window.robot = antirobot.installed; window.log = []; window.results = {};
				window.keep = (name, promise) => { promise.then((r) => r?.json ? r.json() : r).then((v) => { results[name] = {value: v}; }, (e) => { results[name] = {error: e.name + ' ' + e.message}; }); };
				const post = {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Mine': 'm'}, body: '{"n":1}'};
				keep('fetch', fetch('`+api+`/api/save', post));
				keep('own', fetch('/api/own')); true`, nil)
			if r := a.result("own"); r.Value.URL != "/api/own" {
				t.Errorf("the page's own request: %+v", r)
			}
			a.asked()
			a.typed(testAnswer + "\r")
			if r := a.result("fetch"); r.Value.Body != `{"n":1}` || r.Value.Mine != "m" {
				t.Errorf("fetch: %+v", r)
			}
			a.eval(`keep('xhr', `+xhrCall(`x.open('POST', '`+api+`/api/save'); x.send('hello')`)+`); true`, nil)
			if r := a.result("xhr"); r.Value.Body != "hello" { // with the pass, without a question
				t.Errorf("XHR: %+v", r)
			}
			a.gone()
		})
	}
}

// TestScriptSaysThatCookiesAreMissing: without a kept cookie the challenge would come again and again, to who is not known
// by other marks either; after a few rounds it becomes an error that says so.
func TestScriptSaysThatCookiesAreMissing(t *testing.T) {
	t.Parallel()
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "{rounds: 1}")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('r', robot.fetch('/api/list', {credentials: 'omit', headers: {'Accept-Language': 'eo'}})); true`, nil)
	for n := range 2 {
		a.asked()
		a.typed(testAnswer + "\r")
		a.until(fmt.Sprintf(`log.filter((x) => x === 'passed').length === %d`, n+1))
	}
	if r := a.result("r"); r.Error != "AntirobotBlocked" {
		t.Errorf("%+v", r)
	}
}

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

// strictPolicy is a Content-Security-Policy as careful sites have it: antirobot.js must work under it.
const strictPolicy = "default-src 'none'; script-src 'self'; connect-src *; img-src *; media-src *; base-uri 'none'; require-trusted-types-for 'script'"

// appSite is a service with a front end: pages that load antirobot.js from the URL in the query's script parameter, and an
// API that returns what it got. Its pages contain nothing else; the tests inject their code.
func appSite(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.Header().Set("Access-Control-Allow-Headers", "content-type, x-mine")
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{
				"method": r.Method, "url": r.URL.RequestURI(), "type": r.Header.Get("Content-Type"), "mine": r.Header.Get("X-Mine"),
				"body": string(body),
			})
			return
		}
		if r.URL.Path == "/late.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "export default 'late'")
			return
		}
		script := r.URL.Query().Get("script")
		if script == "" {
			script = "/captcha/antirobot.js"
		}
		if r.URL.Path != "/loose" {
			w.Header().Set("Content-Security-Policy", strings.Replace(strictPolicy, "script-src 'self'", "script-src 'self' "+originOf(script), 1))
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang=%q><meta name=viewport content="width=device-width"><title>App</title>
<main><h1>App</h1><button id=more>More</button><a href="/away">Away</a><div id=here></div></main><script src=%q %s></script>`,
			html.EscapeString(cmp.Or(r.URL.Query().Get("lang"), "en")), html.EscapeString(script), r.URL.Query().Get("attr"))
	}))
	t.Cleanup(s.Close)
	return s
}

func originOf(script string) string {
	if u, err := url.Parse(script); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// configuredFront runs the gateway in front of upstream with settings of the service in YAML, one per line.
func configuredFront(t *testing.T, upstream string, settings string, args ...string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf("services:\n  - name: app\n    upstream: {urls: [%q]}\n%s", upstream, settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, append([]string{"serve", "--config", file, "--captcha-test-answer", testAnswer}, args...)...)
}

// app is a tab with the page of appSite.
type app struct {
	t   *testing.T
	ctx context.Context
}

// openApp opens the page before anybody is banned, and prepares window.robot and window.log, the names of its events.
func openApp(t *testing.T, ctx context.Context, url, options string) *app {
	t.Helper()
	a := &app{t, ctx}
	run(t, ctx, "open the app", chromedp.Navigate(url), chromedp.WaitVisible("h1", chromedp.ByQuery))
	a.eval(`window.robot = antirobot.createAntirobot(`+options+`); window.log = []; window.results = {};
		for (const type of ['challenge','shown','answer','wrong','passed','replayed','cancelled','blocked','error'])
			robot.on(type, (e) => log.push(type === 'answer' ? 'answer:' + e.detail.outcome : type));
		window.keep = (name, promise) => { promise.then((r) => r?.json ? r.json() : r).then((v) => { results[name] = {value: v}; }, (e) => { results[name] = {error: e.name}; }); };
		true`, nil)
	return a
}

// eval runs an expression in the page and waits for its promise.
func (a *app) eval(expression string, out any) {
	a.t.Helper()
	var raw json.RawMessage
	run(a.t, a.ctx, expression, chromedp.Evaluate(expression, &raw, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true).WithReturnByValue(true)
	}))
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			a.t.Fatalf("%s: %v in %s", expression, err, raw)
		}
	}
}

// until waits until an expression is true.
func (a *app) until(expression string) {
	a.t.Helper()
	began := time.Now()
	for ok := false; !ok; {
		if a.eval("!!("+expression+")", &ok); !ok && time.Since(began) > patience {
			var log []string
			var dialog string
			a.eval("log", &log)
			a.eval("(document.querySelector('antirobot-captcha')?.shadowRoot.textContent || 'no dialog') + ' ' + JSON.stringify(results)", &dialog)
			a.t.Fatalf("never: %s; events %v; %s", expression, log, dialog)
		}
		if !ok {
			time.Sleep(untilNextLook(time.Since(began)))
		}
	}
}

// dialog is what the tests look at inside the shadow tree.
const dialog = `document.querySelector('antirobot-captcha')?.shadowRoot`

// asked waits until the dialog is there with its picture.
func (a *app) asked() {
	a.t.Helper()
	a.until(dialog + `?.activeElement?.id === 'f' && ` + dialog + `.querySelector('img').naturalWidth > 0`)
}

// inView fails if a part of the dialog is not wholly on the screen.
func (a *app) inView(selectors ...string) {
	a.t.Helper()
	var out string
	a.eval(fmt.Sprintf(`%q.split(' ').map((s) => [s, %s.querySelector(s).getBoundingClientRect()]).filter(([, r]) => r.top < 0 || r.bottom > innerHeight)
		.map(([s, r]) => s + ' from ' + r.top + ' to ' + r.bottom).join()`, strings.Join(selectors, " "), dialog), &out)
	if out != "" {
		a.t.Errorf("out of view: %s", out)
	}
}

// typed types into the focused element, as a person does.
func (a *app) typed(text string) {
	a.t.Helper()
	run(a.t, a.ctx, "type "+text, page.BringToFront(), chromedp.KeyEvent(text))
}

// echo is what the API reports that it got; errors have only their name.
type echo struct {
	Value struct{ Method, URL, Type, Mine, Body string }
	Error string
}

func (a *app) result(name string) (e echo) {
	a.t.Helper()
	a.until(`results.` + name)
	a.eval(`results.`+name, &e)
	return e
}

func (a *app) events() string {
	a.t.Helper()
	var log []string
	a.eval("log", &log)
	return strings.Join(log, " ")
}

func (a *app) gone() {
	a.t.Helper()
	a.until(`!document.querySelector('antirobot-captcha') && robot.state === 'idle'`)
}

// xhrCall makes a promise of an XMLHttpRequest and checks that its events come as if there had been no challenge.
func xhrCall(open string) string {
	return `new Promise((resolve, reject) => {
		const seen = []; const x = new XMLHttpRequest();
		x.onreadystatechange = () => { seen.push(x.readyState); };
		x.addEventListener('load', () => {
			seen.push('load');
			const text = typeof x.response === 'string' ? x.response : x.response instanceof ArrayBuffer ? new TextDecoder().decode(x.response) : JSON.stringify(x.response);
			x.onloadend = () => {
				const order = seen.join(' ').replace(/(3 )+/, '');
				if (order === '1 2 4 load' && x.status === 200) resolve(JSON.parse(text));
				else reject(new Error(order));
			};
		});
		for (const type of ['error', 'abort']) x['on' + type] = () => { const e = new Error(); e.name = 'XHR ' + type + ' ' + x.readyState + ' ' + x.status; reject(e); };
		` + open + `;
	})`
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// exampleSite serves the examples of the documentation as written.
func exampleSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, read(t, "../docs/examples/plain.html"))
		case "/own":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, `<!doctype html><html lang=en><title>Own</title><main><h1>Own</h1>%s</main><script>%s</script>`, ownForm(t), read(t, "../docs/examples/own.js"))
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"url": r.Method + " " + r.URL.Path})
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestPlainExample clicks through the example with a plain script.
func TestPlainExample(t *testing.T) {
	t.Parallel()
	g := serve(t, exampleSite(t))
	a := &app{t, browser(t)}
	run(t, a.ctx, "open", chromedp.Navigate(g.url+"/plain"), chromedp.WaitVisible("#more", chromedp.ByQuery))
	a.eval(`window.log = []; window.results = {}; true`, nil)
	g.ban("ip:127.0.0.1", "10m")
	run(t, a.ctx, "load", chromedp.Click("#more", chromedp.ByQuery))
	a.asked()
	run(t, a.ctx, "cancel", chromedp.KeyEvent("\u001b"))
	a.until(`document.getElementById('problem').textContent === 'Nothing was loaded.'`)
	run(t, a.ctx, "load again", chromedp.Click("#more", chromedp.ByQuery))
	a.asked()
	a.typed(testAnswer + "\r")
	a.until(`document.querySelector('#items li')?.textContent === 'POST /api/list'`)
}

// ownForm is the form that a page must have according to docs/examples/own.js.
func ownForm(t *testing.T) string {
	t.Helper()
	var form []string
	for line := range strings.Lines(read(t, "../docs/examples/own.js")) {
		if line, ok := strings.CutPrefix(line, "//   "); ok {
			form = append(form, line)
		}
	}
	return strings.Join(form, "")
}

// TestOwnExample: the JSON is enough for a custom interface, which waits when it is told to, and is accessible.
func TestOwnExample(t *testing.T) {
	t.Parallel()
	g := serve(t, exampleSite(t))
	a := &app{t, browser(t)}
	run(t, a.ctx, "open", chromedp.Navigate(g.url+"/own"), chromedp.WaitVisible("h1", chromedp.ByQuery))
	a.eval(`window.log = []; window.results = {}; true`, nil)
	g.ban("ip:127.0.0.1", "10m")
	// The third answer of the check is 429: it is counted here, since thousands of tries would be needed.
	a.eval(`const real = fetch; let checks = 0;
		window.fetch = (url, o) => String(url).includes('/checkcaptcha') && ++checks === 2
			? Promise.resolve(new Response('{"type":"limited","request-id":"x","retry-after":1}', {status: 429, headers: {'X-Antirobot-Verdict': 'captcha'}})) : real(url, o);
		ask('/api/list', {method: 'POST', body: 'x'}).then((r) => r.json()).then((v) => { results.r = v; }); true`, nil)
	for i, digits := range []string{"000000", testAnswer, testAnswer} {
		a.until(`document.querySelector('#picture').naturalWidth > 0 && document.querySelector('#picture').src !== window.last`)
		if i == 1 {
			checkAxe(t, a.ctx, axe(t), "own interface")
			a.until(`document.querySelector('#said').textContent.startsWith('That was not it') && document.activeElement.id === 'answer' && document.querySelector('#sound').src !== ''`)
		}
		a.eval(`window.last = document.querySelector('#picture').src; document.querySelector('#answer').value = '`+digits+`'; document.querySelector('#form').requestSubmit(); true`, nil)
		if i == 1 {
			a.until(`document.querySelector('#said').textContent.includes('in 1 seconds')`)
		}
	}
	a.until(`results.r?.url === 'POST /api/list' && document.querySelector('#form').hidden`)
}

// TestImageTemplateInABrowser: a page that draws the picture itself gets it from the URL that the service specifies for a
// path, and that leads out of this path.
func TestImageTemplateInABrowser(t *testing.T) {
	t.Parallel()
	g := configured(t, `
defaults: {upstream: {urls: [%q]}}
services: [{name: site, paths: [{prefix: /api, captcha: {ajax: inline, img_url_template: "{base}/picture?k={key}"}}]}]
`, exampleSite(t))
	a := &app{t, browser(t)}
	run(t, a.ctx, "open", chromedp.Navigate(g.url+"/own"), chromedp.WaitVisible("h1", chromedp.ByQuery))
	a.eval(`window.log = []; window.results = {}; true`, nil)
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`ask('/api/list', {method: 'POST', body: 'x'}).then((r) => r.json()).then((v) => { results.r = v; }); true`, nil)
	a.until(`document.querySelector('#picture').naturalWidth > 0 && document.querySelector('#picture').src.includes('/picture?k=')`)
	a.eval(`document.querySelector('#answer').value = '`+testAnswer+`'; document.querySelector('#form').requestSubmit(); true`, nil)
	a.until(`results.r?.url === 'POST /api/list'`)
}

// reactExample checks the types of the React example against the package's declarations, and returns a script that puts it
// into #root, as mount(url) → unmount.
func reactExample(t *testing.T) string {
	t.Helper()
	modules := filepath.Dir(servertest.Module(t, "typescript"))
	dir := t.TempDir()
	writeInto(t, filepath.Join(dir, "react.tsx"), read(t, "../docs/examples/react.tsx"))
	writeInto(t, filepath.Join(dir, "main.ts"), `import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import { List } from './react';
export function mount(url) {
	const root = createRoot(document.getElementById('root'));
	root.render(createElement(List, { url }));
	return () => root.unmount();
}
`)
	npm, err := filepath.Abs("../npm")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"@types", "csstype", "react", "react-dom", "scheduler"} {
		if err := os.Symlink(filepath.Join(modules, link), filepath.Join(dir, "node_modules", link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(npm, filepath.Join(dir, "node_modules", "antirobot")); err != nil {
		t.Fatal(err)
	}
	// TypeScript's own declarations are not checked once more, nor are those of what other packages happen to need.
	tsc := exec.Command("node", filepath.Join(modules, "typescript", "bin", "tsc"), "--noEmit", "--strict", "--jsx", "react-jsx", "--module", "esnext",
		"--moduleResolution", "bundler", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--skipDefaultLibCheck", "--types", "react", "react.tsx")
	tsc.Dir = dir
	if out, err := tsc.CombinedOutput(); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
	build := exec.Command(servertest.Tool(t, "esbuild"), "main.ts", "--bundle", "--format=iife", "--global-name=example", "--jsx=automatic", "--preserve-symlinks",
		"--define:process.env.NODE_ENV=\"production\"", "--alias:antirobot="+filepath.Join(filepath.Dir(npm), "templates", "static", "antirobot.mjs"))
	build.Dir = dir
	out, err := build.Output()
	if err != nil || !strings.Contains(string(out), "AntirobotCancelled") {
		t.Fatalf("esbuild: %v\n%s", err, tail(string(out), 500))
	}
	return string(out)
}

// TestReactExample runs the React example with React in a browser, against the demo: challenged, closed, challenged again
// and answered, refused, and left in the middle.
func TestReactExample(t *testing.T) {
	t.Parallel()
	script := reactExample(t)
	g := start(t, "demo", "--traffic", "0", "--log-level", "info", "--captcha-test-answer", testAnswer)
	a := &app{t, browser(t)}
	mount := func() {
		t.Helper()
		run(t, a.ctx, "open", network.ClearBrowserCookies(), chromedp.Navigate(g.url+"/search"), chromedp.WaitVisible("h1", chromedp.ByQuery))
		a.eval(`window.log = []; window.results = {}; document.querySelector('main').innerHTML = '<h1>List</h1><div id=root></div>'; true`, nil)
		a.eval(script+`; window.example = example; true`, nil)
	}
	shown := `document.querySelectorAll('#root li').length === 5 && document.querySelector('#root li').textContent === 'Line number 1'`

	mount()
	a.eval(`window.unmount = example.mount('/api/list?page=1'); true`, nil)
	a.until(shown)

	mount()
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`window.unmount = example.mount('/api/list?page=1'); true`, nil)
	a.asked()
	run(t, a.ctx, "close the question", chromedp.KeyEvent("\u001b"))
	a.until(`document.querySelector('#root [role=alert]')?.textContent.startsWith('You closed the question.')`)
	run(t, a.ctx, "try again", chromedp.Click("#root button", chromedp.ByQuery))
	a.asked()
	a.typed(testAnswer + "\r")
	a.until(shown + ` && !document.querySelector('#root [role=alert]')`)

	mount()
	a.eval(`window.unmount = example.mount('/api/list?page=1'); true`, nil)
	a.asked()
	a.eval(`unmount(); true`, nil)
	a.until(`!document.querySelector('antirobot-captcha')`)

	mount()
	g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "1h", "reason": "test"})
	a.eval(`window.unmount = example.mount('/api/list?page=1'); true`, nil)
	a.until(`/Request number: \w{26}/.test(document.querySelector('#root [role=alert]')?.textContent)`)
}

// TestPackage packs the npm package and checks its contents.
func TestPackage(t *testing.T) {
	t.Parallel()
	npm := servertest.Need(t, "npm")
	pack := exec.Command(npm, "pack", "--dry-run", "--json", "--offline")
	pack.Dir = "../npm"
	pack.Env = append(os.Environ(), "npm_config_cache="+t.TempDir(), "npm_config_update_notifier=false")
	out, err := pack.Output()
	if err != nil {
		t.Fatalf("npm pack: %v\n%s", err, out)
	}
	var packs []struct {
		Files []struct{ Path string }
	}
	if i := strings.Index(string(out), "[\n"); i < 0 || json.Unmarshal(out[i:], &packs) != nil || len(packs) != 1 {
		t.Fatalf("npm pack says %s", out)
	}
	var files []string
	for _, f := range packs[0].Files {
		files = append(files, f.Path)
	}
	if got := strings.Join(files, " "); got != "README.md antirobot.d.ts antirobot.js antirobot.mjs package.json work.js" {
		t.Errorf("the package has %s", got)
	}
}

// TestListenStaysOnThePage: the link to the sound plays it where the picture is; what was typed stays.
func TestListenStaysOnThePage(t *testing.T) {
	t.Parallel()
	g := serve(t, exampleSite(t))
	g.ban("ip:127.0.0.1", "10m")
	a := &app{t, browser(t)}
	run(t, a.ctx, "open", chromedp.Navigate(g.url+"/own"), chromedp.WaitVisible("#rep", chromedp.ByQuery), chromedp.SendKeys("#rep", "12", chromedp.ByQuery))
	var before string
	var player bool
	a.eval(`document.querySelector('audio').checkVisibility()`, &player)
	if player {
		t.Error("there is a player beside the link that plays")
	}
	a.eval(`location.href`, &before)
	run(t, a.ctx, "listen", chromedp.Click(".ways a", chromedp.ByQuery))
	a.until(`(() => { const s = document.querySelector('audio'); return s.currentTime > 0 || s.ended; })()`)
	var after, typed string
	a.eval(`location.href`, &after)
	a.eval(`document.querySelector('#rep').value`, &typed)
	if before != after || typed != "12" {
		t.Errorf("from %s to %s, %q is typed", before, after, typed)
	}
}

// TestWorkInTheDialog: the dialog offers work too: on the gateway's origin in a Worker, from another one in small pieces.
func TestWorkInTheDialog(t *testing.T) {
	t.Parallel()
	front := appSite(t).URL
	api := configuredFront(t, appSite(t).URL, fmt.Sprintf("    captcha: {work: true, cors_origins: [%q]}\n", front))
	own := configuredFront(t, appSite(t).URL, workSettings)
	ctx := browser(t)
	for _, c := range []struct {
		name, page, options, ask string
		g                        *gateway
		worker                   bool
	}{
		// The page's policy wants trusted types, which a Worker's address is not: in pieces.
		{"strict policy", own.url + "/app", "", "/api/save", own, false},
		{"no policy", own.url + "/loose", "", "/api/save", own, true},
		{
			"another origin", front + "/app?" + url.Values{"script": {api.url + "/captcha/antirobot.js"}}.Encode(),
			`{origins: ['` + api.url + `'], credentials: 'include', work: '` + api.url + `/captcha/work.js'}`, api.url + "/api/save", api, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, c.page, c.options)
			a.eval(`window.Worker = class extends Worker { constructor(u) { super(u); window.started = true; } }; true`, nil)
			c.g.ban("ip:127.0.0.1", "10m")
			defer c.g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', robot.fetch('`+c.ask+`', {method: 'POST', body: 'b'})); true`, nil)
			a.asked()
			// Each text is a node of its own: what it says stays readable when the next has replaced it within one task.
			a.eval(`window.heard = []; new MutationObserver((all) => all.forEach((r) => r.addedNodes.forEach((n) => heard.push(n.textContent)))).observe((`+dialog+`).querySelector('[role=status]'), {childList: true, characterData: true, subtree: true}); (`+workButton+`).focus(); true`, nil)
			run(t, ctx, "by the keyboard", chromedp.KeyEvent("\r"))
			if r := a.result("r"); r.Value.Body != "b" {
				t.Errorf("got %+v", r)
			}
			a.gone()
			var heard string
			if a.eval(`heard.join('|')`, &heard); !strings.Contains(heard, "is working") || !strings.Contains(heard, "50 %") {
				t.Errorf("said %q", heard)
			}
			var started bool
			if a.eval(`!!window.started`, &started); started != c.worker {
				t.Errorf("a Worker: %t", started)
			}
		})
	}
	t.Run("not offered", func(t *testing.T) {
		a := openApp(t, ctx, front+"/app?"+url.Values{"script": {api.url + "/captcha/antirobot.js"}}.Encode(), `{origins: ['`+api.url+`'], credentials: 'include'}`)
		api.ban("ip:127.0.0.1", "10m")
		run(t, ctx, "forget the pass", network.ClearBrowserCookies())
		a.eval(`keep('r', robot.fetch('`+api.url+`/api/save', {method: 'POST', body: 'b'})); true`, nil)
		a.asked()
		var offered bool
		if a.eval(`!!(`+workButton+`)`, &offered); offered {
			t.Error("a challenge of another origin says which script is run")
		}
	})
}

// TestWorkInTheDialogIsStopped: by its button, by an answer in digits, and by closing the dialog.
func TestWorkInTheDialogIsStopped(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, appSite(t).URL, workSettings+slowWork)
	ctx := browser(t)
	begin := func(name string, stop func(a *app)) {
		t.Run(name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, g.url+"/app", "")
			g.ban("ip:127.0.0.1", "10m")
			defer g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'b'})); true`, nil)
			a.asked()
			a.eval(`(`+workButton+`).click(); true`, nil)
			a.until(`(` + dialog + `).querySelector('[role=status]').textContent.includes('is working') && (` + workButton + `).textContent === 'Cancel'`)
			stop(a)
		})
	}
	begin("button, then digits", func(a *app) {
		checkAxe(a.t, ctx, axe(a.t), "dialog at work")
		var same int
		if a.eval(`[...(`+dialog+`).querySelectorAll('button')].filter((b) => b.textContent === 'Cancel' && b.offsetParent).length`, &same); same != 1 {
			a.t.Errorf("%d buttons are called Cancel", same)
		}
		a.eval(`(`+workButton+`).click(); true`, nil)
		a.until(`(` + workButton + `).textContent.startsWith('Without') && (` + dialog + `).querySelector('[role=status]').textContent === ''`)
		a.eval(`(`+dialog+`).querySelector('input').focus(); true`, nil)
		a.typed(testAnswer + "\r")
		a.result("r")
	})
	begin("digits at once", func(a *app) {
		a.eval(`(`+dialog+`).querySelector('input').focus(); true`, nil)
		a.typed(testAnswer + "\r")
		if r := a.result("r"); r.Value.Body != "b" {
			a.t.Errorf("got %+v", r)
		}
		a.gone()
	})
	begin("Escape", func(a *app) {
		run(a.t, ctx, "close", chromedp.KeyEvent("\u001b"))
		if r := a.result("r"); r.Error != "AntirobotCancelled" {
			a.t.Errorf("got %+v", r)
		}
	})
}
