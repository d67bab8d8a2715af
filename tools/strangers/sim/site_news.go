package sim

import (
	"fmt"
	"net/url"
	"strings"
)

var newsDesks = strings.Fields("politics world economy sport culture science local travel opinion tech")

func newsSite(uint64) *Site {
	s := &Site{
		Name: "news", Host: "app.tageblick.test", TLS: true, Proto: "HTTP/2.0", Zone: 60, Days: 2,
		Start: date("2025-11-25T00:00:00+01:00"), Home: "/", Items: 3000, Rate: 6, Lists: len(newsDesks), Login: "/api/v2/login",
		Feed: "/feed.xml", Soft: true, H3: true, Worker: "/sw.js",
	}
	s.Keep = []string{"/offline.html", "/assets/index-Bx81k2Lq.js", "/assets/vendor-C09sLmpa.js", "/assets/index-DkQ2a01x.css", "/manifest.webmanifest"}
	s.Item = func(i int) string {
		return fmt.Sprintf("/a/%d/%s-%s-%s", 88000+i, word(3, "n1", i), word(2, "n2", i), word(3, "n3", i))
	}
	s.List = func(k, page int) string {
		u := "/d/" + newsDesks[k%len(newsDesks)]
		if page > 1 {
			u += fmt.Sprintf("?p=%d", page)
		}
		return u
	}
	for i := range 50 {
		s.Terms = append(s.Terms, word(3, "n1", i*11))
	}
	s.Search = func(q string) string { return "/search?q=" + url.QueryEscape(q) }
	s.Suggest = func(q string) string { return "/api/v2/suggest?q=" + url.QueryEscape(q) }
	s.API = func(i int) string { return fmt.Sprintf("/api/v2/articles/%d", 88000+i) }
	s.serve = func(q *Req) *Resp { return serveNews(s, q) }
	return s
}

func serveNews(s *Site, q *Req) *Resp {
	p := q.Path
	if r := newsFile(s, q); r != nil {
		return r
	}
	if strings.HasPrefix(p, "/api/") {
		return newsAPI(s, q)
	}
	r := newsView(s, q)
	if r == nil {
		r = &Resp{Kind: "missing", Words: 30, Height: 1} // the application shows that there is nothing
	}
	r.Type, r.Size, r.Tag, r.Think = html, 3400, "shell-5512", 0.004
	r.Common = true
	if q.Route && q.Kind != "shell" {
		return r
	}
	frame := []Part{
		{URL: "/assets/index-DkQ2a01x.css", Kind: "style"},
		{URL: "/assets/vendor-C09sLmpa.js", Kind: "module"},
		{URL: "/assets/index-Bx81k2Lq.js", Kind: "module"},
		{URL: "/manifest.webmanifest", Kind: "manifest"},
		{URL: "/api/v2/session", Kind: "json", After: 0.2, Script: true},
		{URL: "/api/v2/flags?v=5512", Kind: "json", After: 0.2, Script: true},
	}
	r.Parts = append(frame, r.Parts...)
	if q.Kind == "tool" { // no links without scripts
		r.Links = nil
	}
	return r
}

func newsImage(i, w int) string { return fmt.Sprintf("/img/%d-%d.avif", 88000+i, w) }

func (r *Resp) story(s *Site, i int, pos, after float64, kind string) {
	if i < 0 {
		return
	}
	r.Links = append(r.Links, Link{URL: s.Item(i), Kind: kind, Pos: pos, Pop: hf("pop", "news", i)})
	r.Parts = append(r.Parts, Part{URL: newsImage(i, 480), Kind: "image", Pos: pos, After: after, Script: true})
}

func newsView(s *Site, q *Req) *Resp {
	p := q.Path
	n := s.count(q.At)
	r := &Resp{Links: links("nav", 0, 0, "/", "/search", "/saved")}
	for k := range 7 {
		r.Links = append(r.Links, Link{URL: s.List(k, 1), Kind: "list", Pos: 0.1, Pop: 0.4})
	}
	r.Leave = []Part{{URL: "/api/v2/events", Track: true}}
	r.Polls = []Poll{{URL: "/api/v2/events", Method: "POST", Kind: "fetch", Every: 20, First: 10, Track: true, Max: 30}}
	switch {
	case p == "/" || strings.HasPrefix(p, "/d/"):
		desk := "top"
		if p != "/" {
			desk = p[3:]
		}
		r.Kind, r.Words, r.Height = "list", 500, 16
		if p == "/" {
			r.Kind = "home"
			r.Polls = append(r.Polls, Poll{URL: fmt.Sprintf("/api/v2/live?since=%d", 88000+n), Kind: "json", Every: 30, Max: 60})
		}
		for c := range 6 { // more of the feed comes with scrolling
			r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/api/v2/feed?desk=%s&cursor=%d", desk, c*12), Kind: "json", Pos: float64(c) * 3, After: 0.25, Script: true})
			for j := range 12 {
				i := ((n-1)/2 - c*12 - j) * 2
				if desk != "top" {
					i = ((n-1)/9-c*12-j-1)*9 + hn(9, desk)
				}
				r.story(s, i, float64(c)*3+0.4+float64(j)*0.22, 0.45, "item")
			}
		}
		return r
	case p == "/search":
		term := q.Q.Get("q")
		r.Kind, r.Words, r.Height = "list", 150, 3
		r.Parts = append(r.Parts, Part{URL: "/assets/Search-CmQ19aa0.js", Kind: "module"})
		if term != "" {
			r.Parts = append(r.Parts, Part{URL: "/api/v2/search?q=" + url.QueryEscape(term), Kind: "json", After: 0.2, Script: true})
			for j := range 3 + hn(12, term) {
				r.story(s, hn(n, "hit", term, j), 0.4+float64(j)*0.2, 0.45, "item")
			}
		}
		return r
	case p == "/saved":
		r.Kind, r.Words, r.Height = "text", 60, 1.2
		r.Parts = append(r.Parts, Part{URL: "/api/v2/saved", Kind: "json", After: 0.2, Script: true})
		return r
	case strings.HasPrefix(p, "/a/"):
		id := num(strings.SplitN(p[3:], "/", 2)[0]) - 88000
		if id < 0 || id >= n {
			return nil
		}
		return newsArticle(s, r, id, n)
	}
	return nil
}

func newsArticle(s *Site, r *Resp, id, n int) *Resp {
	r.Kind, r.Words = "item", 220+hn(900, "w", id)
	r.Height = 2 + float64(r.Words)/160
	r.Parts = append(r.Parts,
		Part{URL: "/assets/Article-BYt72h1d.js", Kind: "module"},
		Part{URL: s.API(id), Kind: "json", After: 0.15, Script: true},
		Part{URL: newsImage(id, 1200), Kind: "image", After: 0.4, Script: true},
		Part{URL: s.API(id) + "/comments?limit=20", Kind: "json", Pos: r.Height - 1.2, Script: true},
		Part{URL: s.API(id) + "/related", Kind: "json", Pos: r.Height - 1.6, Script: true})
	if hf("video", id) < 0.1 {
		r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/video/%d.mp4", 88000+id), Kind: "video", Pos: 0.8, After: 0.5, Script: true})
	}
	for j := range hn(3, "inner", id) {
		r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/img/%d-x%d-960.avif", 88000+id, j), Kind: "image", Pos: 1.5 + float64(j)*2, Script: true})
	}
	for j := range 4 {
		r.story(s, n-1-hn(min(n, 300), "rel", id, j), r.Height-1+float64(j)*0.2, 0.2, "related")
	}
	if hf("live", id) < 0.06 {
		r.Polls = append(r.Polls, Poll{URL: fmt.Sprintf("/api/v2/stream/%d", 88000+id), Kind: "sse", Every: 120, Stream: true, Hidden: true})
	}
	return r
}

func newsAPI(s *Site, q *Req) *Resp {
	p := strings.TrimPrefix(q.Path, "/api/v2/")
	n := s.count(q.At)
	switch {
	case p == "events":
		if q.Method != "POST" {
			return &Resp{Status: 405, Type: js, Size: 40, MaxAge: -1}
		}
		return empty()
	case p == "login":
		return &Resp{Status: 401, Type: js, Size: 52, MaxAge: -1, Think: 0.3}
	case strings.HasPrefix(p, "articles/"):
		f := strings.Split(p, "/")
		id := num(f[1]) - 88000
		if id < 0 || id >= n {
			return &Resp{Status: 404, Type: js, Size: 31, MaxAge: -1}
		}
		if q.Method == "POST" {
			return &Resp{Status: 201, Type: js, Size: 120, MaxAge: -1}
		}
		if len(f) > 2 {
			return &Resp{Type: js, Size: 900 + hn(6000, q.URL), MaxAge: 30, Tag: fmt.Sprint(q.At / (4 * minute)), Think: 0.03}
		}
		return &Resp{Type: js, Size: 3000 + 7*hn(900, "w", id), MaxAge: 60, Tag: fmt.Sprint("a", id), Think: 0.02}
	case p == "feed":
		return &Resp{Type: js, Size: 5200 + hn(900, q.URL), MaxAge: 20, Tag: fmt.Sprint(q.At / (10 * minute)), Think: 0.03}
	case strings.HasPrefix(p, "stream/"):
		return &Resp{Type: "text/event-stream", Size: 300, MaxAge: -1}
	case p == "session" || p == "saved" || p == "live" || strings.HasPrefix(p, "push/") || p == "poll":
		return data(90 + hn(120, q.URL))
	case p == "flags", p == "search", p == "suggest":
		return data(300 + hn(3000, q.URL))
	}
	return &Resp{Status: 404, Type: js, Size: 31, MaxAge: -1}
}

func newsFile(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case strings.HasPrefix(p, "/assets/") && strings.HasSuffix(p, ".css"):
		r := static(css, 24000, 31536000, true)
		r.Parts = []Part{{URL: "/assets/tiempos-text-Bq11.woff2", Kind: "font"}, {URL: "/assets/sohne-buch-Cz02.woff2", Kind: "font"}}
		return r
	case strings.HasPrefix(p, "/assets/") && strings.HasSuffix(p, ".js"):
		return static("text/javascript", 9000+hn(90000, p), 31536000, true)
	case strings.HasPrefix(p, "/assets/"):
		return static(woff, 34000, 31536000, true)
	case strings.HasPrefix(p, "/img/"):
		return static("image/avif", 9000+hn(50000, p), 2592000, false)
	case strings.HasPrefix(p, "/video/"):
		return &Resp{Status: 206, Type: "video/mp4", Size: 400000 + hn(600000, p), MaxAge: -1, Think: 0.01}
	case p == "/sw.js":
		return &Resp{Type: "text/javascript", Size: 4100, MaxAge: 0, Tag: "sw5512", Think: 0.003}
	case p == "/manifest.webmanifest":
		return static("application/manifest+json", 900, 86400, true)
	case p == "/offline.html":
		return &Resp{Type: html, Size: 1200, MaxAge: 86400, Tag: "o1"}
	case p == "/favicon.ico":
		return static(ico, 5430, 604800, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 140}
	case p == "/sitemap.xml":
		return &Resp{Type: xml, Size: 120000}
	case p == s.Feed:
		return &Resp{Type: xml, Size: 30000, MaxAge: 300, Tag: fmt.Sprint(q.At / (10 * minute))}
	case q.Method != "GET" && q.Method != "HEAD" && !strings.HasPrefix(p, "/api/"):
		return &Resp{Status: 405, Type: html, Size: 157}
	case strings.Contains(p, ".") && !strings.HasPrefix(p, "/a/"):
		return notFound(q)
	}
	return nil
}
