package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"antirobot/servertest"
	"antirobot/spravka"
)

// consoleServices is a shop with comments, which are judged and logged; some wait for a person.
const consoleServices = `
services:
  - name: shop
    upstream: {urls: [%q]}
    messages: {routes: [{route: POST /comments, trace: true, sources: [{attribute: text, from: form, key: words}]}]}
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: messageAnalyzer, class: Firewall, rules: "do regexpCheck(regexp=\"maybe\") mark sure\nif not sure stop as QUEUE\ndo modelClassify() mark spam do messageLogPut() stop as OK"}
          - {name: model, class: BayesModel}
          - {name: messageLog, class: MessageLog}
`

// TestConsole does what an operator does when somebody calls with the number on their page: a person is stopped, found by that
// number, and let through in three clicks; a viewer sees the same and has no button. The pages are without findings of axe, at the
// width of a desk and of a telephone.
func TestConsole(t *testing.T) {
	t.Parallel()
	_, made := command(t, "tokens", "make", "vera", "--role", "viewer")
	token, entry, found := strings.Cut(made, "Its entry in the configuration:")
	if !found {
		t.Fatalf("tokens make printed %s", made)
	}
	token = strings.TrimSpace(token[strings.Index(token, "\n"):])
	g := start(t, "serve", "--config", configFile(t, "%s\njournal: {humans: 1}\nidentity: {trusted_proxies: [127.0.0.1]}\n%s", entry, fmt.Sprintf(consoleServices, site(t).URL)),
		"--captcha-test-answer", testAnswer)
	g.ban("ip:203.0.113.77", "10m")
	person := from(t, "203.0.113.77")
	stopped := person.get(g.url+"/goods", "Accept", "text/html").must(t, 302, "")
	number := idOn(t, person.get(stopped.Header.Get("Location")))

	ctx := browser(t)
	source := axe(t)
	page := func(name string, width int64) {
		t.Helper()
		run(t, ctx, name, chromedp.EmulateViewport(width, 900))
		checkAxe(t, ctx, source, name)
		if !value[bool](t, ctx, `document.documentElement.scrollWidth <= innerWidth`) {
			t.Errorf("%s is wider than %d", name, width)
		}
		screen(t, ctx, "console-"+name)
	}
	signIn := func(token string) {
		t.Helper()
		run(t, ctx, "sign in", chromedp.Navigate(g.admin+"/console/"), chromedp.SendKeys("#secret", token+"\r"), chromedp.WaitVisible("#q"))
	}
	signIn(token)
	eventually(t, "the journal has the request", func() bool {
		run(t, ctx, "look", chromedp.Navigate(g.admin+"/console/requests?q=path:/goods"), chromedp.WaitVisible("#rows"))
		return value[int](t, ctx, `document.querySelectorAll('#rows tr').length`) > 0
	})
	page("requests", 1280)
	for _, path := range []string{"", "requests/" + number, "subjects/ip:203.0.113.77", "challenges", "lists", "messages"} {
		run(t, ctx, "open "+path, chromedp.Navigate(g.admin+"/console/"+path), chromedp.WaitVisible("main h1"))
		page("viewer "+path, 390)
		if n := value[int](t, ctx, `document.querySelectorAll('form[action="/console/act"], .go, #apply').length`); n != 0 {
			t.Errorf("%s shows a viewer %d forms", path, n)
		}
	}
	run(t, ctx, "sign out", chromedp.Click(`form[action="/console/signout"] button`), chromedp.WaitVisible("#secret"))
	page("sign-in", 390)

	signIn(g.token)
	page("now", 1280)
	walk(t, ctx, "now")
	run(t, ctx, "find", chromedp.SendKeys("#q", strings.ToLower(number)+"\r"), chromedp.WaitVisible("#let"))
	page("request", 1280)
	walk(t, ctx, "request")
	for _, button := range []string{"#unban", "#let"} { // each leads to the page again
		press(t, ctx, button)
		run(t, ctx, "done", chromedp.WaitVisible(`[role=status]`))
	}
	person.get(g.url+"/goods").must(t, 200, "")
	run(t, ctx, "lists", chromedp.Navigate(g.admin+"/console/lists"), chromedp.WaitVisible(`//td[contains(.,"203.0.113.77")]`))
	page("lists", 390) // the buttons of rows have names for those who do not see them, which must not widen the page
	teachInConsole(t, ctx, g, page)
	if code, out := command(t, "tail", "kind:act", "--follow=false", "--admin", g.admin, "--data-dir", g.dir); code != 0 || !strings.Contains(out, "unban") || !strings.Contains(out, "by admin.token") ||
		!strings.Contains(out, "unteach bad") {
		t.Errorf("tail: %d %s", code, out)
	}
}

// walk goes through a page by the tabulator, from its beginning until it is left: everything that can be used is come to once, in the
// order in which it stands, and what has the focus is seen to have it.
func walk(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	const all = `[...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,textarea,summary,[tabindex="0"]')].filter(e => !e.disabled && e.checkVisibility())`
	run(t, ctx, name, chromedp.Evaluate(`window.walked = []; document.activeElement.blur(); getSelection().removeAllRanges();
		document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')`, nil))
	want := value[int](t, ctx, all+`.length`)
	for range want {
		run(t, ctx, name, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`(() => {
			const e = document.activeElement, s = getComputedStyle(e)
			walked.push({at: `+all+`.indexOf(e), seen: e.matches(':focus-visible') && (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== 'none'), is: e.outerHTML.slice(0, 80)})
		})()`, nil))
	}
	if wrong := value[[]string](t, ctx, `walked.filter((w, i) => w.at !== i || !w.seen).map(w => JSON.stringify(w))`); len(wrong) > 0 || want < 10 {
		t.Errorf("%s: by the keyboard through %d: %q", name, want, wrong)
	}
}

// press presses a button and waits for the page that it leads to.
func press(t *testing.T, ctx context.Context, button string) {
	t.Helper()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(waiting, chromedp.Click(button)); err != nil {
		t.Fatalf("%s: %v", button, err)
	}
}

// teachInConsole teaches the model a comment, and undoes it; another comment, which waits, is let through.
func teachInConsole(t *testing.T, ctx context.Context, g *gateway, page func(name string, width int64)) {
	t.Helper()
	person := from(t, "203.0.113.79")
	say := func(text string, status int) {
		person.do("POST", g.url+"/comments", "words="+text, "Content-Type", "application/x-www-form-urlencoded").must(t, status, "")
	}
	say("blue+umbrellas+for+everybody+at+the+corner", 200)
	say("maybe+this+is+fine", 202)
	at := g.admin + "/console/messages"
	eventually(t, "the log has the comment", func() bool {
		run(t, ctx, "look", chromedp.Navigate(at), chromedp.WaitVisible("main h1"))
		return value[int](t, ctx, `document.querySelectorAll('button[value=bad]').length`) > 0
	})
	page("messages", 1280)
	for _, each := range []struct{ button, then string }{
		{`button[value=bad]`, `#undo`}, {`#undo`, `[role=status]`}, {`button[value=approve]`, `[role=status]`},
	} {
		press(t, ctx, each.button)
		run(t, ctx, "done", chromedp.WaitVisible(each.then))
	}
	page("messages-done", 390)
	if n := value[int](t, ctx, `document.querySelectorAll('button[value=approve], #undo').length`); n != 0 {
		t.Errorf("%d are left to be decided", n)
	}
}

// unreadable returns what can't be read in the console as it stands: what sticks out of the window, or out of a box that would cut it off,
// a table that has to be pushed aside although the window is a desk's, words that lie over others, are broken or too small, controls
// that touch, or that are out of reach until something is pushed aside, and a hint longer than its field.
// What a telephone pushes aside, in a box made for that, may be as wide as it likes.
const unreadable = `(() => {
	const out = [], desk = innerWidth >= 1200, pen = document.createElement('canvas').getContext('2d');
	const say = (what, e) => out.push(what + ' ' + e.localName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40));
	for (const e of document.querySelectorAll('body *')) {
		const box = e.closest('.wide, .plot div, pre'), r = e.getBoundingClientRect();
		if (!e.checkVisibility() || r.width <= 1 || e.closest('.unseen, .skip, svg')) continue;
		if (e === box ? desk && e.localName !== 'pre' && e.scrollWidth > e.clientWidth : !box && (r.right > innerWidth + 1 || r.left < -1 || e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).display !== 'inline' && !e.matches('input, select, textarea')))
			say(Math.round(r.left) + '…' + Math.round(r.right) + ' ' + e.scrollWidth + '>' + e.clientWidth, e);
		if (e.placeholder) {
			const s = getComputedStyle(e);
			pen.font = s.font;
			if (pen.measureText(e.placeholder).width > e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight)) say('a hint of ' + Math.round(pen.measureText(e.placeholder).width) + ' in ' + e.clientWidth, e);
		}
	}
	for (const e of document.querySelectorAll('.wide button')) if (e.getBoundingClientRect().right > innerWidth) say('out of reach', e);
	const line = document.createRange();
	for (const e of document.querySelectorAll('th, .kind, .tag, button, label, nav a')) for (const n of e.childNodes) if (n.nodeType === 3 && e.checkVisibility())
		for (const word of n.data.matchAll(/[^\s\/-]{2,}/g)) {
			line.setStart(n, word.index);
			line.setEnd(n, word.index + word[0].length);
			if (new Set([...line.getClientRects()].map((r) => r.top)).size > 1) say('a broken ' + word[0], e);
		}
	for (const e of document.querySelectorAll('svg text')) if (e.getBoundingClientRect().height < 11) say('tiny', e);
	const all = [...document.querySelectorAll('button, input, select')].filter((e) => e.checkVisibility() && e.type !== 'hidden' && e.type !== 'range');
	for (const [i, e] of all.entries()) for (const o of all.slice(i + 1, i + 6)) {
		const a = e.getBoundingClientRect(), b = o.getBoundingClientRect();
		if (a.left < b.right && b.left < a.right && a.bottom > b.top - 2 && a.top < b.bottom + 2) say('touches the one before it', o);
	}
	for (const row of document.querySelectorAll('tr')) for (const c of row.cells) {
		const p = c.previousElementSibling;
		if (p && p.getBoundingClientRect().right > c.getBoundingClientRect().left + 1) say('over its neighbour', c);
		if (c.scrollWidth > c.clientWidth + 2) say('out of its cell', c);
	}
	return out.join('; ');
})()`

// TestConsoleFits opens every page of the console, full of what real visitors leave there, in both languages and looks, at the widths of
// a telephone, a tablet and two desks: nothing is cut off.
func TestConsoleFits(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, "journal: {humans: 1}\nidentity: {trusted_proxies: [127.0.0.1]}\n%s", fmt.Sprintf(consoleServices, site(t).URL)))
	const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
	stopped := "2001:db8:85a3:8d3:1319:8a2e:370:7348"
	g.api("POST", "/api/bans", map[string]string{"subject": "ip:" + stopped, "ttl": "10m", "reason": "too many requests for the prices of yesterday"})
	g.api("POST", "/api/lists/block", map[string]string{"entry": "2001:db8:85a3::/48", "ttl": "1h", "reason": "a network of a hoster that nobody reads from"})
	g.api("POST", "/api/lists/white", map[string]string{"entry": "198.51.100.0/24", "ttl": "1h", "reason": "the office"})
	var number string
	for _, address := range []string{"203.0.113.7", "203.0.113.81", stopped, "2001:db8:1::17"} {
		v := from(t, address)
		v.header.Set("User-Agent", chrome)
		v.get(g.url+"/catalogue/household-appliances/washing-machines?sort=price&page=17", "Accept", "text/html")
		r := v.get(g.url+"/goods", "Accept", "text/html")
		if address == stopped {
			number = idOn(t, r)
		}
	}
	from(t, "203.0.113.79").do("POST", g.url+"/comments", "words=maybe+this+is+fine", "Content-Type", "application/x-www-form-urlencoded").must(t, 202, "")
	ctx := browser(t)
	run(t, ctx, "sign in", chromedp.Navigate(g.admin+"/console/"), chromedp.SendKeys("#secret", g.token+"\r"), chromedp.WaitVisible("#q"))
	pages := []struct{ name, path string }{
		{"now", ""},
		{"requests", "requests"},
		{"request", "requests/" + number},
		{"subject", "subjects/ip:" + stopped},
		{"person", "subjects/ip:203.0.113.7"},
		{"challenges", "challenges"},
		{"lists", "lists"},
		{"messages", "messages"},
		{"problem", "requests/nothing"},
	}
	eventually(t, "the journal has the requests", func() bool {
		run(t, ctx, "look", chromedp.Navigate(g.admin+"/console/requests?q=path:/goods"), chromedp.WaitVisible("#rows"))
		return value[int](t, ctx, `document.querySelectorAll('#rows tr').length`) >= 4
	})
	for _, lang := range []string{"en", "ru"} {
		speak(t, ctx, lang)
		for _, p := range pages {
			run(t, ctx, p.name, chromedp.Navigate(g.admin+"/console/"+p.path), chromedp.WaitVisible("main h1"))
			if got := value[string](t, ctx, `document.documentElement.lang`); got != lang {
				t.Errorf("%s speaks %s, not %s", p.name, got, lang)
			}
			for i, width := range []int64{390, 768, 1200, 1600} {
				dark := i%2 == map[string]int{"en": 0, "ru": 1}[lang]
				fitsAt(t, ctx, fmt.Sprintf("console/%s-%s-%d", p.name, lang, width), width, dark)
			}
		}
	}
}

// fitsAt measures the page that is open at a width, in a look, with all that unfolds.
func fitsAt(t *testing.T, ctx context.Context, name string, width int64, dark bool) {
	t.Helper()
	run(t, ctx, name, chromedp.EmulateViewport(width, 900))
	colourScheme(t, ctx, dark)
	unfold := func(which, to string) {
		run(t, ctx, name, chromedp.Evaluate(`document.querySelectorAll('details`+which+`').forEach((d) => { d.open = `+to+`; })`, nil))
	}
	unfold(":not(#weights)", "true") // two hundred sliders are longer than a picture can be
	screen(t, ctx, name)
	unfold("", "true")
	defer unfold("#weights", "false")
	if out := value[string](t, ctx, unreadable); out != "" || value[bool](t, ctx, `document.documentElement.scrollWidth > innerWidth`) {
		t.Errorf("%s: %s", name, out)
	}
}

var shownID = regexp.MustCompile(`<code dir="ltr">([0-9A-Z]{26})</code>`)

// TestWhyFromThePage does what an operator does when somebody calls: a visitor is challenged because of their pace, reads
// the ID from the captcha page, also after a wrong answer, and `antirobot why` tells its story.
func TestWhyFromThePage(t *testing.T) {
	t.Parallel()
	places := filepath.Join(t.TempDir(), "ip2asn.tsv")
	if err := os.WriteFile(places, []byte("203.0.113.0\t203.0.113.255\t64500\tDE\tExample Networks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
geo: {files: [%q]}
services:
  - name: shop
    upstream: {urls: [%q]}
    verdict: {limits: [{window: 10s, requests: 5, ban: 10m}]}
`, places, site(t).URL), "--captcha-test-answer", testAnswer)
	robot := from(t, "203.0.113.77")
	var stopped *response
	for range 200 {
		if stopped = robot.get(g.url+"/goods", "Cookie", "fuid01=nonsense"); stopped.StatusCode == 302 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stopped.must(t, 302, "")
	page := robot.get(stopped.Header.Get("Location")).must(t, 200, "")
	id := idOn(t, page)
	if id != stopped.Header.Get("X-Request-Id") {
		t.Errorf("the page shows %s, the stopped request was %s", id, stopped.Header.Get("X-Request-Id"))
	}
	link, err := url.Parse(stopped.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := robot.get(g.url+"/checkcaptcha?"+strings.ReplaceAll(link.RawQuery, "cc=1&", "")+"&key="+pageKey(t, page)+"&rep=000000").must(t, 302, "")
	if again := idOn(t, robot.get(wrong.Header.Get("Location"))); again != id {
		t.Errorf("after a wrong answer the page shows %s, before %s", again, id)
	}

	ask := []string{"why", strings.ToLower(id), "--admin", g.admin, "--data-dir", g.dir}
	code, out := command(t, ask...)
	if code != 0 {
		t.Fatalf("why: %d %s", code, out)
	}
	for _, want := range []string{
		id, "GET /goods", "service shop", "mode enforce", "robot, challenged: a live ban", "charged to ip:203.0.113.77",
		"DE, AS64500 Example Networks",
		"refused: fuid (it can't be read)", "no entry matches", "on ip:203.0.113.77 by the processor", "pace: more than 5 pages in 10s",
		"pages_10s = ", "limit = 5", "ip:203.0.113.77 is banned", "none was shown",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q in\n%s", want, out)
		}
	}
	program := from(t, "203.0.113.77")
	program.header = http.Header{"X-Forwarded-For": {"203.0.113.77"}, "User-Agent": {"curl/8.5.0"}}
	limited := program.get(g.url+"/goods").must(t, 429, "")
	want := "robot, refused with a 429, Retry-After " + limited.Header.Get("Retry-After") + ": a live ban"
	if _, out := command(t, "why", limited.Header.Get("X-Request-Id"), "--admin", g.admin, "--data-dir", g.dir); !strings.Contains(out, want) {
		t.Errorf("nothing says %q in\n%s", want, out)
	}
	code, out = command(t, append(ask, "--json")...)
	var story struct {
		RequestID string `json:"request-id"`
		Ban       struct{ Subject string }
	}
	if err := json.Unmarshal([]byte(out), &story); code != 0 || err != nil || story.RequestID != id || story.Ban.Subject != "ip:203.0.113.77" {
		t.Errorf("why --json: %d %v %s", code, err, out)
	}
	if code, out = command(t, "subject", "ip:203.0.113.77", "--admin", g.admin, "--data-dir", g.dir); code != 0 || !strings.Contains(out, "pace: more than 5") {
		t.Errorf("subject: %d %s", code, out)
	}
	g.api("DELETE", "/api/bans?subject=ip:203.0.113.77&service=*", nil)
	if _, out = command(t, ask...); !strings.Contains(out, "is not banned any more") {
		t.Errorf("after the ban was lifted:\n%s", out)
	}
}

// TestWhySaysWhatIsWrong asks in all the ways that can't work.
func TestWhySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	const unknown = "01KAJ4T0Q8ZV1X8C9E7N5M3B2D"
	for want, args := range map[string][]string{
		"which request?":                                       {},
		"26 letters and digits":                                {"nonsense"},
		"no decision with request id " + unknown:               {unknown, "--admin", g.admin, "--data-dir", g.dir},
		"--data-dir or --token-file say where it is":           {unknown, "--admin", g.admin, "--data-dir", t.TempDir()},
		"nothing answers at http://127.0.0.1:1: is it running": {unknown, "--admin", "127.0.0.1:1", "--data-dir", g.dir},
	} {
		if code, out := command(t, append([]string{"why"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("why %v: %d %s, want %q", args, code, out, want)
		}
	}
}

var shownKey = regexp.MustCompile(`name="key" value="([^"]+)"`)

func pageKey(t *testing.T, page *response) string {
	t.Helper()
	m := shownKey.FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("no key is in the page:\n%s", page.body)
	}
	return m[1]
}

func idOn(t *testing.T, page *response) string {
	t.Helper()
	m := shownID.FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("no request id stands on the page:\n%s", page.body)
	}
	return m[1]
}

// TestNobodyIsTakenForADriver: browsers with a window that nothing drives, whose pointer is moved and pressed by the screen's own server, as a hand does: their pages find
// nothing of a driver, whichever size the window and the page have, and they pass a silent check.
func TestNobodyIsTakenForADriver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, program string
		args          func(profile string) []string
	}{
		{"Chromium", "chromium", windowed("--window-position=40,30", "--window-size=1000,760")},
		{"Chromium, pages at 1.5", "chromium", windowed("--window-size=1100,800", "--force-device-scale-factor=1.5")},
		{"Firefox", "firefox-esr", func(profile string) []string { return []string{"--no-remote", "--profile", profile} }},
		{"WebKit", miniBrowser(), func(string) []string { return []string{"--geometry=1000x700"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, program := range []string{c.program, "Xvfb", "xdotool"} {
				servertest.Need(t, program)
			}
			var pages atomic.Int32
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if strings.HasPrefix(r.URL.Path, "/page/") {
					n := pages.Add(1)
					fmt.Fprintf(w, `<!doctype html><title>%d</title><a href="/page/%d" style="position:fixed;inset:0">on</a>`, n, n+1)
				}
			}))
			t.Cleanup(site.Close)
			g := start(t, "serve", "--config", configFile(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true, steps: {robot: silent}}}]`, site.URL))
			s := newDisplay(t)
			dir := profile(t)
			s.start(dir, c.program, append(c.args(dir), g.url+"/page/1")...)
			eventually(t, "the first page", func() bool { return pages.Load() > 0 })
			var told session
			eventually(t, "what its pages say", func() bool {
				s.do("mousemove", "300", "350", "mousemove", "360", "420", "mousemove", "420", "520", "click", "1")
				told = g.session("ip:127.0.0.1")
				return pages.Load() > 3 && told.factor("page_automation") != "unknown"
			})
			for _, name := range []string{"page_automation", "page_unpressed", "page_astray", "page_inspected"} {
				if x := told.factor(name); x != "0" {
					t.Errorf("%s is %s", name, x)
				}
			}
			g.ban("ip:127.0.0.1", "1h")
			eventually(t, "the check", func() bool {
				s.do("key", "F5") // no click, as the page of the check has a button for digits
				return g.metric("antirobot_captcha_shown_total", `form="page"`) > 0
			})
			eventually(t, "it has passed the check", func() bool { return g.metric("antirobot_captcha_answers_total", `result="solved"`) == 1 })
		})
	}
}

// TestHiddenDriverShows: a driven browser that says nothing of it, with a page larger than its window: by its mouse, by where that is, and by the inspector that drives it.
func TestHiddenDriverShows(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>%s</title><a id="next" href="%[1]son" style="position:fixed;top:500px">on</a>`, r.URL.Path)
	}))
	t.Cleanup(site.Close)
	g := configured(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}]`, site.URL)
	ctx := browser(t, withWindow(t), chromedp.Flag("enable-automation", false), chromedp.Flag("disable-blink-features", "AutomationControlled"))
	run(t, ctx, "look around", chromedp.EmulateViewport(1300, 1000), chromedp.Navigate(g.url+"/"))
	for range 3 {
		run(t, ctx, "go on", chromedp.WaitVisible("#next"), chromedp.MouseEvent(input.MouseMoved, 200, 100), chromedp.Click("#next"))
	}
	var told session
	eventually(t, "what its pages say", func() bool {
		told = g.session("ip:127.0.0.1")
		return told.factor("page_unpressed") == "1"
	})
	for name, want := range map[string]string{"page_automation": "0", "page_astray": "1", "page_inspected": "1"} {
		if x := told.factor(name); x != want {
			t.Errorf("%s is %s, want %s", name, x, want)
		}
	}
}

// windowed are the arguments of Chromium with a window of its own.
func windowed(more ...string) func(profile string) []string {
	return func(profile string) []string {
		args := []string{"--no-first-run", "--no-default-browser-check", "--user-data-dir=" + profile, "--disable-features=" + unused}
		for _, name := range quiet {
			args = append(args, "--"+name)
		}
		return append(args, more...)
	}
}

// display is a screen without a monitor.
type display struct {
	t    *testing.T
	name string
}

// newDisplay starts an X server, which chooses its number itself and says it once it is there.
func newDisplay(t *testing.T) *display {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), servertest.Need(t, "Xvfb"), "-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	runs(t, cmd)
	w.Close()
	number, err := io.ReadAll(io.LimitReader(r, 8))
	r.Close()
	if err != nil && len(number) == 0 {
		t.Fatalf("the screen's number: %v", err)
	}
	return &display{t, ":" + strings.TrimSpace(string(number))}
}

// start starts a browser that shows itself on the screen.
func (s *display) start(profile, program string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name, leavesIn(profile))
	runs(s.t, cmd)
}

// runs starts a program that ends with the test.
func runs(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// do moves the pointer and presses, see xdotool(1).
func (s *display) do(args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "xdotool", args...)
	cmd.Env = append(os.Environ(), "DISPLAY="+s.name)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("xdotool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// command runs `antirobot args…` to its end and returns its exit code and what it wrote.
func command(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("antirobot %s does not end: %v\n%s", strings.Join(args, " "), err, b)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// TestPitfall27BadConfigSaysEverything starts with a file that has many errors, and expects all of them to be reported.
func TestPitfall27BadConfigSaysEverything(t *testing.T) {
	t.Parallel()
	file := configFile(t, `
colour: blue
listen: [{address: nowhere, tls_cert: only.pem}]
identity: {trusted_proxies: [10.0.0.0/8, everybody]}
captcha: {digits: 2, key_ttl: soon}
http: {max_header_bytes: 3}
lists: {refresh: 1s, ban: [not-an-address], lists: [{name: x, flag: maybe, file: a, url: "http://b"}]}
services:
  - name: one
    hosts: ["http://one.example"]
    verdict: {mode: perhaps, limits: [{window: 10s, requests: 1, ban: 10m}]}
    upstream: {urls: ["ftp://x", "http://u:p@h"]}
    paths: [{prefix: admin, hosts: [x]}]
  - {name: one, requests: {xml_path: [/x]}}
`)
	want := []string{
		"colour: unknown key", "listen[0].address:", "listen[0].tls_cert:", "identity.trusted_proxies[1]:", "captcha.digits:", "captcha.key_ttl", "http.max_header_bytes:",
		"lists.refresh:", "lists.ban[0]:", "lists.lists[0].flag:", "lists.lists[0]:", "services[0].hosts[0]:", "services[0].verdict.mode:",
		"services[0].verdict.limits[0].requests:", "services[0].upstream.urls[0]:", "services[0].upstream.urls[1]:", "services[0].paths[0].prefix:", "services[0].paths[0].hosts:",
		"services[1].name:", "services[1].requests.xml_path: unknown key", "services[1].upstream.urls:",
	}
	for _, args := range [][]string{{"serve", "--config", file, "--data-dir", t.TempDir()}, {"check-config", file}} {
		code, out := command(t, args...)
		if code == 0 {
			t.Errorf("%s succeeds", args[0])
		}
		for _, w := range want {
			if !strings.Contains(out, "  "+w) {
				t.Errorf("%s: no line begins with %q in\n%s", args[0], w, out)
			}
		}
		if strings.Contains(out, "u:p@") {
			t.Errorf("%s shows a password:\n%s", args[0], out)
		}
	}
	if code, out := command(t, "serve", "--config", filepath.Join(t.TempDir(), "absent.yaml")); code == 0 || !strings.Contains(out, "absent.yaml") {
		t.Errorf("an absent file: %d %s", code, out)
	}
	if code, out := command(t, "serve"); code == 0 || !strings.Contains(out, "--upstream") {
		t.Errorf("without anything: %d %s", code, out)
	}
}

// TestPitfall16PrivateListenerIsPrivate accesses the admin's address as a web page, a stranger and a neighbour would, and
// the public one like somebody who looks for profiles.
func TestPitfall16PrivateListenerIsPrivate(t *testing.T) {
	t.Parallel()
	g := serve(t, mirror(t))
	ban := `{"subject":"ip:192.0.2.1","ttl":"10m","reason":"x"}`
	ask := func(method, path, body string, header ...string) int {
		t.Helper()
		req, err := http.NewRequest(method, g.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	auth := []string{"Authorization", "Bearer " + g.token, "Content-Type", "application/json"}
	for _, path := range []string{"/api/bans", "/api/status", "/api/lists", "/api/decisions/x", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile"} {
		if got := ask("GET", path, ""); got != 401 {
			t.Errorf("GET %s without a token: %d", path, got)
		}
		if got := ask("GET", path+"?token="+g.token, "", "Cookie", "token="+g.token); got != 401 {
			t.Errorf("GET %s with the token elsewhere: %d", path, got)
		}
	}
	for what, c := range map[string]struct {
		header []string
		want   int
	}{
		"no token":              {[]string{"Content-Type", "application/json"}, 401},
		"half a token":          {[]string{"Authorization", "Bearer " + g.token[:16], "Content-Type", "application/json"}, 401},
		"a page of the same":    {append(auth, "Origin", g.admin), 403},
		"a foreign page":        {append(auth, "Origin", "https://evil.example"), 403},
		"a sandboxed page":      {append(auth, "Origin", "null"), 403},
		"a rebound name":        {append(auth, "Host", "evil.example"), 403},
		"a form":                {[]string{"Authorization", "Bearer " + g.token, "Content-Type", "application/x-www-form-urlencoded"}, 415},
		"text that looks like":  {[]string{"Authorization", "Bearer " + g.token, "Content-Type", "text/plain"}, 415},
		"a page without origin": {append(auth, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
	} {
		if got := ask("POST", "/api/bans", ban, c.header...); got != c.want {
			t.Errorf("%s: %d, wanted %d", what, got, c.want)
		}
	}
	if got := string(g.api("GET", "/api/bans", nil)); strings.Contains(got, "192.0.2.1") {
		t.Errorf("one of them made a ban: %s", got)
	}
	if got := ask("POST", "/api/bans", ban, auth...); got != 200 && got != 201 {
		t.Errorf("the operator: %d", got)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/metrics", "/api/bans", "/api/reload", "/healthz", "/readyz"} {
		if _, uri := visitor(t).get(g.url+path, auth...).mirrored(t); uri != path {
			t.Errorf("%s on the public port is not the service's", path)
		}
	}
	if info, err := os.Stat(filepath.Join(g.dir, "admin.token")); err != nil || info.Mode().Perm() != 0o600 || len(g.token) < 32 {
		t.Errorf("the token's file: %v %v, %d characters", info, err, len(g.token))
	}
	for _, flag := range []string{"serve", "demo"} { // reachable from this machine alone unless somebody says otherwise
		_, help := command(t, flag, "--help")
		if flag == "demo" && !strings.Contains(help, "127.0.0.1:8079") {
			t.Errorf("demo listens elsewhere:\n%s", help)
		}
	}
	file := configFile(t, "admin: {listen: \"0.0.0.0:8079\"}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n")
	if code, out := command(t, "check-config", file); code != 0 || !strings.Contains(out, "warning: admin.listen") {
		t.Errorf("a private listener for all and without TLS: %d %s", code, out)
	}
}

// TestRevocation revokes one pass by its ID, as the log names it, and no others.
func TestRevocation(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	one, two := visitor(t), visitor(t).speaks("de")
	g.earn(one, "/")
	g.earn(two, "/")
	s := g.whyIn(t, "one", one.get(g.url+"/").must(t, 200, "site got"))
	g.api("POST", "/api/revoke", map[string]string{"pass": strings.TrimPrefix(s.Pass.ID, "spravka:")})
	one.get(g.url+"/").must(t, 302, "")
	two.get(g.url+"/").must(t, 200, "site got")
	g.kill(syscall.SIGKILL)
	g.run()
	one.get(g.url+"/").must(t, 302, "")
	two.get(g.url+"/").must(t, 200, "site got")
}

// TestStatusTellsWhatRuns reads the page that an operator looks at first.
func TestStatusTellsWhatRuns(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	var s struct {
		Version  string
		Ready    bool
		Services []struct {
			Name, Mode string
			Upstreams  []struct{ Healthy bool }
		}
		Store struct{ Healthy bool }
	}
	if err := json.NewDecoder(bytes.NewReader(g.api("GET", "/api/status", nil))).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.Version == "" || !s.Ready || !s.Store.Healthy || fmt.Sprint(s.Services) != "[{default enforce [{true}]}]" {
		t.Errorf("status: %+v", s)
	}
}

// TestPitfall05ExampleKeyIsRefused starts with the key shown in the documentation, alone and as an old key.
func TestPitfall05ExampleKeyIsRefused(t *testing.T) {
	t.Parallel()
	ring, err := spravka.NewRing([]spravka.Key{spravka.ExampleKey()})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Rotate(time.Now(), 10*365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*spravka.Ring{"alone": ring, "as an old key": rotated} {
		keys := filepath.Join(t.TempDir(), "keys.json")
		if err := spravka.SaveRing(keys, r); err != nil {
			t.Fatal(err)
		}
		file := configFile(t, "keys: {file: %q}\nservices: [{name: a, upstream: {urls: [%q]}}]\n", keys, "http://127.0.0.1:1")
		code, out := command(t, "serve", "--config", file, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "example key") || !strings.Contains(out, "antirobot keys make") {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
	t.Run("others may read the keys", func(t *testing.T) {
		dir := t.TempDir()
		if code, out := command(t, "keys", "make", "--data-dir", dir); code != 0 {
			t.Fatalf("keys make: %d %s", code, out)
		}
		if info, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the new ring: %v %v", info, err)
		}
		if err := os.Chmod(filepath.Join(dir, "keys.json"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "chmod 600") {
			t.Errorf("%d %s", code, out)
		}
	})
}

// TestPitfall05RotationLogsNobodyOut rotates the keys while a visitor has a pass and an open captcha, restarts, and then
// removes the old key.
func TestPitfall05RotationLogsNobodyOut(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v, half := visitor(t), visitor(t).speaks("de")
	g.earn(v, "/")
	form := formOf(t, half.get(half.get(g.url+"/half").Header.Get("Location")).body)
	form.Set("rep", testAnswer)
	old := v.pass(t, g.url)

	if code, out := command(t, "keys", "rotate", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys rotate: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 200, "site got")
	half.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
	half.get(g.url+"/half").must(t, 200, "site got")
	if before, after := strings.SplitN(old, ".", 2)[0], strings.SplitN(half.pass(t, g.url), ".", 2)[0]; before == after {
		t.Errorf("both passes are sealed by key %s", before)
	}
	g.kill(syscall.SIGTERM)
	g.run()
	v.get(g.url+"/").must(t, 200, "site got")
	code, out := command(t, "keys", "list", "--data-dir", g.dir)
	if code != 0 || strings.Count(out, "opens") != 2 || strings.Count(out, "seals") != 1 {
		t.Errorf("keys list: %d\n%s", code, out)
	}
	raw, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindAllSubmatch(raw, -1) {
		if strings.Contains(out, string(m[1])) || strings.Contains(g.logs.String(), string(m[1])) {
			t.Error("a secret is shown")
		}
	}
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil { // the keys have leaked: nothing of theirs counts
		t.Fatal(err)
	}
	if code, out := command(t, "keys", "make", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys make: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 302, "")
}

// TestCaptchaTestAnswerIsLoud: an operator who switches the protection off for a test can't overlook it.
func TestCaptchaTestAnswerIsLoud(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	if g.logs.find(func(s string) bool {
		return strings.Contains(s, `"level":"warn"`) && strings.Contains(s, "captcha.test_answer")
	}) == "" {
		t.Error("the log does not warn")
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	r := v.get(g.url + "/")
	page := v.get(r.Header.Get("Location")).must(t, 200, "Test mode")
	if r.Header.Get("X-Antirobot-Test") == "" || page.Header.Get("X-Antirobot-Test") == "" {
		t.Errorf("the answers are not marked: %v", r.Header)
	}
	plain := start(t, "serve", "--upstream", site(t).URL)
	plain.ban("ip:127.0.0.1", "10m")
	if r := visitor(t).get(plain.url + "/"); r.Header.Get("X-Antirobot-Test") != "" {
		t.Error("an ordinary gateway marks its answers as a test's")
	}
	if r := plain.solve(visitor(t), "/"); r.setsCookie("spravka") {
		t.Error("the test answer is right on an ordinary gateway")
	}
	if code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--captcha-test-answer", "abc", "--data-dir", t.TempDir()); code == 0 || !strings.Contains(out, "captcha.test_answer") {
		t.Errorf("a test answer of letters: %d %s", code, out)
	}
}

// TestPitfall15NoSecretsAnywhere goes through a session with every kind of secret, and then reads everything that the
// gateway wrote and reports.
func TestPitfall15NoSecretsAnywhere(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--log-level", "debug", "--captcha-test-answer", testAnswer, "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xml]}
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
    cookies:
      login: {algorithm: hmac, keys: [{key: login-key-login-key-login-key-123}]}
      service_cookie: {name: sid, keys: [{key: %s}]}
`, site(t).URL, serviceKey))
	secrets := map[string]string{
		"answer": testAnswer, "admin token": g.token, "partner's key": "partner-key-0123456789", "service key": serviceKey, "login key": "login-key-login-key-login-key-123",
		"session of the service": "sessionsecret123", "Authorization": "Basic dXNlcjpwYXNz", "query": "querysecret456", "form": "formsecret789",
		"login name": "alice-the-visitor", "service cookie's value": "visitor-4711",
	}
	login, err := spravka.SignService("L", "alice-the-visitor", time.Now(), []byte("login-key-login-key-login-key-123"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["login cookie"] = login
	secrets["service cookie"] = strings.TrimPrefix(signed(t, "visitor-4711"), "sid=")
	const addr = "203.0.113.1"
	v := from(t, addr).speaks("en")
	v.header.Set("Authorization", secrets["Authorization"])
	v.header.Set("Cookie", "session=sessionsecret123")
	v.get(g.url+"/?q=querysecret456").must(t, 200, "")
	g.ban("ip:"+addr, "10m")
	g.ban("L:alice-the-visitor", "10m")
	v.get(g.url+"/", "Cookie", "L="+login+"; "+signed(t, "visitor-4711")).must(t, 302, "")
	r := v.get(g.url + "/page?q=querysecret456")
	form := formOf(t, v.get(r.Header.Get("Location")).body)
	secrets["captcha key"] = form.Get("key")
	form.Set("rep", "000000")
	v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	v.header.Del("Cookie")
	g.earn(v, "/")
	secrets["pass"] = v.pass(t, g.url)
	v.get(g.url+"/spend").must(t, 200, "site got")
	c := from(t, addr).get(g.url+"/api", "X-Requested-With", "XMLHttpRequest", "Cookie", "spravka=broken").challenge(t)
	secrets["inline key"] = c.Captcha.Key
	v.get(c.Captcha.Img)
	v.get(g.url + "/checkcaptcha?rep=" + testAnswer + "&key=" + c.Captcha.Key)
	page := from(t, addr).speaks("fr").do("POST", g.url+"/post", "text=formsecret789", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, `name="rep"`)
	secrets["sealed form"] = formOf(t, page.body).Get("saved")
	from(t, addr).get(g.url + "/xml?key=partner-key-0123456789&query=x")
	from(t, addr).get(g.url + "/xcheckcaptcha?key=bad&rep=" + testAnswer)
	g.tryAPI("POST", "/api/bans", map[string]string{"subject": "ip:bad", "ttl": "1h", "reason": "x"})
	req, _ := http.NewRequest("GET", g.admin+"/api/status", nil)
	req.Header.Set("Authorization", "Bearer wrong-token-0123456789")
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	secrets["wrong admin token"] = "wrong-token-0123456789"
	keys, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["ring's secret"] = string(regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindSubmatch(keys)[1])

	told := map[string]string{}
	for _, path := range []string{"/metrics", "/api/status", "/api/bans", "/api/lists", "/api/lists/ban", "/healthz", "/readyz", "/api/subjects/ip:" + addr, "/api/subjects/L:alice-the-visitor"} {
		told[path] = string(g.api("GET", path, nil))
	}
	told["a decision"] = string(g.api("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil))
	g.kill(syscall.SIGTERM) // writes the log out
	told["the log"] = g.logs.String()
	if !strings.Contains(told["the log"], `"message":"decision"`) || !strings.Contains(told["the log"], `"message":"request"`) {
		t.Fatal("the log has neither access lines nor decisions: this test sees nothing")
	}
	for what, secret := range secrets {
		if len(secret) < 6 {
			t.Fatalf("the test has no %s", what)
		}
		for where, text := range told {
			if what == "answer" { // digits stand in times too
				text = regexp.MustCompile(`\d+\.\d+|"time":"[^"]*"`).ReplaceAllString(text, "")
			}
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s stands in %s: …%s…", what, where, text[max(0, i-200):min(len(text), i+len(secret)+50)])
			}
		}
	}
}
