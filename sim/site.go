package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"antirobot/replay"
)

// dest is what a request is for, as a browser sees it.
type dest uint8

const (
	destPage dest = iota
	destStyle
	destScript
	destImage
	destFont
	destFetch   // a script's call
	destBeacon  // what a script reports
	destCaptcha // the gateway's own page, after a redirect
	destCheck   // a silent check of the gateway's, after a redirect
)

// place is a site that everybody visits. Places differ in their shape, so that what distinguishes robots from people is
// not specific to one site.
type place struct {
	entrance func(rng *rand.Rand) string              // where people enter
	follow   func(page string, rng *rand.Rand) string // a page that the page links to
	links    func(dst []string, page string) []string // all pages that it links to, in the order of the page
	item     func(n int) string                       // the pages worth having, by number …
	items    int                                      // … and how many there are
	list     func(n int) string                       // the pages that lead to them
	parts    func(page string) []planned              // in the order in which a browser asks for them
	size     func(page string) int                    // bytes of the page
}

func newPlace(s Site) *place {
	if s == Course {
		return coursePlace()
	}
	return &place{
		entrance: entrance, follow: follow, links: shopLinks, item: itemPath, items: articles, list: categoryPath, parts: parts, size: sizeOf,
	}
}

// withCatalogue is a place whose items are of the catalogue that harvesters want, where people read some of it. Nothing else changes.
func (p *place) withCatalogue() *place {
	q, links := *p, p.links
	q.entrance = func(rng *rand.Rand) string { return ofCatalogue(p.entrance(rng)) }
	q.follow = func(page string, rng *rand.Rand) string { return ofCatalogue(p.follow(page, rng)) }
	q.item = func(n int) string { return ofCatalogue(p.item(n)) }
	q.links = func(dst []string, page string) []string {
		from := len(dst)
		dst = links(dst, page)
		for i, l := range dst[from:] {
			dst[from+i] = ofCatalogue(l)
		}
		return dst
	}
	return &q
}

// ofCatalogue is the page of the catalogue that takes the place of an item; other pages stay what they are.
func ofCatalogue(page string) string {
	_, item, is := strings.Cut(page, "/item-")
	if n, err := strconv.Atoi(item); is && err == nil {
		return productPath(n * shopPages / (articles + 1))
	}
	return page
}

// shopLinks are the links of a page of the shop.
func shopLinks(dst []string, page string) []string {
	at := hashOf(page)
	dst = append(dst, "/")
	for i := range 4 {
		dst = append(dst, categoryPath(at+i))
	}
	for i := range 12 {
		dst = append(dst, itemPath(at+i), articlePath(at+i))
	}
	return dst
}

// sizeOf is how many bytes a page of the shop has.
func sizeOf(page string) int { return 8000 + hashOf(page)%40000 }

// The shop, with articles. Pages are numbered.
const (
	articles   = 3000
	categories = 40
)

// parts returns the parts of a page, in the order in which a browser asks for them. The first are those of every page.
func parts(page string) []planned {
	list := make([]planned, 0, 12)
	list = append(list,
		planned{path: "/static/site.css", dest: destStyle},
		planned{path: "/static/site.js", dest: destScript},
		planned{path: "/static/logo.svg", dest: destImage},
		planned{path: "/static/text.woff2", dest: destFont},
	)
	at := hashOf(page)
	for i := range pictures(at) {
		list = append(list, planned{path: picturePath(at + i*7), dest: destImage})
	}
	if strings.HasPrefix(page, "/shop") {
		list = append(list, planned{path: "/api/price?of=" + strconv.Itoa(at%articles), dest: destFetch})
	}
	return append(list, planned{path: iconPath, dest: destImage})
}

// iconPath is where browsers look for the site's icon.
const iconPath = "/favicon.ico"

// pictures is how many a page with this hash has.
func pictures(at int) int { return 2 + at%5 }

func hashOf(s string) int {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return int(h >> 4)
}

// pathsOf makes so many paths once: each is needed again and again.
func pathsOf(n int, path func(n int) string) func() []string {
	return sync.OnceValue(func() []string {
		list := make([]string, n)
		for i := range list {
			list[i] = path(i)
		}
		return list
	})
}

var (
	articlePaths  = pathsOf(articles, func(n int) string { return fmt.Sprintf("/article/%d", n+1) })
	categoryPaths = pathsOf(categories, func(n int) string { return fmt.Sprintf("/shop/%d", n+1) })
	itemPaths     = pathsOf(articles, func(n int) string { return fmt.Sprintf("/shop/%d/item-%d", n%categories+1, n+1) })
	picturePaths  = pathsOf(9000, func(n int) string { return fmt.Sprintf("/pictures/%d.webp", n) })
)

func articlePath(n int) string { return articlePaths()[n%articles] }

func categoryPath(n int) string { return categoryPaths()[n%categories] }

// itemPath is an item; articles is a multiple of categories, so that each has one category.
func itemPath(n int) string { return itemPaths()[n%articles] }

func picturePath(n int) string { return picturePaths()[n%9000] }

// entrance is where people enter. As on real sites, few pages have most of the visits: Zipf's law (Breslau et al., "Web
// caching and Zipf-like distributions", INFOCOM 1999).
func entrance(rng *rand.Rand) string {
	switch rng.IntN(5) {
	case 0:
		return "/"
	case 1:
		return categoryPath(popular(rng, categories))
	case 2:
		return itemPath(popular(rng, articles))
	default:
		return articlePath(popular(rng, articles))
	}
}

// follow returns a page to which the given page links.
func follow(page string, rng *rand.Rand) string {
	at := hashOf(page)
	switch n := rng.IntN(10); {
	case n == 0:
		return "/"
	case n <= 2:
		return categoryPath(at + rng.IntN(4))
	case n == 3:
		return fmt.Sprintf("/search?q=%s", words[rng.IntN(len(words))])
	case n <= 6:
		return itemPath(at + rng.IntN(12))
	default:
		return articlePath(at + rng.IntN(12))
	}
}

var words = [...]string{"lamp", "chair", "desk", "blue+carpet", "book+shelf", "garden", "kettle", "curtain", "clock", "mirror"}

// site is what the service answers.
func site(path string, d dest, rng *rand.Rand) replay.Response {
	a := replay.Response{Status: 200, ContentType: typeHTML, Bytes: uint64(sizeOf(path)), Took: time.Duration(8+rng.IntN(60)) * time.Millisecond}
	path, query, _ := strings.Cut(path, "?")
	switch {
	case strings.HasPrefix(path, "/product/"): // whatever is requested below it, and in whatever form
		if as, ok := strings.CutPrefix(query, "as="); ok {
			a.ContentType = productTypes[as]
		}
	case strings.HasPrefix(path, "/static/"), strings.HasPrefix(path, "/pictures/"), path == iconPath:
		a.Took = time.Duration(1+rng.IntN(4)) * time.Millisecond
		a.Bytes = uint64(500 + hashOf(path)%60000)
		switch {
		case strings.HasSuffix(path, ".css"):
			a.ContentType = typeCSS
		case strings.HasSuffix(path, ".js"):
			a.ContentType = typeScript
		case strings.HasSuffix(path, ".svg"):
			a.ContentType = typeSVG
		case strings.HasSuffix(path, ".woff2"):
			a.ContentType = typeFont
		default:
			a.ContentType = typeImage
		}
	case strings.HasPrefix(path, "/api/"):
		a.ContentType, a.Bytes = typeJSON, uint64(200+hashOf(path)%3000)
	case path == "/robots.txt":
		a.ContentType, a.Bytes = typeText, 320
	case path == "/beacon":
		a.Status, a.ContentType, a.Bytes = 204, nil, 0
	case d == destPage && query == "login":
		a.Status, a.Bytes = 403, 2400
	case strings.HasPrefix(path, "/course/"), strings.HasPrefix(path, "/term/"):
		a.Bytes = uint64(courseSize(path))
	case !known(path):
		a.Status, a.Bytes = 404, 1200
	}
	if d == destPage && rng.IntN(400) == 0 { // a dead link
		a.Status, a.Bytes = 404, 1200
	}
	return a
}

// productTypes are the content types in which a shop page is available.
var productTypes = map[string][]byte{
	"vnd.api+json": []byte("application/vnd.api+json"), "ld+json": []byte("application/ld+json"), "text": typeText, "csv": []byte("text/csv"),
	"pdf": []byte("application/pdf"), "none": nil, "ranges": []byte("multipart/byteranges; boundary=3d6b6a416f9b5"),
}

func known(path string) bool {
	return path == "/" || path == "/search" || strings.HasPrefix(path, "/article/") || strings.HasPrefix(path, "/shop/") ||
		path == "/queue" || path == "/login" || path == captchaPath
}

var (
	typeHTML   = []byte("text/html; charset=utf-8")
	typeCSS    = []byte("text/css; charset=utf-8")
	typeScript = []byte("text/javascript; charset=utf-8")
	typeSVG    = []byte("image/svg+xml")
	typeFont   = []byte("font/woff2")
	typeImage  = []byte("image/webp")
	typeJSON   = []byte("application/json")
	typeText   = []byte("text/plain; charset=utf-8")
)
