package e2e

import (
	le "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
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

// TestHarvestBesideABalancer reads a shop through real balancers with the files of deploy/ and the default limits, by methods
// for which a service need not give its pages, and this one does. What is asked is stopped, whatever it calls itself; a page's own
// preflights go on even for who is asked.
func TestHarvestBesideABalancer(t *testing.T) {
	t.Parallel()
	for name, b := range balancers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				preflight = "Accept: */*\nSec-Fetch-Site: same-site\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nOrigin: https://a.example\nAccess-Control-Request-Method: POST"
				image     = "Accept: image/webp,*/*;q=0.8\nSec-Fetch-Site: same-origin\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image"
			)
			for _, make := range []struct {
				name, method, fields string
				banned               bool
				least, most          int
				path                 string
			}{
				{"preflights", "OPTIONS", preflight, false, 100, 500, "/product/%d"}, // as many calls are in order as nothing says that they are pages
				{"preflights of who is banned", "OPTIONS", preflight, true, 20, 20, "/product/%d"},
				{"those of a page of who is banned", "OPTIONS", preflight, true, 120, 150, "/api/item?id=1"},
				{"heads, as images", "HEAD", image, false, 2, 150, "/product/%d"},
			} {
				t.Run(make.name, func(t *testing.T) {
					s := lenient(t)
					g := serveCheck(t, s.URL, "style: verdict\n"+b.settings, "processor: {exempt: []}")
					url := b.run(t, g, strings.TrimPrefix(s.URL, "http://"))
					if make.banned {
						g.ban("ip:127.0.0.1", "10m")
					}
					const all = 600
					got := 0
					for n := range all {
						if asks(t, make.method, url+strings.ReplaceAll(make.path, "%d", strconv.Itoa(n)), make.fields) == 200 {
							got++
						}
					}
					t.Logf("%d of %d", got, all)
					if got < make.least || got > make.most {
						t.Errorf("the site has told of %d of %d, %d to %d are in order", got, all, make.least, make.most)
					}
				})
			}
		})
	}
}

// asks makes one request with a browser's name and fields, each a line, and returns the status of the answer.
func asks(t *testing.T, method, url, fields string) int {
	t.Helper()
	q, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36")
	for line := range strings.SplitSeq(fields, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		q.Header.Set(field, value)
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

// TestHarvestByPathsOfOneHash: beside a balancer, which has told what the site's logo is, pages are asked for by paths that were made to
// have the logo's hash as far as a client can compute it. They count as pages.
func TestHarvestByPathsOfOneHash(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	const logo = "/static/logo/2026.webp"
	for range 20 {
		v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+logo, goodUser, "X-Antirobot-Answer", "200 image/webp")...).must(t, 204, "")
	}
	const all = 600
	got := 0
	for n := range all {
		path := ofHash(t, "/product/"+strconv.Itoa(10_000+n)+"/", logo)
		r := v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, badUser,
			"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8")...)
		if r.StatusCode == 200 {
			got++
		}
	}
	t.Logf("%d of %d", got, all)
	if got > 200 {
		t.Errorf("the site has told of %d of %d", got, all)
	}
}

// TestHarvestByNamedPaths: beside a balancer, which has told what the site's logo and its style are, these are asked for with a field that names a page. Some services
// give that, so they count as pages, and are not let through to who is asked.
func TestHarvestByNamedPaths(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	told := map[string]string{"/static/logo/2026.webp": "image/webp", "/static/site.css": "text/css", "/favicon.ico": "image/x-icon"}
	for path, of := range told {
		for range 20 {
			v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+path, goodUser, "X-Antirobot-Answer", "200 "+of)...).must(t, 204, "")
		}
	}
	const each = 200
	got := 0
	for n := range each {
		for path := range told {
			r := v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, badUser,
				"X-Original-URL", "/product/"+strconv.Itoa(n), "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8")...)
			if r.StatusCode == 200 {
				got++
			}
		}
	}
	t.Logf("%d of %d", got, each*len(told))
	if got > 200 {
		t.Errorf("the site has told of %d of %d", got, each*len(told))
	}
}

// ofHash returns a path that begins so and has the request.Hash of another.
func ofHash(t *testing.T, begin, like string) string {
	t.Helper()
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	word := func(b string) (w uint64) {
		for i := range len(b) {
			w |= uint64(b[i]) << (8 * i)
		}
		return w
	}
	last := func(b string) uint64 { // what is multiplied last, with the last word of b
		h := uint64(len(b)) ^ k0
		for ; len(b) > 8; b = b[8:] {
			hi, lo := bits.Mul64(h^word(b[:8]), k1)
			h = hi ^ lo ^ k0
		}
		return h ^ word(b)
	}
	want := last(like)
	for n := range 1_000_000 {
		b := begin + strconv.Itoa(n)
		b += strings.Repeat("-", (8-len(b)%8)%8) + "\x00\x00\x00\x00\x00\x00\x00\x00"
		w := last(b) ^ want
		end := string(le.LittleEndian.AppendUint64(nil, w))
		if strings.ContainsFunc(end, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`?#%"\<>^|{}`+"`", r) }) {
			continue
		}
		path := b[:len(b)-8] + end
		if request.Hash([]byte(path)) != request.Hash([]byte(like)) {
			t.Fatalf("%q was to have the hash of %q", path, like)
		}
		return path
	}
	t.Fatalf("no path that begins with %s has the hash of %s", begin, like)
	return ""
}

// TestHarvestAmongPictures: beside a balancer that has told of a site's pictures and pages, pages are asked for by what some services read as a
// page and others as one more picture, and in several ranges at once, whose answer does not say what it is of. They count as pages.
func TestHarvestAmongPictures(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	for n := range 60 {
		for path, is := range map[string]string{"/product/%d": "200 text/html", "/product/%d.jpg": "200 image/jpeg", "/static/%d.jpg": "200 image/jpeg"} {
			v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+strings.ReplaceAll(path, "%d", strconv.Itoa(n)), goodUser, "X-Antirobot-Answer", is)...).must(t, 204, "")
		}
	}
	image := []string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8"}
	for i, make := range []struct {
		path   string
		fields []string
	}{
		{"/product/%d;a.jpg", nil},
		{"/product/%d%3ba.jpg", nil},
		{"/product/%d%3fa.jpg", nil},
		{"/static/x/..%2f..%2fproduct/%d.jpg", nil},
		{"/product/%d.jpg", []string{"Range", "bytes=0-1,2-"}},
	} {
		const all = 600
		got := 0
		for n := range all {
			path := strings.Replace(make.path, "%d", strconv.Itoa(10_000+n), 1)
			if v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, "192.0."+strconv.Itoa(i)+".9", append(make.fields, image...)...)...).StatusCode == 200 {
				got++
			}
		}
		t.Logf("%s: %d of %d", make.path, got, all)
		if got < 2 || got > 250 {
			t.Errorf("%s: the site has told of %d of %d", make.path, got, all) // in a wave the first request passes
		}
	}
	ok := 0
	for n := range 200 { // a page with many pictures
		path := "/product/" + strconv.Itoa(20_000+n) + ".jpg"
		if v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, goodUser, image...)...).StatusCode == 200 {
			ok++
		}
	}
	if ok != 200 {
		t.Errorf("of 200 pictures of a page a person gets %d", ok)
	}
}

// TestEmbedsOfPagesCostTheReaderNothing: a page of another site whose elements name the pages of a shop uses up nothing of its
// reader's; what other sites may embed is served.
func TestEmbedsOfPagesCostTheReaderNothing(t *testing.T) {
	t.Parallel()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		types := map[string]string{"picture": "image/png", "script": "text/javascript", "data": "application/json"}
		what, _, _ := strings.Cut(r.URL.Path[1:], "/")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if typ := types[what]; typ != "" {
			w.Header().Set("Content-Type", typ)
		}
		if what == "widget" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}
		_, _ = io.WriteString(w, "a "+what)
	}))
	t.Cleanup(shop.Close)
	g := serve(t, shop.URL, "--trusted-proxies", "127.0.0.1")
	const addr = "198.51.100.7"
	v := visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	opens := func(path string) {
		t.Helper()
		v.get(g.url+path, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document").must(t, 200, "a ")
	}
	embeds := func(path, site, mode, dest string) *response {
		t.Helper()
		return v.get(g.url+path, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", dest,
			"Accept", "*/*", "Referer", "https://third.example/", "Origin", map[bool]string{true: "https://third.example"}[mode == "cors"])
	}
	opens("/page/1")
	for n := range 400 { // each is named ten times, so that nine times the gateway knows that it is a page
		r := embeds(fmt.Sprint("/page/", n/10), "cross-site", "no-cors", "image").must(t, 403, "cross-site request for a page\n")
		if typ := r.Header.Get("Content-Type"); !strings.HasPrefix(typ, "text/plain") || r.Header.Get("X-Antirobot-Verdict") != "blocked" {
			t.Fatalf("answered with %v", r.Header)
		}
	}
	embeds("/page/1", "cross-site", "cors", "empty").must(t, 403, "cross-site request for a page\n")
	embeds("/widget", "cross-site", "cors", "empty").must(t, 200, "a widget")
	for path, dest := range map[string]string{"/picture": "image", "/script": "script", "/data": "script"} {
		embeds(path, "cross-site", "no-cors", dest).must(t, 200, "")
	}
	embeds("/data", "cross-site", "cors", "empty").must(t, 200, "a data")
	embeds("/page/1", "same-site", "cors", "empty").must(t, 200, "a page")
	for n := range 3 {
		opens(fmt.Sprint("/page/later/", n))
	}
	eventually(t, "the reader's own pages are counted", func() bool { return g.session("ip:"+addr).Pages >= 4 })
	if s := g.session("ip:" + addr); s.Pages > 8 {
		t.Errorf("%d pages are counted for a reader who opened 4, and got 4 that other sites may embed", s.Pages)
	}
	g.ban("ip:"+addr, "1h")
	embeds("/page/1", "cross-site", "no-cors", "image").must(t, 403, "")
}

// TestBudgetOfDocuments harvests a site at the default settings, from addresses reported by a balancer: pages requested as
// images, as styles and by scripts from one address, and a /48 with a different address for each page. Requests over the
// budget get a challenge that says so.
func TestBudgetOfDocuments(t *testing.T) {
	t.Parallel()
	balanced, file := freePort(t), filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf("listen: [{address: %q, proxy_protocol: true}]\nidentity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\n",
		balanced, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, "serve", "--config", file)
	const chrome = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36\r\n" +
		"Accept-Encoding: deflate\r\nAccept-Language: en-GB,en;q=0.9\r\n"
	ask := func(addr, path, fields string) string {
		t.Helper()
		c, err := net.Dial("tcp", balanced)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		family, here := "TCP4", "127.0.0.1"
		if strings.Contains(addr, ":") {
			family, here = "TCP6", "::1"
		}
		fmt.Fprintf(c, "PROXY %s %s %s 5555 80\r\nGET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s\r\n", family, addr, here, path, chrome, fields)
		b, _ := io.ReadAll(c)
		return string(b)
	}
	const pages = 500
	for name, make := range map[string]struct {
		addr   func(n int) string
		path   string
		fields string
		most   int // of an hour
	}{
		"image": {func(int) string { return "203.0.113.9" }, "/product/%d", "Accept: image/webp,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n", 200},
		"style": {func(int) string { return "203.0.114.9" }, "/product/%d/a.css", "Accept: text/css,*/*;q=0.1\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: style\r\n", 200},
		"net48": {
			func(n int) string { return fmt.Sprintf("2001:db8:7:%x::1", n) }, "/product/%d",
			"Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n", 8 * 200,
		},
	} {
		n := pages
		if make.most > pages {
			n = make.most + 200
		}
		got := 0
		for i := range n {
			if strings.Contains(ask(make.addr(i), fmt.Sprintf(make.path, i), make.fields), "site got GET") {
				got++
			}
		}
		t.Logf("%s: %d of %d", name, got, n)
		if got < 1 || got > make.most {
			t.Errorf("%s: the site has answered %d of %d requests, at most %d are in order", name, got, n, make.most)
		}
	}
	if g.metric("antirobot_over_quota") < 1 {
		t.Error("nobody was asked for what was read")
	}
	ledBack(t, func(path, fields string) string {
		return ask("203.0.113.9", path, "Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"+fields)
	})
}

// ledBack checks that a browser that looks like the one client that is asked at its address is led on with a name of its
// own, if it keeps cookies.
func ledBack(t *testing.T, ask func(path, fields string) string) {
	t.Helper()
	sent := ask("/front", "")
	to, _, _ := strings.Cut(after(sent, "\r\nLocation: http://localhost"), "\r\n")
	name, _, _ := strings.Cut(after(sent, "\r\nSet-Cookie: i="), ";")
	if !strings.HasPrefix(to, "/showcaptcha?") || name == "" {
		t.Fatalf("a neighbour is not sent to the captcha with a name: %s", sent)
	}
	if page := ask(to, ""); !strings.Contains(page, "200 OK") || !strings.Contains(page, "checkcaptcha") {
		t.Errorf("who keeps no cookies is not asked: %s", page)
	}
	cookie := "Cookie: i=" + name + "\r\n"
	if back := ask(to, cookie); !strings.Contains(back, "\r\nLocation: http://localhost/front\r\n") {
		t.Errorf("the neighbour is not led back: %s", back)
	}
	if page := ask("/front", cookie); !strings.Contains(page, "site got GET") {
		t.Errorf("the neighbour is stopped: %s", page)
	}
}

// after returns what follows the first occurrence of a text; empty without one.
func after(s, text string) string {
	_, rest, _ := strings.Cut(s, text)
	return rest
}

// TestCurlOnAServiceOfData: a service that answers only JSON is an interface for programs: curl that reads a hundred items at once is
// not limited, and why says what its requests were counted as.
func TestCurlOnAServiceOfData(t *testing.T) {
	t.Parallel()
	servertest.Need(t, "curl")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"item": %q}`, r.Header.Get("X-Request-Id"))
	}))
	t.Cleanup(service.Close)
	g := configured(t, "processor: {exempt: []}\nservices: [{name: data, upstream: {urls: [%q]}}]\n", service.URL)
	out, err := exec.Command("curl", "-s", "--fail", g.url+"/api/item/[1-200]").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	items := strings.Split(string(out), `"item": "`)
	if len(items) != 201 {
		t.Fatalf("%d items", len(items)-1)
	}
	id, _, _ := strings.Cut(items[200], `"`)
	eventually(t, "what it counts as", func() bool {
		return strings.Contains(string(g.api("GET", "/api/decisions/"+id, nil)), `"as":"machine read"`)
	})
}

const officeConfig = `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    verdict:
      threshold: 0.99
      limits: []
`

// TestRobotsWithCookiesInAnOffice: robots that keep cookies behind the address of an office are asked for what they read without the parts of pages, as
// one household; their colleagues, who load them, are not, nor is somebody who comes later.
func TestRobotsWithCookiesInAnOffice(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(r.URL.Path, ".webp") {
			w.Header().Set("Content-Type", "image/webp")
		}
		_, _ = io.WriteString(w, "site got it")
	}))
	t.Cleanup(service.Close)
	g := configured(t, officeConfig, service.URL)
	n := 0
	reads := func(v *client, parts int) *response {
		n++
		r := v.get(fmt.Sprintf("%s/page/%d", g.url, n), "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "none")
		for i := range parts {
			v.get(fmt.Sprintf("%s/picture/%d-%d.webp", g.url, n, i), "Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin")
		}
		return r
	}
	const office = "203.0.113.5"
	var colleagues, robots []*client
	for range 10 {
		colleagues, robots = append(colleagues, from(t, office)), append(robots, from(t, office))
	}
	for range 3 {
		for _, v := range colleagues {
			reads(v, 4).must(t, 200, "site got")
		}
	}
	got := 0
	eventually(t, "the robots are asked", func() bool {
		asked := 0
		for _, v := range robots {
			if r := reads(v, 0); r.StatusCode == 302 {
				asked++
			} else {
				got++
			}
		}
		return asked == len(robots)
	})
	if got > 200 {
		t.Errorf("the robots have read %d pages", got)
	}
	for i, v := range append(colleagues, from(t, office)) {
		if r := reads(v, 4); r.StatusCode != 200 {
			t.Errorf("colleague %d is stopped: %d %s", i, r.StatusCode, r.Header)
		}
	}
}

// TestMachinesAreKnownByAllGateways: solvers who divide their answers between two gateways of one Redis, too few at each, are
// recognised by both, one raises the alarm, and by rule the passes that they earn are taken back at both; those of a neighbour with
// another browser are not. With roles, gateways that only decide do the same.
func TestMachinesAreKnownByAllGateways(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"all", "gateway"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			machinesAtTwo(t, role)
		})
	}
}

func machinesAtTwo(t *testing.T, role string) {
	file := configFile(t, `
role: %s
store: {url: "redis://%s"}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
captcha: {alarm: {solved: 6, revoke: true}}
defaults: {upstream: {urls: [%q]}}
`, role, redistest.Start(t).Addr, secretFile(t), site(t).URL)
	var all [2]*gateway
	for i := range all {
		all[i] = start(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	}
	const program = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	solver := func(g *gateway, n int, agent string) *client {
		v := from(t, fmt.Sprintf("203.0.113.%d", n))
		if agent != "" {
			v.header.Set("User-Agent", agent)
		}
		g.ban(fmt.Sprintf("ip:203.0.113.%d", n), "10m")
		g.earn(v, "/")
		return v
	}
	told := func(g *gateway) (machines []string, campaigns int) {
		var c struct {
			MachinesSolve []string `json:"machines-solve"`
			Campaigns     []struct{ Name string }
		}
		if err := json.Unmarshal(g.api("GET", "/api/challenges", nil), &c); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Campaigns {
			if strings.HasPrefix(x.Name, "203.0.113.0/24 ") {
				campaigns++
			}
		}
		return c.MachinesSolve, campaigns
	}
	neighbour := solver(all[0], 99, "")
	var solvers []*client
	for n := range 3 {
		solvers = append(solvers, solver(all[0], 1+n, program))
	}
	if machines, campaigns := told(all[0]); len(machines) > 0 || campaigns > 0 {
		t.Fatalf("four answers are machines: %v, %d campaigns", machines, campaigns)
	}
	for n := range 2 {
		solvers = append(solvers, solver(all[1], 11+n, program))
	}
	// Six answers of which five are the program's: the network is known by both.
	for i, g := range all {
		eventually(t, "the network at a gateway", func() bool { machines, _ := told(g); return len(machines) == 1 })
		if _, campaigns := told(g); campaigns > 0 {
			t.Errorf("gateway %d: five answers of one kind of browser are a campaign", i)
		}
	}
	eventually(t, "the alarm", func() bool {
		_, out := command(t, "alarms", "--admin", all[1].admin, "--data-dir", all[1].dir)
		return strings.Contains(out, "challenges are solved by machine from 203.0.113.0/24")
	})
	solvers = append(solvers, solver(all[1], 13, program))
	for _, g := range all {
		eventually(t, "the campaign at a gateway", func() bool { _, campaigns := told(g); return campaigns == 1 })
		for n, v := range solvers {
			eventually(t, fmt.Sprintf("the pass of solver %d is taken back", n), func() bool { return v.get(g.url+"/").StatusCode == 302 })
		}
		neighbour.get(g.url+"/").must(t, 200, "site got")
	}
}

// TestPrefetchesCostNothing: a page that a browser loads ahead of time is declined where its person would be challenged or pay,
// and neither the pass nor the session counts it; whoever is free to read gets it.
func TestPrefetchesCostNothing(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	v := visitor(t)
	v.header.Set("Accept-Language", "en")
	v.header.Set("Accept-Encoding", "identity")
	prefetch := func(path string, want int) {
		t.Helper()
		for _, field := range []string{"Sec-Purpose", "Purpose"} {
			r := v.get(g.url+path, field, "prefetch")
			if r.StatusCode != want || want == 503 && r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s with %s: %d %v", path, field, r.StatusCode, r.Header)
			}
		}
		if r := v.get(g.url+path, "Sec-Purpose", "prefetch;prerender"); r.StatusCode != want {
			t.Errorf("%s as prerender: %d", path, r.StatusCode)
		}
	}
	prefetch("/free", 200)
	g.ban("ip:127.0.0.1", "10m")
	prefetch("/stopped", 503)
	v.get(g.url+"/", "Sec-Purpose", "prefetched").must(t, 302, "") // no prefetch
	program := visitor(t)
	program.header = http.Header{"User-Agent": {"curl/8.5.0"}}
	if r := program.get(g.url+"/stopped", "Purpose", "prefetch"); r.StatusCode != 403 || r.Header.Get("X-Antirobot-Verdict") == "" {
		t.Errorf("a program that calls its request a prefetch: %d %v", r.StatusCode, r.Header)
	}
	g.solve(v, "/")
	for i := range 40 {
		prefetch(fmt.Sprint("/next/", i), 503)
	}
	pages := 0
	for ; pages < 200; pages++ {
		if r := v.get(g.url + "/x"); r.StatusCode != 200 {
			break
		}
	}
	if pages < 98 || pages > 100 {
		t.Errorf("the pass paid for %d pages, wanted 100, less those that the way back took", pages)
	}
}

// TestPreflightsOfAStoppedClient: they go on to the service, without which no browser would show its visitor the challenge, but a
// flood of them does not.
func TestPreflightsOfAStoppedClient(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.WriteHeader(204)
	}))
	t.Cleanup(service.Close)
	g := serve(t, service.URL)
	g.ban("ip:127.0.0.1", "1h")
	v := visitor(t)
	const sent = 600
	for range sent {
		r := v.do("OPTIONS", g.url+"/call", "", "Origin", "https://third.example", "Access-Control-Request-Method", "PUT")
		if r.StatusCode != 204 && (r.StatusCode != 403 || r.body != "") {
			t.Fatalf("answered with %d %v", r.StatusCode, r.Header)
		}
	}
	if n := reached.Load(); n < 120 || n > sent/2 {
		t.Errorf("of %d preflights %d reach the service", sent, n)
	}
}

// TestPitfall12FloodFillsNoLog: a robot that never stops writes a bounded number of lines, and the next one says how many
// were omitted.
func TestPitfall12FloodFillsNoLog(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
log: {access_lines: 50}
defaults:
  upstream: {urls: [%q]}
`, site(t).URL))
	g.ban("ip:127.0.0.1", "1h")
	v := visitor(t)
	began := time.Now()
	const many = 300
	for range many {
		if r := v.get(g.url + "/"); r.StatusCode != http.StatusFound {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	// One more line of each kind a second: ask until the next of both is there.
	next := func(kind string) string {
		return g.logs.find(func(line string) bool {
			return strings.Contains(line, `"message":"`+kind+`"`) && strings.Contains(line, `"left_out":`)
		})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if r, err := v.Get(g.url + "/"); err == nil {
					_ = r.Body.Close()
				}
			}
		}
	}()
	for _, kind := range []string{"decision", "request"} {
		if next(kind) == "" {
			t.Errorf("no line says how many %s lines were left out", kind)
		}
	}
	close(stop)
	<-stopped
	seconds := int(time.Since(began)/time.Second) + 1
	text := g.logs.String()
	if n := strings.Count(text, `"message":"decision"`); n > 120+seconds {
		t.Errorf("%d decision lines in %d s", n, seconds)
	}
	if n := strings.Count(text, `"message":"request"`); n > 50*(seconds+1) {
		t.Errorf("%d access lines in %d s", n, seconds)
	}
	for kind, written := range map[string]int{"decision": 120 + seconds, "access": 50 * (seconds + 1)} {
		if n := g.metric("antirobot_log_lines_left_out_total", kind); int(n) < many-written {
			t.Errorf("%v %s lines are counted as left out", n, kind)
		}
	}
}
