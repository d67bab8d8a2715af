package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Traefik and Envoy are not in Debian. Their side of the contract is written here after their documentation, and takes
// its settings from the files of deploy/.

// at walks a document by keys and list indexes.
func at(t *testing.T, doc any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, ok := doc.(map[string]any)
			if !ok || m[k] == nil {
				t.Fatalf("no %v in the file", path)
			}
			doc = m[k]
		case int:
			l, ok := doc.([]any)
			if !ok || k >= len(l) {
				t.Fatalf("no %v in the file", path)
			}
			doc = l[k]
		}
	}
	return doc
}

func document(t *testing.T, text string) any {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// to is a plain proxy that forwards requests with their Host; add changes answers.
func to(t *testing.T, base string, add func(*http.Response)) http.Handler {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			host := r.In.Host
			r.SetURL(u)
			r.Out.Host = host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.Out.Header["X-Forwarded-Proto"] = r.In.Header["X-Forwarded-Proto"]
		},
		ModifyResponse: func(r *http.Response) error {
			if add != nil {
				add(r)
			}
			return nil
		},
	}
}

// copyAnswer copies a check's answer to the visitor.
func copyAnswer(w http.ResponseWriter, r *http.Response) {
	for k, v := range r.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(r.StatusCode)
	_, _ = io.Copy(w, r.Body)
}

func ask(req *http.Request) (*http.Response, error) { return http.DefaultTransport.RoundTrip(req) }

// traefik is Traefik with deploy/traefik/antirobot.yml: https://doc.traefik.io/traefik/middlewares/http/forwardauth/
func traefik(t *testing.T, gateway, service string) *httptest.Server {
	doc := document(t, deployed(t, "traefik/antirobot.yml", deployGateway, gateway, deployService, service))
	auth := at(t, doc, "http", "middlewares", "antirobot", "forwardAuth")
	address := at(t, auth, "address").(string)
	cookies := at(t, auth, "addAuthCookiesToResponse").([]any)
	own := pathsOf(t, at(t, doc, "http", "routers", "antirobot", "rule").(string))
	pages := to(t, at(t, doc, "http", "services", "antirobot", "loadBalancer", "servers", 0, "url").(string), nil)
	site := at(t, doc, "http", "services", "backend", "loadBalancer", "servers", 0, "url").(string)

	ownMiddlewares, siteMiddlewares := at(t, doc, "http", "routers", "antirobot", "middlewares"), at(t, doc, "http", "routers", "site", "middlewares")
	changed := func(h http.Header, middlewares any) {
		for _, name := range middlewares.([]any) {
			if name != "antirobot" {
				for field, value := range at(t, doc, "http", "middlewares", name.(string), "headers", "customRequestHeaders").(map[string]any) {
					h.Del(field)
					if value != "" {
						h.Set(field, value.(string))
					}
				}
			}
		}
	}

	return listen(t, func(w http.ResponseWriter, r *http.Request) {
		addr, _, _ := net.SplitHostPort(r.RemoteAddr)
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"} {
			r.Header.Del(name) // the entry point trusts nobody
		}
		r.Header.Set("X-Forwarded-For", addr)
		r.Header.Set("X-Forwarded-Proto", "http")
		if own(r.URL.Path) {
			changed(r.Header, ownMiddlewares)
			pages.ServeHTTP(w, r)
			return
		}
		changed(r.Header, siteMiddlewares)
		check, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Error(err)
		}
		check.Header = r.Header.Clone()
		for _, hop := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailers", "Transfer-Encoding", "Upgrade"} {
			check.Header.Del(hop)
		}
		check.Header.Set("X-Forwarded-Method", r.Method)
		check.Header.Set("X-Forwarded-Host", r.Host)
		check.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
		res, err := ask(check)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			copyAnswer(w, res)
			return
		}
		to(t, site, func(answer *http.Response) {
			for _, c := range res.Cookies() {
				if slices.Contains(cookies, any(c.Name)) {
					answer.Header.Add("Set-Cookie", c.String())
				}
			}
		}).ServeHTTP(w, r)
	})
}

var pathRule = regexp.MustCompile("(Path|PathPrefix)\\(`([^`]+)`\\)")

// pathsOf reads the paths of a Traefik rule.
func pathsOf(t *testing.T, rule string) func(path string) bool {
	t.Helper()
	rules := pathRule.FindAllStringSubmatch(rule, -1)
	if len(rules) < 4 {
		t.Fatalf("the rule %s names too few paths", rule)
	}
	return func(path string) bool {
		for _, r := range rules {
			if path == r[2] || r[1] == "PathPrefix" && strings.HasPrefix(path, r[2]) {
				return true
			}
		}
		return false
	}
}

// envoy is Envoy with deploy/envoy/envoy.yaml: ext_authz.v3.ExtAuthz with http_service.
func envoy(t *testing.T, gateway, service string, replace ...string) *httptest.Server {
	text := deployed(t, "envoy/envoy.yaml", append([]string{deployGateway, gateway}, replace...)...)
	hcm := at(t, document(t, text), "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
	authz := at(t, hcm, "http_filters", 0, "typed_config")
	prefix := at(t, authz, "http_service", "path_prefix").(string)
	patterns := at(t, authz, "allowed_headers", "patterns").([]any)
	open := at(t, authz, "failure_mode_allow").(bool)
	onSuccess := at(t, authz, "http_service", "authorization_response", "allowed_client_headers_on_success", "patterns", 0, "exact").(string)
	routes := at(t, hcm, "route_config", "virtual_hosts", 0, "routes")
	own := regexp.MustCompile("^(?:" + at(t, routes, 0, "match", "safe_regex", "regex").(string) + ")$")
	if !at(t, routes, 0, "typed_per_filter_config", "envoy.filters.http.ext_authz", "disabled").(bool) {
		t.Fatal("own pages are asked about")
	}
	removed := at(t, hcm, "route_config", "request_headers_to_remove").([]any)
	allowed := func(name string) bool {
		name = strings.ToLower(name)
		for _, p := range patterns {
			m := p.(map[string]any)
			exact, _ := m["exact"].(string)
			start, _ := m["prefix"].(string)
			if exact == name || start != "" && strings.HasPrefix(name, start) {
				return true
			}
		}
		return false
	}
	return listen(t, func(w http.ResponseWriter, r *http.Request) {
		addr, _, _ := net.SplitHostPort(r.RemoteAddr)
		if f := r.Header.Get("X-Forwarded-For"); f != "" {
			addr = f + "," + addr
		}
		r.Header.Set("X-Forwarded-For", addr)
		r.Header.Set("X-Forwarded-Proto", "http")
		sent := r.Clone(r.Context()) // by the router, which is behind the filters
		for _, name := range removed {
			sent.Header.Del(name.(string))
		}
		if own.MatchString(r.URL.Path) {
			to(t, "http://"+gateway, nil).ServeHTTP(w, sent)
			return
		}
		check, err := http.NewRequest(r.Method, "http://"+gateway+prefix+r.URL.RequestURI(), nil)
		if err != nil {
			t.Error(err)
		}
		for k, v := range r.Header {
			if allowed(k) || k == "Authorization" {
				check.Header[k] = v
			}
		}
		check.Host = r.Host
		res, err := ask(check)
		if err == nil {
			defer res.Body.Close()
		}
		switch {
		case err != nil || res.StatusCode >= 500:
			if !open {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			to(t, "http://"+service, nil).ServeHTTP(w, sent)
		case res.StatusCode != http.StatusOK:
			copyAnswer(w, res)
		default:
			to(t, "http://"+service, func(answer *http.Response) {
				for _, v := range res.Header.Values(onSuccess) {
					answer.Header.Add(onSuccess, v)
				}
			}).ServeHTTP(w, sent)
		}
	})
}

func listen(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// TestCheckContracts checks what visitors get behind a balancer that copies the answer of a stopped check to them.
func TestCheckContracts(t *testing.T) {
	t.Parallel()
	for _, b := range []struct {
		name, settings string
		run            func(t *testing.T, gateway, service string) *httptest.Server
		closed         int
	}{
		{"Traefik", "", traefik, 500},
		{"Envoy", "headers: envoy", func(t *testing.T, gateway, service string) *httptest.Server { return envoy(t, gateway, service) }, 403},
	} {
		t.Run(b.name, func(t *testing.T) {
			s := cookieSite(t)
			g := serveCheck(t, s.URL, b.settings, "identity: {ja4_header: X-Forwarded-JA4}")
			gateway, service := strings.TrimPrefix(g.check, "http://"), strings.TrimPrefix(s.URL, "http://")
			base := b.run(t, gateway, service).URL
			v := visitor(t)
			tellsNoHandshake(t, g, base)

			r := v.get(base+"/a?b=1&c=%2F", "X-Forwarded-For", badUser, "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "OPTIONS").
				must(t, 200, "site got GET /a?b=1&c=%2F\n")
			if names := fmt.Sprint(r.Cookies()); !strings.Contains(names, "own=") || !strings.Contains(names, "i=") {
				t.Errorf("cookies %s", names)
			}
			v.do("POST", base+"/a", "x=y").must(t, 200, "body: x=y")

			g.ban("ip:127.0.0.1", "10m")
			v = visitor(t)
			page := v.get(base+"/a?b=1&c=2", "X-Forwarded-For", goodUser).must(t, 302, "").Header.Get("Location")
			if !strings.HasPrefix(page, base+"/showcaptcha?cc=1&retpath=") {
				t.Fatalf("Location %s", page)
			}
			v.get(base+"/api", ajax, "XMLHttpRequest").must(t, 403, `"type":"captcha"`)
			v.get(base+"/x", "Sec-Fetch-Dest", "image").must(t, 403, "")
			done := v.do("POST", base+"/checkcaptcha", answered(t, v.get(page).must(t, 200, "<form").body, testAnswer),
				"Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
			if to := done.Header.Get("Location"); to != base+"/a?b=1&c=2" {
				t.Errorf("back to %s", to)
			}
			v.get(base+"/a?b=1&c=2").must(t, 200, "site got GET /a?b=1&c=2")

			g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
			if r := v.get(base+"/a").must(t, 403, ""); !strings.Contains(r.body, r.Header.Get("X-Request-Id")) {
				t.Error("the page does not show the request's number")
			}
			g.kill(9)
			if r := v.get(base + "/a"); r.StatusCode != b.closed || strings.Contains(r.body, "site got") {
				t.Errorf("the gateway is down: %d %s", r.StatusCode, r.body)
			}
			if b.name == "Envoy" {
				v.get(envoy(t, gateway, service, "failure_mode_allow: false", "failure_mode_allow: true").URL+"/a").must(t, 200, "site got")
			}
		})
	}
}
