package e2e

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
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
