package sim

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

var jobWords = strings.Fields("driver nurse accountant electrician developer cook teacher welder cleaner clerk engineer designer plumber cashier analyst mechanic carer lawyer baker warehouse")

func date(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

func jobURL(i int) string {
	return fmt.Sprintf("/job/%d-%s-%s", 410000+i, jobWords[hn(len(jobWords), "job", i)], word(3, "town", i%90))
}

func jobsSite(uint64) *Site {
	s := &Site{
		Name: "jobs", Host: "www.workfinder.test", TLS: true, Proto: "HTTP/2.0", Zone: 60, Days: 2,
		Start: date("2025-10-14T00:00:00+01:00"), Home: "/", Items: 6200, Rate: 9, Item: jobURL, Lists: 40,
		Terms: jobWords, Login: "/login", Feed: "/feed/jobs.rss",
	}
	s.List = func(k, page int) string {
		u := fmt.Sprintf("/jobs?cat=%d", k)
		if page > 1 {
			u += fmt.Sprintf("&page=%d", page)
		}
		return u
	}
	s.Search = func(q string) string { return "/jobs?q=" + url.QueryEscape(q) + "&loc=" }
	s.Suggest = func(q string) string { return "/api/suggest?q=" + url.QueryEscape(q) }
	s.serve = func(q *Req) *Resp { return serveJobs(s, q) }
	return s
}

func jobsFrame() []Part {
	return []Part{
		{URL: "/static/css/main.7f3a91c2.css", Kind: "style"},
		{URL: "/static/js/app.c41d88e0.js", Kind: "script"},
		{URL: "/static/img/logo.svg", Kind: "image"},
		{URL: "/t/v", Kind: "beacon", After: 0.9, Track: true, Script: true},
	}
}

func jobsMenu() []Link {
	out := links("nav", 0, 0, "/", "/companies", "/advice", "/login")
	return append(out, links("list", 0.2, 0.02, "/jobs?cat=0", "/jobs?cat=1", "/jobs?cat=2", "/jobs?cat=5")...)
}

func serveJobs(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/":
		r := &Resp{Type: html, Size: 14200, Kind: "home", Words: 260, Height: 4, Parts: jobsFrame(), Links: jobsMenu(), Think: 0.05}
		for k := range 16 {
			r.Links = append(r.Links, Link{URL: s.List(k, 1), Kind: "list", Pos: 0.6 + float64(k/4)*0.15, Pop: 1 - float64(k)/20})
		}
		n := s.count(q.At)
		for j := range 10 {
			r.job(s, n-1-j*3, 1.4+float64(j)*0.2)
		}
		return r
	case p == "/jobs":
		return jobsList(s, q)
	case p == "/companies" || p == "/advice":
		return &Resp{Type: html, Size: 9000, Kind: "text", Words: 500, Height: 4, Parts: jobsFrame(), Links: jobsMenu()}
	case strings.HasPrefix(p, "/company/"):
		r := &Resp{Type: html, Size: 9900, Kind: "company", Words: 300, Height: 3, Parts: jobsFrame(), Links: jobsMenu()}
		for j := range 8 {
			r.job(s, hn(s.Items, p, j), 1+float64(j)*0.2)
		}
		return r
	case strings.HasPrefix(p, "/job/"):
		return jobsItem(s, q)
	}
	return jobsOther(s, q)
}

func (r *Resp) job(s *Site, i int, pos float64) {
	r.Links = append(r.Links, Link{URL: jobURL(i), Kind: "item", Pos: pos, Pop: hf("pop", i) * hf("pop2", i)})
	r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/logos/%d.png", hn(480, "co", i)), Kind: "image", Pos: pos})
}

func jobsList(s *Site, q *Req) *Resp {
	cat, word, page := q.Q.Get("cat"), q.Q.Get("q"), max(1, num(q.Q.Get("page")))
	r := &Resp{Type: html, Size: 21000 + hn(3000, q.URL), Kind: "list", Words: 420, Height: 6, Parts: jobsFrame(), Links: jobsMenu(), Think: 0.12}
	if page > 60 {
		return notFound(q)
	}
	n := s.count(q.At)
	total := 20
	if word != "" && hf("few", word) < 0.3 {
		total = 4 + hn(14, word)
	}
	step := 1 + hn(30, "step", cat, word)
	for j := range total {
		i := ((n-1)/step-(page-1)*20-j-1)*step + hn(step, "o", cat, word, q.Q.Get("type"), q.Q.Get("sort"))
		if i < 0 {
			break
		}
		r.job(s, i, 0.7+float64(j)*0.26)
	}
	base := "/jobs?"
	if cat != "" {
		base += "cat=" + cat
	} else {
		base += "q=" + url.QueryEscape(word) + "&loc=" + q.Q.Get("loc")
	}
	r.Links = append(r.Links, links("filter", 0.5, 0.1, base+"&type=full", base+"&type=part", base+"&sort=date", base+"&sort=salary", base+"&remote=1")...)
	if total == 20 {
		r.Links = append(r.Links, Link{URL: fmt.Sprintf("%s&page=%d", base, page+1), Kind: "next", Pos: 5.8, Pop: 1})
	}
	r.Polls = []Poll{{URL: "/api/new-count?since=" + itoa(n), Kind: "json", Every: 60, Max: 40}}
	return r
}

func jobsItem(s *Site, q *Req) *Resp {
	id := num(strings.SplitN(strings.TrimPrefix(q.Path, "/job/"), "-", 2)[0]) - 410000
	if id < 0 || id >= s.count(q.At) {
		return notFound(q)
	}
	own := jobURL(id)
	switch {
	case strings.HasSuffix(q.Path, "/apply/done"):
		return &Resp{Type: html, Size: 5200, Kind: "done", Words: 60, Height: 1, MaxAge: -1, Parts: jobsFrame(), Links: jobsMenu()}
	case strings.HasSuffix(q.Path, "/apply") && q.Method == "POST":
		if q.S["login"] == 0 && hf("valid", q.URL, q.At) < 0.2 {
			return &Resp{Status: 422, Type: html, Size: 12400, Kind: "form", Words: 130, Height: 2, MaxAge: -1, Think: 0.2, Parts: jobsFrame()}
		}
		return redirect(303, own+"/apply/done")
	case strings.HasSuffix(q.Path, "/apply"):
		return &Resp{Type: html, Size: 11800, Kind: "form", Words: 120, Height: 2, MaxAge: -1, Parts: jobsFrame(), Links: links("form", 1.8, 0, own+"/apply")}
	case q.Path != own:
		return redirect(301, own)
	case hf("gone", id) < 0.03:
		return &Resp{Status: 410, Type: html, Size: 6400, Kind: "missing", Words: 60, Height: 1, Parts: jobsFrame(), Links: jobsMenu()}
	}
	r := &Resp{Type: html, Size: 12000 + hn(9000, id), Kind: "item", Words: 250 + hn(600, "w", id), Height: 3 + 3*hf("h", id), Parts: jobsFrame(), Links: jobsMenu()}
	co := hn(480, "co", id)
	r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/logos/%d.png", co), Kind: "image"})
	r.Links = append(r.Links, Link{URL: fmt.Sprintf("/company/%s-%d", word(2, "co", co), co), Kind: "nav", Pos: 0.6}, Link{URL: own + "/apply", Kind: "formlink", Pos: 0.8})
	for j := range 6 {
		i := hn(s.Items, "sim", id, j)
		r.job(s, i, r.Height-0.8+float64(j)*0.1)
		r.Links[len(r.Links)-1].Kind = "related"
	}
	r.Leave = []Part{{URL: "/t/leave", Track: true}}
	return r
}

func jobsOther(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/login" && q.Method == "POST":
		if q.S["may"] == 1 {
			q.S["login"] = 1
			return redirect(303, "/account")
		}
		return &Resp{Status: 401, Type: html, Size: 5400, Kind: "form", Words: 50, Height: 1, MaxAge: -1, Think: 0.25, Parts: jobsFrame()}
	case p == "/login":
		return &Resp{Type: html, Size: 5100, Kind: "form", Words: 40, Height: 1, MaxAge: -1, Parts: jobsFrame(), Links: links("form", 0.5, 0, "/login")}
	case strings.HasPrefix(p, "/account"), strings.HasPrefix(p, "/employer"):
		if q.S["login"] == 0 {
			return redirect(302, "/login")
		}
		if q.Method == "POST" {
			return redirect(303, p)
		}
		r := &Resp{Type: html, Size: 8800, Kind: "account", Words: 160, Height: 2, MaxAge: -1, Parts: jobsFrame(), Links: jobsMenu()}
		for j := range 8 {
			r.job(s, s.count(q.At)-1-hn(300, "acc", j, q.S["salt"]), 0.8+float64(j)*0.2)
		}
		return r
	case p == "/api/suggest", p == "/api/new-count":
		return data(60 + hn(400, q.URL))
	case p == "/save", p == "/t/v", p == "/t/leave":
		if q.Method != "POST" {
			return &Resp{Status: 405, Type: html, Size: 150}
		}
		return empty()
	case strings.HasPrefix(p, "/static/css/"):
		r := static(css, 18400, 31536000, true)
		r.Parts = []Part{{URL: "/static/fonts/inter.3d0f.woff2", Kind: "font"}}
		return r
	case strings.HasPrefix(p, "/static/js/"):
		return static(jsc, 64000, 31536000, true)
	case strings.HasPrefix(p, "/static/fonts/"):
		return static(woff, 48000, 31536000, true)
	case strings.HasPrefix(p, "/static/img/"):
		return static(svg, 2900, 604800, true)
	case strings.HasPrefix(p, "/logos/"):
		return static(png, 2000+hn(6000, p), 604800, false)
	case p == "/favicon.ico":
		return static(ico, 4286, 604800, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 210}
	case p == "/sitemap.xml", p == s.Feed:
		return &Resp{Type: xml, Size: 48000}
	}
	return nil
}
