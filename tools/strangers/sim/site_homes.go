package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const cities = 30

func homesSite(uint64) *Site {
	s := &Site{
		Name: "homes", Host: "www.vierwaende.test", TLS: true, Proto: "HTTP/2.0", Zone: 120, Days: 2,
		Start: date("2025-09-29T00:00:00+02:00"), Home: "/", Items: 14000, Rate: 14, Lists: cities, Login: "/login", Hover: "prefetch",
	}
	s.Item = func(i int) string { return fmt.Sprintf("/ad/%d", 5200000+i) }
	s.List = func(k, page int) string {
		u := "/rent/" + word(2, "city", k)
		if page > 1 {
			u += fmt.Sprintf("?p=%d", page)
		}
		return u
	}
	for k := range cities {
		s.Terms = append(s.Terms, word(2, "city", k))
	}
	s.Search = func(q string) string { return "/rent/" + url.PathEscape(q) + "?from=search" }
	s.Suggest = func(q string) string { return "/ajax/places?q=" + url.QueryEscape(q) }
	s.API = func(i int) string {
		return fmt.Sprintf("/ajax/list?city=%s&p=%d", word(2, "city", i%cities), 1+i/cities%20)
	}
	s.serve = func(q *Req) *Resp { return serveHomes(s, q) }
	return s
}

func homesPage(kind string, words int, h float64) *Resp {
	r := &Resp{Type: html, Size: 12000 + words*8, MaxAge: 0, Think: 0.09, Kind: kind, Words: words, Height: h}
	r.Parts = []Part{
		{URL: "/build/app.9d1c.css", Kind: "style"},
		{URL: "/build/runtime.11ab.js", Kind: "script"},
		{URL: "/build/app.77e0.js", Kind: "script"},
		{URL: "/build/logo.5b.svg", Kind: "image"},
		{URL: "/ajax/inbox", Kind: "fetch", After: 0.4, Script: true},
		{URL: "/px.gif?e=view", Kind: "image", After: 0.5, Track: true, Script: true},
	}
	r.Links = links("nav", 0, 0, "/", "/post", "/favourites", "/map/"+word(2, "city", 0))
	for k := range 8 {
		r.Links = append(r.Links, Link{URL: "/rent/" + word(2, "city", k), Kind: "list", Pos: 0.3, Pop: 0.5 - float64(k)*0.04})
	}
	return r
}

func homePhoto(i, n int, size string) string {
	return fmt.Sprintf("/pic/%d/%d_%s.jpg", 5200000+i, n, size)
}

func photos(i int) int { return 3 + hn(18, "photos", i) }

func (r *Resp) flat(s *Site, i int, pos float64, kind string) {
	if i < 0 {
		return
	}
	r.Links = append(r.Links, Link{URL: s.Item(i), Kind: kind, Pos: pos, Pop: hf("pop", "flat", i) * hf("pop2", "flat", i) * 2})
	r.Parts = append(r.Parts, Part{URL: homePhoto(i, 1, "m"), Kind: "image", Pos: pos})
	if kind == "item" && hf("paid", i) < 0.3 { // paid for: a second picture
		r.Parts = append(r.Parts, Part{URL: homePhoto(i, 2, "s"), Kind: "image", Pos: pos})
	}
}

func serveHomes(s *Site, q *Req) *Resp {
	p := q.Path
	n := s.count(q.At)
	switch {
	case p == "/":
		r := homesPage("home", 140, 3)
		for j := range 8 {
			r.flat(s, n-1-j*2, 1.2+float64(j/4)*0.8, "item")
		}
		return r
	case strings.HasPrefix(p, "/rent/"):
		return homesList(s, q, n)
	case strings.HasPrefix(p, "/map/"):
		city := p[5:]
		r := homesPage("map", 60, 1)
		r.MaxAge = -1
		r.Parts = append(r.Parts, Part{URL: "/build/map.e0.js", Kind: "script"}, Part{URL: "/ajax/pins?city=" + city + "&z=12", Kind: "fetch", After: 0.5, Script: true})
		for k := range 12 {
			r.Parts = append(r.Parts, Part{URL: tile(12, 2200+hn(50, city)+k%4, 1300+k/4), Kind: "image", After: 0.4, Script: true})
		}
		for j := range 20 {
			r.Links = append(r.Links, Link{URL: s.Item(n - 1 - hn(3000, city, j)), Kind: "item", Pos: 0.5, Pop: 0.4})
		}
		return r
	case strings.HasPrefix(p, "/ad/"):
		return homesAd(s, q, n)
	}
	return homesOther(s, q)
}

func tile(z, x, y int) string { return fmt.Sprintf("/tiles/%d/%d/%d.png", z, x, y) }

func homesList(s *Site, q *Req, n int) *Resp {
	city := strings.TrimPrefix(q.Path, "/rent/")
	page := max(1, num(q.Q.Get("p")))
	if page > 40 {
		return notFound(q)
	}
	r := homesPage("list", 330, 8)
	base := q.Path
	for j := range 20 {
		i := ((n-1)/26-(page-1)*20-j)*26 + hn(26, city, q.Q.Get("max"), q.Q.Get("rooms"))
		if q.Q.Get("sort") == "price" {
			i = hn(n, "cheap", city, page, j)
		}
		if i >= n {
			i -= 26 * 20
		}
		r.flat(s, i, 0.7+float64(j)*0.3, "item")
	}
	r.Links = append(r.Links, links("filter", 0.5, 0.02, base+"?max=900", base+"?max=1200&rooms=2", base+"?rooms=3", base+"?sort=price", base+"?sort=new")...)
	r.Links = append(r.Links, Link{URL: fmt.Sprintf("%s?p=%d", base, page+1), Kind: "next", Pos: 7.8, Pop: 1}, Link{URL: "/map/" + city, Kind: "maplink", Pos: 0.4, Pop: 0.2})
	return r
}

func homesAd(s *Site, q *Req, n int) *Resp {
	id := num(strings.TrimPrefix(q.Path, "/ad/")) - 5200000
	if id < 0 || id >= n {
		return notFound(q)
	}
	if hf("let", id) < 0.05 {
		r := homesPage("missing", 60, 2)
		r.Status = 410
		return r
	}
	r := homesPage("item", 160+hn(350, "w", id), 5)
	for k := range min(5, photos(id)) {
		size := "t"
		if k == 0 {
			size = "l"
		}
		r.Parts = append(r.Parts, Part{URL: homePhoto(id, k+1, size), Kind: "image", Pos: map[bool]float64{true: 0, false: 1 + float64(k)*0.15}[k < 5]})
	}
	r.Parts = append(r.Parts, Part{URL: tile(15, 17600+hn(300, "x", id), 10400+hn(300, "y", id)), Kind: "image", Pos: 3.2, Script: true})
	r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/ajax/view?ad=%d", 5200000+id), Kind: "fetch", Method: "POST", After: 1, Script: true},
		Part{URL: fmt.Sprintf("/ajax/similar?ad=%d", 5200000+id), Kind: "fetch", Pos: 3.8, Script: true})
	for j := range 4 {
		r.flat(s, n-1-hn(4000, "sim", id, j), 4.5, "related")
	}
	r.Links = append(r.Links, Link{URL: fmt.Sprintf("/agency/%d", hn(160, "agency", id)), Kind: "nav", Pos: 1.5, Pop: 0.2})
	return r
}

func homesOther(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/ajax/phone":
		q.S["phone"]++
		if q.Method != "POST" {
			return &Resp{Status: 405, Type: js, Size: 40, MaxAge: -1}
		}
		if q.S["phone"] > 40 {
			return &Resp{Status: 429, Type: js, Size: 58, MaxAge: -1}
		}
		return data(64)
	case p == "/ajax/view" || p == "/ajax/fav":
		return empty()
	case p == "/ajax/upload":
		return &Resp{Status: 201, Type: js, Size: 110, MaxAge: -1, Think: 2}
	case p == "/ajax/similar" || p == "/ajax/list":
		return &Resp{Type: "text/html; charset=UTF-8", Size: 5000 + hn(4000, q.URL), MaxAge: -1, Think: 0.1}
	case strings.HasPrefix(p, "/ajax/"):
		return data(60 + hn(3000, q.URL))
	case strings.HasPrefix(p, "/agency/"):
		r := homesPage("list", 150, 4)
		for j := range 12 {
			r.flat(s, hn(s.Items, p, j), 0.8+float64(j)*0.25, "item")
		}
		return r
	case p == "/login" && q.Method == "POST":
		if q.S["may"] == 1 {
			q.S["user"] = 1
			return redirect(302, "/mine")
		}
		return &Resp{Status: 403, Type: html, Size: 7000, MaxAge: -1, Kind: "form", Words: 40, Height: 1, Think: 0.3}
	case p == "/mine", p == "/post", p == "/favourites", strings.HasPrefix(p, "/mine/"):
		if q.S["user"] == 0 && p != "/favourites" {
			return redirect(302, "/login")
		}
		if q.Method == "POST" {
			return redirect(303, "/mine")
		}
		r := homesPage("mine", 160, 2)
		r.MaxAge = -1
		r.Polls = []Poll{{URL: "/ajax/inbox", Kind: "fetch", Every: 120, Hidden: true, Max: 60}}
		return r
	case p == "/login":
		r := homesPage("form", 40, 1)
		r.MaxAge = -1
		return r
	}
	return homesFile(p)
}

// homesFile answers what is the same for everybody.
func homesFile(p string) *Resp {
	switch {
	case p == "/px.gif":
		return &Resp{Type: "image/gif", Size: 43, MaxAge: -1, Think: 0.003}
	case strings.HasSuffix(p, ".css"):
		r := static(css, 33000, 31536000, true)
		r.Parts = []Part{{URL: "/build/lato.aa.woff2", Kind: "font"}, {URL: "/build/icons.bb.woff2", Kind: "font"}}
		return r
	case strings.HasPrefix(p, "/build/") && strings.HasSuffix(p, ".js"):
		return static(jsc, 12000+hn(90000, p), 31536000, true)
	case strings.HasSuffix(p, ".woff2"):
		return static(woff, 26000, 31536000, true)
	case strings.HasPrefix(p, "/build/"):
		return static(svg, 2500, 31536000, true)
	case strings.HasPrefix(p, "/pic/"):
		size := map[string]int{"l": 180000, "m": 26000, "s": 14000, "t": 6000}[strings.TrimSuffix(p[strings.LastIndex(p, "_")+1:], ".jpg")]
		return static(jpeg, size/2+hn(size+1, p), 2592000, false)
	case strings.HasPrefix(p, "/tiles/"):
		return static(png, 7000+hn(20000, p), 604800, false)
	case p == "/favicon.ico":
		return static(ico, 3300, 2592000, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 300}
	case p == "/sitemap.xml":
		return &Resp{Type: xml, Size: 210000}
	}
	return nil
}
