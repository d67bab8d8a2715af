package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"antirobot/servertest"
)

// TestDemoPrintsWhatToTry starts the demo as `make run` does, and runs the commands that it prints. Made-up visitors have filled
// the journal by then.
func TestDemoPrintsWhatToTry(t *testing.T) {
	t.Parallel()
	g := start(t, "demo", "--traffic", "2s", "--log-level", "info")
	last := g.logs.find(func(s string) bool { return strings.Contains(s, "Stop it with Ctrl-C") })
	printed := g.logs.String()
	for _, want := range []string{g.url + "/", g.url + "/play", g.admin + "/metrics", g.dir + "/admin.token"} {
		if !strings.Contains(printed, " "+want) {
			t.Errorf("%s is not printed", want)
		}
	}
	if last == "" || strings.Contains(printed, g.token) {
		t.Errorf("printed:\n%s", printed)
	}
	servertest.Need(t, "curl")
	var script []string
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "    curl ") || strings.HasPrefix(line, "      -d ") {
			script = append(script, strings.TrimSpace(line))
		}
	}
	visitor(t).get(g.url+"/").must(t, 200, "Antirobot")
	out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(script, "\n")).CombinedOutput()
	if err != nil || !regexp.MustCompile(`HTTP/1.1 403 Forbidden\s`).Match(out) {
		t.Errorf("%q: %v\n%s", script, err, out)
	}
	visitor(t).get(g.url+"/").must(t, 302, "")
	visitor(t).get(g.url+"/static/site.css", "Sec-Fetch-Dest", "style").must(t, 200, "{") // for challenged visitors, too
	if over := g.logs.find(func(s string) bool { return strings.Contains(s, "The made-up traffic is over:") }); over == "" || strings.Contains(over, " 0 requests") {
		t.Errorf("made-up traffic: %q", over)
	}
}

// TestDemoInABrowser walks through the demo as a newcomer does.
func TestDemoInABrowser(t *testing.T) {
	t.Parallel()
	g := start(t, "demo", "--traffic", "0", "--log-level", "info", "--captcha-test-answer", testAnswer)
	ctx := shell(t, chromedp.Flag("accept-lang", "en"), chromedp.Flag("lang", "en"))
	said := complaints(ctx)

	t.Run("every page", func(t *testing.T) {
		for _, path := range []string{"/", "/articles/river", "/gallery", "/guestbook", "/guestbook/rules", "/list", "/live", "/search", "/search?query=river", "/play"} {
			var heading string
			var broken, sideways bool
			run(t, ctx, path, chromedp.Navigate(g.url+path), chromedp.WaitVisible("h1", chromedp.ByQuery), chromedp.Text("h1", &heading, chromedp.ByQuery), chromedp.Poll(`document.readyState=="complete"`, nil),
				chromedp.Evaluate(`[...document.images].some(i=>i.complete&&!i.naturalWidth)`, &broken),
				chromedp.Evaluate(`document.documentElement.scrollWidth>document.documentElement.clientWidth`, &sideways))
			screen(t, ctx, "demo"+strings.NewReplacer("/", "-", "?", "-").Replace(path))
			if s := said(); heading == "" || broken || sideways || len(s) > 0 {
				t.Errorf("%s: heading %q, broken picture %t, scrolls sideways %t, console %q", path, heading, broken, sideways, s)
			}
		}
	})
	t.Run("the clock ticks", func(t *testing.T) {
		var echoed string
		run(t, ctx, "live", chromedp.Navigate(g.url+"/live"), chromedp.Poll(`/^\d\d:\d\d:\d\d$/.test(document.getElementById("clock").textContent)`, nil),
			chromedp.Evaluate(`window.then=document.getElementById("clock").textContent,0`, nil),
			chromedp.SendKeys("#say", "hello\r", chromedp.ByQuery), chromedp.Poll(`document.getElementById("heard").textContent!=""`, nil), chromedp.Text("#heard", &echoed, chromedp.ByQuery),
			chromedp.Poll(`document.getElementById("clock").textContent!=window.then`, nil), chromedp.Poll(`+document.getElementById("count").textContent>=2`, nil))
		if echoed != "← hello" {
			t.Errorf("the WebSocket echoed %q", echoed)
		}
	})
	t.Run("the pretend visitor", func(t *testing.T) { playPretend(t, ctx, g) })
	said() // what it was refused is on the console
	t.Run("the list asks in a dialog", func(t *testing.T) {
		playMe(t, ctx, g, "banned")
		run(t, ctx, "be stopped", chromedp.Navigate(g.url+"/list"), chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery))
		playMe(t, ctx, g, "human")
		a := &app{t, ctx}
		more := func() { run(t, ctx, "load", chromedp.Click("#more", chromedp.ByQuery)) }
		run(t, ctx, "open the list", chromedp.Navigate(g.url+"/list"), chromedp.WaitVisible("#more", chromedp.ByQuery))
		a.eval(`window.log = []; window.results = {}; true`, nil)
		g.ban("ip:127.0.0.1", "10m")
		run(t, ctx, "see the JSON", chromedp.Click("summary", chromedp.ByQuery), chromedp.Click("#bare", chromedp.ByQuery))
		a.until(`document.getElementById('raw').textContent.includes('"check-url"') && document.getElementById('raw').textContent.includes('x-antirobot-verdict: captcha')`)
		more()
		a.asked()
		run(t, ctx, "cancel", chromedp.KeyEvent("\u001b"))
		a.until(`document.getElementById('said').textContent === document.getElementById('list').dataset.cancelled`)
		more()
		a.asked()
		a.typed("000000\r")
		a.until(dialog + `.querySelector('[aria-invalid=true]')`)
		a.asked()
		a.typed(testAnswer + "\r")
		a.until(`document.querySelectorAll('#items li').length === 5 && document.getElementById('said').textContent.endsWith('5')`)
		run(t, ctx, "go on as a human", chromedp.Navigate(g.url+"/articles/river"), chromedp.WaitVisible("h1", chromedp.ByQuery))
		g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	})
	t.Run("the list lets the browser work", func(t *testing.T) {
		run(t, ctx, "forget the pass", network.ClearBrowserCookies(), chromedp.Navigate(g.url+"/list"), chromedp.WaitVisible("#more", chromedp.ByQuery))
		a := &app{t, ctx}
		a.eval(`window.log = []; window.results = {}; true`, nil)
		g.ban("ip:127.0.0.1", "10m")
		run(t, ctx, "load", chromedp.Click("#more", chromedp.ByQuery))
		a.asked()
		a.eval(`(`+workButton+`).click(); true`, nil)
		a.until(`document.querySelectorAll('#items li').length === 5`)
		g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	})
	t.Run("myself", func(t *testing.T) {
		var heading string
		playMe(t, ctx, g, "blocked")
		run(t, ctx, "be blocked", chromedp.Navigate(g.url+"/articles/river"), chromedp.WaitVisible("h1", chromedp.ByQuery), chromedp.Text("h1", &heading, chromedp.ByQuery))
		if heading != "Access denied" {
			t.Errorf("blocked, I read %q", heading)
		}
		playMe(t, ctx, g, "human")
		run(t, ctx, "be a human", chromedp.Navigate(g.url+"/articles/river"), chromedp.WaitVisible("h1", chromedp.ByQuery), chromedp.Text("h1", &heading, chromedp.ByQuery))
		if heading == "Access denied" {
			t.Error("a human again, I am denied")
		}
	})
	t.Run("a robot with a browser of its own", func(t *testing.T) {
		var where string
		other := browser(t)
		run(t, other, "play", chromedp.Navigate(g.url+"/play"), chromedp.WaitVisible("h1", chromedp.ByQuery))
		playMe(t, other, g, "listed")
		run(t, other, "read", chromedp.Navigate(g.url+"/articles/river?a=1"), chromedp.WaitVisible("input[name=rep]", chromedp.ByQuery))
		solveInBrowser(t, other)
		run(t, other, "land", chromedp.WaitVisible(`nav a[href="/guestbook"]`, chromedp.ByQuery), chromedp.Location(&where))
		if where != g.url+"/articles/river?a=1" {
			t.Errorf("landed on %s", where)
		}
		playMe(t, other, g, "human")
	})
}

// playMe gives the browser's own address a role on the play page, which stays accessible in every role.
func playMe(t *testing.T, ctx context.Context, g *gateway, role string) {
	t.Helper()
	button := `form:has(input[name=who][value=me]) button[name=role][value=` + role + `]`
	run(t, ctx, "become "+role, chromedp.Navigate(g.url+"/play"), chromedp.WaitVisible("#me", chromedp.ByQuery), chromedp.Click(button, chromedp.ByQuery),
		chromedp.WaitVisible(button+`[aria-pressed=true]`, chromedp.ByQuery))
}

// playPretend gives the pretend visitor every possible role, and reads the answers from the page.
func playPretend(t *testing.T, ctx context.Context, g *gateway) {
	want := map[string][]string{ // page, form, ajax, xml, image, preflight
		"human":   {"200", "200", "200", "200", "200", "204"},
		"banned":  {"302", "200", "200", "200", "403", "204"},
		"listed":  {"302", "200", "200", "200", "403", "204"},
		"blocked": {"403", "403", "403", "403", "403", "403"},
		"white":   {"200", "200", "200", "200", "200", "204"},
	}
	for _, role := range []string{"banned", "listed", "blocked", "white", "human"} {
		button := `form:has(input[name=who][value=pretend]) button[name=role][value=` + role + `]`
		var got []string
		var xml, json string
		run(t, ctx, "pretend to be "+role, chromedp.Navigate(g.url+"/play"), chromedp.WaitVisible("#pretend", chromedp.ByQuery), chromedp.Click(button, chromedp.ByQuery),
			chromedp.WaitVisible(button+`[aria-pressed=true]`, chromedp.ByQuery),
			chromedp.Evaluate(`[...document.querySelectorAll(".outcome .status b")].map(e=>e.textContent)`, &got),
			chromedp.Evaluate(`document.querySelectorAll(".outcome")[2].textContent`, &json),
			chromedp.Evaluate(`document.querySelectorAll(".outcome")[3].textContent`, &xml))
		screen(t, ctx, "demo-play-"+role)
		if !slices.Equal(got, want[role]) {
			t.Errorf("%s: answers %v, wanted %v", role, got, want[role])
		}
		robot := role == "banned" || role == "listed"
		if strings.Contains(xml, `<error code="100">Robot request</error>`) != robot || strings.Contains(json, `"captcha-page"`) != robot {
			t.Errorf("%s: XML and JSON cards:\n%s\n%s", role, tail(xml, 1500), tail(json, 1500))
		}
	}
	// It scrapes, the gateway finds out by itself while the page shows its score, and everything is taken back.
	const is = `document.querySelector('#score [data-of=role]').textContent`
	var human, now, reason string
	var score float64
	run(t, ctx, "scrape", chromedp.Evaluate(is, &human), chromedp.SendKeys(`button[value=run]`, kb.Enter, chromedp.ByQuery), chromedp.WaitVisible(`#score:target`, chromedp.ByQuery))
	run(t, ctx, "watch the score", chromedp.Poll(is+` !== `+strconv.Quote(human), nil, chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate(`document.querySelector('#score meter').value`, &score), chromedp.Evaluate(is, &now), chromedp.Text(`#score [data-of=reason]`, &reason, chromedp.ByQuery))
	if human == "" || score < 0.5 || !strings.HasPrefix(reason, "proof") {
		t.Errorf("scraping, %s became %s with score %v because of %q", human, now, score, reason)
	}
	run(t, ctx, "take everything back", chromedp.Click(`button[value=all]`, chromedp.ByQuery), chromedp.WaitVisible(`#answers:target`, chromedp.ByQuery),
		chromedp.WaitVisible(`form:has(input[name=who][value=pretend]) button[value=human][aria-pressed=true]`, chromedp.ByQuery))
}

// TestGuestbookRules spams the guest-book of the demo and reads what the rules said about it.
func TestGuestbookRules(t *testing.T) {
	t.Parallel()
	g := start(t, "demo", "--traffic", "0", "--log-level", "info", "--captcha-test-answer", testAnswer)
	v := visitor(t)
	post := func(words string) *response {
		t.Helper()
		return v.do("POST", g.url+"/guestbook", "name=Ann&words="+strings.ReplaceAll(words, " ", "+"), "Content-Type", form)
	}
	rules := func(wants ...string) {
		t.Helper()
		page := v.get(g.url+"/guestbook/rules").must(t, 200, "What the rules said")
		for _, want := range wants {
			if !strings.Contains(page.body, want) {
				t.Errorf("the page does not say %q\n%s", want, tail(page.body, 4000))
			}
		}
	}
	post("The lighthouse is lovely, thank you").must(t, 200, "Thank you, your words arrived whole.")
	rules("<h3>OK → pass</h3>", "line 9: do modelClassify() mark spam score 2: TRUE", `class="passed"`)

	// What the page suggests, in both languages.
	page := post("Win money at our online casino, free spins and a bonus").must(t, 200, `<blockquote class="written" dir="auto">Win money at our online casino, free spins and a bonus</blockquote>`)
	rules("<h3>SPAM → captcha</h3>", `<li class="fired"><code>line 9: do modelClassify() mark spam score 2: FALSE, marked, score 2, found `, "tags spam")
	v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form).must(t, 200, "Thank you")
	rules("SPAM → pass, a captcha was solved for it")

	if r := post("Выиграй деньги в онлайн казино"); r.Header.Get("X-Antirobot-Verdict") != "captcha" {
		t.Errorf("spam in Russian: %d %v", r.StatusCode, r.Header)
	}

	post("lalalalalalalalalalalalala").must(t, 409, `"decision":"FLOOD"`)
	for range 3 {
		post("the very same words").must(t, 200, "Thank you")
	}
	post("the very same words").must(t, 200, "<form")
	rules("FREQUENT → captcha", "FLOOD → quarantine")
	post(strings.Repeat("word one two ", 60)).must(t, 403, "")

	// A moderator says that a good one was spam.
	const odd = "zyxwv unheard nonsense of some many words" // spam of four words or more is found again at once
	post(odd).must(t, 200, "Thank you")
	id := between(v.get(g.url+"/guestbook/rules").body, `name="id" value="`, `"`)
	v.do("POST", g.url+"/guestbook/rules", "id="+id+"&marker=bad", "Content-Type", form).must(t, 303, "")
	v.get(g.url+"/guestbook/rules?learnt=bad").must(t, 200, "Learnt: that was spam.")
	if r := post(odd + " again"); r.StatusCode != 200 || !strings.Contains(r.body, `name="saved"`) {
		t.Errorf("it was not learnt: %d", r.StatusCode)
	}
}

// TestServeSaysWhatItDoes reads the five lines for people, and looks first: with --observe nobody is stopped.
func TestServeSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	g := serve(t, upstream, "--observe")
	for _, want := range []string{
		"antirobot: protects default at " + upstream, "visitors come to " + g.url + "; robots are only looked at",
		"the private listener is at " + g.admin + ", its token in " + g.dir + "/admin.token", "to stop robots: ", "SIGHUP reloads",
	} {
		if g.logs.find(func(line string) bool { return !strings.HasPrefix(line, "{") && strings.Contains(line, want) }) == "" {
			t.Errorf("no line says %q:\n%s", want, g.logs)
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	r := visitor(t).get(g.url+"/").must(t, 200, "site got")
	if s := g.whyIn(t, "observed", r); s.Verdict != "robot" || s.Mode != "observe" {
		t.Errorf("%s in mode %s", s.Verdict, s.Mode)
	}
}

// TestReadmeWays tries the ways of README to start: the commands of the binary as they stand there but for ports and directories,
// and of the others that each target, file and image is there. make check-packages installs the package and runs the image.
func TestReadmeWays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## Put it in front of a service")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(part, -1)
	if len(blocks) < 4 {
		t.Fatalf("only %d blocks of commands", len(blocks))
	}
	serves := regexp.MustCompile(`(?m)^\./antirobot (serve .*--data-dir .*)$`).FindStringSubmatch(blocks[0][1])
	if serves == nil || !strings.Contains(blocks[0][1], "go build -o antirobot .") {
		t.Fatalf("the first way is no binary: %s", blocks[0][1])
	}
	g := &gateway{t: t, dir: filepath.Join(t.TempDir(), "state"), ownListen: true}
	g.args = strings.Fields(strings.NewReplacer(":80 ", "127.0.0.1:0 ", "http://127.0.0.1:3000", site(t).URL, "--data-dir /var/lib/antirobot", "").Replace(serves[1]))
	g.run()
	t.Cleanup(func() { g.kill(syscall.SIGKILL) })
	visitor(t).get(g.url+"/").must(t, 200, "site got GET /")

	ways := ""
	for _, block := range blocks[1:] {
		ways += block[1]
	}
	for _, m := range regexp.MustCompile(`(?m)^make (\S+)$`).FindAllStringSubmatch(ways, -1) {
		if out, err := exec.Command("make", "-C", "..", "-n", m[1]).CombinedOutput(); err != nil {
			t.Errorf("make %s: %s", m[1], out)
		}
	}
	for _, m := range regexp.MustCompile(`deploy/\S+`).FindAllString(ways, -1) {
		if _, err := os.Stat("../" + m); err != nil {
			t.Error(err)
		}
	}
	if first, _, _ := strings.Cut(string(text), "## Put it"); strings.Count(first, "\nmake ") != 2 {
		t.Error("on a fresh machine there are not exactly two commands")
	}
}

// TestVersionOfACheckout builds a clone with `go build` alone: the version names the release, the commit and a modified file.
func TestVersionOfACheckout(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "clone")
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := exec.Command("git", "-C", "..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("SKIPPED: this tree is no checkout of git: %v", err)
	}
	run("..", "git", "clone", "-q", "--no-tags", ".", dir)
	head := run(dir, "git", "rev-parse", "--short=12", "HEAD")
	version := func(flag string) string {
		t.Helper()
		run(dir, "go", "build", "-o", "antirobot", "-ldflags=-s -w", flag, ".") // without what debuggers read, which takes the linker half of its time
		return strings.Fields(run(dir, "./antirobot", "version"))[1]
	}
	if v := version("-buildvcs=auto"); v != "1.0.0+"+head {
		t.Errorf("a commit is %q, and its hash begins with %s", v, head)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := version("-buildvcs=auto"); v != "1.0.0+"+head+".dirty" {
		t.Errorf("a changed file makes it %q", v)
	}
	if v := version("-buildvcs=false"); v != "1.0.0" {
		t.Errorf("a build without version control is %q", v)
	}
}

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
