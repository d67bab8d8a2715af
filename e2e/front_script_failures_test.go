package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

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
