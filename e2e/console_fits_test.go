package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

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
