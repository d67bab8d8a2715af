package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestWorkInTheDialog: the dialog offers work too: on the gateway's origin in a Worker, from another one in small pieces.
func TestWorkInTheDialog(t *testing.T) {
	t.Parallel()
	front := appSite(t).URL
	api := configuredFront(t, appSite(t).URL, fmt.Sprintf("    captcha: {work: true, cors_origins: [%q]}\n", front))
	own := configuredFront(t, appSite(t).URL, workSettings)
	ctx := browser(t)
	for _, c := range []struct {
		name, page, options, ask string
		g                        *gateway
		worker                   bool
	}{
		// The page's policy wants trusted types, which a Worker's address is not: in pieces.
		{"strict policy", own.url + "/app", "", "/api/save", own, false},
		{"no policy", own.url + "/loose", "", "/api/save", own, true},
		{
			"another origin", front + "/app?" + url.Values{"script": {api.url + "/captcha/antirobot.js"}}.Encode(),
			`{origins: ['` + api.url + `'], credentials: 'include', work: '` + api.url + `/captcha/work.js'}`, api.url + "/api/save", api, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, c.page, c.options)
			a.eval(`window.Worker = class extends Worker { constructor(u) { super(u); window.started = true; } }; true`, nil)
			c.g.ban("ip:127.0.0.1", "10m")
			defer c.g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', robot.fetch('`+c.ask+`', {method: 'POST', body: 'b'})); true`, nil)
			a.asked()
			// Each text is a node of its own: what it says stays readable when the next has replaced it within one task.
			a.eval(`window.heard = []; new MutationObserver((all) => all.forEach((r) => r.addedNodes.forEach((n) => heard.push(n.textContent)))).observe((`+dialog+`).querySelector('[role=status]'), {childList: true, characterData: true, subtree: true}); (`+workButton+`).focus(); true`, nil)
			run(t, ctx, "by the keyboard", chromedp.KeyEvent("\r"))
			if r := a.result("r"); r.Value.Body != "b" {
				t.Errorf("got %+v", r)
			}
			a.gone()
			var heard string
			if a.eval(`heard.join('|')`, &heard); !strings.Contains(heard, "is working") || !strings.Contains(heard, "50 %") {
				t.Errorf("said %q", heard)
			}
			var started bool
			if a.eval(`!!window.started`, &started); started != c.worker {
				t.Errorf("a Worker: %t", started)
			}
		})
	}
	t.Run("not offered", func(t *testing.T) {
		a := openApp(t, ctx, front+"/app?"+url.Values{"script": {api.url + "/captcha/antirobot.js"}}.Encode(), `{origins: ['`+api.url+`'], credentials: 'include'}`)
		api.ban("ip:127.0.0.1", "10m")
		run(t, ctx, "forget the pass", network.ClearBrowserCookies())
		a.eval(`keep('r', robot.fetch('`+api.url+`/api/save', {method: 'POST', body: 'b'})); true`, nil)
		a.asked()
		var offered bool
		if a.eval(`!!(`+workButton+`)`, &offered); offered {
			t.Error("a challenge of another origin says which script is run")
		}
	})
}

// TestWorkInTheDialogIsStopped: by its button, by an answer in digits, and by closing the dialog.
func TestWorkInTheDialogIsStopped(t *testing.T) {
	t.Parallel()
	g := configuredFront(t, appSite(t).URL, workSettings+slowWork)
	ctx := browser(t)
	begin := func(name string, stop func(a *app)) {
		t.Run(name, func(t *testing.T) {
			run(t, ctx, "forget the pass", network.ClearBrowserCookies())
			a := openApp(t, ctx, g.url+"/app", "")
			g.ban("ip:127.0.0.1", "10m")
			defer g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
			a.eval(`keep('r', robot.fetch('/api/save', {method: 'POST', body: 'b'})); true`, nil)
			a.asked()
			a.eval(`(`+workButton+`).click(); true`, nil)
			a.until(`(` + dialog + `).querySelector('[role=status]').textContent.includes('is working') && (` + workButton + `).textContent === 'Cancel'`)
			stop(a)
		})
	}
	begin("button, then digits", func(a *app) {
		checkAxe(a.t, ctx, axe(a.t), "dialog at work")
		var same int
		if a.eval(`[...(`+dialog+`).querySelectorAll('button')].filter((b) => b.textContent === 'Cancel' && b.offsetParent).length`, &same); same != 1 {
			a.t.Errorf("%d buttons are called Cancel", same)
		}
		a.eval(`(`+workButton+`).click(); true`, nil)
		a.until(`(` + workButton + `).textContent.startsWith('Without') && (` + dialog + `).querySelector('[role=status]').textContent === ''`)
		a.eval(`(`+dialog+`).querySelector('input').focus(); true`, nil)
		a.typed(testAnswer + "\r")
		a.result("r")
	})
	begin("digits at once", func(a *app) {
		a.eval(`(`+dialog+`).querySelector('input').focus(); true`, nil)
		a.typed(testAnswer + "\r")
		if r := a.result("r"); r.Value.Body != "b" {
			a.t.Errorf("got %+v", r)
		}
		a.gone()
	})
	begin("Escape", func(a *app) {
		run(a.t, ctx, "close", chromedp.KeyEvent("\u001b"))
		if r := a.result("r"); r.Error != "AntirobotCancelled" {
			a.t.Errorf("got %+v", r)
		}
	})
}
