//go:build agents

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

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
