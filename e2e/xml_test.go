package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// xmlConfig protects an XML interface with one known partner.
func xmlConfig(t *testing.T, upstream string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xml.yaml")
	text := fmt.Sprintf(`
services:
  - name: search
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xmlsearch]}
    captcha:
      partners:
        - {name: acme, key: partner-key-0123456789}
`, upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var captchaKey = regexp.MustCompile(`<captcha-key>([^<]+)</captcha-key>`)

func keyOf(t *testing.T, xml string) string {
	t.Helper()
	m := captchaKey.FindStringSubmatch(xml)
	if m == nil {
		t.Fatalf("no captcha-key in %s", xml)
	}
	return m[1]
}

// TestXMLPartner goes through the whole XML flow as a partner's server does: robot, wrong, failed, right, spravka, results.
func TestXMLPartner(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", xmlConfig(t, site(t).URL), "--captcha-test-answer", testAnswer)
	const user = "203.0.113.50"
	g.ban("ip:"+user, "10m")
	partner := visitor(t)
	partner.Jar = nil
	search := g.url + "/xmlsearch?query=go&key=partner-key-0123456789"

	r := partner.get(search, "X-Real-Ip", user)
	r.must(t, 200, `<error code="100">Robot request</error>`).must(t, 200, "<captcha-status></captcha-status>")
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/xml") && !strings.HasPrefix(got, "application/xml") {
		t.Errorf("Content-Type %q is no XML", got)
	}
	check := func(key, rep string) *response {
		return partner.get(g.url+"/xcheckcaptcha?"+url.Values{"key": {key}, "rep": {rep}}.Encode()+"&partner=1", "X-Real-Ip", user)
	}
	wrong := check(keyOf(t, r.body), "000000")
	wrong.must(t, 200, "<captcha-status>failed</captcha-status>")
	if keyOf(t, wrong.body) == keyOf(t, r.body) {
		t.Error("a wrong answer brought no new key")
	}
	right := check(keyOf(t, wrong.body), testAnswer)
	right.must(t, 200, "")
	pass := ""
	for _, c := range right.Cookies() {
		if c.Name == "spravka" {
			pass = c.Value
		}
	}
	if pass == "" {
		t.Fatalf("no spravka after the right answer: %v\n%s", right.Header, right.body)
	}
	served := partner.get(search, "X-Real-Ip", user, "Cookie", "spravka="+pass)
	served.must(t, 200, "site got GET /xmlsearch?query=go")

	t.Run("the pass is bound to the user", func(t *testing.T) {
		g.ban("ip:203.0.113.51", "10m")
		partner.get(g.url+"/xmlsearch?query=go", "Cookie", "spravka="+pass, "X-Real-Ip", "203.0.113.51").
			must(t, 200, "") // not a known partner: its X-Real-Ip is not believed, it is its own address
	})
	t.Run("the test query always gets the captcha", func(t *testing.T) {
		partner.get(g.url+"/xmlsearch?query=e48a2b93de1740f48f6de0d45dc4192a&key=partner-key-0123456789", "X-Real-Ip", "203.0.113.99").
			must(t, 200, `<error code="100">`)
	})
	t.Run("an unknown caller is its own address", func(t *testing.T) {
		partner.get(g.url+"/xmlsearch?query=go", "X-Real-Ip", user).must(t, 200, "site got GET")
	})
}

// TestXMLIsAlwaysXML: an XML client that is blocked, throttled, quarantined or tries too often gets XML, which says when to come again.
func TestXMLIsAlwaysXML(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - name: search
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xmlsearch]}
    rules:
      answers: [{decision: OK, action: pass}, {decision: FAST, action: throttle}, {decision: ODD, action: quarantine}]
      text: |
        do regexpCheck(regexp=".*odd.*", attribute="path") mark even
        if not even stop as ODD
        do regexpCheck(regexp=".*fast.*", attribute="path") mark slow
        if slow stop as OK
        do bucketCheck(rate=1, per=3600, burst=1, attribute="ip", storage="store") mark empty
        if empty stop as FAST
        stop as OK
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
`, site(t).URL)
	v := visitor(t)
	ask := func(path, user string) *response {
		return v.get(g.url+path+"?query=go&key=partner-key-0123456789", "X-Real-Ip", user)
	}
	refused := func(r *response, status int, says string) {
		t.Helper()
		r.must(t, status, says)
		if kind, mark := r.Header.Get("Content-Type"), `<?xml version="1.0"`; !strings.HasPrefix(kind, "text/xml") || !strings.HasPrefix(r.body, mark) || strings.Contains(r.body, "Robot request") {
			t.Errorf("%s: %s\n%s", r.Request.URL, kind, r.body)
		}
		if after := r.Header.Get("Retry-After"); (status == 429) != (after != "") {
			t.Errorf("%s: %d, Retry-After %q", r.Request.URL, status, after)
		}
	}
	g.api("POST", "/api/lists/block", map[string]string{"entry": "203.0.113.7", "reason": "test"})
	refused(ask("/xmlsearch", "203.0.113.7"), 403, "Blocked")
	refused(ask("/xmlsearch/odd", "203.0.113.8"), 409, "Quarantined")
	ask("/xmlsearch/fast", "203.0.113.8").must(t, 200, "site got")
	refused(ask("/xmlsearch/fast", "203.0.113.8"), 429, "Please try again in ")
	check := func() *response { return v.get(g.url+"/xcheckcaptcha?key=x&rep=1", "X-Real-Ip", "203.0.113.9") }
	check().must(t, 200, "Robot request")
	for range 300 { // what an address may try at once
		check()
	}
	refused(check(), 429, "Please try again in ")
}
