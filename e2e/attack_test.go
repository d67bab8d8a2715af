package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"antirobot/store/redisstore/redistest"
)

// TestUnderAttack: the switch by signal, command line and API asks whom the site does not know, says why, and is over at once
// where nothing eases it; a service with a condition asks only while it is slow.
func TestUnderAttack(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if slow.Load() {
			time.Sleep(300 * time.Millisecond)
		}
		fmt.Fprint(w, "site got it")
	}))
	t.Cleanup(service.Close)
	g := start(t, "serve", "--config", configFile(t, `
verdict: {attack: {ease: 0s, then: captcha}}
processor: {exempt: []}
defaults: {upstream: {urls: [%q]}}
services:
  - name: shop
    verdict: {limits: [{window: 1h, requests: 3, ban: 1h}], when: {load: {slow: 200ms}}}
`, service.URL), "--trusted-proxies", "127.0.0.1", "--captcha-test-answer", testAnswer)
	v := visitor(t)
	asked := func(address string) bool {
		return v.get(g.url+"/", "X-Forwarded-For", address).StatusCode == 302
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := g.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	attack := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(g.cmd.Path, append([]string{"attack", "--admin", g.admin, "--data-dir", g.dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := attack(); out != "not under attack\n" || asked("203.0.113.1") {
		t.Errorf("at first: %s", out)
	}
	signal(syscall.SIGUSR1)
	eventually(t, "a newcomer is asked", func() bool { return asked("203.0.113.1") })
	page := v.get(v.get(g.url+"/", "X-Forwarded-For", "203.0.113.1").Header.Get("Location"), "X-Forwarded-For", "203.0.113.1")
	page.must(t, 200, "lets people in before programs")
	if n := g.metric("antirobot_under_attack"); n != 1 || g.metric("antirobot_requests_total", `cause="attack"`) == 0 {
		t.Errorf("the share is %v", n)
	}
	signal(syscall.SIGUSR2)
	eventually(t, "nobody is asked", func() bool { return !asked("203.0.113.1") })
	if out := attack("on", "--for", "10m"); !strings.HasPrefix(out, "under attack until ") || !asked("203.0.113.1") {
		t.Errorf("by the command line: %s", out)
	}
	if out := attack("off"); !strings.HasPrefix(out, "switched off") || asked("203.0.113.1") {
		t.Errorf("over: %s", out)
	}

	// Too many pages earn a ban, which matters while the service is slow.
	const robot = "203.0.113.9"
	eventually(t, "a ban", func() bool {
		if asked(robot) {
			t.Fatal("a robot is asked while the service is quick")
		}
		return strings.Contains(string(g.api("GET", "/api/bans", nil)), robot)
	})
	slow.Store(true)
	eventually(t, "the robot is asked", func() bool { return asked(robot) })
}

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

// TestRepelledPassChanges: no pass with a single changed character is accepted.
func TestRepelledPassChanges(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	g.solve(v, "/")
	pass := v.pass(t, g.url)
	c := visitor(t)
	c.Jar = nil
	for i := range pass {
		other := byte('A')
		if pass[i] == other {
			other = 'B'
		}
		if r := c.get(g.url+"/", "Cookie", "spravka="+pass[:i]+string(other)+pass[i+1:]); r.StatusCode != 302 {
			t.Errorf("character %d changed: %d", i, r.StatusCode)
		}
	}
	for _, other := range []string{pass[1:], pass[:len(pass)-1], pass + "A", pass + "=", strings.ToLower(pass), strings.ToUpper(pass), pass + pass, strings.Replace(pass, ".", "", 1)} {
		if r := c.get(g.url+"/", "Cookie", "spravka="+other); r.StatusCode != 302 {
			t.Errorf("%q: %d", other, r.StatusCode)
		}
	}
	c.get(g.url+"/", "Cookie", "spravka="+pass).must(t, 200, "site got")
}

// TestRepelledScriptInjection: nothing that a client writes anywhere appears unescaped in a page of the gateway.
func TestRepelledScriptInjection(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	const evil = `"'><script>alert(7)</script><img src=x onerror=alert(7)>`
	q := url.QueryEscape(evil)
	link := strings.TrimPrefix(visitor(t).get(g.url+"/page").Header.Get("Location"), g.url)
	form := "key=" + q + "&rep=" + q + "&retpath=" + q + "&t=" + q + "&u=" + q + "&s=" + q + "&lang=" + q + "&status=" + q + "&saved=" + q
	for place, r := range map[string]*response{
		"query":           visitor(t).get(g.url + "/?q=" + q),
		"path":            visitor(t).get(g.url + "/" + url.PathEscape(evil)),
		"User-Agent":      visitor(t).get(g.url+link, "User-Agent", evil),
		"Referer":         visitor(t).get(g.url+link, "Referer", evil),
		"X-Retpath-Y":     visitor(t).get(g.url+"/", "X-Retpath-Y", evil),
		"Accept-Language": visitor(t).get(g.url+link, "Accept-Language", evil),
		"cookies":         visitor(t).get(g.url+link, "Cookie", "antirobot_lang="+evil+"; spravka="+evil),
		"the page":        visitor(t).get(g.url + "/showcaptcha?" + form),
		"the answer":      visitor(t).do("POST", g.url+"/checkcaptcha", form, "Content-Type", "application/x-www-form-urlencoded"),
		"the script's":    visitor(t).get(g.url+"/checkcaptcha?"+form, "Accept", "application/json"),
		"a form":          visitor(t).do("POST", g.url+"/a?x="+q, "text="+q, "Content-Type", "application/x-www-form-urlencoded"),
		"XML":             visitor(t).get(g.url + "/xcheckcaptcha?" + form),
		"picture":         visitor(t).get(g.url + "/captcha/image?" + form),
		"nothing there":   visitor(t).get(g.url + "/captcha/" + q),
	} {
		if r.StatusCode == http.StatusOK && strings.Contains(r.body, "site got") {
			t.Errorf("%s: it reached the service", place)
		}
		if strings.Contains(r.body, "<script>alert(7)") || strings.Contains(r.body, "<img src=x") {
			t.Errorf("%s: %d %s\n%s", place, r.StatusCode, r.Header.Get("Content-Type"), tail(r.body, 600))
		}
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, ""), "<script>alert(7)") {
				t.Errorf("%s: field %s: %q", place, name, values)
			}
		}
	}
}

// TestRepelledHalfOpenHeads: ten thousand heads that never end are cut, and a person who visits meanwhile gets every page.
func TestRepelledHalfOpenHeads(t *testing.T) {
	t.Parallel()
	const heads = 10_000
	g := configured(t, "defaults: {upstream: {urls: [%q]}}\nhttp: {header_timeout: 4s}\n", site(t).URL)
	addr := strings.TrimPrefix(g.url, "http://")
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	for n := range 20 { // addresses of this machine, each below what one may open
		wg.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}, Timeout: patience}
			for range heads / 20 {
				c, err := d.Dial("tcp", addr)
				if err != nil {
					return // counted below
				}
				fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, c := range open {
			c.Close()
		}
	})
	if len(open) < heads {
		t.Fatalf("only %d connections could be opened", len(open))
	}
	for range 20 {
		visitor(t).get(g.url+"/").must(t, 200, "site got")
	}
	for _, c := range open { // each is told, and its connection ends
		_ = c.SetReadDeadline(time.Now().Add(patience))
		b, err := io.ReadAll(c)
		if err != nil || len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 408 ") {
			t.Fatalf("a head without an end got %q, %v", b, err)
		}
	}
	visitor(t).get(g.url+"/").must(t, 200, "site got")
}

// TestChallengesAreToldToOperators: operators see the outcomes of challenges, and that machines solve them.
func TestChallengesAreToldToOperators(t *testing.T) {
	t.Parallel()
	g := configured(t, "defaults: {upstream: {urls: [%q]}}\ncaptcha: {alarm: {solved: 3}}\n", site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	page := visitor(t).get(visitor(t).get(g.url+"/").Header.Get("Location")).must(t, 200, `name="rep"`) // gives up
	visitor(t).get(g.url+"/captcha/image?key="+formOf(t, page.body).Get("key")).must(t, 200, "PNG")
	for _, lang := range []string{"en", "en-GB", "en-US", "en-CA"} {
		v := visitor(t).speaks(lang)
		g.solve(v, "/")
		v.get(g.url+"/").must(t, 200, "site got")
	}
	got := string(g.api("GET", "/api/challenges", nil))
	for _, want := range []string{`"shown":5,"tried":4,"solved":4,"gave-up":1`, `"loaded":1,"came-back":4`, `"devices":[{"name":`, `"machines-solve":["127.0.0.0/24"]`, `"name":"page"`, `"name":"en"`} {
		if !strings.Contains(strings.NewReplacer(" ", "", "\n", "").Replace(got), want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	v, posted := visitor(t), []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", g.url}
	form := formOf(t, v.do("POST", g.url+"/letters", "a=b", posted...).must(t, 200, `name="saved"`).body)
	form.Set("rep", testAnswer)
	v.do("POST", g.url+"/checkcaptcha", form.Encode(), posted...).must(t, 307, "")
	v.do("POST", g.url+"/letters", form.Encode(), posted...).must(t, 200, "site got")
	if n := g.metric("antirobot_captcha_returned_total"); n != 5 {
		t.Errorf("%v solvers came back, one of them with a form", n)
	}
	if n := g.metric("antirobot_captcha_machines_solve"); n != 1 {
		t.Errorf("the metric says %v", n)
	}
	eventually(t, "the alarm", func() bool {
		_, out := command(t, "alarms", "--admin", g.admin, "--data-dir", g.dir)
		return strings.Contains(out, "challenges are solved by machine from 127.0.0.0/24")
	})
}

// TestSolversLoseTheirPasses: all passes of a campaign of solvers are taken back by one call or by rule, and those of its neighbours
// are not.
func TestSolversLoseTheirPasses(t *testing.T) {
	t.Parallel()
	const program = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	f := func(rule bool) {
		g := configured(t, "identity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\ncaptcha: {alarm: {solved: 4, revoke: %t}}\n", site(t).URL, rule)
		earns := func(address string) *client {
			v := from(t, address)
			if address != "203.0.113.99" {
				v.header.Set("User-Agent", program)
			}
			g.ban("ip:"+address, "10m")
			g.earn(v, "/")
			return v
		}
		neighbour := earns("203.0.113.99")
		var solvers []*client
		for n := range 4 {
			solvers = append(solvers, earns(fmt.Sprintf("203.0.113.%d", 1+n)))
		}
		if !rule {
			var told struct{ Campaigns []struct{ Name string } }
			if err := json.Unmarshal(g.api("GET", "/api/challenges", nil), &told); err != nil || len(told.Campaigns) == 0 || !strings.HasPrefix(told.Campaigns[0].Name, "203.0.113.0/24 ") {
				t.Fatalf("%+v, %v", told, err)
			}
			solvers[0].get(g.url+"/").must(t, 200, "site got")
			g.api("POST", "/api/revoke", map[string]string{"campaign": told.Campaigns[0].Name})
		}
		for n, v := range solvers {
			if r := v.get(g.url + "/"); r.StatusCode != 302 {
				t.Errorf("by rule %t: the pass of solver %d holds: %d", rule, n, r.StatusCode)
			}
		}
		neighbour.get(g.url+"/").must(t, 200, "site got")
	}
	f(false)
	f(true)
}

// TestMessageEvasions: a sender who omits the attribute, or writes it so that only the service might read it, gets a
// captcha; the service gets nothing.
func TestMessageEvasions(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	v := visitor(t)
	const js, parts = "application/json", "multipart/form-data; boundary=B"
	part := func(head, body string) string {
		return "--B\r\nContent-Disposition: form-data" + head + "\r\n\r\n" + body + "\r\n--B--\r\n"
	}
	for _, c := range []struct{ name, kind, body, decision string }{
		{"no field", form, "other=casino", ""},
		{"no body", form, "", ""},
		{"list", form, "words[]=casino", "SPAM"},
		{"numbered list", form, "words%5B0%5D=casino+1", "SPAM"},
		{"case", form, "WORDS=casino+2", "SPAM"},
		{"twice", form, "words=good&words=casino+3", "SPAM"},
		{"json list", js, `{"comment":{"body":["casino 4"]}}`, "SPAM"},
		{"json object", js, `{"comment":{"body":{"text":"casino 5"}}}`, "SPAM"},
		{"json list at the top", js, `[{"comment":{"body":"casino 6"}}]`, "SPAM"},
		{"json twins", js, `{"comment":{"body":"good","BODY":"casino 7"}}`, "SPAM"},
		{"json, the first of two", js, `{"comment":{"body":"casino 8"},"comment":{"body":"good"}}`, "SPAM"},
		{"json without", js, `{"comment":{}}`, ""},
		{"part in single quotes", parts, part("; name='words'", "casino 9"), "SPAM"},
		{"part with two names", parts, part(`; name="x"; name="words"`, "casino 10"), "SPAM"},
		{"part in base64", parts, part("; name=words\r\nContent-Transfer-Encoding: base64", "Y2FzaW5vIDExMQ=="), "SPAM"},
		{"file with a binary prefix", parts, part(`; name="words"; filename="a.gif"`, "GIF89a\x00\xff\xfe a casino for you\x00"), "SPAM"},
		{"after a semicolon", form, "a=1;words=casino+13&words=good", "SPAM"},
		{"a long s", form, "words=good&word%C5%BF=casino+14", "SPAM"},
		{"backslashes in a name", parts, part(`; name="wor\ds"`, "casino 15"), "SPAM"},
		{"byte order mark", parts, part("; name=words", "\xff\xfec\x00a\x00s\x00i\x00n\x00o\x00"), "SPAM"},
		{"base64 with what is none", parts, part("; name=words\r\nContent-Transfer-Encoding: base64", "Y2F *zaW5vIDE2"), "SPAM"},
		{"parts in a part", parts, part("; name=words\r\nContent-Type: multipart/mixed; boundary=C", "--C\r\n\r\ncasino\r\n--C--"), ""},
		{"undeclared charset", form, "words=%CB%F3%F7%F8%E5%E5+%EA%E0%E7%E8%ED%EE+%E2+%E3%EE%F0%EE%E4%E5", "SPAM"},
	} {
		r := v.do("POST", g.url+"/comments", c.body, "Content-Type", c.kind, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != c.decision || c.decision == "" && s.Message.Error == "" {
			t.Errorf("%s: %+v", c.name, s.Message)
		}
	}
	for _, path := range []string{"/Comments?words=casino+there", "/comments.json?words=casino+in+a+format", "/index.php/comments?words=casino+in+front", "/comments?words=casino+of+the+query"} {
		r := v.do("POST", g.url+path, "words=a+good+text+for+"+path[1:15], "Content-Type", form, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != "SPAM" {
			t.Errorf("%s: %+v", path, s.Message)
		}
	}
	for _, c := range []struct{ method, path, field, value, body, decision string }{
		{"PUT", "/comments", "X-HTTP-Method-Override", "POST", "words=casino+21", "SPAM"},
		{"PUT", "/comments", "X_HTTP_Method_Override", "POST", "words=casino+26", "SPAM"},
		{"PATCH", "/comments", "X-Unknown", "1", "words=casino+22&_method=post", "SPAM"},
		{"PUT", "/comments?%5Fmethod=POST", "X-Unknown", "1", "words=casino+23", "SPAM"},
		{"GET", "/comments?_method=POST&words=casino+24", "X-Unknown", "1", "", "SPAM"},
		{"POST", "/comments", "content-type", js, "words=casino+25", ""}, // beside the other
	} {
		v.header[c.field] = []string{c.value}
		r := v.do(c.method, g.url+c.path, c.body, "Content-Type", form, "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
		if s := g.why(r); s.Cause != "message" || s.Message.Decision != c.decision || c.decision == "" && s.Message.Error == "" {
			t.Errorf("%v: %+v", c, s.Message)
		}
		delete(v.header, c.field)
	}
	if bodies, _ := book.take(); len(bodies) > 0 {
		t.Errorf("the service got %q", bodies)
	}
	if n := g.logged(t); n != 28 {
		t.Errorf("%d messages are in the log: each is one, however it can be read", n)
	}
}

const (
	mostTakeover = 10 * time.Second // until a neighbour has judged what a processor left behind
	fleeing      = 48               // robots, each in a network of its own
)

// pair2 is two gateways with two processors behind them, all with the lease that is the default.
type pair2 struct {
	gateways [2]*gateway
	judges   [2]*gateway
}

func startPair2(t *testing.T) *pair2 {
	t.Helper()
	r, up, secret, p := redistest.Start(t), site(t).URL, secretFile(t), new(pair2)
	file := func(role string) string {
		return configFile(t, siteOfRobots, role, "redis://"+r.Addr, secret, up)
	}
	for i := range p.gateways {
		p.gateways[i] = start(t, "serve", "--config", file("gateway"))
	}
	for i := range p.judges {
		p.judges[i] = processor(t, file("processor"))
	}
	p.shared(t)
	for _, g := range p.gateways {
		eventually(t, "the gateway hears of processors", func() bool { return g.metric("antirobot_stream_alone ") == 0 })
	}
	return p
}

func (p *pair2) held(i int) float64 { return p.judges[i].metric("antirobot_stream_partitions ") }

// shared waits until each of the processors has half of the partitions.
func (p *pair2) shared(t *testing.T) {
	t.Helper()
	eventually(t, "the processors share the partitions", func() bool { return p.held(0) == 8 && p.held(1) == 8 })
}

// flee lets robots read as many pages as they may, and then one too many at the moment in which harm is done to a processor. It returns
// when all of them are banned at both gateways, and how long after the harm that was.
func (p *pair2) flee(t *testing.T, net int, harm func()) time.Duration {
	t.Helper()
	r := robots(0)[1]
	v := visitor(t)
	v.Client.Jar = nil
	asks := func(g *gateway, k, page int) int {
		header := []string{"X-Forwarded-For", fmt.Sprintf("198.%d.%d.2", net, k)}
		for key, val := range r.header(0) {
			header = append(header, key, val)
		}
		return v.get(fmt.Sprintf("%s/few/%d", g.url, page), header...).StatusCode
	}
	all := func(page int) {
		var wg sync.WaitGroup
		for k := range fleeing {
			wg.Go(func() {
				if status := asks(p.gateways[page%2], k, page); status != http.StatusOK {
					t.Errorf("page %d of robot %d: %d", page, k, status)
				}
			})
		}
		wg.Wait()
	}
	before := [2]float64{}
	for i, g := range p.gateways {
		before[i] = g.metric("antirobot_bans ")
	}
	for page := range fewPages {
		all(page)
	}
	all(fewPages)
	harm()
	began := time.Now()
	for i, g := range p.gateways {
		eventually(t, "all robots are banned", func() bool { return g.metric("antirobot_bans ") >= before[i]+fleeing })
	}
	took := time.Since(began)
	for k := range fleeing {
		if status := asks(p.gateways[k%2], k, 1000); status == http.StatusOK {
			t.Errorf("robot %d is not stopped", k)
		}
	}
	return took
}

// TestNoBanIsLostWithAProcessor: what robots have done when a processor ends is judged by its neighbour within ten seconds, whether it is
// killed or hangs; and one that hung gives up what is no longer its own.
func TestNoBanIsLostWithAProcessor(t *testing.T) {
	p := startPair2(t)
	took := p.flee(t, 51, func() { p.judges[0].kill(syscall.SIGKILL) })
	t.Logf("a processor is killed: %d bans at both gateways after %v", fleeing, took)
	if took > mostTakeover {
		t.Errorf("its neighbour has banned after %v, want at most %v", took, mostTakeover)
	}
	p.judges[0].run()
	p.shared(t)
	took = p.flee(t, 52, func() { signal(t, p.judges[0], syscall.SIGSTOP) })
	t.Logf("a processor hangs: %d bans at both gateways after %v", fleeing, took)
	if took > mostTakeover {
		t.Errorf("its neighbour has banned after %v, want at most %v", took, mostTakeover)
	}
	eventually(t, "the other processor has all partitions", func() bool { return p.held(1) == 16 })
	signal(t, p.judges[0], syscall.SIGCONT)
	p.shared(t)
	p.flee(t, 53, func() {})
	for i, g := range p.gateways {
		if n := g.metric("antirobot_stream_judged_alone_total"); n > 0 {
			t.Errorf("gateway %d has judged %.0f events by itself", i, n)
		}
	}
}

func signal(t *testing.T, g *gateway, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestNobodyTakesGatewaysDown: no answer that a visitor brings about makes nginx take one gateway after the other for down, so that nobody else
// is served: none with a large head, of the gateway or of the service, none that comes before the end of an upload.
func TestNobodyTakesGatewaysDown(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/to?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	front := freePort(t)
	replace := []string{"listen 80;", "listen " + front + ";"}
	for n := range 3 {
		addr := freePort(t)
		g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q}]\nidentity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\n", addr, s.URL))
		g.ban("ip:127.0.0.1", "10m")
		replace = append(replace, fmt.Sprintf("10.0.0.1%d:8080", n+1), addr)
	}
	serveNginx(t, front, deployed(t, "fleet/nginx.conf", replace...))
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}
	body, long := strings.Repeat("x", 48<<20), strings.Repeat("!", 40<<10)
	answer := func(field string) string {
		form := "new=1&" + field + "=" + long
		return fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form)
	}
	for what, ask := range map[string][2]string{
		"a page":                      {"GET /a", ""},
		"a long URL":                  {"GET /a?" + strings.Repeat("x", 6000), ""},
		"a URL of bytes":              {"GET /a?" + strings.Repeat("\xff", 7500), ""},
		"a long address to come back": {"GET /a", "X-Retpath-Y: http://site.example/?" + strings.Repeat("x", 6000) + "\r\n"},
		"a path that has moved":       {"OPTIONS /moved?" + strings.Repeat("x", 7500), "Origin: http://other.example\r\nAccess-Control-Request-Method: GET\r\n"},
		"an upload":                   {"POST /a", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)},
		"a language of no people":     {"POST /checkcaptcha", answer("lang")},
		"a step of no ladder":         {"POST /checkcaptcha", answer("step")},
	} {
		for range 4 {
			rawly(t, front, ask[0], ask[1])
		}
		res, err := other.Get("http://" + front + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: then others get %d", what, res.StatusCode)
		}
	}
}

// TestHarvestAtOnce: one address that asks for a whole shop at once, on many connections, is judged by its first pages before it has all
// of it, however long the service takes for a page.
func TestHarvestAtOnce(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{0, 100 * time.Millisecond} {
		shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(takes)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<p>price of "+r.URL.Path)
		}))
		t.Cleanup(shop.Close)
		addr := freePort(t)
		g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, h2c: true}]\nprocessor: {exempt: []}\ndefaults: {upstream: {urls: [%q]}}\n", addr, shop.URL))
		const connections, streams = 25, 80
		var got atomic.Int64
		var all sync.WaitGroup
		for c := range connections {
			tr := plainHTTP2(t)
			for s := range streams {
				all.Go(func() {
					req, err := http.NewRequest("GET", fmt.Sprintf("http://%s/product/%d", addr, c*streams+s), nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
					req.Header.Set("Accept", "text/html")
					res, err := tr.RoundTrip(req)
					if err != nil {
						return // as when a connection is refused
					}
					defer res.Body.Close()
					if body, _ := io.ReadAll(res.Body); strings.Contains(string(body), "price") {
						got.Add(1)
					}
				})
			}
		}
		all.Wait()
		n := got.Load()
		t.Logf("a service that takes %v: %d of %d pages", takes, n, connections*streams)
		if n == 0 || n > 400 { // some go on without a turn while the machine is busy
			t.Errorf("%d of %d pages were delivered at once", n, connections*streams)
		}
		if g.metric("antirobot_processor_bans_total") == 0 || g.metric("antirobot_requests_waited_total") == 0 {
			t.Error("nobody was banned, or had to wait")
		}
	}
}

// TestHeldAnswers: who takes the beginning of each page, and lets no answer end, is stopped as others are.
func TestHeldAnswers(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.Repeat("<p>price", size/8))
	}))
	t.Cleanup(shop.Close)
	addr := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, h2c: true}]
processor: {exempt: []}
defaults: {upstream: {urls: [%q]}}
`, addr, shop.URL))
	const connections, streams = 4, 90
	got := 0
	for n := range connections {
		got += hold(t, addr, n*streams, streams, 16<<10)
	}
	if got == 0 || got > 120 {
		t.Errorf("%d of %d pages were delivered to who holds their answers", got, connections*streams)
	}
	if n := g.metric("antirobot_processor_bans_total"); n == 0 {
		t.Error("nobody was banned")
	}
}

// hold asks for so many pages on a connection of its own, with such a window for each, and returns how many began.
func hold(t *testing.T, addr string, from, many int, window uint32) (got int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	_ = f.WriteWindowUpdate(0, 1<<30)
	for i := range many {
		block.Reset()
		for _, p := range [][2]string{
			{":method", "GET"},
			{":scheme", "http"},
			{":authority", addr},
			{":path", fmt.Sprintf("/product/%d", from+i)},
			{"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"},
			{"accept", "text/html"},
			{"accept-language", "en"},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: p[0], Value: p[1]})
		}
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("page %d: %v", from+i, err)
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				if answered = frame.StreamID == id; answered && frame.PseudoValue("status") == "200" {
					got++
				}
			case *http2.GoAwayFrame:
				t.Fatalf("page %d: GOAWAY %v", from+i, frame.ErrCode)
			}
		}
	}
	return got
}
