package insert

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPolicies: with which policies a page gets the script, and with which nonce.
func TestPolicies(t *testing.T) {
	f := func(want string, policies ...string) {
		t.Helper()
		var p policySet
		for _, text := range policies {
			p.add([]byte(text))
		}
		got := "no"
		if p.permits(site{"https", "shop.example:8443", "/x/captcha/evidence.js"}, false) {
			got = "yes " + p.nonce
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%q: %s, wanted %s", policies, got, want)
		}
	}
	f("yes")
	f("yes", "img-src 'none'")
	f("yes", "default-src 'self'")
	f("yes", "Default-Src 'SELF'; script-src *")
	f("no", "default-src 'none'")
	f("no", "script-src")
	f("no", "default-src 'self'; script-src-elem https://cdn.example")
	f("no", "default-src 'self'; connect-src https://api.example")
	f("no", "default-src 'self', script-src 'none'")
	f("no", "default-src 'self'", "script-src 'none'")
	f("yes", "script-src 'self'; script-src 'none'")
	f("yes abc", "script-src 'nonce-abc'; connect-src 'self'")
	f("yes abc", "script-src 'strict-dynamic' 'nonce-abc' https:")
	f("no", "script-src 'strict-dynamic' 'self' https:")
	f("no", "script-src 'sha256-AAAA' 'unsafe-inline'")
	f("no", "script-src 'nonce-a\"b'")
	f("yes b2", "script-src 'nonce-b1' 'nonce-b2'", "script-src 'nonce-b2'")
	f("no", "script-src 'nonce-b1'", "script-src 'nonce-b2'")
	f("yes", "script-src https:")
	f("yes", "script-src http:")
	f("no", "script-src data:")
	f("yes", "script-src https://shop.example:8443")
	f("yes", "script-src shop.example:*")
	f("no", "script-src shop.example")
	f("yes", "script-src *.example:8443")
	f("no", "script-src *.shop.example:8443")
	f("yes", "script-src shop.example:8443/x/captcha/")
	f("yes", "script-src shop.example:8443/x/captcha/evidence.js")
	f("no", "script-src shop.example:8443/static/")
	f("no", "sandbox allow-scripts")
	f("yes", "sandbox allow-scripts allow-same-origin")
}

// TestExtend: a policy is changed only as far as it must be, and then permits the script.
func TestExtend(t *testing.T) {
	s := site{"https", "shop.example", "/captcha/evidence.js"}
	f := func(policy, want string) {
		t.Helper()
		in := Insertion{Page: Page{Script: s.path, Scheme: s.scheme, Host: []byte(s.host), Extend: true}}
		got, ok := in.Head(200, fields("Content-Type: text/html", "Content-Security-Policy: "+policy))
		value := strings.ReplaceAll(string(got[1].Value), in.policy.nonce+"'", "NONCE'")
		if in.policy.nonce == "" {
			value = string(got[1].Value)
		}
		if ok != (want != "") || ok && value != want {
			t.Errorf("%q: %v %q, wanted %q", policy, ok, value, want)
			return
		}
		var again policySet
		again.add(got[1].Value)
		if ok && !again.permits(s, false) {
			t.Errorf("%q still forbids the script", got[1].Value)
		}
	}
	f("default-src 'self'", "default-src 'self'")
	f("default-src 'none'; img-src *", "default-src 'none'; img-src *; script-src-elem 'self'; connect-src 'self'")
	f("script-src 'sha256-AA='; connect-src a.example",
		"script-src 'sha256-AA='; connect-src a.example 'self'; script-src-elem 'sha256-AA=' 'self'")
	f("script-src 'strict-dynamic' 'sha256-AA='", "script-src 'strict-dynamic' 'sha256-AA='; script-src-elem "+
		"'strict-dynamic' 'sha256-AA=' 'nonce-NONCE'")
	f("script-src-elem 'none', connect-src 'self'", "script-src-elem 'self', connect-src 'self'")
	f("sandbox", "")
}

// TestPoliciesAreBounded: a page whose policies are made to take long, in its head or in its fields, stays as it is.
func TestPoliciesAreBounded(t *testing.T) {
	const n = 150
	var page strings.Builder
	page.WriteString("<html><head>")
	for k := range n { // each forbids one nonce more
		page.WriteString(`<meta http-equiv=content-security-policy content="script-src`)
		for i := range n {
			if i != k-1 {
				fmt.Fprintf(&page, " 'nonce-%d'", i)
			}
		}
		page.WriteString(`; connect-src 'self'">`)
	}
	page.WriteString("</head><body>")
	var names, nonces strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&names, "a%d;", i)
		fmt.Fprintf(&nonces, " 'nonce-%d'", i)
	}
	for what, c := range map[string]struct{ policy, page string }{
		"a head full of policies": {"connect-src 'self'", page.String()},
		"thousands of directives": {names.String(), "<html><body>"},
		"thousands of nonces":     {"script-src" + nonces.String() + ", script-src 'none'", "<html><body>"},
	} {
		began := time.Now()
		got, _, _ := answer(t, Page{}, strings.NewReader(c.page), "Content-Type: text/html",
			"Content-Security-Policy: "+c.policy)
		if took := time.Since(began); got != Policy || took > time.Second {
			t.Errorf("%s: %v after %v", what, got, took)
		}
	}
}
