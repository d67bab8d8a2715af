package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"antirobot/spravka"
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
