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
			}, false)
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
		}, false)
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
				}, part)
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
			}, part)
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
		return c.see(r, part)
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
