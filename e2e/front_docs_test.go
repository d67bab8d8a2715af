package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
)

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
