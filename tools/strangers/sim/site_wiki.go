package sim

import (
	"fmt"
	"net/url"
	"strings"
)

const articles = 5200

func title(i int) string {
	t := word(2+i%2, "wiki", i)
	t = strings.ToUpper(t[:1]) + t[1:]
	if i%3 == 0 {
		t += "_" + word(2, "second", i)
	}
	return t
}

func wikiSite(uint64) *Site {
	idx := map[string]int{}
	for i := articles - 1; i >= 0; i-- {
		idx[title(i)] = i
	}
	s := &Site{
		Name: "wiki", Host: "wiki.heimatkunde.test", TLS: true, Proto: "HTTP/2.0", Zone: 0, Days: 3,
		Start: date("2025-10-28T00:00:00Z"), Home: "/wiki/Main_Page", Items: articles, Lists: 60,
		Login: "/index.php?title=Special:UserLogin", Feed: "/index.php?title=Special:RecentChanges&feed=atom",
	}
	s.Item = func(i int) string { return "/wiki/" + title(i%articles) }
	s.List = func(k, page int) string {
		u := "/wiki/Category:" + word(2, "cat", k)
		if page > 1 {
			u = fmt.Sprintf("/index.php?title=Category:%s&pagefrom=%d", word(2, "cat", k), page)
		}
		return u
	}
	for i := range 70 {
		s.Terms = append(s.Terms, strings.ReplaceAll(strings.ToLower(title(i*13)), "_", " "))
	}
	s.Search = func(q string) string {
		return "/index.php?search=" + url.QueryEscape(q) + "&title=Special%3ASearch"
	}
	s.Suggest = func(q string) string { return "/rest.php/v1/search/title?q=" + url.QueryEscape(q) + "&limit=10" }
	s.API = func(i int) string {
		return "/api.php?action=query&prop=extracts&format=json&titles=" + url.QueryEscape(title(i%articles))
	}
	s.Preview = func(u string) string { return "/rest.php/v1/page/summary/" + strings.TrimPrefix(u, "/wiki/") }
	s.serve = func(q *Req) *Resp { return serveWiki(s, idx, q) }
	return s
}

func wikiPage(q *Req, kind string, words int) *Resp {
	r := &Resp{Type: html, Size: 9000 + words*7, MaxAge: 0, Think: 0.07, Kind: kind, Words: words, Height: 1.5 + float64(words)/230}
	r.Parts = []Part{
		{URL: "/load.php?lang=en&modules=skins.vector.styles%7Csite.styles&only=styles&skin=vector-2022", Kind: "style"},
		{URL: "/load.php?lang=en&modules=startup&only=scripts&raw=1&skin=vector-2022", Kind: "script"},
		{URL: "/load.php?lang=en&modules=jquery%7Cmediawiki.base%7Cskins.vector.js&skin=vector-2022&version=1k9zq", Kind: "script", After: 0.15, Script: true},
		{URL: "/resources/assets/wiki-logo.svg", Kind: "image"},
	}
	r.Links = links("nav", 0, 0, "/wiki/Main_Page", "/wiki/Special:Random", "/wiki/Special:RecentChanges")
	return r
}

func (r *Resp) tools(t string) {
	r.Links = append(r.Links, links("tool", 0.1, 0, "/index.php?title="+t+"&action=history", "/index.php?title="+t+"&action=edit", "/wiki/Talk:"+t, "/wiki/Special:WhatLinksHere/"+t)...)
}

func serveWiki(s *Site, idx map[string]int, q *Req) *Resp {
	p := q.Path
	t := q.Q.Get("title")
	if f, ok := cut(p, "/wiki/"); ok {
		t = f
	}
	switch {
	case p == "/":
		return redirect(301, "/wiki/Main_Page")
	case q.Q.Get("search") != "":
		return wikiSearch(s, idx, q)
	case p != "/index.php" && !strings.HasPrefix(p, "/wiki/"):
		return wikiOther(s, q)
	case t == "Main_Page":
		r := wikiPage(q, "home", 420)
		r.Tag = fmt.Sprint("main", q.At/day)
		for j := range 14 {
			r.Links = append(r.Links, Link{URL: s.Item(hn(articles, "main", q.At/day, j)), Kind: "item", Pos: 0.4 + float64(j)*0.2, Pop: 0.5})
		}
		for k := range 6 {
			r.Links = append(r.Links, Link{URL: s.List(k, 1), Kind: "list", Pos: 2, Pop: 0.4})
		}
		return r
	case t == "Special:Random":
		return redirect(302, s.Item(hn(articles, "random", q.At)))
	case t == "Special:RecentChanges":
		if q.Q.Get("feed") != "" {
			return &Resp{Type: "application/atom+xml; charset=UTF-8", Size: 21000, MaxAge: 0, Tag: fmt.Sprint(q.At / (11 * minute)), Think: 0.2}
		}
		return wikiChanges(s, q)
	case strings.HasPrefix(t, "Category:"):
		return wikiCategory(s, q, t)
	case strings.HasPrefix(t, "Special:UserLogin"):
		r := wikiPage(q, "form", 60)
		r.MaxAge = -1
		if q.Method == "POST" && q.S["may"] == 1 {
			q.S["user"] = 1
			return redirect(302, "/wiki/Main_Page")
		}
		return r
	case strings.HasPrefix(t, "Special:"), strings.HasPrefix(t, "Talk:"), strings.HasPrefix(t, "User:"):
		r := wikiPage(q, "text", 120+hn(300, t))
		r.Tag = "t" + t
		for j := range 6 {
			r.Links = append(r.Links, Link{URL: s.Item(hn(articles, t, j)), Kind: "related", Pos: 0.5 + float64(j)*0.2, Pop: 0.3})
		}
		return r
	}
	i, ok := idx[t]
	if !ok {
		r := wikiPage(q, "missing", 60)
		r.Status = 404
		return r
	}
	return wikiArticle(s, q, i, t)
}

func wikiArticle(s *Site, q *Req, i int, t string) *Resp {
	words := 120 + int(1200*hf("long", i)*hf("longer", i)*2)
	switch {
	case q.Q.Get("action") == "edit":
		r := wikiPage(q, "edit", 200)
		r.MaxAge = -1
		r.Parts = append(r.Parts, Part{URL: "/load.php?lang=en&modules=ext.wikiEditor&skin=vector-2022&version=88ab1", Kind: "script", Script: true, After: 0.2})
		return r
	case q.Q.Get("action") == "submit":
		if q.Method != "POST" {
			return redirect(302, "/index.php?title="+t+"&action=edit")
		}
		if hf("preview", q.At, t) < 0.35 {
			r := wikiPage(q, "edit", words)
			r.MaxAge = -1
			return r
		}
		return redirect(302, "/wiki/"+t)
	case q.Q.Get("action") == "history":
		r := wikiPage(q, "history", 260)
		for j := range 20 {
			r.Links = append(r.Links, Link{URL: fmt.Sprintf("/index.php?title=%s&diff=%d&oldid=%d", t, 900000+i*30+j, 900000+i*30+j-1), Kind: "diff", Pos: 0.4 + float64(j)*0.07, Pop: 0.3})
		}
		return r
	case q.Q.Get("diff") != "":
		r := wikiPage(q, "diff", 200)
		r.tools(t)
		return r
	case q.Q.Get("oldid") != "":
		return wikiPage(q, "old", words)
	}
	r := wikiPage(q, "item", words)
	r.Tag = fmt.Sprint("rev", i, "-", q.At/(day*int64(1+hn(9, "edits", i))))
	r.tools(t)
	if hf("picture", i) < 0.35 {
		for j := range 1 + hn(2, "pictures", i) {
			name := fmt.Sprintf("%s_%d.jpg", t, j)
			r.Parts = append(r.Parts, Part{URL: fmt.Sprintf("/images/thumb/%x/%s/250px-%s", hn(16, name), name, name), Kind: "image", Pos: float64(j) * 2})
		}
	}
	n := 6 + words/40
	for j := range n {
		k := hn(articles, "link", i, j)
		if j%3 == 0 { // many links lead to what everybody links to
			k = hn(160, "hub", i, j)
		}
		r.Links = append(r.Links, Link{URL: s.Item(k), Kind: "related", Pos: 0.3 + r.Height*0.9*float64(j)/float64(n), Pop: hf("pop", k)})
	}
	for j := range 3 {
		r.Links = append(r.Links, Link{URL: s.List(hn(60, "in", i, j), 1), Kind: "list", Pos: r.Height, Pop: 0.3})
	}
	return r
}

// wikiCategory lists articles.
func wikiCategory(s *Site, q *Req, t string) *Resp {
	r := wikiPage(q, "list", 260)
	r.Tag = fmt.Sprint("cat", t)
	page := max(1, num(q.Q.Get("pagefrom")))
	if page > 8 {
		return notFound(q)
	}
	for j := range 40 {
		r.Links = append(r.Links, Link{URL: s.Item(hn(articles, t, page, j)), Kind: "item", Pos: 0.4 + float64(j)*0.05, Pop: 0.3})
	}
	r.Links = append(r.Links, Link{URL: fmt.Sprintf("/index.php?title=%s&pagefrom=%d", t, page+1), Kind: "next", Pos: 2.4, Pop: 0.6})
	return r
}

func wikiSearch(s *Site, idx map[string]int, q *Req) *Resp {
	term := strings.ReplaceAll(q.Q.Get("search"), " ", "_")
	if term != "" {
		t := strings.ToUpper(term[:1]) + term[1:]
		if _, ok := idx[t]; ok && hf("exact", t) < 0.6 {
			return redirect(302, "/wiki/"+t)
		}
	}
	r := wikiPage(q, "list", 280)
	for j := range 4 + hn(17, term) {
		r.Links = append(r.Links, Link{URL: s.Item(hn(articles, "found", term, j)), Kind: "item", Pos: 0.5 + float64(j)*0.18, Pop: 0.4})
	}
	return r
}

func wikiChanges(s *Site, q *Req) *Resp {
	r := wikiPage(q, "changes", 300)
	n := int(q.At / (4 * minute))
	for j := range 40 {
		i := hn(articles, "changed", n-j)
		r.Links = append(r.Links, Link{URL: fmt.Sprintf("/index.php?title=%s&diff=%d&oldid=%d", title(i), 2000000+n-j, 1900000+n-j), Kind: "diff", Pos: 0.4 + float64(j)*0.06, Pop: 0.3},
			Link{URL: s.Item(i), Kind: "item", Pos: 0.4 + float64(j)*0.06, Pop: 0.1})
	}
	r.Polls = []Poll{{URL: fmt.Sprintf("/api.php?action=query&list=recentchanges&rcstart=%d&format=json", n), Kind: "ajax", Every: 60, Max: 60}}
	return r
}

func wikiOther(s *Site, q *Req) *Resp {
	p := q.Path
	switch {
	case p == "/load.php":
		age := int64(300)
		if q.Q.Get("version") != "" {
			age = 2592000
		}
		if q.Q.Get("only") == "styles" {
			r := static(css+"; charset=utf-8", 14000, age, true)
			r.Type = css
			return r
		}
		return static("text/javascript; charset=utf-8", 9000+hn(60000, q.URL), age, true)
	case p == "/api.php", strings.HasPrefix(p, "/rest.php/v1/search/"):
		r := data(400 + hn(4000, q.URL))
		r.Think = 0.09
		return r
	case strings.HasPrefix(p, "/rest.php/v1/page/summary/"):
		return &Resp{Type: js, Size: 700 + hn(900, p), MaxAge: 14400, Tag: "s1", Think: 0.03}
	case strings.HasPrefix(p, "/images/thumb/"):
		return static(jpeg, 9000+hn(20000, p), 86400, false)
	case strings.HasPrefix(p, "/resources/assets/"):
		return static(svg, 6000, 604800, true)
	case p == "/favicon.ico":
		return static(ico, 2734, 604800, true)
	case p == "/robots.txt":
		return &Resp{Type: text, Size: 900}
	case p == "/sitemap.xml":
		return &Resp{Type: xml, Size: 300000}
	}
	return nil
}
