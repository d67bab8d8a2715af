//go:build agents

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"antirobot/servertest"
)

// manner is how an agent goes about a site.
type manner struct {
	name  string
	dress string
	next  func(b driver, site, href string) // how it comes to the next page
	stay  func() time.Duration
	reads bool // scrolls and moves the pointer as it stays
}

var (
	byClick   = func(b driver, _, href string) { b.click(`a[href="` + href + `"]`) }
	byScript  = func(b driver, _, href string) { b.script(`a[href="` + href + `"]`) }
	byAddress = func(b driver, site, href string) { b.open(site + href) }
)

func atOnce() time.Duration      { return 0 }
func everySecond() time.Duration { return time.Second }

// likePeople is log-normal: half of the stays are shorter than two seconds, one in twenty is longer than six.
func likePeople() time.Duration {
	return time.Duration(math.Exp(math.Log(2)+0.7*rand.NormFloat64()) * float64(time.Second))
}

var manners = []manner{
	{"addresses, at once", plain, byAddress, atOnce, false},
	{"clicks, every second", plain, byClick, everySecond, false},
	{"clicks, at once", named, byClick, atOnce, false},
	{"clicks, every second", named, byClick, everySecond, false},
	{"clicks, like people", named, byClick, likePeople, true},
	{"clicks of a script, like people", named, byScript, likePeople, true},
	{"addresses, like people", named, byAddress, likePeople, true},
	{"clicks, like people", hidden, byClick, likePeople, true},
	{"clicks of a script, like people", hidden, byScript, likePeople, true},
	{"addresses, like people", hidden, byAddress, likePeople, true},
}

// agentTool starts a browser, or says what is missing.
type agentTool struct {
	name   string
	launch func(t *testing.T, dress string) (driver, string)
}

var agentTools = []agentTool{
	{"chromedp", launchChromium},
	{"playwright", nodeTool("playwright")},
	{"puppeteer", nodeTool("puppeteer")},
	{"selenium", nodeTool("selenium")},
	{"puppeteer-firefox", nodeTool("puppeteer-firefox")},
	{"marionette", launchMarionette},
}

func nodeTool(tool string) func(t *testing.T, dress string) (driver, string) {
	return func(t *testing.T, dress string) (driver, string) {
		n, lacks := launchNode(t, tool, dress)
		if lacks != "" {
			return nil, lacks
		}
		return n, ""
	}
}

// agentSession is what became of one.
type agentSession struct {
	tool                 *agentTool
	manner               *manner
	script               bool // the gateway puts its own into pages
	read                 int
	unsure, above, asked int // the page; 0: never
	score                float64
	why                  string
	signs                []string
}

// TestAgentsInBrowsers drives real browsers through a site behind a gateway with the defaults, each session behind a gateway of its own that knows nobody,
// and prints in how many of them it was found, by tool and manner, without the page's script and with it: make agents. It is a
// rig, not a test: it has no figures to hold.
func TestAgentsInBrowsers(t *testing.T) {
	pages := number("AGENT_PAGES", 30)
	tools := chosen(t)
	site := leaflets(t)
	r := &report{t: t, pages: pages, versions: map[string]string{}}
	defer r.print()
	places := make(chan struct{}, number("AGENT_AT_ONCE", 4))
	var all sync.WaitGroup
	defer all.Wait() // before the tables
	todo := r.plan(tools, number("AGENT_ROUNDS", 1), wanted(t))
	for _, f := range todo {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			t.Run(f.tool.name+", "+f.describe(), func(t *testing.T) {
				b, lacks := f.tool.launch(t, f.manner.dress)
				if lacks != "" {
					r.lacks(f.tool.name, lacks)
					servertest.Lack(t, lacks, "tools/deps.sh agents")
				}
				walkAsAgent(t, b, site, pages, &f)
				t.Log(r.add(&f, b.version()))
			})
		})
	}
}

// describe names what it does, as the table does.
func (f *agentSession) describe() string {
	return fmt.Sprintf("%s, %s, %s", f.manner.dress, f.manner.name, scripted[f.script])
}

// wanted are the manners that the regular expression AGENT_MANNERS fits, or all: "named, clicks, like people, without the script".
func wanted(t *testing.T) func(*agentSession) bool {
	fits, err := regexp.Compile(os.Getenv("AGENT_MANNERS"))
	if err != nil {
		t.Fatalf("AGENT_MANNERS: %v", err)
	}
	return func(f *agentSession) bool { return fits.MatchString(f.describe()) }
}

// chosen are the tools that AGENT_TOOLS names, or all.
func chosen(t *testing.T) []agentTool {
	t.Helper()
	names := strings.FieldsFunc(os.Getenv("AGENT_TOOLS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		return agentTools
	}
	var tools []agentTool
	for _, name := range names {
		i := slices.IndexFunc(agentTools, func(a agentTool) bool { return a.name == name })
		if i < 0 {
			t.Fatalf("AGENT_TOOLS names %s, which is none of the tools", name)
		}
		tools = append(tools, agentTools[i])
	}
	return tools
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// walkAsAgent goes from page to page until it is asked, or has read so many.
func walkAsAgent(t *testing.T, b driver, upstream string, pages int, f *agentSession) {
	settings := "{}"
	if f.script {
		settings = "{evidence: true, evidence_insert: true}"
	}
	g := configured(t, "processor: {exempt: []}\nservices: [{name: site, upstream: {urls: [%q]}, captcha: %s}]", upstream, settings)
	b.open(g.url + "/")
	for visited := map[string]bool{}; ; {
		var links []string
		eventually(t, "a page, or the captcha", func() bool {
			links = slices.DeleteFunc(b.links(), func(href string) bool { return !strings.HasPrefix(href, "/page/") })
			return len(links) > 0 || strings.Contains(b.at(), "captcha")
		})
		if len(links) == 0 {
			f.asked = f.read + 1
			break
		}
		f.read++
		look(t, g, f)
		if f.read == pages {
			break
		}
		fresh := slices.DeleteFunc(slices.Clone(links), func(href string) bool { return visited[href] })
		if len(fresh) == 0 {
			fresh = links
		}
		href := fresh[rand.IntN(len(fresh))]
		visited[href] = true
		linger(b, f.manner)
		f.manner.next(b, g.url, href)
	}
	look(t, g, f)
}

// linger stays on a page.
func linger(b driver, m *manner) {
	stay := m.stay()
	if !m.reads {
		time.Sleep(stay)
		return
	}
	b.move(50+rand.Float64()*600, 50+rand.Float64()*400)
	for left := 1 + rand.IntN(3); left > 0; left-- {
		time.Sleep(stay / 3)
		b.scroll(200 + 400*rand.Float64())
	}
	time.Sleep(stay / 3)
}

// look asks the gateway what it thinks of its only visitor, once it has counted its page.
func look(t *testing.T, g *gateway, f *agentSession) {
	t.Helper()
	var a subject
	eventually(t, "the page counts", func() bool {
		a = g.subject("ip:127.0.0.1")
		return a.Session.Pages >= f.read || f.asked > 0
	})
	f.score = a.Session.Score
	if f.above == 0 && (f.score > 0.5 || len(a.Bans) > 0) {
		f.above = f.read
	}
	if f.unsure == 0 && (f.score > 0.3 || f.above > 0) {
		f.unsure = f.read
	}
	for _, b := range a.Bans {
		f.why = b.Reason
	}
	signs := a.Session.Factors
	slices.SortFunc(signs, func(a, b weighed) int { return cmp.Compare(b.Amount, a.Amount) })
	f.signs = f.signs[:0]
	for _, x := range signs {
		if x.Amount >= 0.3 && x.Value != nil && len(f.signs) < 6 {
			f.signs = append(f.signs, fmt.Sprintf("%s %.3g (%+.1f)", x.Name, *x.Value, x.Amount))
		}
	}
}

// driver drives a browser the way its tool does.
type driver interface {
	open(url string)
	click(selector string)  // by the tool's own events of the pointer, and waits for the page that it leads to
	script(selector string) // a script that the tool runs in the page clicks, likewise
	links() []string        // href of all links of the page
	at() string             // the page's address
	move(x, y float64)      // the pointer
	scroll(by float64)      // pixels
	version() string
}

const readLinks = `[...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href"))`

func (n *node) script(selector string) { n.say("script", selector) }
func (n *node) move(x, y float64)      { n.say("move", x, y) }
func (n *node) scroll(by float64)      { n.say("scroll", by) }
func (n *node) version() string        { return n.is }

// chromium is driven by chromedp.
type chromium struct {
	t   *testing.T
	ctx context.Context
}

func launchChromium(t *testing.T, dress string) (driver, string) {
	if _, err := exec.LookPath("chromium"); err != nil {
		return nil, "chromium"
	}
	var options []chromedp.ExecAllocatorOption
	if dress != plain {
		options = append(options, withWindow(t))
	}
	if dress == hidden {
		options = append(options, chromedp.Flag("enable-automation", false), chromedp.Flag("disable-blink-features", "AutomationControlled"))
	}
	c := &chromium{t, browser(t, options...)}
	if dress == hidden {
		run(t, c.ctx, "hide", chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(hide).Do(ctx)
			return err
		}))
	}
	return c, ""
}

func (c *chromium) open(url string) { run(c.t, c.ctx, "open "+url, chromedp.Navigate(url)) }

// leads does what leads to another page, and waits for it.
func (c *chromium) leads(what string, a chromedp.Action) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, a); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *chromium) click(selector string) {
	c.leads("click "+selector, chromedp.Click(selector, chromedp.ByQuery))
}

func (c *chromium) script(selector string) {
	c.leads("click of a script "+selector, chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).click()", selector), nil))
}

func (c *chromium) links() (all []string) {
	run(c.t, c.ctx, "read", chromedp.Evaluate(readLinks, &all))
	return all
}

func (c *chromium) at() (url string) {
	run(c.t, c.ctx, "where", chromedp.Location(&url))
	return url
}

func (c *chromium) move(x, y float64) {
	run(c.t, c.ctx, "move", chromedp.MouseEvent(input.MouseMoved, x, y))
}

func (c *chromium) scroll(by float64) {
	run(c.t, c.ctx, "scroll", input.DispatchMouseEvent(input.MouseWheel, 100, 100).WithDeltaX(0).WithDeltaY(by))
}

func (c *chromium) version() (v string) {
	run(c.t, c.ctx, "version", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		_, v, _, _, _, err = cdpbrowser.GetVersion().Do(ctx)
		return err
	}))
	return "chromedp, " + v
}

// marionette is Firefox driven by the protocol of WebDriver, as geckodriver drives it.
type marionette struct {
	*firefox
	hides bool
}

func launchMarionette(t *testing.T, dress string) (driver, string) {
	if _, err := exec.LookPath("firefox-esr"); err != nil {
		return nil, "firefox-esr"
	}
	return &marionette{launchFirefox(t), dress == hidden}, ""
}

// hide hides what it can once a page is there: there are no scripts that run before those of pages.
func (m *marionette) hide() {
	if m.hides {
		m.say("WebDriver:ExecuteScript", map[string]any{"script": hide, "args": []any{}, "sandbox": nil})
	}
}

func (m *marionette) open(url string) {
	m.firefox.open(url)
	m.hide()
}

func (m *marionette) click(selector string) {
	m.leads(func() { m.firefox.click(selector) })
}

func (m *marionette) script(selector string) {
	m.leads(func() { m.eval(fmt.Sprintf("document.querySelector(%q).click()", selector)) })
}

// leads does what leads to another page, and waits for it.
func (m *marionette) leads(do func()) {
	before := m.at()
	do()
	eventually(m.t, "the next page", func() bool {
		now := texts(m.eval("return [location.href, document.readyState]"))
		return len(now) == 2 && now[0] != before && now[1] == "complete"
	})
	m.hide()
}

func (m *marionette) links() []string { return texts(m.eval("return " + readLinks)) }

func (m *marionette) at() string {
	s, _ := m.say("WebDriver:GetCurrentURL", nil).(string)
	return s
}

func (m *marionette) act(kind string, action map[string]any) {
	m.say("WebDriver:PerformActions", map[string]any{"actions": []any{map[string]any{"type": kind, "id": kind, "actions": []any{action}}}})
}

func (m *marionette) move(x, y float64) {
	m.act("pointer", map[string]any{"type": "pointerMove", "x": int(x), "y": int(y), "duration": 100, "origin": "viewport"})
}

func (m *marionette) scroll(by float64) {
	m.act("wheel", map[string]any{"type": "scroll", "x": 100, "y": 100, "deltaX": 0, "deltaY": int(by), "duration": 0, "origin": "viewport"})
}

func (m *marionette) version() string {
	out, _ := exec.CommandContext(m.t.Context(), "firefox-esr", "--version").Output()
	return "Marionette, " + strings.TrimSpace(string(out))
}

// TestAgentsAtTheCheck asks browsers that are driven, each by its tool as it starts and hidden, for a silent check, and prints what they met: the page, or digits. It has no
// figures to hold, either.
func TestAgentsAtTheCheck(t *testing.T) {
	var table []string
	for _, tool := range chosen(t) {
		for _, dress := range []string{plain, named, hidden} {
			t.Run(tool.name+", "+dress, func(t *testing.T) {
				g := start(t, "serve", "--config", configFile(t, "services: [{name: site, upstream: {urls: [%q]}, captcha: {steps: {robot: silent}}}]", leaflets(t)))
				g.ban("ip:127.0.0.1", "1h")
				b, lacks := tool.launch(t, dress)
				if lacks != "" {
					servertest.Lack(t, lacks, "tools/deps.sh agents")
				}
				b.open(g.url + "/page/1")
				met := ""
				eventually(t, "what it meets", func() bool {
					switch at := b.at(); {
					case strings.HasSuffix(at, "/page/1"):
						met = "the page"
					case strings.Contains(at, "step=digits"):
						met = "digits"
					}
					return met != ""
				})
				table = append(table, fmt.Sprintf("%-20s %-14s %s", tool.name, dress, met))
			})
		}
	}
	slices.Sort(table)
	t.Log("\n" + strings.Join(table, "\n"))
}

// report gathers what became of the sessions, from several goroutines.
type report struct {
	t        *testing.T
	pages    int
	planned  int
	mu       sync.Mutex
	all      []agentSession
	versions map[string]string // by tool
}

// plan returns what is to be done.
// plan lists the sessions, but for those whose manner is not wanted.
func (r *report) plan(tools []agentTool, rounds int, wanted func(*agentSession) bool) (todo []agentSession) {
	for range rounds {
		for m := range manners {
			for i := range tools {
				for _, script := range []bool{false, true} {
					// Without the script nobody sees what is hidden: such sessions are like those of named.
					f := agentSession{tool: &tools[i], manner: &manners[m], script: script}
					if (script || f.manner.dress != hidden) && wanted(&f) {
						todo = append(todo, f)
					}
				}
			}
		}
	}
	r.planned = len(todo)
	return todo
}

func (r *report) lacks(tool, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[tool] = "SKIPPED for want of " + what + ": tools/deps.sh agents"
}

// add takes a session, and returns what is to be said of it.
func (r *report) add(f *agentSession, version string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, *f)
	r.versions[f.tool.name] = version
	page := func(n int) string {
		if n == 0 {
			return "never"
		}
		return fmt.Sprintf("at page %d", n)
	}
	return fmt.Sprintf("%d of %d, %s, %s: read %d pages, unsure %s, above %s, asked %s, score %.2f %s; %s",
		len(r.all), r.planned, f.tool.name, f.describe(), f.read, page(f.unsure), page(f.above), page(f.asked), f.score, f.why, strings.Join(f.signs, ", "))
}

// print prints the tables.
func (r *report) print() {
	var b strings.Builder
	for _, tool := range slices.Sorted(maps.Keys(r.versions)) {
		fmt.Fprintf(&b, "%s: %s\n", tool, r.versions[tool])
	}
	fmt.Fprintf(&b, "\nRobots in real browsers found within %d pages by a gateway that knows nobody: unsure or above / above the threshold, of sessions\n\n", r.pages)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head := []string{"browser", "manner", ""}
	for _, tool := range agentTools {
		head = append(head, tool.name)
	}
	fmt.Fprintln(w, strings.Join(append(head, "all (95 %)", "pages read: median, most"), "\t"))
	for _, m := range manners {
		for _, script := range []bool{false, true} {
			r.row(w, []string{m.dress, m.name, scripted[script]}, func(f *agentSession) bool {
				return f.manner.dress == m.dress && f.manner.name == m.name && f.script == script
			})
		}
	}
	for _, dress := range []string{plain, named, hidden} {
		for _, script := range []bool{false, true} {
			r.row(w, []string{dress, "all", scripted[script]}, func(f *agentSession) bool { return f.manner.dress == dress && f.script == script })
		}
	}
	_ = w.Flush()
	fmt.Print("\n" + b.String())
}

var scripted = map[bool]string{false: "without the script", true: "with the script"}

// row prints a line of the table, if there are any such sessions.
func (r *report) row(w *tabwriter.Writer, cells []string, of func(*agentSession) bool) {
	tally := func(tool string) (n, unsure, above int, reads []int) {
		for i := range r.all {
			if f := &r.all[i]; of(f) && (tool == "" || f.tool.name == tool) {
				n, reads = n+1, append(reads, f.read)
				if f.unsure > 0 {
					unsure++
				}
				if f.above > 0 {
					above++
				}
			}
		}
		return n, unsure, above, reads
	}
	n, unsure, above, reads := tally("")
	if n == 0 {
		return
	}
	for _, tool := range agentTools {
		n, unsure, above, _ := tally(tool.name)
		if n == 0 {
			cells = append(cells, "–")
		} else {
			cells = append(cells, fmt.Sprintf("%d / %d of %d", unsure, above, n))
		}
	}
	slices.Sort(reads)
	all := fmt.Sprintf("%d%s / %d%s of %d", unsure, wilson(unsure, n), above, wilson(above, n), n)
	cells = append(cells, all, fmt.Sprintf("%d, %d", reads[len(reads)/2], reads[len(reads)-1]))
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// wilson is the interval of a share in which it lies with 95 % (Wilson's score interval), from ten on.
func wilson(k, n int) string {
	if n < 10 {
		return ""
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	mid, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return fmt.Sprintf(" (%.0f to %.0f %%)", 100*max(0, (mid-half)/(1+z*z/m)), 100*min(1, (mid+half)/(1+z*z/m)))
}
