//go:build agents

package e2e

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
