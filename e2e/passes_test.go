package e2e

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

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
