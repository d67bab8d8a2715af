package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"antirobot/spravka"
	"antirobot/store/redisstore/redistest"
)

const serviceKey = "0123456789abcdef0123456789abcdef"

// signedConfig is a service that signs cookies of its own, behind a trusted balancer.
const signedConfig = `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    cookies:
      service_cookie: {name: sid, keys: [{key: ` + serviceKey + `}]}
`

// signed is the service's own cookie for somebody it has known for two days.
func signed(t *testing.T, who string) string {
	t.Helper()
	c, err := spravka.SignService("sid", who, time.Now().Add(-48*time.Hour), []byte(serviceKey))
	if err != nil {
		t.Fatal(err)
	}
	return "sid=" + c
}

// TestPitfall22OfficeBehindOneAddress bans one robot of an office, then the office's address.
func TestPitfall22OfficeBehindOneAddress(t *testing.T) {
	t.Parallel()
	g := configured(t, signedConfig, site(t).URL)
	const office = "203.0.113.1"
	as := func(who string) *client {
		v := from(t, office)
		if who != "" {
			v.header.Set("Cookie", signed(t, who))
		}
		return v
	}
	g.ban("service:sid=robot", "10m")
	as("robot").get(g.url+"/").must(t, 302, "")
	for i := range 40 {
		as(fmt.Sprintf("colleague-%d", i)).get(g.url+"/").must(t, 200, "site got")
	}
	as("").get(g.url+"/").must(t, 200, "site got")
	dropped := as("robot")
	dropped.header.Del("Cookie")
	dropped.get(g.url+"/").must(t, 200, "site got") // it is the office's address then, which is not banned

	g.ban("ip:"+office, "10m")
	as("").get(g.url+"/").must(t, 302, "")
	as("colleague-1").get(g.url+"/").must(t, 200, "site got") // signed by the service: stands for itself
	as("robot").get(g.url+"/").must(t, 302, "")

	// one of the office solves: that person goes on, the others do not
	solver := as("")
	g.earn(solver, "/")
	solver.get(g.url+"/").must(t, 200, "site got")
	as("").get(g.url+"/").must(t, 302, "")
}

// TestPitfall22YoungCookiesAreTheirAddress plays a cookie farmer: seventy fresh i cookies behind one banned address are
// worth nothing, nor do they help anybody else.
func TestPitfall22YoungCookiesAreTheirAddress(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	var farm []*client
	for range 70 {
		v := from(t, "203.0.113.1")
		if !v.get(g.url+"/").must(t, 200, "site got").setsCookie("i") {
			t.Fatal("a browser without cookies is given no i cookie")
		}
		farm = append(farm, v)
	}
	s := g.whyIn(t, "a young cookie", farm[0].get(g.url+"/").must(t, 200, "site got"))
	if fmt.Sprint(s.Considered) != "[ip:203.0.113.1]" || fmt.Sprint(s.Refused) != "[{i young}]" {
		t.Errorf("a young cookie is considered as %v, refused %v", s.Considered, s.Refused)
	}
	g.ban("ip:203.0.113.1", "10m")
	for i, v := range farm {
		if r := v.get(g.url + "/"); r.StatusCode != 302 {
			t.Fatalf("fresh cookie %d is let through: %d", i, r.StatusCode)
		}
	}
	if above := g.metric("antirobot_identity_i_minted", `rate="above"`); above != 10 {
		t.Errorf("%v cookies were above the network's rate of 60 an hour, wanted 10", above)
	}
	// invented ones are worth no more
	for _, invented := range []string{
		"i=" + base64.RawURLEncoding.EncodeToString([]byte("12345678901234567890")), "fuid01=5f5e10001234567890", "spravka=" + strings.Repeat("A", 200),
		"L=alice.1600000000." + strings.Repeat("0", 64), "sid=x.1600000000." + strings.Repeat("0", 64),
	} {
		v := from(t, "203.0.113.1")
		v.get(g.url+"/", "Cookie", invented).must(t, 302, "")
	}
}

// TestIPv6IsANetwork bans, lists and counts IPv6 by /64.
func TestIPv6IsANetwork(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	g.ban("ip:2001:db8:1:2::7", "10m")
	for addr, want := range map[string]int{
		"2001:db8:1:2::7": 302, "2001:db8:1:2:ffff:ffff:ffff:ffff": 302, "2001:db8:1:3::7": 200, "2001:db8:1:1:ffff::": 200, "[2001:db8:1:2::9]:4711": 302,
	} {
		if r := from(t, addr).get(g.url + "/"); r.StatusCode != want {
			t.Errorf("%s: %d, wanted %d", addr, r.StatusCode, want)
		}
	}
	if got := string(g.api("GET", "/api/bans", nil)); !strings.Contains(got, `"ip:2001:db8:1:2::/64"`) {
		t.Errorf("bans: %s", got)
	}
}

// TestTransitionToIPv6: visitors who come through a NAT64 are told apart by their IPv4 addresses, as are mapped ones, and nobody stands
// for an address that is trusted. Of 6to4 and Teredo nothing is believed: they are IPv6 networks like any other.
func TestTransitionToIPv6(t *testing.T) {
	t.Parallel()
	const (
		translated = "64:ff9b::203.0.113.7"
		sixToFour  = "2002:cb00:7107:1::1"
		teredo     = "2001:0:cb00:7107:8000:63bf:3fff:fdd2"
	)
	direct, balanced := freePort(t), freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q}, {address: %q, proxy_protocol: true}]\n"+
		"identity: {trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]}\ndefaults: {upstream: {urls: [%q]}}\n", direct, balanced, site(t).URL))
	g.url = "http://" + direct
	for _, s := range []string{translated, sixToFour, teredo, "192.0.2.50"} {
		g.ban("ip:"+s, "10m")
	}
	if got := string(g.api("GET", "/api/bans", nil)); !strings.Contains(got, `"ip:203.0.113.7"`) {
		t.Errorf("bans: %s", got)
	}
	for addr, want := range map[string]int{
		translated: 302, "203.0.113.7": 302, "::ffff:203.0.113.7": 302, "[64:ff9b::cb00:7107]:4711": 302, "64:ff9b::203.0.113.8": 200,
		"64:ff9b:1::203.0.113.7": 200, "2002:cb00:7107:1:ffff::1": 302, "2002:cb00:7107:2::1": 200,
		"2001:0:cb00:7107:8000:1::": 302, "2001:0:cb00:7108:8000:63bf:3fff:fdd2": 200,
		"192.0.2.50, 10.0.0.1": 302, "192.0.2.50, 64:ff9b::10.0.0.1": 200, "192.0.2.50, 64:ff9b::127.0.0.1": 200,
	} {
		if r := from(t, addr).get(g.url + "/"); r.StatusCode != want {
			t.Errorf("%s: %d, wanted %d", addr, r.StatusCode, want)
		}
	}
	from(t, translated[:len(translated)-1]+"9").get(g.url+"/").must(t, 200, "X-Forwarded-For: 203.0.113.9")

	pages := 0
	proxied := func(addr string) string { // by PROXY protocol
		t.Helper()
		c, err := net.Dial("tcp", balanced)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		pages++
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "PROXY TCP6 %s 2001:db8::1 5555 80\r\nGET /page/%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\nAccept: text/html\r\nAccept-Language: en\r\n\r\n", addr, pages)
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for n := 0; strings.Contains(proxied("64:ff9b::198.51.100.9"), "200 OK"); n++ { // a robot …
		if n > 3000 {
			t.Fatal("3000 requests of one address, and nobody minds")
		}
	}
	if got := proxied("64:ff9b::192.0.2.9"); !strings.Contains(got, "200 OK") { // … and somebody else behind the same NAT64
		t.Errorf("a neighbour behind the NAT64 gets %s", got)
	}
}

// TestPitfall22RotatingNetworkIsOneSubject: a robot that uses a new IPv6 address for each request is stopped as one
// subject.
func TestPitfall22RotatingNetworkIsOneSubject(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	robot := visitor(t)
	for n := 0; ; n++ {
		if robot.get(fmt.Sprint(g.url, "/page/", n), "X-Forwarded-For", fmt.Sprintf("2001:db8::%x:%x", n, n)).StatusCode == 302 {
			break
		}
		if n > 3000 {
			t.Fatal("3000 requests of one /64 and nobody minds")
		}
	}
	from(t, "2001:db8:0:1::1").get(g.url+"/").must(t, 200, "site got")
}

// TestPitfall23WhiteIsNeverAnEvent: whitelisted requests and health checks are neither stopped nor counted, however fast.
func TestPitfall23WhiteIsNeverAnEvent(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
defaults: {verdict: {limits: [{window: 10s, requests: 5, ban: 10m}]}}
services:
  - {name: site, upstream: {urls: [%q]}, requests: {health_paths: [/healthz]}}
`, site(t).URL)
	g.list("white", "203.0.113.0/24", "10m")
	before := g.metric("antirobot_events_offered_total")
	friend := from(t, "203.0.113.9")
	for range 50 {
		friend.get(g.url+"/page").must(t, 200, "site got")
	}
	balancer := from(t, "198.51.100.9")
	for range 50 {
		balancer.get(g.url+"/healthz").must(t, 200, "site got")
	}
	if n := g.metric("antirobot_events_offered_total") - before; n != 0 {
		t.Errorf("%v of those requests became events", n)
	}
	reader := from(t, "198.51.100.10")
	for i := range 50 { // the parts of one page
		reader.get(fmt.Sprintf("%s/pictures/%d.png", g.url, i), "Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors").must(t, 200, "site got")
	}
	reader.get(g.url+"/").must(t, 200, "site got")

	robot := from(t, "198.51.100.11")
	eventually(t, "the limit of five pages stops nobody", func() bool { return robot.get(g.url+"/page").StatusCode == 302 })

	// banned and then white: white wins, and a health check passes whoever asks
	robot.get(g.url+"/healthz").must(t, 200, "site got")
	g.list("white", "198.51.100.11", "10m")
	robot.get(g.url+"/page").must(t, 200, "site got")
	// the operator's own block takes precedence over the white list
	g.list("block", "198.51.100.11", "10m")
	robot.get(g.url+"/page").must(t, 403, "")
	g.api("DELETE", "/api/lists/block?entry=198.51.100.11", nil)
	g.api("DELETE", "/api/lists/white?entry=198.51.100.11", nil)
	robot.get(g.url+"/page").must(t, 302, "")
	friend.get(g.url+"/page").must(t, 200, "site got")
}

// TestModes compares enforce, observe and off, for services and for paths.
func TestModes(t *testing.T) {
	t.Parallel()
	g := configured(t, `
defaults: {upstream: {urls: [%q]}}
services:
  - name: guarded
    hosts: [guarded.example]
    paths: [{prefix: /watch, verdict: {mode: observe}}, {prefix: /free, verdict: {mode: "off"}}]
  - name: watched
    hosts: [watched.example]
    verdict: {mode: observe}
    paths: [{prefix: /strict, verdict: {mode: enforce}}]
  - {name: free, hosts: [free.example], verdict: {mode: "off"}}
`, site(t).URL)
	ask := func(host, path string) *response {
		return g.wire("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
	}
	cases := []struct {
		host, path     string
		banned, listed int
		verdict        string // of the banned
	}{
		{"guarded.example", "/", 302, 403, "robot"},
		{"guarded.example", "/watch/x", 200, 200, "robot"},
		{"guarded.example", "/free", 200, 200, "human"},
		{"guarded.example", "/freedom", 302, 403, "robot"},
		{"watched.example", "/", 200, 200, "robot"},
		{"watched.example", "/strict", 302, 403, "robot"},
		{"free.example", "/", 200, 200, "human"},
		{"GUARDED.example:8080", "/", 302, 403, "robot"},
		{"nobody.example", "/", 421, 421, ""},
		{"guarded.example.evil.example", "/", 421, 421, ""},
	}
	g.ban("ip:127.0.0.1", "10m")
	for _, c := range cases {
		r := ask(c.host, c.path)
		if r.StatusCode != c.banned {
			t.Errorf("banned, %s%s: %d, wanted %d", c.host, c.path, r.StatusCode, c.banned)
		}
		if c.verdict != "" {
			if s := g.whyIn(t, c.host+c.path, r); s.Verdict != c.verdict {
				t.Errorf("banned, %s%s: %+v", c.host, c.path, s)
			}
		}
	}
	// a request is counted once it has been answered
	eventually(t, "two robots counted for the watched service", func() bool {
		return g.metric("antirobot_requests_total", `service="watched"`, `verdict="robot"`, `cause="ban"`) == 2
	})
	g.list("block", "127.0.0.1", "10m")
	for _, c := range cases {
		if r := ask(c.host, c.path); r.StatusCode != c.listed {
			t.Errorf("blocked, %s%s: %d, wanted %d", c.host, c.path, r.StatusCode, c.listed)
		}
	}
	ask("guarded.example", "/showcaptcha").must(t, 403, "")
	if r := ask("free.example", "/"); r.setsCookie("i") {
		t.Error("a service with mode off is given cookies")
	}
}

// TestHonouredAuthorization: a program whose Authorization the service honours where it refuses strangers keeps working
// behind a banned address, over each version of HTTP; other clients of the address do not. A ban on the credential stops
// it at any address, and a 401 of the service ends the identity.
func TestHonouredAuthorization(t *testing.T) {
	t.Parallel()
	const secret = "a secret of "
	var revoked atomic.Pointer[string]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Served-By", "site")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		user, password, _ := r.BasicAuth()
		gone := revoked.Load()
		if r.URL.Path == "/repo" && (user == "" || password != secret+user || gone != nil && *gone == user) {
			w.Header().Set("WWW-Authenticate", `Basic realm="repo"`)
			w.WriteHeader(401)
			return
		}
		_, _ = io.WriteString(w, "site got "+r.URL.Path)
	}))
	t.Cleanup(s.Close)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, s.URL))
	trusting := &tls.Config{InsecureSkipVerify: true}
	over3 := &http3.Transport{TLSClientConfig: trusting}
	t.Cleanup(func() { _ = over3.Close() })
	for i, over := range []http.RoundTripper{
		&http.Transport{TLSClientConfig: trusting, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		&http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true},
		over3,
	} {
		t.Run(fmt.Sprint("HTTP", i+1), func(t *testing.T) {
			office, home := fmt.Sprintf("203.0.%d.7", i), fmt.Sprintf("198.51.%d.7", i)
			alice, bob := fmt.Sprint("alice", i), fmt.Sprint("bob", i)
			ask := func(from, path, authorization string) *http.Response {
				t.Helper()
				req, err := http.NewRequest("GET", "https://"+address+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Forwarded-For", from)
				if authorization != "" {
					req.Header.Set("Authorization", authorization)
				}
				res, err := over.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.ProtoMajor != i+1 {
					t.Fatalf("it came by %s", res.Proto)
				}
				return res
			}
			reaches := func(want bool, why string, res *http.Response) {
				t.Helper()
				if got := res.Header.Get("X-Served-By") == "site"; got != want || !want && res.StatusCode < 300 {
					t.Fatalf("%s: %d, reaches the service: %v, wanted %v", why, res.StatusCode, got, want)
				}
			}
			as := func(user string) string {
				return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret+user))
			}
			reaches(true, "a stranger", ask(office, "/repo", ""))
			reaches(true, "alice", ask(office, "/repo", as(alice)))
			reaches(true, "bob", ask(office, "/repo", as(bob)))
			reaches(true, "an open path", ask(office, "/page", "Bearer invented"))
			g.ban("ip:"+office, "10m")
			reaches(false, "a stranger at the banned address", ask(office, "/repo", ""))
			reaches(false, "an Authorization that nobody refused", ask(office, "/page", "Bearer invented"))
			reaches(false, "a wrong password", ask(office, "/repo", as(alice)+"x"))
			reaches(true, "alice at the banned address", ask(office, "/repo", as(alice)))
			res := ask(office, "/page", as(alice))
			reaches(true, "alice on another path", res)

			var subject string
			for _, at := range []string{office, home} {
				story := g.why(&response{Response: ask(at, "/page", as(alice))})
				subject = story.Subject
				if !strings.HasPrefix(subject, "auth:#") || !slices.Equal(story.Considered, []string{subject, "ip:" + at}) {
					t.Fatalf("why says %+v", story)
				}
			}
			if out, err := g.command("ban", subject); err != nil {
				t.Fatalf("antirobot ban %s: %s", subject, out)
			}
			reaches(false, "alice, banned", ask(office, "/repo", as(alice)))
			reaches(false, "alice, banned, from elsewhere", ask(home, "/repo", as(alice)))
			reaches(true, "bob", ask(office, "/repo", as(bob)))

			revoked.Store(&bob)
			if res := ask(office, "/repo", as(bob)); res.StatusCode != 401 {
				t.Fatalf("bob's revoked password: %d", res.StatusCode)
			}
			reaches(false, "bob, revoked", ask(office, "/page", as(bob)))
		})
	}
	if strings.Contains(g.logs.String(), base64.StdEncoding.EncodeToString([]byte("alice"))[:6]) {
		t.Error("a credential is in the log")
	}
}

const claimsConfig = `
services:
  - name: shop
    upstream: {urls: [%[1]q]}
    requests:
      bodies:
        - {route: POST /form, fields: [{attribute: a, from: form, key: a}]}
    rules:
      text: |
        do regexpCheck(regexp="DELETE$", attribute="method") mark harmless
        if not harmless stop as BLOCK
        stop as OK
`

// TestClaimedMethods: a rule over methods sees those that a request claims for a service that believes it.
func TestClaimedMethods(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	g := configured(t, claimsConfig, up.URL)
	v := visitor(t)
	for _, c := range []struct {
		method, target, body, field string
		status                      int
	}{
		{"DELETE", "/form", "", "", 403},
		{"POST", "/form", "a=1", "", 200},
		{"POST", "/form", "a=1", "PUT", 200},
		{"POST", "/any", "a=1", "delete", 403},
		{"POST", "/any?a=1&%5fmethod=Delete", "a=1", "", 403},
		{"POST", "/form", "a=1&_METHOD=delete", "", 403},
		{"POST", "/form", "a=1&_method=put", "", 200},
	} {
		fields := []string{"Content-Type", form}
		if c.field != "" {
			fields = append(fields, "X-HTTP-Method-Override", c.field)
		}
		if r := v.do(c.method, g.url+c.target, c.body, fields...); r.StatusCode != c.status {
			t.Errorf("%+v: %d", c, r.StatusCode)
		}
	}
}

// site is a service behind the gateway that says what it got.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if strings.HasPrefix(r.URL.Path, "/pictures/") { // a part of a page is what the answer proves to be one
			w.Header().Set("Content-Type", "image/png")
		}
		w.Header().Set("X-Served-By", "site")
		fmt.Fprintf(w, "site got %s %s\n", r.Method, r.URL.RequestURI())
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Request-Id", "X-Forwarded-Proto", "X-Forwarded-Host", "Content-Type", "Origin", "Cookie", "X-Antirobot-Client"} {
			if v := r.Header.Values(name); len(v) > 0 {
				fmt.Fprintf(w, "%s: %s\n", name, strings.Join(v, " | "))
			}
		}
		fmt.Fprintf(w, "body: %s\n", body)
	}))
	t.Cleanup(s.Close)
	return s
}

// client is a visitor with a cookie jar that does not follow redirects.
type client struct {
	t *testing.T
	http.Client
	header http.Header
}

func visitor(t *testing.T) *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, header: http.Header{}}
	c.Jar = jar
	c.Timeout = patience
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	c.header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	c.header.Set("Accept-Language", "en") // Go itself adds Accept-Encoding
	return c
}

// browserLines are the fields of a browser in a request that a test writes itself.
const browserLines = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n" +
	"Accept: text/html\r\nAccept-Language: en\r\nAccept-Encoding: deflate\r\n"

// asBrowser gives a request the fields of a browser; Go itself adds Accept-Encoding.
func asBrowser(r *http.Request) {
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	r.Header.Set("Accept-Language", "en")
}

// response is an answer whose body was read.
type response struct {
	*http.Response
	body string
}

func (c *client) do(method, url, body string, header ...string) *response {
	c.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	for i := 0; i+1 < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	if (req.Header.Get("X-Requested-With") != "" || req.Header.Get("Sec-Fetch-Mode") == "cors") && req.Header.Get("Referer") == "" && req.Header.Get("Origin") == "" {
		req.Header.Set("Referer", "http://"+req.Host+"/page") // a script calls from a page
	}
	res, err := c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &response{res, string(b)}
}

func (c *client) get(url string, header ...string) *response {
	c.t.Helper()
	return c.do("GET", url, "", header...)
}

// must fails the test unless the answer has that status and its body contains the text.
func (r *response) must(t *testing.T, status int, contains string) *response {
	t.Helper()
	if r.StatusCode != status || !strings.Contains(r.body, contains) {
		t.Fatalf("%s %s: got %d %v\n%s\nwanted %d with %q", r.Request.Method, r.Request.URL, r.StatusCode, r.Header, tail(r.body, 2000), status, contains)
	}
	return r
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// TestPitfall11SharedPass binds a pass to browser and networks: a person who changes networks pays once for the move; a
// buyer of the pass pays ten times.
func TestPitfall11SharedPass(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	const home, phone = "203.0.113.1", "198.51.100.1"
	g.ban("ip:"+home, "10m")
	g.ban("ip:"+phone, "10m")
	owner := from(t, home)
	g.earn(owner, "/")
	pass := "spravka=" + owner.pass(t, g.url)
	left := 100
	use := func(what, addr, agent string, cost int) {
		t.Helper()
		r := from(t, addr).get(g.url+"/", "Cookie", pass, "User-Agent", agent)
		if left < cost {
			r.must(t, 302, "")
			return
		}
		left -= cost
		s := g.whyIn(t, what, r.must(t, 200, "site got"))
		if s.Pass == nil || s.Pass.Cost != cost || s.Pass.Left != left {
			t.Errorf("%s: paid %+v, wanted %d with %d left", what, s.Pass, cost, left)
		}
	}
	const firefox, other = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	use("at home", home, firefox, 1)
	use("the first page in the train", phone, firefox, 5)
	use("in the train", phone, firefox, 1)
	for _, path := range []string{"/pictures/1.png", "/pictures/2.png"} { // parts of a page go with it
		from(t, home).get(g.url+path, "Cookie", pass, "User-Agent", firefox, "Accept", "image/*").must(t, 200, "site got")
	}
	for range 9 {
		use("another browser", home, other, 10)
	}
	use("too dear", phone, other, 10)
	for range 3 {
		use("the rest, by its owner", home, firefox, 1)
	}
	use("spent", home, firefox, 1)
}

// TestPitfall04PassIsForItsSite presents tokens of one kind, host or key where another is expected.
func TestPitfall04PassIsForItsSite(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - {name: one, hosts: [127.0.0.1], upstream: {urls: [%[1]q]}}
  - {name: two, hosts: [two.example], upstream: {urls: [%[1]q]}}
`, site(t).URL)
	const addr = "203.0.113.1"
	v := from(t, addr)
	v.get(g.url+"/").must(t, 200, "site got")
	g.ban("ip:"+addr, "10m")
	key := v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").challenge(t).Captcha.Key
	link, _ := url.Parse(v.get(g.url + "/").Header.Get("Location"))
	g.earn(v, "/")
	pass := v.pass(t, g.url)
	u, _ := url.Parse(g.url)
	var i string
	for _, c := range v.Jar.Cookies(u) {
		if c.Name == "i" {
			i = c.Value
		}
	}
	ask := func(host, cookie string) int {
		return g.wire("GET / HTTP/1.1\r\nHost: " + host + "\r\n" + browserLines + "X-Forwarded-For: " + addr + "\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n").StatusCode
	}
	if got := ask("127.0.0.1", "spravka="+pass); got != 200 || i == "" {
		t.Fatalf("the pass does not pass: %d; i cookie %q", got, i)
	}
	flip := []byte(pass)
	flip[len(flip)/2] ^= 1
	for what, c := range map[string][2]string{
		"on another service's host":    {"two.example", "spravka=" + pass},
		"an i cookie as a pass":        {"127.0.0.1", "spravka=" + i},
		"a captcha key as a pass":      {"127.0.0.1", "spravka=" + key},
		"a link's signature as a pass": {"127.0.0.1", "spravka=" + link.Query().Get("s")},
		"a pass as an i cookie":        {"127.0.0.1", "i=" + pass},
		"one bit changed":              {"127.0.0.1", "spravka=" + string(flip)},
		"one letter more":              {"127.0.0.1", "spravka=" + pass + "A"},
		"one letter less":              {"127.0.0.1", "spravka=" + pass[:len(pass)-1]},
		"another name":                 {"127.0.0.1", "Spravka=" + pass},
	} {
		if got := ask(c[0], c[1]); got != 302 {
			t.Errorf("%s: %d", what, got)
		}
	}
	// and where a key belongs
	for what, wrong := range map[string]string{"a pass": pass, "an i cookie": i, "a signature": link.Query().Get("s")} {
		r := from(t, addr).get(g.url + "/checkcaptcha?" + url.Values{"key": {wrong}, "rep": {testAnswer}}.Encode())
		if r.setsCookie("spravka") {
			t.Errorf("%s as a captcha key earned a pass", what)
		}
	}
	key = from(t, addr).get(g.url+"/", "X-Requested-With", "XMLHttpRequest", "User-Agent", "another").challenge(t).Captcha.Key
	r := g.wire("GET /checkcaptcha?" + url.Values{"key": {key}, "rep": {testAnswer}}.Encode() + " HTTP/1.1\r\nHost: two.example\r\nX-Forwarded-For: " + addr + "\r\nConnection: close\r\n\r\n")
	if r.setsCookie("spravka") {
		t.Error("a key of one service earned a pass of another")
	}
}

// TestPitfall02PassIsNotTheClientsChoice asks for more than the standard pass, in every place where a client can.
func TestPitfall02PassIsNotTheClientsChoice(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	to := v.get(g.url + "/page?allowance=100000&limit=100000").Header.Get("Location")
	form := formOf(t, v.get(to+"&digits=1&ttl=999999h&allowance=100000").must(t, 200, `name="rep"`).body)
	for name, value := range map[string]string{"allowance": "100000", "expires": "9999999999", "answer": "1", "digits": "1", "earned": "1", "status": "success", "rep": testAnswer} {
		form.Set(name, value)
	}
	r := v.do("POST", g.url+"/checkcaptcha?allowance=100000", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Cookie", "allowance=100000").must(t, 303, "")
	if !strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), "\n"), "Max-Age=2592000;") {
		t.Errorf("the pass does not live for 30 days: %q", r.Header.Values("Set-Cookie"))
	}
	s := g.whyIn(t, "first", v.get(g.url+"/").must(t, 200, "site got"))
	if s.Pass == nil || s.Pass.Left != 99 {
		t.Errorf("after one request the pass has %+v, wanted 99 left", s.Pass)
	}
	// an answer of one's own making
	form.Set("rep", "1")
	if r := visitor(t).do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded"); r.setsCookie("spravka") {
		t.Error("an answer that the client named earned a pass")
	}
}

// TestPitfall11PassesShrink earns passes from one address until they buy little, and then none.
func TestPitfall11PassesShrink(t *testing.T) {
	t.Parallel()
	bought := passesOfAnHour(t)
	if len(bought) < 20 || len(bought) > 25 {
		t.Errorf("%d passes at once, then 429", len(bought))
	}
	for i, n := range bought {
		if want := max(10, int(100*math.Exp2(-float64(i)))); n != want {
			t.Errorf("pass %d bought %d, wanted %d: %v", i+1, n, want, bought)
		}
	}
}

// passesOfAnHour earns passes from one address until it may earn no more, and returns what each of them bought. Hours are
// those of the clock: a run that crosses an hour boundary is repeated.
func passesOfAnHour(t *testing.T) []int {
	t.Helper()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	began := time.Now().Unix() / 3600
	var bought []int
	for {
		v := visitor(t)
		page := v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location"))
		if page.StatusCode == http.StatusOK { // its turn may come while it is read, but nothing is read here
			page = g.solve(v, "/")
		}
		if page.StatusCode == http.StatusTooManyRequests {
			if page.Header.Get("Retry-After") == "" || !strings.Contains(page.body, "Too many tries") {
				t.Errorf("429 without Retry-After or without a word: %v", page.Header)
			}
			break
		}
		page.must(t, http.StatusSeeOther, "")
		if n := len(bought); n > 50 || n > 25 && began == time.Now().Unix()/3600 {
			t.Fatal("an address earns passes without end")
		}
		bought = append(bought, g.whyIn(t, "spend", v.get(g.url+"/").must(t, 200, "site got")).Pass.Left+1)
	}
	visitor(t).get(g.url+"/").must(t, 302, "") // too many tries are never a ban, and never a way in
	if began != time.Now().Unix()/3600 {
		return passesOfAnHour(t)
	}
	return bought
}

// session is what the memory of a gateway has of a subject, as its API shows it.
type session struct {
	Pages   int
	Score   float64
	Claims  string `json:"claims_to_be"`
	Factors []weighed
}

// weighed is a factor with what it adds to the score.
type weighed struct {
	Name   string
	Value  *float64 // nil: unknown
	Amount float64
}

// subject is what a gateway knows of a visitor, as its API shows it.
type subject struct {
	Bans    []struct{ Reason string }
	Session session
}

// factor returns a factor as text.
func (s *session) factor(name string) string {
	for _, f := range s.Factors {
		if f.Name == name && f.Value != nil {
			return fmt.Sprint(*f.Value)
		}
	}
	return "unknown"
}

// subject asks what the gateway knows of a visitor.
func (g *gateway) subject(name string) (s subject) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/subjects/"+name, nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// session asks what its memory has of one.
func (g *gateway) session(name string) session {
	g.t.Helper()
	return g.subject(name).Session
}

// TestSessionsAreShared: a session that began at one gateway is resumed by another one with the same ring, in TLS 1.2 and 1.3, over
// HTTP/1.1 and HTTP/2, and by the first after it was killed; a gateway with another ring makes a new one.
func TestSessionsAreShared(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	shared := []string{"--store", "redis://" + redistest.Start(t).Addr, "--secret-file", secretFile(t)}
	start := func(more ...string) (*gateway, string) {
		cert, key := certificate(t, t.TempDir(), 1)
		address := freePort(t)
		file := configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q}]
defaults: {upstream: {urls: [%q]}}`, address, cert, key, upstream)
		return startWith(t, append([]string{"serve", "--config", file}, more...)...), address
	}
	one, first := start(shared...)
	_, second := start(shared...)
	_, stranger := start()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			cfg := &tls.Config{
				ServerName: "localhost", MinVersion: version, MaxVersion: version, NextProtos: []string{protocol},
				InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
			}
			resumes := func(address string) bool {
				t.Helper()
				c := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: protocol == "h2", DisableKeepAlives: true}
				defer c.CloseIdleConnections()
				req, err := http.NewRequest("GET", "https://"+address+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := c.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.TLS.NegotiatedProtocol != protocol {
					t.Errorf("the protocol is %q", res.TLS.NegotiatedProtocol)
				}
				return res.TLS.DidResume
			}
			what := fmt.Sprintf("%s, %s", tls.VersionName(version), protocol)
			if resumes(first) {
				t.Errorf("%s: the first connection is resumed", what)
			}
			if !resumes(second) || !resumes(first) {
				t.Errorf("%s: another gateway with the same ring does not resume the session", what)
			}
			one.kill(syscall.SIGKILL)
			one.run()
			if !resumes(first) {
				t.Errorf("%s: after a restart the session is not resumed", what)
			}
			if resumes(stranger) {
				t.Errorf("%s: a gateway with another ring resumes the session", what)
			}
		}
	}
}

// TestPartnersOverEveryProtocol: whom a certificate names is told to the service over HTTP/1.1, HTTP/2 and HTTP/3, in new
// sessions and in resumed ones; nobody can say it in a field; a listener that demands a certificate serves nobody without one.
func TestPartnersOverEveryProtocol(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	other, otherKey := certificateFor(t, t.TempDir(), 2, "somebody.example")
	asked, demanded, open := freePort(t), freePort(t), freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen:
  - {address: %[1]q, tls_cert: %[3]q, tls_key: %[4]q, client_ca: %[3]q, http3: true}
  - {address: %[2]q, tls_cert: %[3]q, tls_key: %[4]q, client_ca: %[3]q, client_required: true, http3: true}
  - {address: %[6]q, tls_cert: %[3]q, tls_key: %[4]q, http3: true}
defaults: {upstream: {urls: [%[5]q]}}`, asked, demanded, cert, key, site(t).URL, open))
	pair := func(cert, key string) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	for who, own := range map[string][]tls.Certificate{"partner": pair(cert, key), "another authority's": pair(other, otherKey), "nobody": nil} {
		for _, protocol := range []string{"http/1.1", "h2", "h3"} {
			cfg := &tls.Config{
				ServerName: "localhost", NextProtos: []string{protocol}, Certificates: own,
				InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(4),
			}
			for i := range 2 {
				got, err := askAs(cfg, protocol, asked)
				if who != "another authority's" && err != nil {
					t.Errorf("%s over %s: %v", who, protocol, err)
				}
				if strings.Contains(got, "X-Antirobot-Client: localhost\n") != (who == "partner") || strings.Contains(got, "forged") {
					t.Errorf("%s over %s, connection %d: the service got %s", who, protocol, i, got)
				}
			}
			// A session of one listener is no certificate at another, which takes tickets sealed with the same keys.
			if got, err := askAs(cfg, protocol, open); err != nil || strings.Contains(got, "X-Antirobot-Client") {
				t.Errorf("%s over %s with a session, where nobody is asked: %v, %s", who, protocol, err, got)
			}
			if who != "another authority's" {
				if _, err := askAs(cfg, protocol, asked); err != nil {
					t.Error(err)
				}
			}
			if got, err := askAs(cfg, protocol, demanded); (err == nil) != (who == "partner") {
				t.Errorf("%s over %s with a session, where a certificate is demanded: %v, %s", who, protocol, err, got)
			}
			cfg.ClientSessionCache = nil
			if got, err := askAs(cfg, protocol, demanded); (err == nil) != (who == "partner") {
				t.Errorf("%s over %s where a certificate is demanded: %v, %s", who, protocol, err, got)
			}
		}
	}
}

// askAs sends a request on a new connection and returns what the service saw of it.
func askAs(cfg *tls.Config, protocol, address string) (string, error) {
	var c http.RoundTripper
	if protocol == "h3" {
		over := &http3.Transport{TLSClientConfig: cfg}
		defer over.Close()
		c = over
	} else {
		over := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: protocol == "h2", DisableKeepAlives: true}
		defer over.CloseIdleConnections()
		c = over
	}
	req, err := http.NewRequest("GET", "https://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Antirobot-Client", "forged")
	res, err := c.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}
