package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
)

// unused are chromedp's own, and what a browser would load at its start for the suggestions under its address line, which no test opens.
const unused = "site-per-process,Translate,BlinkGenPropertyTrees,WebUIOmniboxAimPopup,WebUIOmniboxPopup"

// forgetful is a browser that does not keep the pages which were left for who goes back to them, as no test does.
const forgetful = unused + ",BackForwardCache"

// quiet are the switches with which Chromium runs as root and asks nothing of the network by itself.
var quiet = []string{
	"no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
}

// headlessShell is Chromium's engine without a browser's bars around the page, which are half of what a page costs. Debian's script of
// this name starts it as a child, which outlives the script.
const headlessShell = "/usr/lib/chromium/chromium-headless-shell"

// browser returns the context of a fresh tab, without cookies and with an empty cache. With options it is one of Debian's Chromium,
// started for the test, without a window; otherwise one of its headless shell, and one that no test uses any more will do, as starting
// one takes longer than most tests need it. shell is for what is about switches that both have.
func browser(t *testing.T, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if len(options) > 0 {
		return tabOf(t, "chromium", options...)
	}
	for {
		var p context.Context
		select {
		case p = <-rested:
		default:
			p = launch(t)
		}
		ctx, cancel := context.WithTimeout(p, 10*time.Minute)
		ctx, closed := chromedp.NewContext(ctx)
		if err := chromedp.Run(ctx); err != nil { // it has ended
			closed()
			cancel()
			end(p)
			t.Logf("a tab of a browser that another test has used: %v", err)
			continue
		}
		t.Cleanup(func() {
			closed()
			cancel()
			if t.Failed() || forget(p) != nil {
				end(p)
				return
			}
			rested <- p
		})
		return ctx
	}
}

// shell is browser with options of the headless shell, started for the test.
func shell(t *testing.T, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	return tabOf(t, headlessShell, append([]chromedp.ExecAllocatorOption{chromedp.Flag("accept-lang", "en")}, options...)...) // else it says none
}

// tabOf starts Debian's Chromium, or its headless shell.
func tabOf(t *testing.T, program string, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(switches(t, program, profile(t)), options...)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(format string, args ...any) {
		if !strings.HasPrefix(format, "unhandled ") { // events of a newer Chromium than chromedp knows
			t.Logf(format, args...)
		}
	}))
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// switches are those that every Chromium has.
func switches(t *testing.T, program, profile string) []chromedp.ExecAllocatorOption {
	t.Helper()
	path := servertest.Need(t, program)
	opts := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	opts = append(opts,
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.UserDataDir(profile), chromedp.Env(leavesIn(profile)),
		chromedp.Flag("disable-features", forgetful), chromedp.WindowSize(1100, 800),
	)
	for _, name := range quiet {
		opts = append(opts, chromedp.Flag(name, true))
	}
	return opts
}

// withWindow gives Chromium the name of one with a window; as an option for browser.
func withWindow(t *testing.T) chromedp.ExecAllocatorOption {
	t.Helper()
	return chromedp.UserAgent(windowName(t))
}

// windowName is the User-Agent of a Chromium with a window.
func windowName(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), servertest.Need(t, "chromium"), "--version").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		t.Fatalf("Chromium says of its version %q: %v", out, err)
	}
	major, _, _ := strings.Cut(words[1], ".")
	return "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/" + major + ".0.0.0 Safari/537.36"
}

// profile makes a directory for a browser's profile. Chromium's last processes may still write there after it was told to
// stop, so what can't be removed at once is not a failure.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "antirobot-profile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removed(dir) })
	return dir
}

// leavesIn is a browser's environment: Chromium, which is killed in the end, leaves a folder with a socket among temporary files.
func leavesIn(profile string) string { return "TMPDIR=" + profile }

func removed(dir string) {
	for range 20 {
		if os.RemoveAll(dir) == nil {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// tab opens a further tab of the same browser.
func tab(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context of its first run
		t.Fatalf("open a tab: %v", err)
	}
	return ctx
}

func run(t *testing.T, ctx context.Context, what string, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := chromedp.Run(ctx, actions...)
	for n := 0; n < 3 && err != nil && strings.Contains(err.Error(), "No node with given id"); n++ {
		err = chromedp.Run(ctx, actions...) // the page was replaced between the look for a field and its use
	}
	if err != nil {
		var where, html string
		look, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		_ = chromedp.Run(look, chromedp.Location(&where), chromedp.OuterHTML("html", &html))
		t.Fatalf("%s: %v\nat %s\n%s", what, err, where, tail(html, 3000))
	}
}

// screen writes a picture of the page to the folder named by SCREENS, if it is set.
func screen(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if os.Getenv("SCREENS") == "" {
		return
	}
	// Chromium shifts a page from right to left that is no longer than the window when it is asked for the whole of it.
	if value[bool](t, ctx, `document.documentElement.scrollHeight <= innerHeight`) {
		viewport(t, ctx, name)
		return
	}
	var png []byte
	run(t, ctx, "screen "+name, chromedp.FullScreenshot(&png, 100))
	saveScreen(t, name, png)
}

func saveScreen(t *testing.T, name string, png []byte) {
	t.Helper()
	file := filepath.Join(os.Getenv("SCREENS"), name+".png")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		t.Fatal(err)
	}
}

func withoutJavaScript() chromedp.Action { return emulation.SetScriptExecutionDisabled(true) }

// TestBrowserSolvesCaptcha is a person's journey: stopped, challenged, and back at their destination, with and without
// JavaScript.
func TestBrowserSolvesCaptcha(t *testing.T) {
	t.Parallel()
	for _, js := range []bool{true, false} {
		name := map[bool]string{true: "with JavaScript", false: "without JavaScript"}[js]
		t.Run(name, func(t *testing.T) {
			g := serve(t, site(t).URL)
			g.ban("ip:127.0.0.1", "10m")
			ctx := browser(t, chromedp.WindowSize(1100, 800)) // Chromium itself, as people have it
			if !js {
				run(t, ctx, "switch JavaScript off", withoutJavaScript())
			}
			target := g.url + "/articles?a=1&b=2"
			run(t, ctx, "open the page", chromedp.Navigate(target), chromedp.WaitVisible(`input[name=rep]`))
			screen(t, ctx, "captcha")

			run(t, ctx, "answer wrong", chromedp.SendKeys(`input[name=rep]`, "000000\r"), chromedp.WaitVisible(`input[aria-invalid=true]`, chromedp.ByQuery))
			screen(t, ctx, "captcha-wrong")

			var where, text string
			run(t, ctx, "answer right", chromedp.SendKeys(`input[name=rep]`, testAnswer+"\r"),
				chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where), chromedp.Text("body", &text))
			if where != target {
				t.Errorf("landed on %s, wanted %s", where, target)
			}
			run(t, ctx, "go on as a human", chromedp.Navigate(g.url+"/next"), chromedp.WaitVisible(`//pre[contains(.,"GET /next")]`))
		})
	}
}

// formSite has a form, as services do.
func formSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == http.MethodPost {
			_ = r.ParseForm()
			fmt.Fprintf(w, `<!doctype html><title>Thanks</title><pre id=got>%s from %s, cookie %t</pre>`,
				html.EscapeString(r.PostForm.Get("text")), html.EscapeString(r.PostForm.Get("name")), strings.Contains(r.Header.Get("Cookie"), "session=s1"))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s1", Path: "/", SameSite: http.SameSiteStrictMode})
		fmt.Fprint(w, `<!doctype html><title>Write</title><form method=post action=/post><input name=name><textarea name=text></textarea><button id=send>Send</button></form>`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestFormSurvives types a text, is challenged on sending it, and finds that it was received, with and without JavaScript: at the
// service's own address, where a reload says that it was sent, leads back by a link and asks nobody, whatever became of the pass.
func TestFormSurvives(t *testing.T) {
	t.Parallel()
	for _, js := range []bool{true, false} {
		t.Run(fmt.Sprintf("JavaScript %t", js), func(t *testing.T) {
			g := serve(t, formSite(t))
			ctx := browser(t)
			if !js {
				run(t, ctx, "switch JavaScript off", withoutJavaScript())
			}
			run(t, ctx, "write", chromedp.Navigate(g.url+"/write"), chromedp.SendKeys("input[name=name]", "Анна"),
				chromedp.SendKeys("textarea", "a long text & more, ещё"))
			g.ban("ip:127.0.0.1", "10m")
			run(t, ctx, "send", chromedp.Click("#send"), chromedp.WaitVisible("input[name=rep]"))
			screen(t, ctx, "captcha-form")
			var got, where, back string
			run(t, ctx, "answer", chromedp.SendKeys("input[name=rep]", testAnswer+"\r"), chromedp.Text("#got", &got), chromedp.Location(&where))
			if want := "a long text & more, ещё from Анна, cookie true"; got != want || where != g.url+"/post" {
				t.Errorf("the service got %q at %s, wanted %q", got, where, want)
			}
			run(t, ctx, "lose the pass, and reload", network.DeleteCookies("spravka").WithURL(g.url), chromedp.Reload(),
				chromedp.WaitVisible(`//h1[contains(.,"sent already")]`), chromedp.AttributeValue(`a[href$="/write"]`, "href", &back, nil), chromedp.Location(&where))
			if where != g.url+"/post" || back != g.url+"/write" {
				t.Errorf("the reload shows %s, and leads back to %q", where, back)
			}
		})
	}
}

// TestTwoTabs challenges two tabs at once: each reaches its own page, and the second pass does not undo the first.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	one := browser(t)
	two := tab(t, one)
	for i, ctx := range []context.Context{one, two} {
		run(t, ctx, "open", chromedp.Navigate(fmt.Sprintf("%s/tab%d", g.url, i+1)), chromedp.WaitVisible("input[name=rep]"))
	}
	for i, ctx := range []context.Context{two, one} {
		var where string
		run(t, ctx, "answer", page.BringToFront(), chromedp.SendKeys("input[name=rep]", testAnswer+"\r"),
			chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where))
		if want := fmt.Sprintf("%s/tab%d", g.url, 2-i); where != want {
			t.Errorf("landed on %s, wanted %s", where, want)
		}
	}
	for _, ctx := range []context.Context{one, two} {
		run(t, ctx, "go on", chromedp.Navigate(g.url+"/more"), chromedp.WaitVisible(`//pre[contains(.,"GET /more")]`))
	}
}

// rested are browsers that no test uses at present: one at a time does, so that its tab is the one in front. Each context is that of
// a first tab, which stays empty.
var rested = make(chan context.Context, 64)

// launch starts a browser that outlives the test.
func launch(t *testing.T) context.Context {
	t.Helper()
	dir, err := os.MkdirTemp("", "antirobot-profile-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, ended := chromedp.NewExecAllocator(context.Background(), switches(t, headlessShell, dir)...)
	ctx, _ = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // the tests' own steps say what fails
	ctx = context.WithValue(ctx, ending{}, func() {
		closing, late := context.WithTimeout(ctx, 10*time.Second)
		_ = chromedp.Cancel(closing) // one that is killed leaves processes that may still write there
		late()
		ended()
		removed(dir)
	})
	if err := chromedp.Run(ctx); err != nil {
		end(ctx)
		t.Fatalf("start %s: %v", headlessShell, err)
	}
	return ctx
}

// ending is the key of what ends a launched browser.
type ending struct{}

func end(p context.Context) { p.Value(ending{}).(func())() }

// forget closes the tabs that a test has left in p, and makes p forget what it has met.
func forget(p context.Context) error {
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	open, err := chromedp.Targets(ctx)
	if err != nil {
		return err
	}
	c := chromedp.FromContext(p)
	for _, o := range open {
		if o.Type == "page" && o.TargetID != c.Target.TargetID {
			if err := target.CloseTarget(o.TargetID).Do(cdp.WithExecutor(ctx, c.Browser)); err != nil {
				return err
			}
		}
	}
	return chromedp.Run(ctx, network.ClearBrowserCache(), network.ClearBrowserCookies())
}

// endRested ends the browsers that were launched, when all tests are over.
func endRested() {
	for {
		select {
		case p := <-rested:
			end(p)
		case f := <-restedFirefox:
			f.end()
		default:
			return
		}
	}
}

// TestBrowserForgets: whoever gets a browser that another test has used meets it as if it were new.
func TestBrowserForgets(t *testing.T) {
	t.Parallel()
	var known, loaded atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Header.Get("Cookie") != "" {
			known.Add(1)
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		if r.URL.Path == "/kept.js" {
			loaded.Add(1)
			w.Header().Set("Content-Type", "text/javascript")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s1", Path: "/", MaxAge: 3600})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>x</title><p id=there>x<script src=/kept.js></script>`)
	}))
	t.Cleanup(s.Close)
	p := launch(t)
	t.Cleanup(func() { end(p) })
	for n := range 2 {
		ctx := tab(t, p)
		run(t, ctx, "open", chromedp.Navigate(fmt.Sprintf("%s/?%d", s.URL, n)), chromedp.WaitVisible("#there"))
		if err := forget(p); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its tabs are closed", func() bool {
			open, err := chromedp.Targets(p)
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(open, func(o *target.Info) bool { return strings.HasPrefix(o.URL, s.URL) })
		})
	}
	f := launchFirefox(t)
	for n := range 2 {
		f.open(fmt.Sprintf("%s/?firefox%d", s.URL, n))
		if err := f.forget(); err != nil {
			t.Fatal(err)
		}
	}
	if known.Load() != 0 || loaded.Load() != 4 {
		t.Errorf("%d pages were asked for with a cookie, the script loaded %d times", known.Load(), loaded.Load())
	}
}

// TestFirefox: Firefox over TLS and HTTP/2 opens a page, and is recognised as what it is; it is asked, answers, and is back on its page with a
// pass.
func TestFirefox(t *testing.T) {
	t.Parallel()
	f := launchFirefox(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>GET %s", r.URL.Path)
	}))
	t.Cleanup(pages.Close)
	g, secure, _ := http2Gateway(t, pages.URL, "")
	url := "https://" + secure
	text := func() string {
		s, _ := f.eval("return document.body?.innerText ?? ''").(string)
		return s
	}
	f.open(url + "/first")
	if s := text(); !strings.Contains(s, "GET /first") {
		t.Fatalf("the page says %s", s)
	}
	line := g.logs.find(func(s string) bool { return strings.Contains(s, `"path":"/first"`) })
	var access struct {
		RequestID string `json:"request_id"`
		JA4       string `json:"ja4"`
		H2        string `json:"h2"`
	}
	if err := json.Unmarshal([]byte(line), &access); err != nil {
		t.Fatalf("the access line %q: %v", line, err)
	}
	if !strings.HasPrefix(access.JA4, "t13") || !strings.Contains(access.JA4, "h2_") || !strings.HasSuffix(access.H2, "|m,p,a,s") {
		t.Errorf("its handshake and frames: %+v", access)
	}
	_, out := command(t, "why", access.RequestID, "--admin", g.admin, "--data-dir", g.dir)
	if !strings.Contains(out, "human: nothing spoke against it") || strings.Contains(out, "contradicts") || strings.Contains(out, ": of ") {
		t.Errorf("it is not taken for what it is:\n%s", out)
	}
	var s session
	eventually(t, "its session", func() bool {
		s = g.session("ip:127.0.0.1")
		return s.Claims != ""
	})
	if s.Claims != "firefox" {
		t.Errorf("it claims to be %s", s.Claims)
	}
	for _, name := range []string{"order_false", "fetch_false", "fetch_missing", "hello_false", "browser_no_language", "browser_accepts_any", "misfits"} {
		if x := s.factor(name); x != "0" {
			t.Errorf("%s is %s", name, x)
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	f.open(url + "/second")
	f.eval(`document.querySelector("input[name=rep]").value = "` + testAnswer + `"; document.querySelector("#challenge .go").click()`)
	eventually(t, "it is back", func() bool { return strings.Contains(text(), "GET /second") })
	f.open(url + "/third")
	if s := text(); !strings.Contains(s, "GET /third") {
		t.Errorf("with its pass it gets %s", s)
	}
}

// firefox is driven by Marionette, which speaks lengths and JSON over a socket.
type firefox struct {
	t    *testing.T // that uses it
	end  func()
	conn net.Conn
	r    *bufio.Reader
	n    int
}

// restedFirefox are those that no test uses at present, as rested are.
var restedFirefox = make(chan *firefox, 64)

// launchFirefox returns Debian's Firefox, without a window, which takes any certificate: one that no test uses any more, and that has forgotten
// what it met, or another one.
func launchFirefox(t *testing.T) (f *firefox) {
	t.Helper()
	path := servertest.Need(t, "firefox-esr")
	select {
	case f = <-restedFirefox:
		f.t = t
	default:
		f = startFirefox(t, path)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			err := f.forget()
			if err == nil {
				restedFirefox <- f
				return
			}
			t.Logf("Firefox does not forget: %v", err)
		}
		f.end()
	})
	return f
}

// startFirefox starts one that outlives the test.
func startFirefox(t *testing.T, path string) *firefox {
	t.Helper()
	dir, err := os.MkdirTemp("", "antirobot-profile-")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(freePort(t))
	write(t, dir+"/user.js", fmt.Sprintf("user_pref(\"marionette.port\", %s);\n", port))
	cmd := exec.Command(path, "--headless", "--no-remote", "--profile", dir, "--marionette", "--remote-allow-system-access")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := &firefox{t: t}
	f.end = func() {
		if f.conn != nil {
			f.conn.Close()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		removed(dir)
	}
	listens := false
	defer func() {
		if !listens {
			f.end()
		}
	}()
	eventually(t, "Firefox listens", func() bool {
		f.conn, err = net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil
	})
	f.r = bufio.NewReader(f.conn)
	if _, err := f.message(); err != nil {
		t.Fatal(err)
	}
	f.say("WebDriver:NewSession", map[string]any{"acceptInsecureCerts": true})
	listens = true
	return f
}

// scripts lets pages run theirs, or not.
func (f *firefox) scripts(run bool) error {
	return f.itself(fmt.Sprintf("Services.prefs.setBoolPref('javascript.enabled', %t)", run))
}

// forget makes f forget what it has met.
func (f *firefox) forget() error {
	if _, err := f.try("WebDriver:Navigate", map[string]any{"url": "about:blank"}); err != nil {
		return err
	}
	if err := f.scripts(true); err != nil {
		return err
	}
	return f.itself("Services.cookies.removeAll(); Services.cache2.clear()")
}

// itself runs a script in the browser, not in its page.
func (f *firefox) itself(script string) error {
	_, err := f.try("Marionette:SetContext", map[string]any{"value": "chrome"})
	if err != nil {
		return err
	}
	_, err = f.ask(script)
	_, back := f.try("Marionette:SetContext", map[string]any{"value": "content"})
	return errors.Join(err, back)
}

// message reads one message.
func (f *firefox) message() (m []json.RawMessage, err error) {
	_ = f.conn.SetReadDeadline(time.Now().Add(patience))
	size, err := f.r.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(size, ":"))
	b := make([]byte, n)
	if _, err := io.ReadFull(f.r, b); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(b, &m) // the greeting is no list
	return m, nil
}

func (f *firefox) try(command string, params map[string]any) (any, error) {
	f.n++
	b, _ := json.Marshal([]any{0, f.n, command, params})
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(b), b); err != nil {
		return nil, err
	}
	m, err := f.message()
	if err != nil {
		return nil, err
	}
	if len(m) != 4 || string(m[2]) != "null" {
		return nil, fmt.Errorf("%s: %s", command, m)
	}
	var result struct{ Value any }
	_ = json.Unmarshal(m[3], &result)
	return result.Value, nil
}

func (f *firefox) say(command string, params map[string]any) any {
	f.t.Helper()
	v, err := f.try(command, params)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

func (f *firefox) open(url string) { f.say("WebDriver:Navigate", map[string]any{"url": url}) }

// find returns the first element that a selector fits; it works where pages run no scripts.
func (f *firefox) find(selector string) string {
	f.t.Helper()
	return found(f.t, selector, func(by map[string]any) (any, error) { return f.try("WebDriver:FindElement", by) })
}

// keys types into an element.
func (f *firefox) keys(selector, text string) {
	f.t.Helper()
	f.say("WebDriver:ElementSendKeys", map[string]any{"id": f.find(selector), "text": text})
}

func (f *firefox) ask(script string) (any, error) {
	return f.try("WebDriver:ExecuteScript", running(script))
}

func (f *firefox) eval(script string) any {
	f.t.Helper()
	return f.say("WebDriver:ExecuteScript", running(script))
}

func (f *firefox) click(selector string) {
	f.t.Helper()
	f.say("WebDriver:ElementClick", map[string]any{"id": f.find(selector)})
}

func (f *firefox) typed(text string) { f.say("WebDriver:PerformActions", strokes(text)) }

// engine is a browser other than Chromium, as the W3C's WebDriver drives it.
type engine interface {
	open(url string)
	find(selector string) (id string) // waits until there is one
	keys(selector, text string)
	click(selector string)
	typed(text string)              // wherever the focus is
	eval(script string) any         // the body of a function, whose promise is waited for
	ask(script string) (any, error) // as eval; an error may only mean that the next page is about to come
}

// webkit is WebKitGTK's small browser, on a screen of its own.
type webkit struct {
	t       *testing.T
	session string // its address
}

// miniBrowser finds WebKitGTK's small browser.
func miniBrowser() string {
	all, _ := filepath.Glob("/usr/lib/*/webkit2gtk-4.1/MiniBrowser")
	if len(all) == 0 {
		return "MiniBrowser" // which is in no PATH
	}
	return all[0]
}

// launchWebKit starts it.
func launchWebKit(t *testing.T) *webkit {
	t.Helper()
	driver := servertest.Need(t, "WebKitWebDriver")
	servertest.Need(t, miniBrowser())
	_, port, _ := net.SplitHostPort(freePort(t))
	cmd := exec.CommandContext(t.Context(), driver, "--port="+port)
	dir := profile(t)
	// Without a graphics card, what composes layers is a processor that plays one.
	cmd.Env = append(os.Environ(), "DISPLAY="+newDisplay(t).name, "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "GDK_BACKEND=x11", "NO_AT_BRIDGE=1", "WEBKIT_DISABLE_COMPOSITING_MODE=1")
	runs(t, cmd)
	w := &webkit{t: t, session: "http://127.0.0.1:" + port + "/session"}
	eventually(t, "WebKit's driver listens", func() bool {
		r, err := http.Get("http://127.0.0.1:" + port + "/status")
		if err != nil {
			return false
		}
		r.Body.Close()
		return true
	})
	args := map[string]any{"binary": miniBrowser(), "args": []string{"--automation"}}
	s, _ := w.say("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"acceptInsecureCerts": true, "webkitgtk:browserOptions": args}}}).(map[string]any)
	id, _ := s["sessionId"].(string)
	w.session += "/" + id
	return w
}

// try sends a command to a path below the session's.
func (w *webkit) try(method, path string, body any) (any, error) {
	text := []byte("{}")
	if body != nil {
		text, _ = json.Marshal(body)
	}
	q, err := http.NewRequest(method, w.session+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r, err := (&http.Client{Timeout: patience}).Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	var a struct{ Value any }
	if err != nil || r.StatusCode != 200 || json.Unmarshal(b, &a) != nil {
		return nil, fmt.Errorf("%s %s %s: %v %s", method, path, text, err, b)
	}
	return a.Value, nil
}

func (w *webkit) say(method, path string, body any) any {
	w.t.Helper()
	v, err := w.try(method, path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *webkit) open(url string) { w.say("POST", "/url", map[string]any{"url": url}) }

func (w *webkit) find(selector string) string {
	w.t.Helper()
	return found(w.t, selector, func(by map[string]any) (any, error) { return w.try("POST", "/element", by) })
}

// found waits until a selector fits an element, and returns its name.
func found(t *testing.T, selector string, find func(by map[string]any) (any, error)) (id string) {
	t.Helper()
	settled(t, selector, func() (bool, error) {
		v, err := find(map[string]any{"using": "css selector", "value": selector})
		e, _ := v.(map[string]any)
		for _, v := range e {
			id, _ = v.(string)
		}
		return id != "", err
	})
	return id
}

func (w *webkit) keys(selector, text string) {
	w.t.Helper()
	w.say("POST", "/element/"+w.find(selector)+"/value", map[string]any{"text": text})
}

func (w *webkit) click(selector string) {
	w.t.Helper()
	w.say("POST", "/element/"+w.find(selector)+"/click", nil)
}

func (w *webkit) typed(text string) {
	w.t.Helper()
	w.say("POST", "/actions", strokes(text))
}

func (w *webkit) ask(script string) (any, error) {
	return w.try("POST", "/execute/sync", running(script))
}

func (w *webkit) eval(script string) any {
	w.t.Helper()
	return w.say("POST", "/execute/sync", running(script))
}

// running are the parameters of a command that runs a script.
func running(script string) map[string]any {
	return map[string]any{"script": script, "args": []any{}}
}

// strokes are the actions that type a text.
func strokes(text string) map[string]any {
	var all []map[string]string
	for key := range strings.SplitSeq(text, "") {
		all = append(all, map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key})
	}
	return map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": all}}}
}

// TestEveryEngine: what people are asked, in browsers of other makers than the one that all other tests use: each step on its page and in the dialog, by pointer and
// keyboard, work, a form that is kept, a pass that moves to another network with the browser's key, and what its pages tell.
func TestEveryEngine(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]func(t *testing.T) engine{
		"Firefox": func(t *testing.T) engine {
			return launchFirefox(t)
		},
		"WebKit": func(t *testing.T) engine {
			return launchWebKit(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tour(t, launch(t))
		})
	}
}

// tour shows a browser each thing in turn.
func tour(t *testing.T, b engine) {
	t.Helper()
	step := func(name string, do func()) {
		t.Helper()
		t.Log(name)
		do()
	}
	is := func(what, condition string) {
		t.Helper()
		settled(t, what, func() (bool, error) {
			v, err := b.ask("return !!(" + condition + ")")
			return v == true, err
		})
	}
	there := func() {
		t.Helper()
		is("the page", `document.body?.innerText.includes("site got GET /page")`)
	}
	asked := func(settings string) *gateway {
		t.Helper()
		g := configuredFront(t, site(t).URL, "    captcha: "+settings+"\n")
		g.ban("ip:127.0.0.1", "1h")
		b.open(g.url + "/page")
		return g
	}
	step("silent", func() {
		g := asked("{steps: {robot: silent}}")
		there()
		settled(t, "one was solved", func() (bool, error) {
			n := g.metric("antirobot_captcha_answers_total", `result="solved"`)
			return n == 1, fmt.Errorf("%v were", n)
		})
	})
	step("press", func() {
		asked("{steps: {robot: press}}")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.click("#press")
		there()
	})
	step("press by keyboard", func() {
		asked("{steps: {robot: press}}")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.eval(`document.querySelector("#press").focus()`)
		b.typed("\ue007")
		there()
	})
	step("digits", func() {
		asked("{}")
		is("the picture", `document.querySelector("main img")?.naturalWidth > 0`)
		b.keys(field, "222222\ue007")
		is("the problem", `document.querySelector("#problem")`)
		is("the field", `document.querySelector('`+field+`')`)
		b.keys(field, testAnswer+"\ue007")
		there()
	})
	step("moving", func() {
		asked("{steps: {robot: dynamic}}")
		is("arrows", `document.querySelector(".arrows button")`)
		b.click(".arrows button")
		is("an arrow", `document.querySelector('`+field+`').value === "←"`)
		key := ""
		for range 2 {
			is("another challenge", `(document.querySelector("[name=key]")?.value ?? "`+key+`") !== "`+key+`"`)
			key = b.eval(`return document.querySelector("[name=key]").value`).(string)
			b.eval(`document.querySelector('` + field + `').value = ""`)
			b.keys(field, testAnswer+"\ue007")
		}
		there()
	})
	step("work", func() {
		asked("{work: true}")
		is("the offer", `document.querySelector('`+offerButton+`')`)
		b.click(offerButton)
		there()
	})
	step("a form", func() {
		g := configuredFront(t, noteSite(t), "    captcha: {}\n")
		b.open(g.url + "/write")
		b.keys("textarea", "kept")
		g.ban("ip:127.0.0.1", "1h")
		b.click("#send")
		is("the field", `document.querySelector('`+field+`')`)
		b.keys(field, testAnswer+"\ue007")
		is("the form's way", `document.body?.innerText.includes("got kept")`)
	})
	for _, s := range []string{"silent", "press", "digits"} {
		step("the dialog, "+s, func() {
			g := configuredFront(t, appSite(t).URL, "    captcha: {steps: {robot: "+s+"}}\n")
			b.open(g.url + "/app")
			b.eval(`window.robot = antirobot.createAntirobot({})`)
			g.ban("ip:127.0.0.1", "1h")
			b.eval(`window.got = null; robot.fetch("/api/save", {method: "POST", body: "x"}).then((r) => r.json()).then((o) => { window.got = o }, (e) => { window.got = String(e) })`)
			switch s {
			case "press":
				is("the button", dialog+`?.querySelector("button.g")`)
				is("its focus", dialog+`.activeElement?.tagName === "BUTTON"`)
				b.typed("\ue007")
			case "digits":
				is("the field", dialog+`?.activeElement?.id === "f"`)
				b.typed(testAnswer + "\ue007")
			}
			is("the answer", `window.got?.body === "x" && window.got.method === "POST"`)
			is("no dialog", `!document.querySelector("antirobot-captcha")`)
		})
	}
	step("a pass moves", func() {
		g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: press}}\n", "--trusted-proxies", "127.0.0.1")
		var from atomic.Value
		from.Store("203.0.113.1")
		to, _ := url.Parse(g.url)
		road := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-For", from.Load().(string))
		}})
		t.Cleanup(road.Close)
		g.ban("ip:203.0.113.1", "1h")
		g.ban("ip:198.51.100.1", "1h")
		b.open(road.URL + "/page")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.click("#press")
		there()
		from.Store("198.51.100.1")
		b.open(road.URL + "/page?2")
		there()
		settled(t, "it moved", func() (bool, error) {
			n := g.metric("antirobot_captcha_answers_total", `result="moved"`)
			if n == 1 {
				return true, nil
			}
			secure, err := b.ask(`return isSecureContext && !!crypto.subtle`)
			return false, errors.Join(fmt.Errorf("%v moved; secure: %v", n, secure), err)
		})
	})
	step("evidence", func() {
		pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>%s</title><a id="next" href="%[1]sn">on</a>`, r.URL.Path)
		}))
		t.Cleanup(pages.Close)
		g := configured(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}]`, pages.URL)
		b.open(g.url + "/")
		for i := range 3 {
			is("a page", `document.title === "/`+strings.Repeat("n", i)+`"`)
			b.click("#next")
		}
		settled(t, "what its pages say", func() (bool, error) {
			told := g.session("ip:127.0.0.1")
			var wrong []string
			for _, name := range []string{
				"page_inspected", "page_unpressed", "page_astray",
				"order_false", "fetch_false", "fetch_missing", "browser_no_language", "browser_accepts_any", "misfits",
			} {
				if x := told.factor(name); x != "0" {
					wrong = append(wrong, name+" is "+x)
				}
			}
			automation := told.factor("page_automation")
			return automation == "1" && wrong == nil, fmt.Errorf("page_automation is %s, %s", automation, strings.Join(wrong, ", "))
		})
	})
}

// noteSite has a page with a form, and says what it got.
func noteSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == "POST" {
			fmt.Fprintf(w, "<p>got %s", r.FormValue("text"))
			return
		}
		fmt.Fprint(w, `<!doctype html><form method=post action=/post><textarea name=text></textarea><button id=send>Send</button></form>`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestPlaywright: a browser that playwright drives, as it does by default, clicks its way through a site. What its pages say makes it
// unsure at least within ten of them, under the name of a browser with a window; one that hides can't hide that it is inspected. It opens its pages by events of input, as people
// do. Without the page's script there is what it says of itself: that it has no window.
func TestPlaywright(t *testing.T) {
	t.Parallel()
	pages := leaflets(t)
	for _, c := range []struct {
		dress, settings, factors string
	}{
		{named, "{evidence: true, evidence_insert: true}", "page_automation 1, page_inspected 1, agent_headless 0, unclicked_share 0, uncached_share 0"},
		{hidden, "{evidence: true, evidence_insert: true}", "page_automation 0, page_inspected 1, agent_headless 0, unclicked_share 0, uncached_share 0"},
		{plain, "{}", "page_automation unknown, page_inspected unknown, agent_headless 1, unclicked_share unknown, uncached_share unknown"},
	} {
		t.Run(c.dress, func(t *testing.T) {
			g := configured(t, "processor: {exempt: []}\nservices: [{name: site, upstream: {urls: [%q]}, captcha: "+c.settings+", verdict: {mode: observe}}]", pages)
			b, lacks := launchNode(t, "playwright", c.dress)
			if lacks != "" {
				servertest.Lack(t, lacks, "make deps")
			}
			b.open(g.url + "/")
			visited := map[string]bool{}
			for range 9 {
				links := b.links()
				i := slices.IndexFunc(links, func(href string) bool { return !visited[href] })
				if i < 0 {
					t.Fatalf("%s leads nowhere: %s", b.at(), links)
				}
				visited[links[i]] = true
				b.click(`a[href="` + links[i] + `"]`)
			}
			var s session
			got := ""
			eventually(t, "its session", func() bool {
				s = g.session("ip:127.0.0.1")
				var all []string
				for _, f := range []string{"page_automation", "page_inspected", "agent_headless", "unclicked_share", "uncached_share"} {
					all = append(all, f+" "+s.factor(f))
				}
				got = strings.Join(all, ", ")
				return s.Pages >= 10 && (got == c.factors || s.Pages > 40)
			})
			if got != c.factors {
				t.Errorf("its features are %s, want %s", got, c.factors)
			}
		})
	}
}

// What a browser wears.
const (
	plain  = "as it starts" // without a window, and all else as the tool starts it
	named  = "named"        // with the name of a browser that has a window
	hidden = "hidden"       // and with what is often done to hide automation: a switch fewer, one more, and navigator.webdriver false by a script
)

// hide is the script by which drivers hide navigator.webdriver.
const hide = `Object.defineProperty(Navigator.prototype, "webdriver", {get: () => false})`

// chromiumFlags are what a tool of Node.js starts Chromium with.
func chromiumFlags(t *testing.T, dress string) []string {
	t.Helper()
	flags := []string{"--no-first-run", "--window-size=1280,800"}
	for _, name := range quiet {
		flags = append(flags, "--"+name)
	}
	if dress != plain {
		flags = append(flags, "--user-agent="+windowName(t))
	}
	if dress == hidden {
		flags = append(flags, "--disable-blink-features=AutomationControlled")
	}
	return flags
}

// node is a browser that a tool of Node.js drives; testdata/driver.cjs is its other half.
type node struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	is    string
	wrote *strings.Builder
}

// launchNode starts a browser by a tool of Node.js; what is missing comes back as a name.
func launchNode(t *testing.T, tool, dress string) (n *node, lacks string) {
	t.Helper()
	modules, _ := filepath.Abs("../.bin/node_modules")
	module := map[string]string{"playwright": "playwright-core", "selenium": "selenium-webdriver"}[tool]
	if module == "" {
		module = "puppeteer-core"
	}
	if _, err := os.Stat(filepath.Join(modules, module)); err != nil {
		return nil, module
	}
	program := "chromium"
	if strings.Contains(tool, "firefox") {
		program = "firefox-esr"
	}
	needs := []string{"node", program}
	if tool == "selenium" {
		needs = append(needs, "chromedriver")
	}
	paths := map[string]string{}
	for _, name := range needs {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, name
		}
		paths[name] = path
	}
	dir := profile(t)
	want := map[string]any{"tool": tool, "dress": dress, "browser": paths[program], "driver": paths["chromedriver"], "profile": dir, "flags": []string{}}
	if program == "chromium" {
		want["flags"] = chromiumFlags(t, dress)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	return startNode(t, string(b), modules, dir), ""
}

// startNode runs the other half, and waits until its browser is there.
func startNode(t *testing.T, want, modules, home string) *node {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // a driver that is asked to end its browser does so
	cmd := exec.CommandContext(ctx, "node", "testdata/driver.cjs", want)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "HOME="+home, "TMPDIR="+home, "SE_OFFLINE=true")
	n := &node{t: t, lines: make(chan string), wrote: new(strings.Builder)}
	cmd.Stderr = n.wrote
	var err error
	if n.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(n.lines)
		for s := bufio.NewReader(out); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				return
			}
			n.lines <- line
		}
	}()
	t.Cleanup(func() {
		n.in.Close()
		late := time.AfterFunc(patience/3, stop)
		for range n.lines { // until it has ended
		}
		_ = cmd.Wait()
		late.Stop()
		stop()
	})
	n.is, _ = n.answer().(string)
	return n
}

// answer waits for what the other half says.
func (n *node) answer() any {
	n.t.Helper()
	select {
	case line, ok := <-n.lines:
		var a struct {
			Value any
			Error string
		}
		err := json.Unmarshal([]byte(line), &a)
		if !ok || err != nil || a.Error != "" {
			n.t.Fatalf("the driver: %v %s %s", errors.Join(err, n.t.Context().Err()), a.Error, n.wrote)
		}
		return a.Value
	case <-time.After(patience):
		n.t.Fatalf("the driver says nothing: %s", n.wrote)
		return nil
	}
}

func (n *node) say(command ...any) any {
	n.t.Helper()
	b, err := json.Marshal(command)
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.in.Write(append(b, '\n')); err != nil {
		n.t.Fatalf("%s: %v %s", b, err, n.wrote)
	}
	return n.answer()
}

func (n *node) open(url string)       { n.say("open", url) }
func (n *node) click(selector string) { n.say("click", selector) }

func (n *node) at() string {
	s, _ := n.say("at").(string)
	return s
}

func (n *node) links() []string { return texts(n.say("read")) }

// texts returns the texts of a list that came as JSON.
func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// leafletPages is how many pages leaflets has besides the first.
const leafletPages = 79

// leaflets is a site of eighty pages that link to each other, with a style sheet, a script and pictures.
func leaflets(t *testing.T) string {
	t.Helper()
	parts := func(w http.ResponseWriter, kind, text string) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, text)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); {
		case r.URL.Path == "/static/site.css":
			parts(w, "text/css", "body { margin: 2em auto; max-width: 40em; font: 16px sans-serif } nav a { display: inline-block; margin: .3em 1em }")
		case r.URL.Path == "/static/site.js":
			parts(w, "text/javascript", "document.documentElement.dataset.ready = 'yes'")
		case strings.HasPrefix(r.URL.Path, "/pictures/"), r.URL.Path == "/favicon.ico":
			parts(w, "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><circle cx="32" cy="32" r="30"/></svg>`)
		case r.URL.Path == "/" || err == nil && n > 0 && n <= leafletPages:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, leaflet(n))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// leaflet is a page that leads to a dozen others.
func leaflet(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><title>Leaflet %d</title><link rel="stylesheet" href="/static/site.css"><script src="/static/site.js" defer></script></head><body><h1>Leaflet %[1]d</h1><nav>`, n)
	seen := map[int]bool{n: true}
	for i := 1; len(seen) < 13; i++ {
		to := (n*7+i*i*5+i)%leafletPages + 1
		if !seen[to] {
			fmt.Fprintf(&b, `<a href="/page/%d">Leaflet %[1]d</a> `, to)
		}
		seen[to] = true
	}
	b.WriteString("</nav>")
	for i := range 3 {
		fmt.Fprintf(&b, `<p><img src="/pictures/%d.svg" width="64" height="64" alt="">%s</p>`, (n*3+i)%60, strings.Repeat("What stands here is read, or not. ", 30))
	}
	return b.String() + "</body></html>"
}
