package e2e

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
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
