package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

// siteOfPeople is a gateway with all defaults, before pages that have a style sheet, a script and two pictures each.
type siteOfPeople struct {
	t  *testing.T
	g  *Gateway
	at time.Time
}

// visitorOf is a client with the fields of a navigation, in the order in which they are sent.
type visitorOf struct {
	s       *siteOfPeople
	addr    string
	fields  []string // names and values, with the Accept of a navigation
	cookies bool     // it keeps them
	cached  bool     // it has the subresources of the site
	ja4     string
	cookie  string
	at      string // the page that it is on
	banned  string // why it was first banned
}

const (
	chromeAgent  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	firefoxAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	safariAgent  = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"
	acceptsHTML  = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	browserHello = "t13d1517h2_8daaf6152771_cb7bf5808d99"
	opensslHello = "t13d301000_e8f1e7e78f70_375ca2c5e164" // as a company's proxy makes it that opens TLS
)

var (
	chromeFields = []string{
		"sec-ch-ua", `"Chromium";v="140", "Google Chrome";v="140"`, "sec-ch-ua-mobile", "?0", "sec-ch-ua-platform", `"Windows"`,
		"Upgrade-Insecure-Requests", "1", "User-Agent", chromeAgent, "Accept", acceptsHTML, "Sec-Fetch-Site", "", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-User", "?1", "Sec-Fetch-Dest", "document", "Referer", "", "Accept-Encoding", "gzip, deflate, br", "Accept-Language", "en-GB,en;q=0.9",
	}
	firefoxFields = []string{
		"User-Agent", firefoxAgent, "Accept", acceptsHTML, "Accept-Language", "en-US,en;q=0.5", "Accept-Encoding", "gzip, deflate, br", "Referer", "",
		"Upgrade-Insecure-Requests", "1", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "", "Sec-Fetch-User", "?1",
	}
	safariFields = []string{
		"Sec-Fetch-Dest", "document", "User-Agent", safariAgent, "Accept", acceptsHTML, "Referer", "", "Sec-Fetch-Site", "", "Sec-Fetch-Mode", "navigate",
		"Accept-Language", "en-GB,en;q=0.9", "Accept-Encoding", "gzip, deflate, br",
	}
)

// without returns fields but for some.
func without(fields []string, names ...string) (left []string) {
	for i := 0; i < len(fields); i += 2 {
		if gone := strings.Join(names, " ") + " "; !strings.Contains(gone, fields[i]+" ") {
			left = append(left, fields[i], fields[i+1])
		}
	}
	return left
}

// as returns fields with other values.
func as(fields []string, change ...string) []string {
	left := append([]string(nil), fields...)
	for i := 0; i < len(left); i += 2 {
		for k := 0; k < len(change); k += 2 {
			if left[i] == change[k] {
				left[i+1] = change[k+1]
			}
		}
	}
	return left
}

// newSiteOfPeople is a site that thirty people in as many networks have just read.
func newSiteOfPeople(t *testing.T) *siteOfPeople {
	t.Helper()
	s := &siteOfPeople{t: t, g: lone(t, nil), at: day0}
	for n := range 30 {
		v := s.visitor(fmt.Sprintf("198.18.%d.7", n), [][]string{chromeFields, firefoxFields, safariFields}[n%3])
		for page := range 10 {
			v.follow(fmt.Sprintf("/page/%d", page+n), 20*time.Second)
		}
	}
	return s
}

func (s *siteOfPeople) visitor(addr string, fields []string) *visitorOf {
	return &visitorOf{s: s, addr: addr, fields: fields, cookies: true, ja4: browserHello}
}

// ask makes one request, and keeps why it is banned.
func (v *visitorOf) ask(path, from, accept, mode, dest, kind string, more ...string) {
	q := request.View{
		Peer: netip.MustParseAddr(v.addr), At: v.s.at, TLS: true, Method: []byte("GET"), Host: []byte("site.example"), HostPort: []byte("site.example"),
		Path: []byte(path), Target: []byte(path), JA4: []byte(v.ja4),
	}
	if i := strings.IndexByte(path, '?'); i >= 0 {
		q.Path, q.Query = []byte(path[:i]), []byte(path[i+1:])
	}
	add := func(name, value string) {
		if value != "" {
			q.Fields = append(q.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
		}
	}
	add("Host", "site.example")
	for i := 0; i < len(v.fields); i += 2 {
		name, value := v.fields[i], v.fields[i+1]
		switch name {
		case "Accept":
			value = accept
		case "Referer":
			if from != "" {
				value = "https://site.example" + from
			}
		case "Sec-Fetch-Site":
			if value = "none"; from != "" {
				value = "same-origin"
			}
		case "Sec-Fetch-Mode":
			value = mode
		case "Sec-Fetch-Dest":
			value = dest
		case "Sec-Fetch-User", "Upgrade-Insecure-Requests":
			if mode != "navigate" {
				continue
			}
		}
		add(name, value)
	}
	for i := 0; i < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	if v.cookies && v.cookie != "" {
		add("Cookie", v.cookie)
	}
	answer := Response{Status: 200, Bytes: 20_000, ContentType: []byte(kind)}
	got := v.s.g.Serve(&q, &answer)
	if len(got.SetCookie) > 0 {
		value, _, _ := bytes.Cut(got.SetCookie, []byte{';'})
		v.cookie = string(value)
	}
	if d := got.Decision; v.banned == "" && (d.Cause == verdict.CauseBan || d.Excused.Kind != 0) {
		v.banned = fmt.Sprintf("at %s: %s %+v", path, d.Ban.Reason, d.Ban.Factors)
	}
}

// load opens a page, with the subresources that its browser does not have, some time after the last one.
func (v *visitorOf) load(path, from string, after time.Duration) {
	v.s.at = v.s.at.Add(after)
	v.ask(path, from, acceptsHTML, "navigate", "document", "text/html")
	if v.at = path; v.cached {
		return
	}
	for _, part := range [...][3]string{{"/site.css", "style", "text/css"}, {"/site.js", "script", "text/javascript"}, {"/a.png", "image", "image/png"}, {"/b.png", "image", "image/png"}} {
		v.ask(part[0], path, "*/*", "no-cors", part[1], part[2])
	}
}

// follow opens a page by a link of the page that it is on.
func (v *visitorOf) follow(path string, after time.Duration) { v.load(path, v.at, after) }

// TestPeopleAreNeverBanned: whoever reads in an unusual way, with an unusual browser or from an unusual place is not banned.
func TestPeopleAreNeverBanned(t *testing.T) {
	for name, visit := range map[string]func(s *siteOfPeople) []*visitorOf{
		"leafs through numbered records": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.1", chromeFields)
			for n := range 120 {
				v.load(fmt.Sprintf("/record/%d", 5000+n), "", 8*time.Second)
			}
			return []*visitorOf{v}
		},
		"follows links through numbered records": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.2", firefoxFields)
			for n := range 120 {
				v.follow(fmt.Sprintf("/record/%d", 5000+n), 8*time.Second)
			}
			return []*visitorOf{v}
		},
		"goes back and forth between records": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.3", safariFields)
			for n := range 60 {
				v.follow("/records", 25*time.Second)
				v.follow(fmt.Sprintf("/record/%d", n), 25*time.Second)
			}
			return []*visitorOf{v}
		},
		"clicks through monthly statements": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.4", chromeFields)
			for n := range 72 {
				v.load(fmt.Sprintf("/statements?year=%d&month=%d", 2020+n/12, n%12+1), "/statements", 4*time.Second)
			}
			return []*visitorOf{v}
		},
		"reads text with a warm cache": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.5", firefoxFields)
			v.cached = true
			for n := range 120 {
				v.follow(fmt.Sprintf("/text/%d", n), 15*time.Second)
			}
			return []*visitorOf{v}
		},
		"has a warm cache and keeps no cookies": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.6", firefoxFields)
			v.cached, v.cookies = true, false
			for n := range 80 {
				v.follow(fmt.Sprintf("/text/%d", n), 15*time.Second)
			}
			return []*visitorOf{v}
		},
		"has an extension that loads links ahead": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.7", chromeFields)
			for n := range 20 {
				v.follow(fmt.Sprintf("/page/%d", n), 30*time.Second)
				for link := range 10 {
					v.ask(fmt.Sprintf("/page/%d", 1000+10*n+link), v.at, "*/*", "cors", "empty", "text/html")
					v.ask(fmt.Sprintf("/page/%d", 3000+10*n+link), v.at, "*/*", "no-cors", "empty", "text/html", "Sec-Purpose", "prefetch")
				}
			}
			return []*visitorOf{v}
		},
		"restores fifty tabs": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.8", chromeFields)
			v.cached = true
			for n := range 50 {
				v.load(fmt.Sprintf("/page/%d", n), "", 100*time.Millisecond)
			}
			return []*visitorOf{v}
		},
		"opens forty tabs from one page": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.9", chromeFields)
			v.follow("/list", 0)
			for n := range 40 {
				v.load(fmt.Sprintf("/page/%d", n), "/list", 300*time.Millisecond)
			}
			return []*visitorOf{v}
		},
		"three families and a television behind one address": func(s *siteOfPeople) (all []*visitorOf) {
			tv := "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36"
			for _, f := range [][]string{chromeFields, chromeFields, firefoxFields, safariFields, firefoxFields, safariFields, without(as(chromeFields, "User-Agent", tv), "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform")} {
				all = append(all, s.visitor("203.0.113.10", f))
			}
			all[6].cookies = false
			for n := range 60 {
				for _, v := range all {
					v.follow(fmt.Sprintf("/page/%d", n), 3*time.Second)
				}
			}
			return all
		},
		"Tor without scripts": func(s *siteOfPeople) (all []*visitorOf) {
			for range 6 {
				v := s.visitor("203.0.113.11", firefoxFields) // one exit
				v.cached = true
				all = append(all, v)
			}
			for n := range 20 {
				for _, v := range all {
					v.follow(fmt.Sprintf("/page/%d", n), 9*time.Second)
				}
			}
			return all
		},
		"an e-ink reader": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.12", []string{
				"User-Agent", "Mozilla/5.0 (X11; U; Linux armv7l like Android; en-us) AppleWebKit/531.2+ (KHTML, like Gecko) Version/5.0 Safari/533.2+ Kindle/3.0+",
				"Accept", acceptsHTML, "Accept-Language", "en", "Referer", "",
			})
			for n := range 60 {
				v.follow(fmt.Sprintf("/text/%d", n), 40*time.Second)
			}
			return []*visitorOf{v}
		},
		"a company whose proxy opens TLS and strips fields": func(s *siteOfPeople) (all []*visitorOf) {
			for _, via := range []string{"1.1 proxy", ""} {
				for n := range 15 {
					f := without(chromeFields, "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-User", "Sec-Fetch-Dest", "Accept-Language")
					v := s.visitor("203.0.113.13", append(f, "Via", via))
					v.ja4, v.cached = opensslHello, n%2 == 0
					all = append(all, v)
				}
			}
			for n := range 12 {
				for _, v := range all {
					v.follow(fmt.Sprintf("/page/%d", n), 2*time.Second)
				}
			}
			return all
		},
		"a private relay at night": func(s *siteOfPeople) []*visitorOf {
			v := s.visitor("203.0.113.14", safariFields)
			s.at = s.at.Truncate(24 * time.Hour).Add(27 * time.Hour)
			for n := range 60 {
				v.addr = fmt.Sprintf("203.0.114.%d", n/4)
				v.follow(fmt.Sprintf("/page/%d", n), 25*time.Second)
			}
			return []*visitorOf{v}
		},
		"a flash crowd from a messenger": func(s *siteOfPeople) (all []*visitorOf) {
			for n := range 360 {
				v := s.visitor(fmt.Sprintf("198.51.100.%d", n%40), [][]string{chromeFields, safariFields}[n%2])
				v.load("/post", "", 160*time.Millisecond)
				if n%3 == 0 {
					v.follow("/page/1", 0)
				}
				all = append(all, v)
			}
			return all
		},
		"a page inside an app": func(s *siteOfPeople) []*visitorOf {
			agent := "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UQ1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.0.0 Mobile Safari/537.36"
			v := s.visitor("203.0.113.15", append(without(as(chromeFields, "User-Agent", agent), "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform"), "X-Requested-With", "com.example.news"))
			for n := range 30 {
				v.load(fmt.Sprintf("/page/%d", n), "", 20*time.Second)
			}
			return []*visitorOf{v}
		},
		"on a train": func(s *siteOfPeople) (all []*visitorOf) {
			for n := range 20 {
				all = append(all, s.visitor("203.0.113.16", [][]string{chromeFields, firefoxFields, safariFields}[n%3]))
			}
			for n := range 15 {
				s.at = s.at.Add(3 * time.Minute) // a tunnel, after which all load at once
				for _, v := range all {
					v.load(fmt.Sprintf("/page/%d", n), v.at, 20*time.Millisecond)
					v.load(fmt.Sprintf("/page/%d", n), v.at, 500*time.Millisecond) // and again
				}
			}
			return all
		},
		"an extension that changes the User-Agent": func(s *siteOfPeople) (all []*visitorOf) {
			for n, f := range [][]string{as(chromeFields, "User-Agent", firefoxAgent), as(firefoxFields, "User-Agent", chromeAgent), as(chromeFields, "User-Agent", safariAgent)} {
				v := s.visitor(fmt.Sprintf("203.0.113.%d", 20+n), f)
				for page := range 40 {
					v.follow(fmt.Sprintf("/page/%d", page), 20*time.Second)
				}
				all = append(all, v)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, v := range visit(newSiteOfPeople(t)) {
				if v.banned != "" {
					t.Errorf("%d is banned %s", n, v.banned)
				}
			}
		})
	}
}

// TestRobotsAreProven: these are banned within a few pages, whatever they read.
func TestRobotsAreProven(t *testing.T) {
	library := []string{"User-Agent", chromeAgent, "Accept-Encoding", "gzip, deflate", "Accept", ""}
	for name, robot := range map[string]struct {
		rule   string
		fields []string
		ja4    string
		pages  int
		pause  time.Duration
	}{
		"a browser without a window":        {"headless", as(chromeFields, "User-Agent", strings.Replace(chromeAgent, "Chrome/", "HeadlessChrome/", 1)), "", 4, 20 * time.Second},
		"a library with a browser's name":   {"library_fields", library, "", 6, 20 * time.Second},
		"a library with a browser's fields": {"library_reader", chromeFields, opensslHello, 8, 20 * time.Second},
		"an older library":                  {"missing_fields", []string{"User-Agent", chromeAgent, "Accept", acceptsHTML, "Accept-Language", "en"}, "", 8, 20 * time.Second},
		"a machine's pace":                  {"pace", chromeFields, "", 80, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteOfPeople(t)
			v := s.visitor("203.0.113.50", robot.fields)
			v.cached, v.cookies, v.ja4 = true, false, cmp.Or(robot.ja4, browserHello)
			for n := range robot.pages {
				if len(robot.fields) == len(library) && robot.rule == "library_fields" {
					s.at = s.at.Add(robot.pause)
					v.ask(fmt.Sprintf("/page/%d", n), "", "*/*", "", "", "text/html")
					continue
				}
				v.load(fmt.Sprintf("/page/%d", n), "", robot.pause)
			}
			if !strings.Contains(v.banned, "proof: "+robot.rule+" ") {
				t.Errorf("banned %s; want %s", v.banned, robot.rule)
			}
		})
	}
}
