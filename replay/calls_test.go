package replay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"antirobot/request"
)

// TestCallsOfScripts: which of the paths that pages lead to, and that lead nowhere, their scripts ask for.
func TestCallsOfScripts(t *testing.T) {
	const list = "/list"
	f := func(name string, every time.Duration, path func(i int) string, want bool) {
		t.Helper()
		var c calls
		at := time.Unix(1.8e9, 0)
		ask := func(path, from string) bool {
			return c.see(&Record{
				At: at, Addr: netip.MustParseAddr("192.0.2.7"), Method: []byte("GET"), Target: []byte(path),
				Fields: []request.Field{{Name: nameReferer, Value: []byte("https://www.site.example" + from)}},
			}, false) == useCall
		}
		got := false
		for i := range 10 * callsLeast {
			if i%20 == 0 {
				ask(list, "/")
			}
			at = at.Add(every)
			got = ask(path(i), list)
		}
		if got != want {
			t.Errorf("%s: a script's call: %v", name, got)
		}
		if ask(list, "/") {
			t.Errorf("%s: the page is a script's call", name)
		}
	}
	f("news that are polled", 30*time.Second, func(int) string { return "/news" }, true)
	f("news of which there are two", 30*time.Second, func(i int) string { return fmt.Sprintf("/news/%c", 'a'+i%2) }, true)
	f("pages that lead nowhere", 30*time.Second, func(i int) string { return fmt.Sprintf("/page/%d", i) }, false)
	f("pages that are opened in haste", time.Second, func(i int) string { return fmt.Sprintf("/page/%d", i) }, false)
}

// TestCallsBesideOnePath: where one path shows all pages, by its query, what their scripts and frames ask for there is told by the names of the
// query's parameters, and a way from page to page is no call.
func TestCallsBesideOnePath(t *testing.T) {
	var c calls
	at := time.Unix(1.8e9, 0)
	ask := func(query, from string, wait time.Duration) bool {
		at = at.Add(wait)
		return c.see(&Record{
			At: at, Addr: netip.MustParseAddr("192.0.2.7"), Method: []byte("GET"), Target: []byte("/index.pl?" + query),
			Fields: []request.Field{{Name: nameReferer, Value: []byte("https://www.site.example/index.pl?" + from)}},
		}, false) == useCall
	}
	var list, ticket, frame, seen, reply bool
	for i := range 10 * callsLeast {
		page := fmt.Sprintf("Action=Ticket;ID=%d", i)
		list = ask(fmt.Sprintf("Action=Queue;Queue=%d;View=S", i%3), fmt.Sprintf("Action=Ticket;ID=%d", i-1), 3*time.Second)
		ticket = ask(page, fmt.Sprintf("Action=Queue;Queue=%d;View=S", i%3), 2*time.Second)
		frame = ask(fmt.Sprintf("Action=Ticket;Part=Text;ID=%d", i), page, time.Second)
		seen = ask("Seen", page, 0)
		if i%3 == 0 {
			reply = ask(fmt.Sprintf("Action=Reply&To=%d", i), page, 20*time.Second)
		}
	}
	if list || ticket || reply || !frame || !seen {
		t.Errorf("a script's call: list %v, ticket %v, reply %v, a frame %v, that it was seen %v", list, ticket, reply, frame, seen)
	}
	c.opened *= 2 * callsAll // by pages of other paths
	if ask("Seen", "Action=Ticket;ID=1", 0) {
		t.Error("one page among others was told from itself by its query")
	}
}

// TestCallsOfScriptsThatWait: what is asked for once somebody has scrolled, or with POST, is a script's call, too, if several visitors ask for it who load parts
// of pages, and come from a page that they have opened. What is opened by who loads no parts, or names a page where it has not been, may be a page.
func TestCallsOfScriptsThatWait(t *testing.T) {
	f := func(name, method string, parts, opens, led, want bool) {
		t.Helper()
		var c calls
		at := time.Unix(1.8e9, 0)
		got := false
		for i := range 10 * callsSure {
			ask := func(method, path, from string, part bool) bool {
				at = at.Add(20 * time.Second)
				return c.see(&Record{
					At: at, Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 250)}), Method: []byte(method), Target: []byte(path),
					Fields: []request.Field{{Name: nameReferer, Value: []byte(from)}},
				}, part) == useCall
			}
			page := fmt.Sprintf("/page/%d", i)
			if opens {
				ask("GET", page, "https://search.example/", false)
			}
			if parts {
				ask("GET", "/site.css", "https://www.site.example"+page, true)
			}
			from := ""
			if led {
				from = "https://www.site.example" + page
			}
			got = ask(method, fmt.Sprintf("/notes/%d", i), from, false)
		}
		if got != want {
			t.Errorf("%s: a script's call: %v", name, got)
		}
	}
	f("what is asked for later", "GET", true, true, true, true)
	f("a beacon", "POST", true, true, true, true)
	f("a page that robots open", "GET", false, true, true, false)
	f("a page that nothing leads to", "GET", true, true, false, false)
	f("a page that is said to be led to", "GET", true, false, true, false)
}

// TestCallsOfAnApplication: what an application asks for that is loaded once, and whose scripts give its pages their addresses, is a script's call, though
// hardly anybody has opened those pages. At a site whose pages people open, they would be pages.
func TestCallsOfAnApplication(t *testing.T) {
	for _, each := range []int{1, 20} { // tickets that are looked at for each page that is loaded
		var c calls
		at := time.Unix(1.8e9, 0)
		ask := func(who int, path, from string, part bool) bool {
			at = at.Add(5 * time.Second)
			return c.see(&Record{
				At: at, Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(who)}), Method: []byte("GET"), Target: []byte(path),
				Fields: []request.Field{{Name: nameReferer, Value: []byte("https://desk.example" + from)}},
			}, part) == useCall
		}
		called := false
		for i := range 400 {
			who, page := i%8, fmt.Sprintf("/app/tickets/%d", i)
			if i/8%each == 0 {
				ask(who, fmt.Sprintf("/app/tickets/%d", 1000+i), "/", false)
				ask(who, "/app.js", "/app/tickets/1000", true)
			}
			called = ask(who, fmt.Sprintf("/api/tickets/%d", i), page, false)
			called = ask(who, fmt.Sprintf("/api/customers/%d", i/3), page, false) && called
		}
		if called != (each > 1) {
			t.Errorf("%d tickets for each page: a script's call: %v", each, called)
		}
	}
}

// TestCallsAmongRobots: who asks for the data of a page without the page does not make it one; a style sheet without an ending is none, though fonts
// come from it; and what one visitor posts from pages, again and again, that nothing comes from, is a script's.
func TestCallsAmongRobots(t *testing.T) {
	var c calls
	at, addr := time.Unix(1.8e9, 0), byte(0)
	ask := func(method, path, from string, part bool) bool {
		r := &Record{At: at, Addr: netip.AddrFrom4([4]byte{192, 0, 2, addr}), Method: []byte(method), Target: []byte(path)}
		if from != "" {
			r.Fields = []request.Field{{Name: nameReferer, Value: []byte("https://www.site.example" + from)}}
		}
		return c.see(r, part) == useCall
	}
	var data, style, posted, page bool
	for i := range 100 {
		addr = byte(i % 7)
		at = at.Add(40 * time.Second)
		page = ask("GET", fmt.Sprintf("/page/%d", i), "/", false)
		style = ask("GET", "/styles.php/boost/all", fmt.Sprintf("/page/%d", i), false)
		ask("GET", "/font.woff2", "/styles.php/boost/all", true)
		data = ask("GET", "/api/list", fmt.Sprintf("/page/%d", i), false)
		for range 3 {
			addr = 200
			ask("GET", "/api/list", "", false)
		}
		addr = 100
		ask("GET", "/site.css", "/desk", true)
		if i%20 == 0 {
			ask("GET", "/desk", "/", false)
		}
		at = at.Add(40 * time.Second)
		posted = ask("POST", fmt.Sprintf("/api/note/%d", i), "/desk", false)
	}
	if !data || !style || !posted || page {
		t.Errorf("what a page's script asks for: data %v, a style sheet %v, notes %v, a page %v", data, style, posted, page)
	}
}

// TestTypesTellWhatWasAskedFor: where the log has the types of answers, a picture without an ending is a part, also where it has not changed since, or is missing; data is
// a script's call if a page is named, or if its visitor loads parts, as whoever hides Referers does; no browser shows a feed, so an extension of it has read it; and what fields say comes first.
func TestTypesTellWhatWasAskedFor(t *testing.T) {
	const picture, data, html = "image/webp", "application/json; charset=utf-8", "text/html"
	var c calls
	at := time.Unix(1.8e9, 0)
	for i, x := range []struct {
		who          byte
		target, from string
		status       uint16
		kind         string
		named        bool
		mode         string
		want         use
	}{
		{1, "/photo/1", "/", 200, picture, false, "", usePart},
		{1, "/photo/1", "/", 304, "", false, "", usePart},
		{1, "/photo/2", "", 200, picture, false, "", usePart},
		{1, "/photo/3", "/", 404, html, false, "", usePart},
		{1, "/missing", "/", 404, html, false, "", useUnsaid},
		{1, "/api/list", "/", 200, data, false, "", useCall},
		{1, "/api/list", "", 200, data, false, "", useCall},
		{1, "/api/list", "", 200, data, false, "navigate", useUnsaid},
		{2, "/api/list", "", 200, data, false, "", useUnsaid},
		{2, "/api/list", "/", 200, data, false, "", useCall},
		{2, "/api/more", "/", 304, "", false, "", useUnsaid},
		{2, "/feed/jobs.rss", "", 200, "", false, "", useCall},
		{2, "/feed/jobs.rss", "", 200, "application/rss+xml", false, "", useCall},
		{2, "/page/1", "/", 200, html, false, "", useUnsaid},
		{2, "/page/2", "/", 304, "", false, "", useUnsaid},
		{2, "/site.css", "/", 200, "text/css", true, "", useUnsaid}, // it is known for one
		{2, "/page.js", "/", 200, html, true, "", useUnsaid},
	} {
		at = at.Add(20 * time.Second)
		r := &Record{
			At: at, Addr: netip.AddrFrom4([4]byte{192, 0, 2, x.who}), Method: []byte("GET"), Target: []byte(x.target),
			Answer: Response{Status: x.status, ContentType: []byte(x.kind)},
		}
		if x.from != "" {
			r.Fields = append(r.Fields, request.Field{Name: nameReferer, Value: []byte("https://www.site.example" + x.from)})
		}
		if x.mode != "" {
			r.Fields = append(r.Fields, request.Field{Name: nameMode, Value: []byte(x.mode)})
		}
		if got := c.see(r, x.named); got != x.want {
			t.Errorf("%d: %s, answered %d %s: it is for %d, want %d", i, x.target, x.status, x.kind, got, x.want)
		}
	}
}
