package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const (
	wards = 12
	beds  = 28
)

func wardSite(uint64) *Site {
	s := &Site{
		Name: "ward", Host: "kis.klinik.internal", Proto: "HTTP/1.1", Zone: 60, Days: 1, Quiet: true,
		Start: date("2025-11-12T00:00:00+01:00"), Home: "/kis/", Items: wards * beds, Lists: wards, Login: "/kis/login.do",
	}
	s.Item = func(i int) string { return fmt.Sprintf("/kis/patient/%d", 100000+i) }
	s.List = func(k, page int) string {
		if page > 1 {
			return fmt.Sprintf("/kis/ward/%d?page=%d", k, page)
		}
		return fmt.Sprintf("/kis/ward/%d", k)
	}
	for i := range 80 {
		s.Terms = append(s.Terms, word(2, "name", i))
	}
	s.Search = func(q string) string { return "/kis/search?name=" + url.QueryEscape(q) }
	s.API = func(i int) string { return fmt.Sprintf("/kis/api/v1/patient/%d/observations", 100000+i%(wards*beds)) }
	s.serve = func(q *Req) *Resp { return serveWard(s, q) }
	return s
}

// wardPart gives files of an old server: a short lifetime, so they are asked
// for again and again and answered with 304.
func wardPart(typ string, size int) *Resp {
	return &Resp{Type: typ, Size: size, MaxAge: 590, Tag: "w/1", Common: true, Think: 0.004}
}

func wardFrame() []Part {
	return []Part{
		{URL: "/kis/res/base.css", Kind: "style"},
		{URL: "/kis/res/jquery-1.12.4.min.js", Kind: "script"},
		{URL: "/kis/res/kis.js", Kind: "script"},
		{URL: "/kis/res/icons.png", Kind: "image"},
	}
}

func wardPage(q *Req, kind string, words int, h float64) *Resp {
	r := &Resp{Type: "text/html;charset=ISO-8859-1", Size: 5000 + words*9, MaxAge: -1, Think: 0.15, Kind: kind, Words: words, Height: h, Parts: wardFrame()}
	r.Links = links("nav", 0, 0, "/kis/", "/kis/worklist", "/kis/search")
	for k := range wards {
		r.Links = append(r.Links, Link{URL: fmt.Sprintf("/kis/ward/%d", k), Kind: "list", Pos: 0.1, Pop: 0.2})
	}
	return r
}

func serveWard(s *Site, q *Req) *Resp {
	p := q.Path
	now := int(q.At / second)
	switch {
	case strings.HasPrefix(p, "/kis/res/"):
		switch {
		case strings.HasSuffix(p, ".css"):
			return wardPart(css, 31000)
		case strings.HasSuffix(p, ".js"):
			return wardPart(jsc, 96000)
		case strings.HasSuffix(p, ".png"):
			return wardPart(png, 17000)
		}
		return nil
	case p == "/favicon.ico":
		return wardPart(ico, 1406)
	case p == "/":
		return redirect(302, "/kis/")
	case strings.HasPrefix(p, "/board/"):
		return wardBoard(q)
	case strings.HasPrefix(p, "/kis/api/"):
		if q.S["may"] == 0 {
			return &Resp{Status: 401, Type: js, Size: 44, MaxAge: -1}
		}
		return data(700 + hn(5000, q.URL))
	case p == "/kis/login.do":
		if q.Method == "POST" {
			if q.S["may"] == 1 {
				q.S["in"] = now
				return redirect(302, "/kis/")
			}
			r := wardPage(q, "login", 30, 1)
			r.Size, r.Links = 3100, nil
			return r
		}
		r := wardPage(q, "login", 30, 1)
		r.Size, r.Links = 2900, nil
		return r
	case !strings.HasPrefix(p, "/kis/"):
		return nil
	}
	if q.Kind != "warm" && (q.S["in"] == 0 || now-q.S["in"] > 900) && q.S["always"] == 0 {
		q.S["in"] = 0
		return redirect(302, "/kis/login.do")
	}
	if p != "/kis/notify" {
		q.S["in"] = now
	}
	return wardApp(s, q)
}

func wardApp(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/kis/notify":
		return data(29)
	case p == "/kis/":
		r := wardPage(q, "home", 120, 1.2)
		r.Polls = notify()
		return r
	case strings.HasPrefix(p, "/kis/ward/"), p == "/kis/worklist", p == "/kis/search":
		return wardList(s, q)
	case strings.HasPrefix(p, "/kis/patient/"):
		return wardPatient(q)
	case strings.HasPrefix(p, "/kis/print/"):
		return &Resp{Type: "application/pdf", Size: 40000 + hn(90000, p), MaxAge: -1, Think: 0.8, Kind: "pdf", Words: 150, Height: 2}
	case strings.HasPrefix(p, "/kis/ajax/"):
		if q.Method == "POST" {
			return &Resp{Type: js, Size: 15, MaxAge: -1, Think: 0.12}
		}
		return &Resp{Type: "text/html;charset=ISO-8859-1", Size: 1500 + hn(4000, q.URL), MaxAge: -1, Think: 0.1}
	case p == "/kis/logout.do":
		q.S["in"] = 0
		return redirect(302, "/kis/login.do")
	}
	return nil
}

func notify() []Poll {
	return []Poll{{URL: "/kis/notify", Kind: "ajax", Every: 280, Stream: true, Hidden: true}}
}

func wardList(s *Site, q *Req) *Resp {
	p := q.Path
	r := wardPage(q, "list", 240, 2.4)
	n := beds
	if p == "/kis/search" {
		if q.Q.Get("name") == "" {
			r.Kind = "form"
			return r
		}
		n = 1 + hn(6, q.Q.Get("name"))
	}
	if p == "/kis/worklist" {
		n = 18
	}
	k := num(strings.TrimPrefix(p, "/kis/ward/"))
	if k >= wards {
		return notFound(q)
	}
	for j := range n {
		i := k*beds + j
		switch p {
		case "/kis/search":
			i = hn(s.Items, "found", q.Q.Get("name"), j)
		case "/kis/worklist":
			i = hn(s.Items, "work", q.At/(20*minute), j)
		}
		r.Links = append(r.Links, Link{URL: s.Item(i), Kind: "item", Pos: 0.3 + float64(j)*0.07, Pop: 0.3})
	}
	r.Polls = append(notify(), Poll{URL: p + "?refresh=1", Kind: "ajax", Every: 300})
	return r
}

func wardPatient(q *Req) *Resp {
	f := strings.Split(strings.TrimPrefix(q.Path, "/kis/patient/"), "/")
	id := num(f[0])
	if id < 100000 || id >= 100000+wards*beds {
		return notFound(q)
	}
	base := "/kis/patient/" + f[0]
	if q.Method == "POST" {
		r := redirect(302, base)
		r.Think = 0.25
		return r
	}
	if len(f) > 1 && f[1] == "banner" {
		r := wardPage(q, "banner", 20, 0.2)
		r.Size, r.Links = 1800, nil
		r.Parts = []Part{{URL: "/kis/res/base.css", Kind: "style"}}
		return r
	}
	r := wardPage(q, "item", 180+hn(150, q.Path), 2)
	r.Parts = append(r.Parts, Part{URL: base + "/banner", Kind: "iframe"}, Part{URL: "/kis/ajax/alerts?pid=" + f[0], Kind: "ajax", After: 0.2, Script: true})
	for _, t := range []string{"labs", "meds", "notes", "chart", "orders", "images"} {
		r.Links = append(r.Links, Link{URL: base + "/" + t, Kind: "related", Pos: 0.2, Pop: 0.4})
	}
	r.Links = append(r.Links, Link{URL: "/kis/print/" + f[0] + ".pdf", Kind: "print", Pos: 0.2, Pop: 0.1})
	r.Links = append(r.Links, Link{URL: fmt.Sprintf("/kis/patient/%d", min(id+1, 100000+wards*beds-1)), Kind: "next", Pos: 0.1, Pop: 0.3})
	if len(f) > 1 && f[1] == "chart" {
		r.Parts = append(r.Parts, Part{URL: "/kis/res/chart.js", Kind: "script"}, Part{URL: "/kis/ajax/curve?pid=" + f[0], Kind: "ajax", After: 0.3, Script: true})
	}
	r.Polls = notify()
	return r
}

func wardBoard(q *Req) *Resp {
	f := strings.Split(strings.TrimPrefix(q.Path, "/board/"), "/")
	if num(f[0]) >= wards {
		return nil
	}
	if len(f) > 1 {
		return data(1800 + hn(300, f[0], q.At/minute))
	}
	return &Resp{
		Type: "text/html;charset=ISO-8859-1", Size: 6000, MaxAge: -1, Think: 0.1, Kind: "board", Words: 100, Height: 1,
		Parts: []Part{{URL: "/kis/res/board.css", Kind: "style"}, {URL: "/kis/res/board.js", Kind: "script"}},
		Polls: []Poll{{URL: q.Path + "/data", Kind: "ajax", Every: 60 + float64(60*(num(f[0])%3)), Hidden: true}},
	}
}
