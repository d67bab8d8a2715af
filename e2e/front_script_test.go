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
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// strictPolicy is a Content-Security-Policy as careful sites have it: antirobot.js must work under it.
const strictPolicy = "default-src 'none'; script-src 'self'; connect-src *; img-src *; media-src *; base-uri 'none'; require-trusted-types-for 'script'"

// appSite is a service with a front end: pages that load antirobot.js from where the query's script says, and an API
// that returns what it got. Its pages have nothing else; the tests type into them from outside.
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

// configured runs the gateway before upstream with settings of the service in YAML, one per line.
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
	deadline := time.Now().Add(15 * time.Second)
	for ok := false; !ok; {
		if a.eval("!!("+expression+")", &ok); !ok && time.Now().After(deadline) {
			var log []string
			var dialog string
			a.eval("log", &log)
			a.eval("(document.querySelector('antirobot-captcha')?.shadowRoot.textContent || 'no dialog') + ' ' + JSON.stringify(results)", &dialog)
			a.t.Fatalf("never: %s; events %v; %s", expression, log, dialog)
		}
		if !ok {
			time.Sleep(30 * time.Millisecond)
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

// typed types into what has the focus, as a person does.
func (a *app) typed(text string) {
	a.t.Helper()
	run(a.t, a.ctx, "type "+text, page.BringToFront(), chromedp.KeyEvent(text))
}

// echo is what the API says that it got; errors have their name only.
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

// TestScriptRepeatsRequests challenges each kind of request once: the person answers, the caller gets what it asked for
// and never learns of it.
func TestScriptRepeatsRequests(t *testing.T) {
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

// xhrCall makes a promise of an XMLHttpRequest that checks how its events come: as if nothing had been in between.
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
		x.onerror = () => { const e = new Error(); e.name = 'XHRError ' + x.readyState + ' ' + x.status; reject(e); };
		` + open + `;
	})`
}

// TestScriptAsksOnce: five requests at once are one dialog and one answer.
func TestScriptAsksOnce(t *testing.T) {
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

// TestScriptAcrossTabs: the dialog is in the tab that the person looks at, one answer serves both.
func TestScriptAcrossTabs(t *testing.T) {
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

// TestScriptWrongThenRight: a wrong answer brings a new picture, a message that is tied to the field, and the focus back.
func TestScriptWrongThenRight(t *testing.T) {
	g := serve(t, appSite(t).URL)
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

// TestScriptCancel: Escape and the button are a named error, and the focus comes back; the next request asks again.
func TestScriptCancel(t *testing.T) {
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
	a.eval(`document.getElementById('more').focus(); keep('one', robot.fetch('/api/list')); keep('two', robot.fetch('/api/late')); true`, nil)
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
	a.gone()
	var focus string
	a.eval(`document.activeElement.id`, &focus)
	if focus != "more" {
		t.Errorf("the focus is on %q", focus)
	}
	a.eval(`robot.install({xhr: true}); keep('three', `+xhrCall(`x.open('GET', '/api/list'); x.send()`)+`); true`, nil)
	a.asked()
	a.eval(`[...`+dialog+`.querySelectorAll('button')].find((b) => b.textContent === 'Cancel').click(); true`, nil)
	if r := a.result("three"); r.Error != "XHRError 4 0" {
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

// TestScriptExpired: a phone that changes its network in the middle gets a new picture and no reproach.
func TestScriptExpired(t *testing.T) {
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

// TestScriptBlocked: a block is a named error with the request's number, in fetch and in the middle of a dialog.
func TestScriptBlocked(t *testing.T) {
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

// TestScriptReplaySafety: what can't be repeated, or may not be, is a named error after the answer, and the next try
// goes through.
func TestScriptReplaySafety(t *testing.T) {
	g := serve(t, appSite(t).URL)
	ctx := browser(t)
	stream := `new ReadableStream({start(c) { c.enqueue(new TextEncoder().encode('x')); c.close(); }})`
	for _, c := range []struct{ name, options, call, want string }{
		{"a request with a body", ``, `robot.fetch(new Request('/api/save', {method: 'POST', body: 'x'.repeat(20)}))`, ""},
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

// TestScriptSaysThatCookiesAreMissing: without a kept cookie the question would come again and again; after rounds it
// is an error that says so.
func TestScriptSaysThatCookiesAreMissing(t *testing.T) {
	g := serve(t, appSite(t).URL)
	a := openApp(t, browser(t), g.url+"/app", "{rounds: 1}")
	g.ban("ip:127.0.0.1", "10m")
	a.eval(`keep('r', robot.fetch('/api/list', {credentials: 'omit'})); true`, nil)
	for n := range 2 {
		a.asked()
		a.typed(testAnswer + "\r")
		a.until(fmt.Sprintf(`log.filter((x) => x === 'passed').length === %d`, n+1))
	}
	if r := a.result("r"); r.Error != "AntirobotBlocked" {
		t.Errorf("%+v", r)
	}
}
