package e2e

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// limitedJar keeps what a browser with limits keeps of the cookies that it gets.
type limitedJar struct {
	http.CookieJar
	keep func(*http.Cookie) *http.Cookie // nil: not kept
}

// SetCookies implements http.CookieJar.
func (j limitedJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	var kept []*http.Cookie
	for _, c := range cookies {
		if k := j.keep(c); k != nil {
			kept = append(kept, k)
		}
	}
	j.CookieJar.SetCookies(u, kept)
}

// TestNobodyIsAskedTwice: whoever has answered rightly reads on, whatever becomes of their address and their cookies. Each
// kind of browser answers one question, and then opens five pages.
func TestNobodyIsAskedTwice(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	f := func(kind string, keep func(*http.Cookie) *http.Cookie, addresses ...string) {
		t.Run(kind, func(t *testing.T) {
			for _, a := range addresses {
				g.ban("ip:"+a, "10m")
			}
			v := visitor(t)
			v.Jar = limitedJar{v.Jar, keep}
			steps := 0
			step := func() []string { // each request comes from the next address
				steps++
				return []string{"X-Forwarded-For", addresses[(steps-1)%len(addresses)]}
			}
			page := v.get(v.get(g.url+"/articles", step()...).must(t, 302, "").Header.Get("Location"), step()...).must(t, 200, `name="rep"`)
			r := v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), append(step(), "Content-Type", "application/x-www-form-urlencoded")...)
			if to := r.must(t, 303, "").Header.Get("Location"); strings.Contains(to, "showcaptcha") {
				t.Fatalf("a right answer leads to %s", to)
			}
			for range 5 {
				v.get(g.url+"/articles", step()...).must(t, 200, "site got")
			}
		})
	}
	all := func(c *http.Cookie) *http.Cookie { return c }
	f("with one address", all, "203.0.113.1")
	f("on IPv4 and IPv6", all, "203.0.113.2", "2001:db8:1::2")
	f("on a train", all, "203.0.113.3", "198.51.100.3", "192.0.2.3")
	f("with blocked cookies", func(*http.Cookie) *http.Cookie { return nil }, "203.0.113.4")
	f("where cookies live for a session only", func(c *http.Cookie) *http.Cookie {
		c.MaxAge, c.Expires = 0, time.Time{}
		return c
	}, "203.0.113.5")
	f("where cookies live for a day", func(c *http.Cookie) *http.Cookie { // as browsers limit those of servers behind a CNAME
		c.MaxAge = min(c.MaxAge, 24*60*60)
		return c
	}, "203.0.113.6")
	f("where a tracking protection takes marks away", func(c *http.Cookie) *http.Cookie {
		if c.Name != "spravka" {
			return nil
		}
		return c
	}, "203.0.113.7")
	t.Run("where the connection ends before the pass arrives", func(t *testing.T) {
		g.ban("ip:203.0.113.8", "10m")
		v := visitor(t)
		v.header.Set("X-Forwarded-For", "203.0.113.8")
		page := v.get(v.get(g.url+"/articles").must(t, 302, "").Header.Get("Location")).must(t, 200, `name="rep"`)
		answer := answered(t, page.body, testAnswer)
		solved := g.metric("antirobot_captcha_answers_total", `result="solved"`)
		cutOff(t, v, g, answer)
		eventually(t, "the answer counts", func() bool { return g.metric("antirobot_captcha_answers_total", `result="solved"`) == solved+1 })
		if to := v.do("POST", g.url+"/checkcaptcha", answer, "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "").Header.Get("Location"); strings.Contains(to, "showcaptcha") {
			t.Fatalf("the right answer, sent again, leads to %s", to)
		}
		v.get(g.url+"/articles").must(t, 200, "site got")
		if n := g.metric("antirobot_captcha_answers_total", `result="solved"`); n != solved+1 {
			t.Errorf("%v passes for one answer", n-solved)
		}
	})
}

// cutOff sends an answer, and ends the connection without reading what comes back.
func cutOff(t *testing.T, v *client, g *gateway, answer string) {
	t.Helper()
	u, err := url.Parse(g.url + "/checkcaptcha")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("POST", u.String(), strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = v.header.Clone()
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range v.Jar.Cookies(u) {
		r.AddCookie(c)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Write(conn), conn.Close()); err != nil {
		t.Fatal(err)
	}
}
