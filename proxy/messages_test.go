package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"antirobot/message/inline"
	"antirobot/request"
)

func TestReadClaims(t *testing.T) {
	f := func(query, field, want string, over bool) {
		t.Helper()
		v := &request.View{Method: []byte("POST"), Query: []byte(query), Claims: [][]byte{{'X'}}}
		if field != "" {
			v.Fields = []request.Field{{Name: []byte("x-http-method-override"), Value: []byte(field)}}
		}
		if ReadClaims(v); fmt.Sprintf("%s", v.Claims) != want || v.Overclaims != over {
			t.Errorf("%q %q: %s, %v", query, field, v.Claims, v.Overclaims)
		}
	}
	f("", "", "[]", false)
	f("method=PUT&a=_method", "", "[]", false)
	f("_method=put", "", "[PUT]", false)
	f("a=1&%5FMe%74hod=+put", "", "[PUT]", false)
	f("a;_method=PUT", "", "[PUT]", false)
	f("%u005fmethod=PUT", "", "[PUT]", false)
	f("_me%E2%80%8Bthod=PUT", "", "[PUT]", false)
	f("_method[]=PUT&.method=PATCH&_method=post", "", "[PUT PATCH]", false)
	f("_method=GET+/", "", "[]", false)
	f("", "delete, x y", "[DELETE]", false)
	f("_method=DELETE", "DELETE", "[DELETE]", false)
	f("_method=A,B,C,D,E", "", "[A B C D]", true)
	v := &request.View{Method: []byte("POST"), Fields: []request.Field{{
		Name:  []byte("X_HTTP_Method_Override"),
		Value: []byte("PUT"),
	}}}
	if ReadClaims(v); fmt.Sprintf("%s", v.Claims) != "[PUT]" {
		t.Errorf("with a name that a CGI program takes for the field's: %s", v.Claims)
	}
}

// FuzzClaims: no query claims a method that the first look does not see.
func FuzzClaims(f *testing.F) {
	f.Add("_method=PUT")
	f.Add("a=1&%5fme%20thod=x;%u005fmethod=PUT")
	f.Add("_charset_=utf-16&%00_%00m=1")
	f.Fuzz(func(t *testing.T, query string) {
		methods, _ := inline.Config{}.Overrides(inline.Input{Query: query})
		if v := (&request.View{Query: []byte(query)}); len(methods) > 0 && !claims(v) {
			t.Errorf("%q claims %q", query, methods)
		}
	})
}

func withRoutes(t testing.TB, routes ...string) *Service {
	t.Helper()
	s := &Service{}
	for _, r := range routes {
		s.Messages.Routes = append(s.Messages.Routes, MessageRouteConfig{
			Route: r, Sources: []inline.Source{{Attribute: "text", From: "form", Key: "t"}},
		})
	}
	if err := s.Messages.Validate(); err != nil {
		t.Fatal(err)
	}
	s.routes = newMessageRoutes(s.Messages)
	return s
}

func TestMessageRoutes(t *testing.T) {
	s := withRoutes(t, "POST /comments", "PUT /articles/*/comments", "* /forum/**", "POST /")
	f := func(method, path, want string) {
		t.Helper()
		got := ""
		if r := s.messageRoute([]byte(method), read(path)); r != nil {
			got = r.name
		}
		if got != want {
			t.Errorf("%s %s: %q, want %q", method, path, got, want)
		}
	}
	f("POST", "/comments", "POST /comments")
	f("POST", "/comments/", "POST /comments")
	f("POST", "//comments", "POST /comments")
	f("POST", "/a/../comments", "POST /comments")
	f("POST", "/%63omments", "POST /comments")
	f("POST", "/comments;x=y", "POST /comments")
	f("POST", "/Comments", "POST /comments") // as services do that ignore case
	f("post", "/comments", "POST /comments")
	f("POST", "/comments.json", "POST /comments") // as Rails does
	f("POST", "/index.php/comments", "POST /comments")
	f("POST", "/Index.PHP/Comments.xml/", "POST /comments")
	f("POST", "/index.cgi/comments", "POST /comments")
	f("POST", "/cgi-bin/app.fcgi/comments.json", "POST /comments")
	f("PUT", "/articles/index.phtml/7/comments", "PUT /articles/*/comments")
	f("PUT", "/articles/7.5/comments.js", "PUT /articles/*/comments")
	f("POST", "/x/comments", "")
	f("POST", "/.json", "")
	f("POST", "/comments.old.comments", "")
	f("POST", "/comments.json/7", "")
	f("POST", "/comments/7", "")
	f("POST", "/commentsx", "")
	f("GET", "/comments", "")
	f("PUT", "/comments", "")
	f("PUT", "/articles/7/comments", "PUT /articles/*/comments")
	f("PUT", "/articles/comments", "")
	f("PUT", "/articles//comments", "") // the normal form has no empty segments
	f("PUT", "/articles/7/8/comments", "")
	f("PATCH", "/forum", "* /forum/**")
	f("DELETE", "/forum/a/b/c", "* /forum/**")
	f("DELETE", "/forums", "")
	f("POST", "/", "POST /")
	f("POST", "/else", "")
}

func TestMessageRouteConfig(t *testing.T) {
	f := func(want string, edit func(*MessageRouteConfig)) {
		t.Helper()
		r := MessageRouteConfig{Route: "POST /a", Sources: []inline.Source{{Attribute: "text", From: "form", Key: "t"}}}
		edit(&r)
		c := MessagesConfig{Routes: []MessageRouteConfig{r}}
		err := c.Validate()
		if err == nil && want != "" || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f("", func(*MessageRouteConfig) {})
	for _, bad := range []string{
		"", "/a", "POST", "POST a", "post /a", "POST /a/**/b", "POST /a?b", "POST /a#b",
		"POST  /a",
	} {
		f("routes[0].route: ", func(r *MessageRouteConfig) { r.Route = bad })
	}
	f("routes[0].sources: there is none", func(r *MessageRouteConfig) { r.Sources = nil })
	f("routes[0].max_body: more than 16 MiB", func(r *MessageRouteConfig) { r.MaxBody = 1 << 30 })
	f("routes[0].timeout: 1ms is not between", func(r *MessageRouteConfig) { r.Timeout = time.Millisecond })
	f(`routes[0].too_large: "drop" is not an action`, func(r *MessageRouteConfig) { r.TooLarge = "drop" })
	f(`routes[0].on_timeout: "x" is not an action`, func(r *MessageRouteConfig) { r.OnTimeout = "x" })
	twice := MessagesConfig{Routes: []MessageRouteConfig{
		withRoutes(t, "POST /a").Messages.Routes[0],
		withRoutes(t, "POST /a").Messages.Routes[0],
	}}
	if err := twice.Validate(); err == nil || !strings.Contains(err.Error(),
		`routes[1].route: "POST /a" occurs twice`) {
		t.Errorf("got %v", err)
	}
}

// FuzzMessageRoute looks for a path that matches a route in its normal form but not as it came.
func FuzzMessageRoute(f *testing.F) {
	for _, seed := range []string{"/comments", "/a/b/comments", "/%2e/comments;a", "/articles/%2f/comments", "*", ""} {
		f.Add(seed)
	}
	s := withRoutes(f, "POST /comments", "POST /articles/*/comments", "POST /forum/**")
	f.Fuzz(func(t *testing.T, path string) {
		normal := s.routeOf([]byte("POST"), request.NormalPath(nil, []byte(path)), false)
		if r := s.messageRoute([]byte("POST"), read(path)); normal != nil && r == nil {
			t.Errorf("%q is on no route, and its normal form is on %s", path, normal.name)
		}
	})
}
