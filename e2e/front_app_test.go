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

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

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
