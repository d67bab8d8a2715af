package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// languages are the tags of the embedded catalogues.
func languages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "templates", "locales", "*.yaml"))
	if err != nil || len(files) < 12 {
		t.Fatalf("%d catalogues: %v", len(files), err)
	}
	var tags []string
	for _, f := range files {
		tags = append(tags, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return tags
}

func speak(t *testing.T, ctx context.Context, tag string) {
	t.Helper()
	run(t, ctx, "speak "+tag, network.Enable(), network.SetExtraHTTPHeaders(network.Headers{"Accept-Language": tag}))
}

// overflows returns what sticks out of the window, or out of a box that would cut it off.
const overflows = `((root) => {
	const out = [];
	const look = (e) => {
		const r = e.getBoundingClientRect();
		if (r.width > 1 && !e.matches('.unseen, audio') && e.checkVisibility() && (r.right > innerWidth + 1 || r.left < -1 || e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).display !== 'inline'))
			out.push(e.localName + '.' + e.className + ' ' + Math.round(r.left) + '…' + Math.round(r.right) + ' ' + e.scrollWidth + '>' + e.clientWidth + ' ' + e.textContent.slice(0, 40));
		for (const c of e.children) look(c);
	};
	look(root);
	return out.join('; ');
})`

// oneRow says what keeps the three ways beside the digits from being one row of targets of a size, large enough for a thumb, each
// with a name that says all and has what is to be seen in it.
const oneRow = `(() => {
	const all = [...document.querySelectorAll('[data-brief]')], r = all.map((e) => e.getBoundingClientRect()), out = [];
	if (all.length !== 3 || all.some((e) => !e.checkVisibility())) out.push(all.length + ' ways, or one of them is not there');
	if (new Set(r.map((x) => Math.round(x.top))).size !== 1) out.push('several rows');
	if (Math.max(...r.map((x) => x.width)) - Math.min(...r.map((x) => x.width)) > 1) out.push('of several widths ' + r.map((x) => x.width));
	if (r.some((x) => x.width < 44 || x.height < 44)) out.push('too small');
	const seen = (e) => e.dataset.brief || e.textContent;
	for (const e of all) if (e.dataset.brief && (!e.ariaLabel.toLowerCase().includes(seen(e).toLowerCase()) || e.textContent !== e.ariaLabel)) out.push(seen(e) + ' is not in ' + e.ariaLabel);
	const pen = document.createElement('canvas').getContext('2d');
	for (const e of all) for (const word of ['ja', 'zh'].includes(document.documentElement.lang) ? [] : seen(e).split(' ')) {
		pen.font = getComputedStyle(e).font;
		if (pen.measureText(word).width > e.clientWidth - 3) out.push(word + ' is broken');
	}
	return out.join('; ');
})()`

// TestLanguagesFit opens every page and the dialog in every language on the narrowest phone: the language and direction are
// right and nothing overflows, including parts that unfold.
func TestLanguagesFit(t *testing.T) {
	t.Parallel()
	pages := ownPages(t)
	g := configuredFront(t, appSite(t).URL, workSettings)
	ctx := browser(t)
	run(t, ctx, "a narrow phone", chromedp.EmulateViewport(320, 640))
	for _, tag := range languages(t) {
		speak(t, ctx, tag)
		dir := map[bool]string{true: "rtl", false: "ltr"}[tag == "ar" || tag == "fa"]
		for _, p := range pages {
			if p.on != nil {
				p.on(t, ctx)
			} else {
				p.open(t, ctx)
			}
			run(t, ctx, "unfold", chromedp.Evaluate(`document.querySelectorAll('details').forEach((d) => { d.open = true; })`, nil))
			if got := value[string](t, ctx, `document.documentElement.lang + ' ' + getComputedStyle(document.body).direction`); got != tag+" "+dir {
				t.Errorf("%s in %s: speaks %s", p.name, tag, got)
			}
			screen(t, ctx, "languages/"+p.name+"-"+tag)
			if p.name == "captcha" {
				if off := value[string](t, ctx, oneRow); off != "" {
					t.Errorf("sound, another picture and work in %s: %s", tag, off)
				}
				// all that the work can say, at once
				run(t, ctx, "say it", chromedp.Evaluate(`(() => { const d = document.getElementById('work').dataset; document.querySelector('#work [role=status]').textContent = [d.running, d.half, d.checking, d.stopped, d.failed, d.limited].join(' '); })()`, nil))
			}
			if p.name == "wrong" { // the browser moves the focus once the page is there
				eventually(t, "wrong in "+tag+": the focus on the field", func() bool { return value[bool](t, ctx, `document.activeElement.name === 'rep'`) })
			}
			if out := value[string](t, ctx, overflows+`(document.body)`); out != "" || value[bool](t, ctx, `document.documentElement.scrollWidth > 320`) {
				t.Errorf("%s in %s: sticks out: %s", p.name, tag, out)
			}
		}
		a := openApp(t, ctx, g.url+"/app?lang="+tag, "")
		g.ban("ip:127.0.0.1", "1h")
		a.eval(`keep('r', robot.fetch('/api/list')); true`, nil)
		a.asked()
		a.typed("000000\r")
		a.until(dialog + `.querySelector('[aria-invalid=true]')`)
		a.asked()
		a.eval(`(`+dialog+`).querySelector('details').open = true`, nil)
		if got := value[string](t, ctx, `(() => { const d = `+dialog+`.querySelector('dialog'); return d.lang + ' ' + getComputedStyle(d).direction; })()`); got != tag+" "+dir {
			t.Errorf("the dialog in %s speaks %s", tag, got)
		}
		if out := value[string](t, ctx, overflows+`(`+dialog+`.querySelector('dialog'))`); out != "" {
			t.Errorf("the dialog in %s: sticks out: %s", tag, out)
		}
		viewport(t, ctx, "languages/dialog-"+tag)
		run(t, ctx, "leave", chromedp.Navigate("about:blank"))
		g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	}
}

// viewport is screen for what overlays the page: only the visible part of the window.
func viewport(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if os.Getenv("SCREENS") == "" {
		return
	}
	var png []byte
	run(t, ctx, "screen "+name, chromedp.CaptureScreenshot(&png))
	saveScreen(t, name, png)
}

// TestScreens writes a picture of each page in each form to the folder that SCREENS names, and checks that each is
// there: a heading, a language, no sideways scrolling on a phone.
func TestScreens(t *testing.T) {
	t.Parallel()
	pages := ownPages(t)
	fitted := len(pages)
	brand := t.TempDir()
	shop := start(t, "serve", "--config", brandConfig(t, site(t).URL, brand), "--captcha-test-answer", testAnswer)
	shop.ban("ip:127.0.0.1", "1h")
	pages = append(pages, ownPage{name: "branded", open: navigate(shop.url+"/", field)})
	demo := start(t, "demo", "--traffic", "0", "--captcha-test-answer", testAnswer, "--log-level", "info")
	for _, path := range []string{"", "gallery", "guestbook", "list", "live", "search", "play"} {
		pages = append(pages, ownPage{name: "demo-" + map[bool]string{true: "home", false: path}[path == ""], open: navigate(demo.url+"/"+path, "h1")})
	}
	app := configuredFront(t, appSite(t).URL, workSettings)
	pages = append(pages, ownPage{name: "dialog", open: func(t *testing.T, ctx context.Context) {
		app.tryAPI("DELETE", "/api/bans?subject=ip:127.0.0.1", nil) // if there is one
		run(t, ctx, "forget", network.ClearBrowserCookies())
		a := openApp(t, ctx, app.url+"/app?lang="+value[string](t, ctx, `document.documentElement.lang`), "")
		app.ban("ip:127.0.0.1", "1h")
		a.eval(`keep('r', robot.fetch('/api/list')); true`, nil)
		a.asked()
	}})
	ctx := browser(t)
	for _, l := range []struct {
		name          string
		width, height int64
		dark          bool
		lang          string
	}{
		{"desk-light-en", 1100, 800, false, "en"},
		{"desk-dark-ru", 1100, 800, true, "ru"},
		{"phone-light-ru", 320, 640, false, "ru"},
		{"phone-dark-en", 320, 640, true, "en"},
	} {
		run(t, ctx, "size", chromedp.EmulateViewport(l.width, l.height))
		colourScheme(t, ctx, l.dark)
		speak(t, ctx, l.lang)
		for i, p := range pages {
			if l.width == 320 && i < fitted && os.Getenv("SCREENS") == "" {
				continue // TestLanguagesFit looks at it on such a phone in all languages
			}
			p.open(t, ctx)
			got := value[string](t, ctx, `[document.documentElement.lang, document.querySelector('h1').textContent.length > 3, document.documentElement.scrollWidth > document.documentElement.clientWidth].join(' ')`)
			if want := fmt.Sprintf("%s true false", l.lang); got != want && p.name != "dialog" {
				t.Errorf("%s %s: language, heading, scrolls sideways: %s", p.name, l.name, got)
			}
			if p.name == "dialog" {
				viewport(t, ctx, p.name+"-"+l.name)
			} else {
				screen(t, ctx, p.name+"-"+l.name)
			}
		}
	}
}
