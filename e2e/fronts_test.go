package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// browse makes a client send what browsers send with each request.
func (c *client) browse() *client {
	c.header.Set("Accept-Language", "en")
	c.header.Set("Accept-Encoding", "identity")
	return c
}

// TestFrontProxyChangesPaths: behind a proxy that takes a prefix off and changes Host, and says so, a stopped visitor reaches the
// captcha page, its picture and the page that was asked for.
func TestFrontProxyChangesPaths(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.0/8")
	to, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		path, ok := strings.CutPrefix(r.In.URL.Path, "/shop")
		if !ok {
			path = "/nothing-here"
		}
		r.SetURL(to)
		r.Out.URL.Path = path
		r.SetXForwarded()
		r.Out.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.Out.Header.Set("X-Forwarded-Prefix", "/shop")
		r.Out.Host = "10.0.0.5"
	}})
	defer front.Close()
	g.ban("ip:203.0.113.7", "10m")
	v := visitor(t).browse()
	r := v.get(front.URL+"/shop/list?page=2").must(t, 302, "")
	page := v.get(r.Header.Get("Location")).must(t, 200, `name="rep"`)
	picture := page.body[strings.Index(page.body, "/shop/captcha/image?"):]
	picture, _, _ = strings.Cut(picture, `"`)
	if p := v.get(front.URL + htmlUnescape(picture)); p.StatusCode != 200 || !strings.HasPrefix(p.Header.Get("Content-Type"), "image/") {
		t.Errorf("the picture: %d", p.StatusCode)
	}
	if !strings.Contains(page.body, `action="/shop/checkcaptcha"`) {
		t.Error("the form leads elsewhere")
	}
	form := formOf(t, page.body)
	form.Set("rep", testAnswer)
	a := v.do("POST", front.URL+"/shop/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if a.StatusCode != 303 || a.Header.Get("Location") != front.URL+"/shop/list?page=2" {
		t.Fatalf("the answer leads to %s (%d)", a.Header.Get("Location"), a.StatusCode)
	}
	v.get(a.Header.Get("Location")).must(t, 200, "site got GET /list?page=2")
}

// TestPitfall06OutsideIsValidated: X-Forwarded-Host and X-Forwarded-Prefix count from trusted proxies alone, name a host of the same
// service and a plain path, and reach neither the routing nor the service.
func TestPitfall06OutsideIsValidated(t *testing.T) {
	t.Parallel()
	up := site(t).URL
	config := func(trusted string) string {
		return fmt.Sprintf("identity: {trusted_proxies: [%s]}\nservices:\n- {name: shop, hosts: [shop.example, '*.shop.example'], upstream: {urls: [%q]}}\n"+
			"- {name: other, hosts: [other.example], upstream: {urls: [%q]}}\n", trusted, up, up)
	}
	trusting, careful := startConfigured(t, config("127.0.0.0/8")), startConfigured(t, config("10.0.0.0/8"))
	f := func(g *gateway, want string, fields ...string) {
		t.Helper()
		c := visitor(t).browse()
		req, err := http.NewRequest("GET", g.url+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "shop.example"
		for k, v := range c.header {
			req.Header[k] = v
		}
		for i := 0; i+1 < len(fields); i += 2 {
			req.Header.Add(fields[i], fields[i+1])
		}
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if to := r.Header.Get("Location"); r.StatusCode != 302 || !strings.HasPrefix(to, want+"/showcaptcha?cc=1&retpath="+url.QueryEscape(want+"/a")) {
			t.Errorf("%q leads to %s (%d), wanted %s", fields, to, r.StatusCode, want)
		}
	}
	trusting.ban("ip:127.0.0.1", "10m")
	careful.ban("ip:127.0.0.1", "10m")
	const plain = "http://shop.example"
	f(trusting, plain)
	f(trusting, "http://www.shop.example:8443", "X-Forwarded-Host", "www.shop.example:8443")
	f(trusting, "http://www.shop.example", "X-Forwarded-Host", "evil.test, www.shop.example")
	f(trusting, plain+"/app/v1", "X-Forwarded-Prefix", "/app/v1/")
	f(trusting, plain, "X-Forwarded-Prefix", "/")
	for _, host := range []string{
		"evil.test", "other.example", "shop.example.evil.test", "user@shop.example", "shop.example@evil.test", "shop.example/..", "www.shop.example, evil.test",
		"shop.example:99999", "-.shop.example", "a b.shop.example", "%65vil.test", "",
	} {
		f(trusting, plain, "X-Forwarded-Host", host)
	}
	f(trusting, plain, "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Host", "evil.test")
	for _, prefix := range []string{
		"//evil.test", "/\\evil.test", "/..//evil.test", "/a/../b", "/./a", "evil", "@evil.test", ".evil.test", ":8443", "/a b", "/a?b", "/a#b", "/%2e%2e", "/a\"><script>",
		"/" + strings.Repeat("a", 200), "https://evil.test/", "javascript:alert(1)",
	} {
		f(trusting, plain, "X-Forwarded-Prefix", prefix)
	}
	f(careful, plain, "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Prefix", "/app")
	trusting.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	r := visitor(t).do("GET", trusting.url+"/b", "", "Host", "shop.example", "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Prefix", "/app")
	if strings.Contains(r.body, "www.shop.example") || strings.Contains(r.body, "/app") {
		t.Errorf("the service is told: %s", r.body)
	}
}
