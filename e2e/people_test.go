package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// complaints collects the errors in a tab's browser console.
func complaints(ctx context.Context) func() []string {
	said := make(chan string, 100)
	note := func(s string) {
		select {
		case said <- s:
		default:
		}
	}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			note("exception: " + e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Source == log.SourceSecurity {
				note(fmt.Sprintf("%s %s: %s", e.Entry.Source, e.Entry.URL, e.Entry.Text))
			}
		}
	})
	return func() (all []string) {
		for {
			select {
			case s := <-said:
				all = append(all, s)
			default:
				return all
			}
		}
	}
}

func solveInBrowser(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, "solve", chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery), chromedp.SendKeys("input[name=rep]", testAnswer+"\r", chromedp.ByQuery))
}

// TestPitfall01URLComesBackWholeInABrowser goes to a URL with query and fragment, fails once, and lands on exactly that
// URL. The fragment never reaches a server: the page's script preserves it, and without scripts it is lost.
func TestPitfall01URLComesBackWholeInABrowser(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	ctx := browser(t)
	said := complaints(ctx)
	const tail = "/page%20one/?a=1&b=2&c=%26%3D%25&d=%D0%B6&e=+x+&retpath=http://evil.example/#c?d=e&f"
	var where, text string
	run(t, ctx, "open", chromedp.Navigate(g.url+tail), chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery),
		chromedp.SendKeys("input[name=rep]", "000000\r", chromedp.ByQuery), chromedp.WaitVisible("input[aria-invalid=true]", chromedp.ByQuery))
	solveInBrowser(t, ctx)
	run(t, ctx, "read", chromedp.WaitVisible(`//pre[contains(.,"site got")]`), chromedp.Location(&where), chromedp.Text("body", &text, chromedp.ByQuery))
	if where != g.url+tail {
		t.Errorf("landed on %s\nwanted    %s", where, g.url+tail)
	}
	before, _, _ := strings.Cut(tail, "#")
	if !strings.Contains(text, "site got GET "+before+"\n") {
		t.Errorf("the service got %s", text)
	}
	if s := said(); len(s) > 0 {
		t.Errorf("the console says %q", s)
	}
}

// TestCookiesOffIsExplained uses a browser that keeps no cookies: the page says what is wrong, at the first challenge, and
// the right answer leads to the page all the same.
func TestCookiesOffIsExplained(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	dir := profile(t)
	if err := os.MkdirAll(filepath.Join(dir, "Default"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeInto(t, filepath.Join(dir, "Default", "Preferences"), `{"profile":{"default_content_setting_values":{"cookies":2}}}`)
	ctx := browser(t, chromedp.UserDataDir(dir))
	var first string
	run(t, ctx, "open", chromedp.Navigate(g.url+"/page"), chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery), chromedp.Text("main", &first, chromedp.ByQuery))
	if !strings.Contains(first, "does not seem to accept cookies") {
		t.Errorf("the first page says nothing of cookies:\n%s", first)
	}
	screen(t, ctx, "captcha-cookies-off")
	solveInBrowser(t, ctx)
	run(t, ctx, "be let through", chromedp.WaitVisible(`//pre[contains(.,"site got GET /page")]`))
}

// TestPitfall20FetchInABrowser calls the service from a page as scripts do, from the same origin and from a foreign page,
// and checks what a browser lets the script read.
func TestPitfall20FetchInABrowser(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>App</title><h1>App</h1>")
	}))
	t.Cleanup(app.Close)
	// a browser sends an address and a name of the same machine as different origins
	origin := strings.Replace(app.URL, "127.0.0.1", "localhost", 1)
	g := configured(t, `
services: [{name: site, upstream: {urls: [%q]}, captcha: {cors_origins: [%q]}}]
`, app.URL, origin)
	g.ban("ip:127.0.0.1", "10m")
	ctx := browser(t)
	call := func(page, script string) (got string) {
		t.Helper()
		run(t, ctx, "call from "+page, chromedp.Navigate(page), chromedp.WaitVisible("h1", chromedp.ByQuery), chromedp.Evaluate(
			`(async()=>{try{`+script+`}catch(e){return "refused: "+e.message}})()`, &got,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		return got
	}
	read := `const r=await fetch("` + g.url + `/data",{credentials:"include"});const j=await r.json();return j.type+" "+r.headers.get("X-Antirobot-Verdict")+" "+(r.headers.get("X-Request-Id")||"").length`
	if got := call(origin+"/", read); got != "captcha captcha 26" {
		t.Errorf("a page of an allowed origin reads %q", got)
	}
	if got := call(app.URL+"/", read); !strings.HasPrefix(got, "refused") {
		t.Errorf("a page of a foreign origin reads %q", got)
	}
	image := `const i=new Image();const ok=new Promise(f=>{i.onload=()=>f("loaded");i.onerror=()=>f("no picture")});i.src="` + g.url + `/a.png";return await ok`
	if got := call(origin+"/", image); got != "no picture" {
		t.Errorf("a picture is answered with %q", got)
	}
	g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
}

// TestPitfall18LanguageAndSound: the page comes in the visitor's language and can be switched, and the sound is there
// for people who can't see the picture.
func TestPitfall18LanguageAndSound(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	ctx := shell(t, chromedp.Flag("accept-lang", "ru"), chromedp.Flag("lang", "ru"))
	var lang, heading, label, sound string
	run(t, ctx, "open", chromedp.Navigate(g.url+"/page?x=1"), chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery),
		chromedp.Evaluate(`document.documentElement.lang`, &lang), chromedp.Text("h1", &heading, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("label[for=rep]").innerText`, &label),
		chromedp.Evaluate(`document.querySelector("audio").src`, &sound))
	if lang != "ru" || heading == "Are you a person?" || label == "" {
		t.Errorf("a Russian browser got %q %q %q", lang, heading, label)
	}
	r := visitor(t).get(sound)
	if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "audio/") || len(r.body) < 10_000 {
		t.Errorf("the sound: %d %v, %d bytes", r.StatusCode, r.Header, len(r.body))
	}
	var focused string
	run(t, ctx, "switch to English", chromedp.Click(`.langs button[value=en]`, chromedp.ByQuery), chromedp.WaitVisible(`html[lang=en] input[name=rep]`, chromedp.ByQuery),
		chromedp.Text("h1", &heading, chromedp.ByQuery))
	if heading != "Are you a person?" {
		t.Errorf("switched to %q", heading)
	}
	// by keyboard alone
	run(t, ctx, "answer wrong", chromedp.SendKeys("input[name=rep]", "000000\r", chromedp.ByQuery), chromedp.WaitVisible("input[aria-invalid=true]", chromedp.ByQuery),
		chromedp.Evaluate(`document.activeElement.name`, &focused))
	if focused != "rep" {
		t.Errorf("after a wrong answer the focus is on %q", focused)
	}
	var nodes []*cdp.Node
	run(t, ctx, "look", chromedp.Nodes(`[role=alert]`, &nodes, chromedp.ByQueryAll), chromedp.Text("h1", &heading, chromedp.ByQuery))
	if len(nodes) != 1 || heading != "Are you a person?" {
		t.Errorf("%d alerts, heading %q: the mistake is not said, or the language was forgotten", len(nodes), heading)
	}
	solveInBrowser(t, ctx)
	run(t, ctx, "land", chromedp.WaitVisible(`//pre[contains(.,"GET /page?x=1")]`))
}
