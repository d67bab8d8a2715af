package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPitfall13NothingPanics sends mutations of valid requests to every entry point of a running gateway. The parsers have
// their own fuzz targets; this covers what is between them.
func TestPitfall13NothingPanics(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xml], ajax_paths: [/api]}
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
    cookies: {fuid: trusted, service_cookie: {name: sid, keys: [{key: %s}]}, login: {algorithm: HS256, keys: [{key: %[2]s}]}}
`, site(t).URL, serviceKey)
	g.ban("ip:203.0.113.1", "10m")
	v := from(t, "203.0.113.1")
	key := v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").challenge(t).Captcha.Key
	link, _ := url.Parse(v.get(g.url + "/a?b=c").Header.Get("Location"))
	form := formOf(t, v.do("POST", g.url+"/post", "a=b", "Content-Type", "application/x-www-form-urlencoded").body)
	g.earn(v, "/")
	head := "Host: site.example\r\nX-Forwarded-For: 203.0.113.1\r\nCookie: spravka=" + v.pass(t, g.url) + "; " + signed(t, "x") + "; fuid01=5f5e10001234567890; L=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.x\r\n"
	form.Set("rep", "1")
	body := form.Encode()
	seeds := []string{
		"GET / HTTP/1.1\r\n" + head + "X-Retpath-Y: http://site.example/x?y#z\r\nRange: bytes=0-5\r\n\r\n",
		"GET " + link.RequestURI() + " HTTP/1.1\r\n" + head + "Accept-Language: ru, en;q=0.5\r\n\r\n",
		"GET /checkcaptcha?" + url.Values{"key": {key}, "rep": {"1"}, "retpath": {"http://site.example/"}}.Encode() + " HTTP/1.1\r\n" + head + "\r\n",
		"GET /xcheckcaptcha?" + url.Values{"key": {key}, "rep": {"1"}}.Encode() + "&partner=1 HTTP/1.1\r\n" + head + "\r\n",
		"GET /captcha/image?key=" + key + " HTTP/1.1\r\n" + head + "\r\n",
		"GET /xml?query=x&key=partner-key-0123456789 HTTP/1.1\r\n" + head + "X-Real-IP: 198.51.100.1\r\n\r\n",
		"GET /api/x HTTP/1.1\r\n" + head + "Origin: https://o.example\r\nAccept: application/json;q=0.9, */*;q=0.1\r\n\r\n",
		fmt.Sprintf("POST /checkcaptcha HTTP/1.1\r\n%sContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body),
		"POST /a HTTP/1.1\r\n" + head + "Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n--x\r\n0\r\nT: u\r\n\r\n",
		"GET /ws HTTP/1.1\r\n" + head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	}
	const rounds = 1500
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 7))
			for range rounds / 4 {
				g.throw(mutate(r, seeds[r.IntN(len(seeds))], seeds[r.IntN(len(seeds))]))
			}
		})
	}
	wg.Wait()
	if n := g.metric("panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	g.api("DELETE", "/api/bans?subject=ip:203.0.113.1&service=*", nil)
	from(t, "198.51.100.77").get(g.url+"/").must(t, 200, "site got")
	if s := g.logs.String(); strings.Contains(s, "goroutine ") || strings.Contains(s, "BUG: ") {
		t.Errorf("the log has a stack: %s", tail(s, 3000))
	}
}

// mutate changes a few places of a: bytes, lengths, and pieces of b.
func mutate(r *rand.Rand, a, b string) string {
	p := []byte(a)
	for range 1 + r.IntN(4) {
		if len(p) < 2 {
			break
		}
		i := r.IntN(len(p))
		switch r.IntN(6) {
		case 0:
			p[i] = byte(r.IntN(256))
		case 1:
			p[i] ^= 1 << r.IntN(8)
		case 2:
			p = append(p[:i], p[i+1+r.IntN(min(8, len(p)-i)):]...)
		case 3:
			k := r.IntN(len(b))
			p = append(p[:i:i], append([]byte(b[k:k+r.IntN(len(b)-k)]), p[i:]...)...)
		case 4:
			p = append(p[:i:i], append([]byte(strings.Repeat(string(p[i]), 1+r.IntN(3000))), p[i:]...)...)
		case 5:
			evil := []string{"\x00", "%00", "%", "%2", "\xff\xfe", "9999999999999999999", "-1", ";", ",", "=", "..", "//", "\r\n\r\n", "\n", "%u0041", "💥"}
			p = append(p[:i:i], append([]byte(evil[r.IntN(len(evil))]), p[i:]...)...)
		}
	}
	return string(p)
}

// throw sends text and reads a part of whatever comes back.
func (g *gateway) throw(text string) {
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		g.t.Errorf("the gateway does not answer: %v", err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	_, _ = io.WriteString(c, text)
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
}

// TestHostileService protects visitors from a lying service: it can't speak for the gateway, and gets the gateway's cookies
// only where the operator allows it.
func TestHostileService(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Antirobot-Verdict", "blocked")
		w.Header().Set("X-Antirobot-Reason", "because")
		w.Header().Set("Connection", "close, X-Hop")
		w.Header().Set("X-Hop", "by hop")
		fmt.Fprintf(w, "cookies: %s; verdict: %s", r.Header.Get("Cookie"), r.Header.Get("X-Antirobot-Verdict"))
	}))
	t.Cleanup(s.Close)
	g := configured(t, `
services:
  - {name: open, hosts: [127.0.0.1], upstream: {urls: [%[1]q]}}
  - {name: close, hosts: [close.example], upstream: {urls: [%[1]q]}, requests: {pass_own_cookies: false, tell_service: true}}
`, s.URL)
	cookies := "Cookie: session=mine; spravka=abc; i=def; other=x\r\nX-Antirobot-Verdict: human\r\nConnection: close\r\n\r\n"
	open := g.wire("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"+cookies).must(t, 200, "cookies: session=mine; spravka=abc; i=def; other=x; verdict: ")
	if strings.HasSuffix(open.body, "human") {
		t.Errorf("the service believes the client: %s", open.body)
	}
	shut := g.wire("GET / HTTP/1.1\r\nHost: close.example\r\n"+cookies).must(t, 200, "verdict: human")
	if strings.Contains(shut.body, "abc") || strings.Contains(shut.body, "def") || !strings.Contains(shut.body, "session=mine") || !strings.Contains(shut.body, "other=x") {
		t.Errorf("the service got %s", shut.body)
	}
	for _, r := range []*response{open, shut} {
		if r.Header.Get("X-Antirobot-Verdict") != "" || r.Header.Get("X-Antirobot-Reason") != "" || r.Header.Get("X-Hop") != "" {
			t.Errorf("the service speaks for the gateway: %v", r.Header)
		}
	}
}

// TestPitfall12HeaderFloods: they are refused by size and number before anything of them is kept.
func TestPitfall12HeaderFloods(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	for what, c := range map[string]struct {
		text string
		want int
	}{
		"a long field":    {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", 431},
		"many fields":     {"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n", 431},
		"a long target":   {"GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
		"many cookies":    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: " + strings.Repeat("i=1; ", 5000) + "\r\n\r\n", 200},
		"many forwarders": {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: " + strings.Repeat("1.2.3.4,", 5000) + "\r\n\r\n", 200},
	} {
		if r := g.wire(c.text); r.StatusCode != c.want {
			t.Errorf("%s: %d, wanted %d", what, r.StatusCode, c.want)
		}
	}
	for _, reason := range []string{"header_too_long", "too_many_fields", "target_too_long"} {
		if n := g.metric("antirobot_http_bad_requests_total", reason); n != 1 {
			t.Errorf("%s is counted %v times", reason, n)
		}
	}
}
