package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lenient is a shop that answers whatever method it is asked with by its pages, as many services do, has their versions, and hands
// out its items as data, wrapped into a script if that is wanted. What it has of number N says "number N.".
func lenient(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := "number " + r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] + "."
		switch {
		case r.URL.Query().Get("callback") != "":
			w.Header().Set("Content-Type", "application/javascript; charset=utf-8")
			fmt.Fprintf(w, "%s(%q)", r.URL.Query().Get("callback"), "number "+r.URL.Query().Get("id")+".")
		case strings.HasPrefix(r.URL.Path, "/api/"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"item": "number %s."}`, r.URL.Query().Get("id"))
		case r.Method == "GET" || r.Method == "HEAD":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("ETag", strconv.Quote(strings.ReplaceAll(number, " ", "-")))
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("<html>"+strings.Repeat(" ", 1000)+number+"</html>"))
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<html>%s</html>", number)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestHarvestByOtherWays reads a shop at the default settings in ways that once delivered all of it to one address: each is stopped.
func TestHarvestByOtherWays(t *testing.T) {
	t.Parallel()
	balanced := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, proxy_protocol: true}]\nidentity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\n",
		balanced, lenient(t).URL))
	ask := func(addr, line, fields string) string {
		t.Helper()
		c, err := net.Dial("tcp", balanced)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "PROXY TCP4 %s 127.0.0.1 5555 80\r\n%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
			"User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36\r\n"+
			"Accept-Encoding: gzip, deflate, br\r\nAccept-Language: en-GB,en;q=0.9\r\n%s\r\n", addr, line, fields)
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const (
		page  = "Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
		image = "Accept: image/webp,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n"
		fetch = "Accept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"
	)
	for n := range 20 { // people read some pages
		if got := ask(fmt.Sprintf("198.51.%d.7", n), fmt.Sprintf("GET /product/%d", 100_000+n), page); !strings.Contains(got, "number 1000") {
			t.Fatalf("a person gets %s", got)
		}
	}
	number := "number {n}."
	for n, make := range []struct {
		name, line, fields string
		told               string // what shows that the site has told of number n
		most               int
	}{
		{"a method that begins like HEAD", "HACK /product/{n}", image, number, 400},
		{"preflights", "OPTIONS /product/{n}", fetch + "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n", number, 400},
		{"several ranges, by a script", "GET /product/{n}", fetch + "Range: bytes=0-1,800-2000\r\n", number, 250},
		{"heads, as images", "HEAD /product/{n}", image, "200 OK", 400},
		{"whether it has changed, as images", "GET /product/{n}", image + "If-None-Match: \"number-{n}.\"\r\n", "304 Not Modified", 400},
		{"data with a time beside it", "GET /api/item?id={n}&_={now}", fetch, number, 800},
		{"data in scripts", "GET /product?id={n}&callback=f", image, number, 800},
	} {
		const all, enough = 2000, 20
		got, without := 0, 0
		for i := 0; i < all && without < enough; i++ {
			say := strings.NewReplacer("{n}", strconv.Itoa(i), "{now}", strconv.FormatInt(time.Now().UnixMilli(), 10)).Replace
			without++
			if strings.Contains(ask(fmt.Sprintf("203.0.%d.9", n), say(make.line), say(make.fields)), say(make.told)) {
				got, without = got+1, 0
			}
		}
		t.Logf("%s: %d of %d", make.name, got, all)
		if got < 2 || got > make.most {
			t.Errorf("%s: the site has told of %d of %d, at most %d are in order", make.name, got, all, make.most)
		}
	}
	if n := g.metric("antirobot_events_shed_total"); n > 0 {
		t.Errorf("%v events were shed", n)
	}
}
