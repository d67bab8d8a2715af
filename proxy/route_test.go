package proxy

import (
	"errors"
	"strings"
	"testing"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
)

// routed makes a service for the router alone.
func routed(t *testing.T, name string, mode verdict.Mode, hosts []string, prefixes ...string) *Service {
	t.Helper()
	who, err := identity.NewCookieSettings(identity.DefaultServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &Service{
		Name: name, Hosts: hosts, Prefixes: prefixes, Verdict: &verdict.Settings{Name: name, Mode: mode}, Identity: who,
		Config: DefaultServiceConfig(),
	}
}

func router(t *testing.T, services ...*Service) *Router {
	t.Helper()
	r, err := NewRouter(services)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func name(s *Service) string {
	if s == nil {
		return ""
	}
	return s.Name
}

func TestRouter(t *testing.T) {
	r := router(
		t,
		routed(t, "shop", verdict.Enforce, []string{"shop.example", "*.shop.example"}),
		routed(t, "shop-api", verdict.Enforce, []string{"shop.example"}, "/api", "/v2/"),
		routed(t, "deep", verdict.Enforce, []string{"a.b.example"}),
		routed(t, "wide", verdict.Enforce, []string{"*.example"}),
		routed(t, "img", verdict.Enforce, []string{"IMG.Example"}),
	)
	f := func(want, host, path string) {
		t.Helper()
		if got := name(strictest(found(r, host, path))); got != want {
			t.Errorf("%s%s: %q, wanted %q", host, path, got, want)
		}
	}
	f("shop", "shop.example", "/")
	f("shop", "www.shop.example", "/api") // the API is on the bare host only
	f("shop", "a.b.shop.example", "/")
	f("shop-api", "shop.example", "/api")
	f("shop-api", "shop.example", "/api/x")
	f("shop", "shop.example", "/apix")
	f("shop-api", "shop.example", "/v2/x")
	f("shop", "shop.example", "/v2")
	f("deep", "a.b.example", "/")
	f("wide", "c.b.example", "/")
	f("wide", "evil-shop.example", "/") // not at a label boundary, so it is not shop's
	f("img", "img.example", "/")        // configured hosts are compared without case
	f("", "example", "/")
	f("", "other.test", "/")
	f("", "", "/")
	f("", "shop.example.evil.test", "/")
}

// TestRouterAnywhere: a service without hosts takes what no other service claims.
func TestRouterAnywhere(t *testing.T) {
	r := router(t, routed(t, "rest", verdict.Enforce, nil),
		routed(t, "one", verdict.Enforce, []string{"one.example"}, "/only"))
	for host, want := range map[string]string{"one.example": "rest", "x": "rest", "": "rest"} {
		if got := name(strictest(found(r, host, "/"))); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
	if got := name(strictest(found(r, "one.example", "/only/a"))); got != "one" {
		t.Errorf("/only: %q", got)
	}
}

func TestRouterRefusesTwoClaims(t *testing.T) {
	_, err := NewRouter([]*Service{
		routed(t, "a", verdict.Enforce, []string{"x.example"}, "/p"),
		routed(t, "b", verdict.Enforce, []string{"x.example"}, "/q", "/p"),
		routed(t, "c", verdict.Enforce, nil),
		routed(t, "d", verdict.Enforce, []string{"*"}),
	})
	if !errors.Is(err, errAmbiguous) || !strings.Contains(err.Error(), "x.example/p") ||
		!strings.Contains(err.Error(), "c and d") {
		t.Errorf("got %v", err)
	}
}

// TestPitfall08StricterOfTwoReadings: where the gateway and the service could read a path differently, the rules of
// both readings are considered, and the stricter ones apply.
func TestPitfall08StricterOfTwoReadings(t *testing.T) {
	paths := func(modes map[string]verdict.Mode) (rules []PathRule) {
		for prefix, m := range modes {
			rules = append(rules, PathRule{prefix, routed(t, "site", m, nil)})
		}
		return rules
	}
	lax := routed(t, "site", verdict.Enforce, nil) // everything except /public is guarded
	lax.Paths = paths(map[string]verdict.Mode{"/public": verdict.Off, "/public/forms": verdict.Observe})
	strict := routed(t, "site", verdict.Off, nil) // nothing except /admin is guarded
	strict.Paths = paths(map[string]verdict.Mode{"/admin": verdict.Enforce})
	free, guarded := router(t, lax), router(t, strict)
	f := func(r *Router, want verdict.Mode, path string) {
		t.Helper()
		if got := strictest(found(r, "h", path)).Verdict.Mode; got != want {
			t.Errorf("%s: mode %v, wanted %v", path, got, want)
		}
	}
	f(free, verdict.Off, "/public/a")
	f(free, verdict.Off, "/public")
	f(free, verdict.Observe, "/public/forms/1")
	f(free, verdict.Enforce, "/publicity")
	f(free, verdict.Enforce, "/private")
	for _, way := range []string{
		"/public/../private", "/public/%2e%2e/private", "/public/..%2fprivate", "/public/%2e%2E%2Fprivate",
		"/public/%252e%252e/private",
		"/public/..;/private", "/public;x/../private", "/public/..;a=b/private", "/public\\..\\private",
		"/public/..%5cprivate",
		"/public/./../private", "//public/../private", "/public/a/../../private", "/public/../private%00/public",
	} {
		f(free, verdict.Enforce, way)
	}
	// in another spelling, the free part stays guarded: an upstream may not read it that way
	for _, way := range []string{"//public/a", "/x/../public/a", "/%70ublic", "/./public", "/Public"} {
		f(free, verdict.Enforce, way)
	}
	f(guarded, verdict.Off, "/")
	f(guarded, verdict.Off, "/administrator")
	for _, way := range []string{
		"/index.php", "/index.php/", "/index.php/administrator", "/php/admin",
		"/index.php.bak/admin", "/index.do/admin", "/admin.css", "/x.admin", "/admin.2", "/admin.json/x",
	} {
		f(guarded, verdict.Off, way)
	}
	f(guarded, verdict.Enforce, "/index.php/admin/x")
	for _, way := range []string{
		"/App.PHP/%41dmin", "/index.php5/admin", "/a.phtml/admin/x", "/cgi-bin/app.cgi/admin", "/x/app.fcgi/admin.json",
		"/index.aspx/admin", "/index.cfm/Admin",
		"/admin.json", "/Admin.XML/", "/admin.old", "/%61dmin.do", "/index.py/admin.html", "/admin.css;x",
	} {
		f(guarded, verdict.Enforce, way)
	}
	f(free, verdict.Enforce, "/index.php/public/a") // a service may not read it that way
	exempt := routed(t, "site", verdict.Enforce, nil)
	exempt.Paths = paths(map[string]verdict.Mode{"/files.php": verdict.Off, "/login": verdict.Observe})
	f(router(t, exempt), verdict.Off, "/files.php/report.pdf") // nothing is set for /report.pdf itself
	f(router(t, exempt), verdict.Observe, "/files.php/login")
	files := routed(t, "site", verdict.Off, nil)
	files.Paths = paths(map[string]verdict.Mode{
		"/login.php": verdict.Enforce, "/about.html": verdict.Enforce, "/shop/search": verdict.Enforce,
		"/shop/off.php": verdict.Off, "/shop/search.csv": verdict.Off,
		"/free.php": verdict.Enforce, "/free": verdict.Off,
	})
	for path, want := range map[string]verdict.Mode{
		"/login": verdict.Enforce, "/Login/x": verdict.Enforce, "/logins": verdict.Off, "/about": verdict.Enforce,
		"/about/": verdict.Enforce, "/about/x": verdict.Off,
		"/shop/index.php/search": verdict.Enforce, "/shop/off.php/x": verdict.Off, "/shop/search.json": verdict.Enforce,
		"/shop/search.csv": verdict.Off,
		"/free":            verdict.Off, "/free.php": verdict.Enforce,
	} {
		f(router(t, files), want, path)
	}
	for _, way := range []string{
		"/admin", "/admin/", "/admin/x", "/admin;x=y", "/admin;x=y/z", "//admin", "///admin//x", "/./admin",
		"/x/../admin", "/x/%2e%2e/admin",
		"/%61dmin", "/%61%64%6D%69%6e", "/%2561dmin", "/;a/admin", "/x/..;/admin", "/%2fadmin", "/%5Cadmin", "/Admin",
		"/%41DMIN/x",
	} {
		f(guarded, verdict.Enforce, way)
	}
}

// TestPathsThatFieldsName: the settings of a path that a field names for services which believe it join those of the
// request's.
func TestPathsThatFieldsName(t *testing.T) {
	site := routed(t, "site", verdict.Off, nil)
	site.Paths = []PathRule{{"/admin", routed(t, "site", verdict.Enforce, nil)}}
	r := router(t, site, routed(t, "other", verdict.Observe, []string{"o"}))
	for _, c := range []struct {
		field, value string
		want         verdict.Mode
	}{
		{"X-Other", "/admin", verdict.Off},
		{"X-Rewrite-URL", "/administrator", verdict.Off},
		{"X-Rewrite-URL", "admin", verdict.Off},
		{"X-Original-URL", "", verdict.Off},
		{"X-Original-URL", "https://h", verdict.Off},
		{"X-Rewrite-URL", "/admin", verdict.Enforce},
		{"x_original_url", "https://h/x/../%61dmin?a", verdict.Enforce},
		{"X-Original-URL", "/index.php/admin.json", verdict.Enforce},
	} {
		v := &request.View{
			Host: []byte("h"), Path: []byte("/"),
			Fields: []request.Field{
				{Name: []byte("X-Rewrite-URL"), Value: []byte("/")},
				{Name: []byte(c.field), Value: []byte(c.value)},
			},
		}
		var s readings
		s.find(r, v.Host, read("/"), false)
		s.addRewritten(r, v)
		if got := strictest(s.list).Verdict.Mode; got != c.want {
			t.Errorf("%s: %s: %v", c.field, c.value, got)
		}
	}
}

func TestPathPrefix(t *testing.T) {
	f := func(want bool, path, prefix string) {
		t.Helper()
		if got := hasPathPrefix([]byte(path), prefix, false); got != want {
			t.Errorf("%s under %s: %t", path, prefix, got)
		}
	}
	f(true, "/", "/")
	f(true, "/a", "/")
	f(true, "/a", "/a")
	f(true, "/a/", "/a")
	f(true, "/a/b", "/a")
	f(true, "/a;x", "/a")
	f(true, "/a/b", "/a/")
	f(false, "/a", "/a/")
	f(false, "/ab", "/a")
	f(false, "/a.b", "/a")
	f(false, "/A", "/a")
	f(false, "", "/a")
}

func TestFindAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := routed(t, "site", verdict.Enforce, []string{"*.example"})
	s.Paths = []PathRule{{"/public", routed(t, "site", verdict.Off, nil)}}
	r := router(t, s, routed(t, "other", verdict.Enforce, []string{"other.test"}))
	host := []byte("www.deep.example")
	for _, path := range []string{"/public/a", "/x//%2e%2e/public/y", "/x/index.php/public.json"} {
		p := []byte(path)
		var paths request.Paths
		var found readings
		if n := testing.AllocsPerRun(100, func() {
			paths.Read(p)
			found.find(r, host, &paths, false)
			found.forget()
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	s := &Service{Name: "s", Verdict: &verdict.Settings{}, Config: DefaultServiceConfig(), Hosts: []string{"*.example"}}
	s.Paths = []PathRule{{"/public", &Service{
		Name: "s", Verdict: &verdict.Settings{Mode: verdict.Off},
		Config: DefaultServiceConfig(),
	}}}
	r, err := NewRouter([]*Service{s})
	if err != nil {
		b.Fatal(err)
	}
	host, path := []byte("www.example"), []byte("/public/articles/of/the/day")
	var paths request.Paths
	var found readings
	b.ReportAllocs()
	for b.Loop() {
		paths.Read(path)
		found.find(r, host, &paths, false)
		found.forget()
	}
}

// TestHealthChecksAreExact: only the named path, and only by reading methods, is passed on without a verdict.
func TestHealthChecksAreExact(t *testing.T) {
	s := &Service{Config: ServiceConfig{HealthPaths: []string{"/healthz"}}}
	for line, want := range map[string]bool{
		"GET /healthz": true, "HEAD /healthz": true, "GET /healthz?a=1": true, "POST /healthz": false,
		"GET /healthz/":  false,
		"GET /healthz/x": false, "GET /Healthz": false, "GET //healthz": false, "GET /%68ealthz": false,
		"GET /healthz;x": false,
	} {
		if got := s.isHealthCheck(view(line)); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
	for path, want := range map[string]bool{
		"/healthz": true, "https://h/healthz?a": true, "/product/1": false,
		"https://h/product/1": false,
	} {
		v := view("GET /healthz")
		v.Fields = append(v.Fields, request.Field{Name: []byte("X_Original-URL"), Value: []byte(path)})
		if got := s.isHealthCheck(v); got != want {
			t.Errorf("a service may read %s: %t", path, got)
		}
	}
}

func TestConfigSaysAllErrors(t *testing.T) {
	c := ServiceConfig{
		AJAXPaths: []string{"/a", "b"}, XMLPaths: []string{"c"}, HealthPaths: []string{""}, MaxBody: -1,
		ResponseTimeout: -1,
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, path := range []string{
		"ajax_paths[1]:", "xml_paths[0]:", "health_paths[0]:", "max_body:",
		"response_timeout:",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+path) {
			t.Errorf("no line begins with %s in\n%v", path, err)
		}
	}
	d := DefaultServiceConfig()
	if err := d.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// strictest returns the service among several that lets the least through, judging by its mode; nil for none.
// found returns the settings of all readings of a path.
func found(r *Router, host, path string) []*Service {
	var s readings
	s.find(r, []byte(host), read(path), (&request.View{Path: []byte(path)}).NamesPart())
	return s.list
}

func strictest(services []*Service) (found *Service) {
	for _, s := range services {
		if found == nil || s.Verdict.Mode < found.Verdict.Mode { // Enforce < Observe < Off
			found = s
		}
	}
	return found
}
