package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const services = 26

func service(k int) string { return word(2, "service", k) + "-" + word(2, "permit", k%7) }

func steps(k int) int { return 4 + hn(8, "steps", k) }

func govSite(uint64) *Site {
	idx := map[string]int{}
	for k := range services {
		idx[service(k)] = k
	}
	s := &Site{
		Name: "gov", Host: "services.stadt.test", TLS: true, Proto: "HTTP/1.1", Zone: 60, Days: 2,
		Start: date("2025-11-04T00:00:00+01:00"), Home: "/", Items: 340, Lists: 12, Login: "/account/sign-in", Feed: "/news.rss",
	}
	s.Item = func(i int) string {
		if i < services {
			return "/services/" + service(i)
		}
		return fmt.Sprintf("/info/%s-%d", word(3, "info", i), i)
	}
	s.List = func(k, page int) string {
		u := "/topics/" + word(2, "topic", k)
		if page > 1 {
			u += fmt.Sprintf("?page=%d", page)
		}
		return u
	}
	for k := range services {
		s.Terms = append(s.Terms, word(2, "service", k))
	}
	s.Search = func(q string) string { return "/search?query=" + url.QueryEscape(q) }
	s.API = func(i int) string { return fmt.Sprintf("/api/appointments?office=%d&week=%d", i%6, 45+i/6%8) }
	s.serve = func(q *Req) *Resp { return serveGov(s, idx, q) }
	return s
}

func govFrame() []Part {
	return []Part{
		{URL: "/assets/application-8c1f02be.css", Kind: "style"},
		{URL: "/assets/application-40aa91d7.js", Kind: "module"},
		{URL: "/assets/crest-1d2e.svg", Kind: "image"},
	}
}

func govMenu() []Link {
	out := links("nav", 0, 0, "/", "/contact", "/appointments?office=1&week=45", "/status", "/account/sign-in")
	for k := range 6 {
		out = append(out, Link{URL: "/topics/" + word(2, "topic", k), Kind: "list", Pos: 0.4, Pop: 0.4})
	}
	return out
}

func govPage(kind string, words int, h float64) *Resp {
	return &Resp{Type: html, Size: 7000 + words*6, Think: 0.09, Kind: kind, Words: words, Height: h, Parts: govFrame(), Links: govMenu()}
}

func serveGov(s *Site, idx map[string]int, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/":
		r := govPage("home", 180, 2.5)
		for j := range 8 {
			r.Links = append(r.Links, Link{URL: s.Item(hn(services, "top", j)), Kind: "item", Pos: 0.7 + float64(j)*0.1, Pop: 0.6})
		}
		return r
	case strings.HasPrefix(p, "/topics/"), p == "/search":
		page := max(1, num(q.Q.Get("page")))
		if page > 4 {
			return notFound(q)
		}
		r := govPage("list", 220, 3)
		for j := range 12 {
			i := hn(s.Items, p, q.Q.Get("query"), page, j)
			if j < 2 && page == 1 {
				i = hn(services, p, q.Q.Get("query"), j)
			}
			r.Links = append(r.Links, Link{URL: s.Item(i), Kind: "item", Pos: 0.6 + float64(j)*0.2, Pop: hf("pop", i)})
		}
		if page < 4 {
			r.Links = append(r.Links, Link{URL: fmt.Sprintf("%s?page=%d&query=%s", p, page+1, url.QueryEscape(q.Q.Get("query"))), Kind: "next", Pos: 3})
		}
		return r
	case strings.HasPrefix(p, "/info/"), strings.HasPrefix(p, "/services/"):
		return govInfo(s, idx, q)
	case strings.HasPrefix(p, "/apply/"):
		return govApply(idx, q)
	case strings.HasPrefix(p, "/desk"):
		return govDesk(q)
	}
	return govOther(s, q)
}

func govInfo(s *Site, idx map[string]int, q *Req) *Resp {
	p := q.Path
	if f, ok := cut(p, "/services/"); ok {
		k, known := idx[f]
		if !known {
			return notFound(q)
		}
		r := govPage("item", 350+hn(500, f), 4)
		r.Links = append(r.Links, Link{URL: "/apply/" + f + "/start", Kind: "formstart", Pos: 1.2, Pop: 2})
		r.Links = append(r.Links, Link{URL: fmt.Sprintf("/documents/%s.pdf", f), Kind: "pdf", Pos: 2.5, Pop: 0.3})
		for j := range 4 {
			r.Links = append(r.Links, Link{URL: s.Item(services + hn(s.Items-services, "more", k, j)), Kind: "related", Pos: 3, Pop: 0.3})
		}
		return r
	}
	i := num(p[strings.LastIndex(p, "-")+1:])
	if i < services || i >= s.Items || s.Item(i) != p {
		return notFound(q)
	}
	r := govPage("item", 300+hn(1100, "w", i), 3+4*hf("h", i))
	r.MaxAge, r.Tag = 60, "i1"
	for j := range 5 {
		r.Links = append(r.Links, Link{URL: s.Item(hn(s.Items, "see", i, j)), Kind: "related", Pos: 1 + float64(j), Pop: 0.3})
	}
	return r
}

// govApply is a form of many steps in a session that ends when nobody types.
func govApply(idx map[string]int, q *Req) *Resp {
	f := strings.Split(strings.TrimPrefix(q.Path, "/apply/"), "/")
	k, ok := idx[f[0]]
	if !ok || len(f) < 2 {
		return notFound(q)
	}
	base := "/apply/" + f[0]
	now := int(q.At / second)
	form := func(kind string, words int, to string) *Resp {
		r := govPage(kind, words, 1.6)
		r.MaxAge = -1
		r.Links = append(links("formback", 0, 0, base+"/start"), Link{URL: to, Kind: "form", Pos: 1})
		r.Polls = []Poll{{URL: "/session/keep-alive", Method: "POST", Kind: "fetch", Every: 240, Max: 5}}
		return r
	}
	if f[1] != "start" && f[1] != "done" && q.S["apply"] != 0 && now-q.S["apply"] > 1500 {
		q.S["apply"] = 0
		return redirect(302, "/session-ended")
	}
	switch {
	case f[1] == "start":
		if q.Method == "POST" {
			q.S["apply"] = now
			return redirect(303, base+"/step/1")
		}
		return form("start", 260, base+"/start")
	case f[1] == "done":
		r := govPage("done", 120, 1)
		r.MaxAge = -1
		return r
	case q.S["apply"] == 0 && q.Kind != "warm":
		return redirect(302, base+"/start")
	case f[1] == "check":
		if q.Method == "POST" {
			q.S["apply"] = 0
			r := redirect(303, base+"/done")
			r.Think = 0.8
			return r
		}
		return form("check", 240, base+"/check")
	case f[1] == "step" && len(f) > 2:
		return govStep(q, base, num(f[2]), steps(k), form)
	}
	return notFound(q)
}

// govStep answers the i-th of n steps of a form.
func govStep(q *Req, base string, i, n int, form func(kind string, words int, to string) *Resp) *Resp {
	if i < 1 || i > n {
		return notFound(q)
	}
	q.S["apply"] = int(q.At / second)
	if q.Method != "POST" {
		return form("step", 40+hn(160, q.Path), q.Path)
	}
	if hf("error", q.URL, q.At) < 0.13 {
		r := form("step", 130, q.Path)
		r.Status, r.Kind = 422, "error"
		return r
	}
	if i == n {
		return redirect(303, base+"/check")
	}
	return redirect(303, fmt.Sprintf("%s/step/%d", base, i+1))
}

// govDesk is what the clerks work with.
func govDesk(q *Req) *Resp {
	if q.S["clerk"] == 0 {
		return redirect(302, "/account/sign-in?next="+url.QueryEscape(q.Path))
	}
	p := q.Path
	page := func(kind string, words int) *Resp {
		r := govPage(kind, words, 2)
		r.MaxAge, r.Think = -1, 0.18
		r.Parts = append(govFrame(), Part{URL: "/assets/desk-77b01c3e.js", Kind: "module"})
		r.Links = links("nav", 0, 0, "/desk", "/desk/search", "/desk/calendar")
		r.Polls = []Poll{{URL: "/desk/api/queue", Kind: "fetch", Every: 60, Hidden: true}}
		return r
	}
	switch {
	case p == "/desk/api/queue":
		return data(240)
	case strings.HasPrefix(p, "/desk/api/"):
		return data(500 + hn(3000, q.URL))
	case p == "/desk/next":
		return redirect(302, fmt.Sprintf("/desk/case/%d", 70000+hn(9000, "next", q.At)))
	case q.Method == "POST":
		f := strings.Split(p, "/")
		if len(f) > 3 {
			if strings.HasSuffix(p, "/decide") {
				return redirect(303, "/desk")
			}
			return redirect(303, "/desk/case/"+f[3])
		}
		return redirect(303, "/desk")
	case strings.HasPrefix(p, "/desk/case/"):
		id := strings.Split(p, "/")[3]
		r := page("case", 260)
		r.Parts = append(r.Parts, Part{URL: "/desk/api/history/" + id, Kind: "json", After: 0.2, Script: true})
		for _, t := range []string{"documents", "payments", "letters"} {
			r.Links = append(r.Links, Link{URL: "/desk/case/" + id + "/" + t, Kind: "tab", Pos: 0.3, Pop: 0.5})
		}
		r.Links = append(r.Links, Link{URL: "/desk/file/" + id + ".pdf", Kind: "pdf", Pos: 0.6, Pop: 0.5})
		return r
	case strings.HasPrefix(p, "/desk/file/"):
		return &Resp{Type: "application/pdf", Size: 90000 + hn(900000, p), MaxAge: -1, Think: 0.2, Kind: "pdf", Words: 250, Height: 3}
	case p == "/desk/search", p == "/desk", p == "/desk/calendar":
		r := page("deskboard", 140)
		for j := range 10 {
			r.Links = append(r.Links, Link{URL: fmt.Sprintf("/desk/case/%d", 70000+hn(9000, q.URL, q.At/(5*minute), j)), Kind: "case", Pos: 0.4 + float64(j)*0.12, Pop: 0.3})
		}
		return r
	}
	return notFound(q)
}

func govOther(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/account/sign-in":
		if q.Method == "POST" && q.S["may"] == 1 {
			q.S["clerk"] = 1
			return redirect(303, "/desk")
		}
		r := govPage("signin", 60, 1)
		r.MaxAge = -1
		if q.Method == "POST" {
			r.Status, r.Think = 401, 0.4
		}
		return r
	case p == "/appointments":
		r := govPage("calendar", 80, 1.5)
		r.MaxAge = -1
		w := max(45, num(q.Q.Get("week")))
		r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/api/appointments?office=%s&week=%d", q.Q.Get("office"), w), Kind: "fetch", After: 0.2, Script: true})
		r.Links = append(r.Links, links("week", 0.7, 0.05, fmt.Sprintf("/appointments?office=%s&week=%d", q.Q.Get("office"), w+1), fmt.Sprintf("/appointments?office=%d&week=%d", 1+hn(6, w), w))...)
		return r
	case p == "/status":
		r := govPage("status", 70, 1)
		r.MaxAge = -1
		return r
	case p == "/contact", p == "/session-ended":
		return govPage("text", 160, 1.4)
	case strings.HasPrefix(p, "/documents/"):
		return &Resp{Type: "application/pdf", Size: 60000 + hn(400000, p), MaxAge: 3600, Tag: "d1", Think: 0.02, Kind: "pdf", Words: 500, Height: 4}
	case p == "/session/keep-alive":
		return empty()
	case p == "/api/upload":
		return &Resp{Status: 201, Type: js, Size: 90, MaxAge: -1, Think: 1.4}
	case strings.HasPrefix(p, "/api/"):
		return data(200 + hn(1800, q.URL))
	case strings.HasSuffix(p, ".css"):
		r := static(css, 26000, 31536000, true)
		r.Parts = []Part{{URL: "/assets/atkinson-regular-2b.woff2", Kind: "font"}, {URL: "/assets/atkinson-bold-9c.woff2", Kind: "font"}}
		return r
	case strings.HasPrefix(p, "/assets/") && strings.HasSuffix(p, ".js"):
		return static(jsc, 22000, 31536000, true)
	case strings.HasSuffix(p, ".woff2"):
		return static(woff, 21000, 31536000, true)
	case strings.HasPrefix(p, "/assets/"):
		return static(svg, 3100, 31536000, true)
	case p == "/favicon.ico":
		return static(ico, 2200, 86400, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 160}
	case p == "/sitemap.xml", p == s.Feed:
		return &Resp{Type: xml, Size: 22000}
	}
	return nil
}
