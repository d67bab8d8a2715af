package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// typedSite is a service whose answers have the type that their paths name.
func typedSite(t *testing.T) string {
	t.Helper()
	types := map[string]string{"page": "text/html", "script": "text/javascript", "picture": "image/png", "data": "application/json"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("Content-Type", types[kind])
		_, _ = io.WriteString(w, "a "+kind)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// loads requests a subresource as the elements of a page do.
func (c *client) loads(url, dest string) int {
	c.t.Helper()
	return c.get(url, "Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin", "Accept", "*/*").StatusCode
}

// TestTwentyOfANetworkReadTenPages: twenty people of one /24 who solve one after the other can each read ten pages with all their
// scripts, whatever their network has earned before them.
func TestTwentyOfANetworkReadTenPages(t *testing.T) {
	t.Parallel()
	g := serve(t, typedSite(t), "--trusted-proxies", "127.0.0.1")
	for person := range 20 {
		addr := fmt.Sprintf("198.51.100.%d", person+1)
		g.ban("ip:"+addr, "1h")
		v := visitor(t)
		v.header.Set("X-Forwarded-For", addr)
		g.solve(v, "/page/0")
		for page := range 10 {
			where := fmt.Sprintf("%s/%%s/%d-%d", g.url, person, page)
			if s := v.get(fmt.Sprintf(where, "page")).StatusCode; s != 200 {
				t.Fatalf("person %d, page %d: %d", person+1, page+1, s)
			}
			var wg sync.WaitGroup
			for n := range 3 {
				wg.Go(func() {
					if s := v.loads(fmt.Sprintf(where+"-%d", "script", n), "script"); s != 200 {
						t.Errorf("person %d, page %d, script %d: %d", person+1, page+1, n+1, s)
					}
				})
			}
			wg.Wait()
			v.loads(g.url+"/favicon.ico", "image") // that there is none costs nothing
		}
	}
}

// TestBanBetweenAPageAndItsPictures: a client that is banned when it has been served a page still gets the subresources of that
// page, at most sixty of them, but no page and no data, whatever it calls them; another client gets none, and a block entry stops
// them all.
func TestBanBetweenAPageAndItsPictures(t *testing.T) {
	t.Parallel()
	g := serve(t, typedSite(t), "--trusted-proxies", "127.0.0.1")
	const addr = "198.51.100.1"
	v, other := visitor(t), visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	other.header.Set("X-Forwarded-For", addr)
	other.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	v.get(g.url+"/page/1").must(t, 200, "a page")
	g.ban("ip:"+addr, "1h")
	got := 0
	for n := range 57 {
		if v.loads(fmt.Sprintf("%s/picture/%d", g.url, n), "image") == 200 {
			got++
		}
	}
	if got != 57 {
		t.Errorf("of 57 pictures of the page %d come", got)
	}
	for _, path := range []string{"/page/2", "/data/1"} {
		if s := v.loads(g.url+path, "image"); s != 403 {
			t.Errorf("%s comes as a picture: %d", path, s)
		}
	}
	if s := v.loads(g.url+"/script/last", "script"); s != 200 {
		t.Errorf("the sixtieth request for a subresource: %d", s)
	}
	if s := v.loads(g.url+"/script/more", "script"); s != 403 {
		t.Errorf("the sixty-first: %d", s)
	}
	if s := other.loads(g.url+"/picture/other", "image"); s != 403 {
		t.Errorf("another client's picture: %d", s)
	}
	v.get(g.url+"/page/3").must(t, 302, "")

	v.header.Set("X-Forwarded-For", "198.51.100.2")
	v.get(g.url+"/page/1").must(t, 200, "a page")
	g.list("block", "198.51.100.2", "1h")
	if s := v.loads(g.url+"/picture/1", "image"); s != 403 {
		t.Errorf("a blocked client's picture: %d", s)
	}
}
