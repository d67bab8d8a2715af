package proxy

import (
	"fmt"
	"testing"

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
