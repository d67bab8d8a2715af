package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const seriesCount = 420

func slug(i int) string { return word(3, "series", i) + "-" + word(2, "of", i) }

func slugIndex() map[string]int {
	m := map[string]int{}
	for i := range seriesCount {
		m[slug(i)] = i
	}
	return m
}

// chapters is how many chapters a series has at a time.
func chapters(i int, s *Site, at int64) int {
	n := 8 + hn(110, "chapters", i)
	if hf("running", i) < 0.3 { // a new chapter at its hour each day
		n += int((at - s.Start + int64(hf("hour", i)*float64(day))) / day)
	}
	return n
}

func pagesOf(i, ch int) int { return 14 + hn(16, "pages", i, ch) }

func strip(i int) bool { return hf("strip", i) < 0.35 }

func comicsSite(uint64) *Site {
	idx := slugIndex()
	s := &Site{
		Name: "comics", Host: "panelhouse.test", TLS: true, Proto: "HTTP/2.0", Zone: 120, Days: 2,
		Start: date("2025-09-06T00:00:00+02:00"), Home: "/", Items: seriesCount, Lists: 24,
		Login: "/user/login", Feed: "/feed.atom",
	}
	s.Item = func(i int) string { return "/series/" + slug(i) }
	for i := range 60 {
		s.Terms = append(s.Terms, word(3, "series", i))
	}
	s.List = func(k, page int) string {
		u := fmt.Sprintf("/genre/%s", word(2, "genre", k))
		if k == 0 {
			u = "/updates"
		}
		if page > 1 {
			u += fmt.Sprintf("?page=%d", page)
		}
		return u
	}
	s.Search = func(q string) string { return "/find?q=" + url.QueryEscape(q) }
	s.API = func(i int) string { return fmt.Sprintf("/ajax/comments?s=%d&c=1", i%seriesCount) }
	s.serve = func(q *Req) *Resp { return serveComics(s, idx, q) }
	return s
}

func readURL(i, ch, page int) string {
	if strip(i) {
		return fmt.Sprintf("/read/%s/%d", slug(i), ch)
	}
	return fmt.Sprintf("/read/%s/%d/%d", slug(i), ch, page)
}

func picture(i, ch, p int) string { return fmt.Sprintf("/media/%d/%d/%03d.webp", i, ch, p) }

func comicsFrame() []Part {
	return []Part{
		{URL: "/css/site.css?v=88", Kind: "style"},
		{URL: "/js/reader.js?v=88", Kind: "script"},
		{URL: "/js/ads.js", Kind: "script", Track: true},
		{URL: "/img/logo.webp", Kind: "image"},
	}
}

func comicsMenu() []Link {
	return append(links("list", 0, 0.02, "/updates", "/genre/"+word(2, "genre", 1), "/genre/"+word(2, "genre", 2), "/genre/"+word(2, "genre", 3)), links("nav", 0, 0, "/", "/random")...)
}

func (r *Resp) series(i int, pos float64, kind string) {
	r.Links = append(r.Links, Link{URL: "/series/" + slug(i), Kind: kind, Pos: pos, Pop: hf("pop", "series", i)})
	r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/covers/%d-240.webp", i), Kind: "image", Pos: pos})
}

func serveComics(s *Site, idx map[string]int, q *Req) *Resp {
	p := q.Path
	page := max(1, num(q.Q.Get("page")))
	switch {
	case p == "/", p == "/updates", p == "/find", strings.HasPrefix(p, "/genre/"):
		if page > 17 {
			return notFound(q)
		}
		r := &Resp{Type: html, Size: 16000 + hn(2000, q.URL), MaxAge: 120, Tag: fmt.Sprint(q.At / (25 * minute)), Think: 0.03, Kind: "list", Words: 160, Height: 5, Parts: comicsFrame(), Links: comicsMenu()}
		n := 24
		if p == "/find" {
			n = 2 + hn(14, q.URL)
			r.MaxAge, r.Tag = 0, ""
		}
		for j := range n {
			i := hn(seriesCount, p, q.Q.Get("q"), page, j)
			if p == "/updates" || p == "/" {
				i = hn(seriesCount, "up", (page-1)*24+j-int((q.At-s.Start)/(40*minute)))
			}
			r.series(i, 0.5+float64(j/6)*0.9, "item")
			if p == "/updates" { // straight to the new chapter
				r.Links = append(r.Links, Link{URL: readURL(i, chapters(i, s, q.At), 1), Kind: "fresh", Pos: 0.6 + float64(j/6)*0.9, Pop: 0.3})
			}
		}
		if p == "/" {
			r.Kind = "home"
		} else if n == 24 {
			r.Links = append(r.Links, Link{URL: p + fmt.Sprintf("?page=%d", page+1), Kind: "next", Pos: 4.8, Pop: 1})
		}
		return r
	case strings.HasPrefix(p, "/series/"):
		i, ok := idx[strings.TrimPrefix(p, "/series/")]
		if !ok {
			return notFound(q)
		}
		return comicsSeries(s, q, i)
	case strings.HasPrefix(p, "/read/"):
		return comicsRead(s, idx, q)
	}
	return comicsOther(s, q)
}

func comicsSeries(s *Site, q *Req, i int) *Resp {
	last := chapters(i, s, q.At)
	r := &Resp{Type: html, Size: 9000 + 90*last, MaxAge: 120, Tag: fmt.Sprint(last), Think: 0.03, Kind: "item", Words: 140 + hn(100, i), Height: 3 + float64(last)/25, Parts: comicsFrame(), Links: comicsMenu()}
	r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/covers/%d-600.webp", i), Kind: "image"}, Part{URL: fmt.Sprintf("/ajax/rating?s=%d", i), Kind: "fetch", After: 0.3, Script: true})
	r.Links = append(r.Links, Link{URL: readURL(i, 1, 1), Kind: "item", Pos: 0.5, Pop: 2}, Link{URL: readURL(i, last, 1), Kind: "item", Pos: 0.6, Pop: 1.5})
	for c := last; c > 0; c-- {
		r.Links = append(r.Links, Link{URL: readURL(i, c, 1), Kind: "chapter", Pos: 1 + float64(last-c)/25, Pop: 0.2})
	}
	for j := range 6 {
		r.series(hn(seriesCount, "like", i, j), r.Height-0.7, "related")
	}
	return r
}

func comicsRead(s *Site, idx map[string]int, q *Req) *Resp {
	f := strings.Split(strings.TrimPrefix(q.Path, "/read/"), "/")
	i, ok := idx[f[0]]
	if !ok || len(f) < 2 {
		return notFound(q)
	}
	ch := num(f[1])
	last := chapters(i, s, q.At)
	n := pagesOf(i, ch)
	if ch < 1 || ch > last {
		return notFound(q)
	}
	r := &Resp{Type: html, Size: 6200, MaxAge: 300, Tag: "r1", Think: 0.02, Kind: "page", Words: 40 + hn(60, q.Path), Height: 1.6, Parts: comicsFrame(), Links: links("up", 0, 0, "/series/"+f[0])}
	r.Parts = append(r.Parts, Part{URL: "/ajax/progress", Kind: "fetch", Method: "POST", After: 2, Script: true})
	after := ""
	if ch < last {
		after = readURL(i, ch+1, 1)
	}
	comments := Part{URL: fmt.Sprintf("/ajax/comments?s=%d&c=%d", i, ch), Kind: "fetch", Script: true}
	if strip(i) {
		r.Words, r.Height = 25*n, float64(n)*1.5
		for k := range n {
			r.Parts = append(r.Parts, Part{URL: picture(i, ch, k+1), Kind: "image", Pos: float64(k) * 1.5})
		}
		comments.Pos = r.Height - 1
	} else {
		if len(f) < 3 {
			return redirect(302, readURL(i, ch, 1))
		}
		k := num(f[2])
		if k < 1 || k > n {
			return notFound(q)
		}
		r.Parts = append(r.Parts, Part{URL: picture(i, ch, k), Kind: "image"})
		if k < n {
			after = readURL(i, ch, k+1)
			r.Parts = append(r.Parts, Part{URL: picture(i, ch, k+1), Kind: "image", After: 0.6, Script: true})
		}
		if k > 1 {
			r.Links = append(r.Links, Link{URL: readURL(i, ch, k-1), Kind: "prev", Pos: 0.1, Pop: 0.1})
		}
		comments.After = 0.8
		if k < n {
			comments.URL = ""
		}
	}
	if comments.URL != "" {
		r.Parts = append(r.Parts, comments)
	}
	if after != "" {
		r.Links = append(r.Links, Link{URL: after, Kind: "next", Pos: min(1, r.Height), Pop: 3})
		if strip(i) {
			r.Links[len(r.Links)-1].Pos = r.Height - 1
		}
	}
	return r
}

func comicsOther(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/random":
		return redirect(302, s.Item(hn(seriesCount, "random", q.At)))
	case p == "/user/login":
		if q.Method == "POST" {
			return &Resp{Status: 200, Type: html, Size: 4100, Kind: "form", Words: 40, Height: 1, MaxAge: -1, Think: 0.2, Parts: comicsFrame()}
		}
		return &Resp{Type: html, Size: 3900, Kind: "form", Words: 30, Height: 1, MaxAge: -1, Parts: comicsFrame()}
	case strings.HasPrefix(p, "/ajax/"):
		if p == "/ajax/progress" {
			return empty()
		}
		return data(300 + hn(5000, q.URL))
	case p == "/css/site.css":
		r := static(css, 11200, 2592000, true)
		r.Parts = []Part{{URL: "/img/sprite.webp", Kind: "image"}}
		return r
	case p == "/js/reader.js":
		return static(jsc, 31000, 2592000, true)
	case p == "/js/ads.js":
		return static(jsc, 9100, 3600, true)
	case strings.HasPrefix(p, "/img/"):
		return static(webp, 5200, 2592000, true)
	case strings.HasPrefix(p, "/covers/"):
		return static(webp, 12000+hn(20000, p), 2592000, false)
	case strings.HasPrefix(p, "/media/"):
		return static(webp, 90000+hn(260000, p), 31536000, false)
	case p == "/favicon.ico":
		return static(ico, 1150, 2592000, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 120}
	case p == "/sitemap.xml", p == s.Feed:
		return &Resp{Type: xml, Size: 30000}
	}
	return nil
}
