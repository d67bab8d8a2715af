package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
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

// signed is the service's own cookie for somebody whom it has known for two days.
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

// TestPitfall22YoungCookiesAreTheirAddress plays the cookie farmer: seventy fresh i cookies behind one banned address
// are worth nothing, nor are they a ticket for anybody else.
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

// TestPitfall11SharedPass binds a pass softly: a person who changes networks or browsers pays one, a buyer pays ten.
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
	const firefox, other = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "python-requests/2.32"
	use("at home", home, firefox, 1)
	use("in the train", phone, firefox, 1)
	use("another browser", home, other, 1)
	for range 9 {
		use("bought", phone, other, 10)
	}
	use("bought, too dear", phone, other, 10)
	for range 7 {
		use("the rest, by its owner", home, firefox, 1)
	}
	use("spent", home, firefox, 1)
}

// TestPitfall04PassIsForItsSite presents tokens of one kind, host or key where another belongs.
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
		return g.wire("GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Forwarded-For: " + addr + "\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n").StatusCode
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
	key = from(t, addr).get(g.url+"/", "X-Requested-With", "XMLHttpRequest").challenge(t).Captcha.Key
	r := g.wire("GET /checkcaptcha?" + url.Values{"key": {key}, "rep": {testAnswer}}.Encode() + " HTTP/1.1\r\nHost: two.example\r\nX-Forwarded-For: " + addr + "\r\nConnection: close\r\n\r\n")
	if r.setsCookie("spravka") {
		t.Error("a key of one service earned a pass of another")
	}
}

// TestPitfall02PassIsNotTheClientsChoice asks for more than everybody gets, in every place where a client can ask.
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
	want := []int{100, 100, 100, 100, 100, 100, 100, 100, 100, 50, 33, 25, 20, 20, 20, 20, 20, 20, 20, 20}
	bought := passesOfAnHour(t)
	for len(bought) > len(want) && bought[len(bought)-1] == 5 { // three minutes went by: one more, and worth less
		bought = bought[:len(bought)-1]
	}
	if fmt.Sprint(bought) != fmt.Sprint(want) {
		t.Errorf("passes bought %v\nwanted         %v, then 429", bought, want)
	}
}

// passesOfAnHour earns passes from one address until it may earn no more, and returns what each of them bought. Hours are
// those of the clock: what began in one and ended in the next is done again.
func passesOfAnHour(t *testing.T) []int {
	t.Helper()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	began := time.Now().Unix() / 3600
	var bought []int
	for {
		v := visitor(t)
		if page := v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")); page.StatusCode == http.StatusTooManyRequests {
			if page.Header.Get("Retry-After") == "" || !strings.Contains(page.body, "Too many tries") {
				t.Errorf("429 without Retry-After or without a word: %v", page.Header)
			}
			break
		}
		g.earn(v, "/")
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

// TestPitfall22RotatingNetworkIsOneSubject: a robot that takes a new IPv6 address for each request is stopped as one.
func TestPitfall22RotatingNetworkIsOneSubject(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	robot := visitor(t)
	for n := 0; ; n++ {
		if robot.get(g.url+"/", "X-Forwarded-For", fmt.Sprintf("2001:db8::%x:%x", n, n)).StatusCode == 302 {
			break
		}
		if n > 3000 {
			t.Fatal("3000 requests of one /64 and nobody minds")
		}
	}
	from(t, "2001:db8:0:1::1").get(g.url+"/").must(t, 200, "site got")
}

// TestPitfall23WhiteIsNeverAnEvent: what is white or a health check is neither stopped nor counted, however fast.
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
	within(t, 10*time.Second, "the limit of five pages stops nobody", func() bool { return robot.get(g.url+"/page").StatusCode == 302 })

	// banned and then white: white wins, and a health check passes whoever asks
	robot.get(g.url+"/healthz").must(t, 200, "site got")
	g.list("white", "198.51.100.11", "10m")
	robot.get(g.url+"/page").must(t, 200, "site got")
	// an own block stands above the white list
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
	within(t, 5*time.Second, "two robots counted for the watched service", func() bool {
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
