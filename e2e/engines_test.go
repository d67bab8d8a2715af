package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// TestEveryEngine: what people are asked, in browsers of other makers than the one that all other tests use: each step on its page and in the dialog, by pointer and
// keyboard, work, a form that is kept, a pass that moves to another network with the browser's key, and what its pages tell.
func TestEveryEngine(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]func(t *testing.T) engine{
		"Firefox": func(t *testing.T) engine {
			return launchFirefox(t)
		},
		"WebKit": func(t *testing.T) engine {
			return launchWebKit(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tour(t, launch(t))
		})
	}
}

// tour shows a browser each thing in turn.
func tour(t *testing.T, b engine) {
	t.Helper()
	step := func(name string, do func()) {
		t.Helper()
		t.Log(name)
		do()
	}
	is := func(what, condition string) {
		t.Helper()
		settled(t, what, func() (bool, error) {
			v, err := b.ask("return !!(" + condition + ")")
			return v == true, err
		})
	}
	there := func() {
		t.Helper()
		is("the page", `document.body?.innerText.includes("site got GET /page")`)
	}
	asked := func(settings string) *gateway {
		t.Helper()
		g := configuredFront(t, site(t).URL, "    captcha: "+settings+"\n")
		g.ban("ip:127.0.0.1", "1h")
		b.open(g.url + "/page")
		return g
	}
	step("silent", func() {
		g := asked("{steps: {robot: silent}}")
		there()
		settled(t, "one was solved", func() (bool, error) {
			n := g.metric("antirobot_captcha_answers_total", `result="solved"`)
			return n == 1, fmt.Errorf("%v were", n)
		})
	})
	step("press", func() {
		asked("{steps: {robot: press}}")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.click("#press")
		there()
	})
	step("press by keyboard", func() {
		asked("{steps: {robot: press}}")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.eval(`document.querySelector("#press").focus()`)
		b.typed("\ue007")
		there()
	})
	step("digits", func() {
		asked("{}")
		is("the picture", `document.querySelector("main img")?.naturalWidth > 0`)
		b.keys(field, "222222\ue007")
		is("the problem", `document.querySelector("#problem")`)
		is("the field", `document.querySelector('`+field+`')`)
		b.keys(field, testAnswer+"\ue007")
		there()
	})
	step("moving", func() {
		asked("{steps: {robot: dynamic}}")
		is("arrows", `document.querySelector(".arrows button")`)
		b.click(".arrows button")
		is("an arrow", `document.querySelector('`+field+`').value === "←"`)
		key := ""
		for range 2 {
			is("another challenge", `(document.querySelector("[name=key]")?.value ?? "`+key+`") !== "`+key+`"`)
			key = b.eval(`return document.querySelector("[name=key]").value`).(string)
			b.eval(`document.querySelector('` + field + `').value = ""`)
			b.keys(field, testAnswer+"\ue007")
		}
		there()
	})
	step("work", func() {
		asked("{work: true}")
		is("the offer", `document.querySelector('`+offerButton+`')`)
		b.click(offerButton)
		there()
	})
	step("a form", func() {
		g := configuredFront(t, noteSite(t), "    captcha: {}\n")
		b.open(g.url + "/write")
		b.keys("textarea", "kept")
		g.ban("ip:127.0.0.1", "1h")
		b.click("#send")
		is("the field", `document.querySelector('`+field+`')`)
		b.keys(field, testAnswer+"\ue007")
		is("the form's way", `document.body?.innerText.includes("got kept")`)
	})
	for _, s := range []string{"silent", "press", "digits"} {
		step("the dialog, "+s, func() {
			g := configuredFront(t, appSite(t).URL, "    captcha: {steps: {robot: "+s+"}}\n")
			b.open(g.url + "/app")
			b.eval(`window.robot = antirobot.createAntirobot({})`)
			g.ban("ip:127.0.0.1", "1h")
			b.eval(`window.got = null; robot.fetch("/api/save", {method: "POST", body: "x"}).then((r) => r.json()).then((o) => { window.got = o }, (e) => { window.got = String(e) })`)
			switch s {
			case "press":
				is("the button", dialog+`?.querySelector("button.g")`)
				is("its focus", dialog+`.activeElement?.tagName === "BUTTON"`)
				b.typed("\ue007")
			case "digits":
				is("the field", dialog+`?.activeElement?.id === "f"`)
				b.typed(testAnswer + "\ue007")
			}
			is("the answer", `window.got?.body === "x" && window.got.method === "POST"`)
			is("no dialog", `!document.querySelector("antirobot-captcha")`)
		})
	}
	step("a pass moves", func() {
		g := configuredFront(t, site(t).URL, "    captcha: {steps: {robot: press}}\n", "--trusted-proxies", "127.0.0.1")
		var from atomic.Value
		from.Store("203.0.113.1")
		to, _ := url.Parse(g.url)
		road := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-For", from.Load().(string))
		}})
		t.Cleanup(road.Close)
		g.ban("ip:203.0.113.1", "1h")
		g.ban("ip:198.51.100.1", "1h")
		b.open(road.URL + "/page")
		is("the button", `document.querySelector("#press:not([hidden])")`)
		b.click("#press")
		there()
		from.Store("198.51.100.1")
		b.open(road.URL + "/page?2")
		there()
		settled(t, "it moved", func() (bool, error) {
			n := g.metric("antirobot_captcha_answers_total", `result="moved"`)
			if n == 1 {
				return true, nil
			}
			secure, err := b.ask(`return isSecureContext && !!crypto.subtle`)
			return false, errors.Join(fmt.Errorf("%v moved; secure: %v", n, secure), err)
		})
	})
	step("evidence", func() {
		pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>%s</title><a id="next" href="%[1]sn">on</a>`, r.URL.Path)
		}))
		t.Cleanup(pages.Close)
		g := configured(t, `services: [{name: site, upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}]`, pages.URL)
		b.open(g.url + "/")
		for i := range 3 {
			is("a page", `document.title === "/`+strings.Repeat("n", i)+`"`)
			b.click("#next")
		}
		settled(t, "what its pages say", func() (bool, error) {
			told := g.session("ip:127.0.0.1")
			var wrong []string
			for _, name := range []string{
				"page_inspected", "page_unpressed", "page_astray",
				"order_false", "fetch_false", "fetch_missing", "browser_no_language", "browser_accepts_any", "misfits",
			} {
				if x := told.factor(name); x != "0" {
					wrong = append(wrong, name+" is "+x)
				}
			}
			automation := told.factor("page_automation")
			return automation == "1" && wrong == nil, fmt.Errorf("page_automation is %s, %s", automation, strings.Join(wrong, ", "))
		})
	})
}

// noteSite has a page with a form, and says what it got.
func noteSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == "POST" {
			fmt.Fprintf(w, "<p>got %s", r.FormValue("text"))
			return
		}
		fmt.Fprint(w, `<!doctype html><form method=post action=/post><textarea name=text></textarea><button id=send>Send</button></form>`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
