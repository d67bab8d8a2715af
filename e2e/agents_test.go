//go:build agents

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// driven is a browser that an agent drives.
type driven interface {
	open(url string)
	eval(script string) any // the body of a function
}

// manners are how agents go about a site: which of the links on a page they take, and how long they stay.
var manners = []struct {
	name   string
	stay   func() time.Duration
	choose func(n, page int) int // one of n links
}{
	{"in order, at once", func() time.Duration { return 0 }, func(n, page int) int { return page % n }},
	{"in order, every second", func() time.Duration { return time.Second }, func(n, page int) int { return page % n }},
	{"anywhere, for 0.5 to 8 seconds", func() time.Duration {
		return time.Duration(math.Exp(math.Log(0.5)+rand.Float64()*math.Log(16)) * float64(time.Second))
	}, func(n, _ int) int { return rand.IntN(n) }},
}

// TestAgentsInBrowsers lets agents in real browsers walk through the demo's site, behind a gateway with all defaults that is
// asked for evidence from the page, and says what the gateway thinks of each: make agents. It is a rig, not a test: what it
// prints is to be looked at.
func TestAgentsInBrowsers(t *testing.T) {
	pages, _ := strconv.Atoi(os.Getenv("AGENT_PAGES"))
	pages = max(pages, 1)
	demo := start(t, "demo", "--traffic", "0", "--log-level", "info")
	for _, m := range manners {
		for name, launch := range map[string]func(t *testing.T) driven{"chromium": launchChromium, "firefox": func(t *testing.T) driven {
			if f := launchFirefox(t); f != nil {
				return f
			}
			return nil
		}} {
			t.Run(name+", "+m.name, func(t *testing.T) {
				g := configured(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}]`, demo.url)
				b := launch(t)
				if b == nil {
					t.Skipf("SKIPPED for want of %s: apt-get install %s", name, map[string]string{"chromium": "chromium", "firefox": "firefox-esr"}[name])
				}
				read, asked := walkAsAgent(b, g.url, pages, m.choose, m.stay)
				b.open("about:blank") // what pages have to tell is told when they are left
				time.Sleep(time.Second)
				t.Logf("read %d pages, asked at %s; %s", read, asked, opinion(t, g))
			})
		}
	}
}

// opinion is what the gateway thinks of its only visitor.
func opinion(t *testing.T, g *gateway) string {
	s := g.session("ip:127.0.0.1")
	said := fmt.Sprintf("score %.2f", s.Score)
	for _, f := range s.Factors {
		if f.Value != nil && (strings.HasPrefix(f.Name, "page_a") && f.Name != "page_alone_share" || f.Name == "page_screen_odd") {
			said += fmt.Sprintf(", %s %.3g", f.Name, *f.Value)
		}
	}
	return said
}

// walkAsAgent goes from page to page, and returns how many it has read, and where it was asked.
func walkAsAgent(b driven, site string, pages int, choose func(n, page int) int, stay func() time.Duration) (read int, asked string) {
	at := site + "/"
	for read < pages {
		b.open(at)
		if b.eval(`return !!document.querySelector("input[name=rep]")`) == true {
			return read, at
		}
		read++
		time.Sleep(stay())
		b.eval(`scrollTo(0, document.body?.scrollHeight ?? 0); return 0`)
		links, _ := b.eval(`return [...document.querySelectorAll("a[href]")].map(a => a.href).filter(h => h.startsWith(location.origin) && !/play|xml|#/.test(h)).join(" ")`).(string)
		if list := strings.Fields(links); len(list) > 0 {
			at = list[choose(len(list), read)]
		}
	}
	return read, "no page"
}

// chromium is driven by its own protocol.
type chromium struct {
	t   *testing.T
	ctx context.Context
}

func launchChromium(t *testing.T) driven {
	if _, err := exec.LookPath("chromium"); err != nil {
		return nil
	}
	return &chromium{t, browser(t, withWindow(t))}
}

func (c *chromium) open(url string) { run(c.t, c.ctx, "open", chromedp.Navigate(url)) }

func (c *chromium) eval(script string) (v any) {
	run(c.t, c.ctx, script, chromedp.Evaluate("(() => {"+script+"})()", &v))
	return v
}
