package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

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
