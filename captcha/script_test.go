package captcha

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"

	"antirobot/identity"
)

// TestScriptIsServed: antirobot.js is compressed, any site may read it, and like every answer of the gateway it is not
// cached.
func TestScriptIsServed(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Prefix = "/_check" })
	for _, name := range []string{"antirobot.js", "antirobot.mjs", "texts"} {
		path := "/_check/captcha/" + name
		get := func(opts ...opt) Response {
			return e.c.Static(e.request("GET", "https://example.com"+path, opts...), path)
		}
		plain, packed := get(), get(header("Accept-Encoding", "br, gzip;q=0.5"))
		if plain.Status != 200 || plain.Get("Cache-Control") != "no-store" ||
			plain.Get("Access-Control-Allow-Origin") != "*" || plain.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", name, plain.Status, plain.Header)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed.Body))
		if err != nil {
			t.Fatal(err)
		}
		if unpacked, err := io.ReadAll(r); err != nil || !bytes.Equal(unpacked, plain.Body) ||
			packed.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: compressed it is another file: %v", name, err)
		}
		if a := get(header("Accept-Encoding", "gzip;q=0, identity")); !bytes.Equal(a.Body, plain.Body) {
			t.Errorf("%s: compressed for who refuses it", name)
		}
	}
	var texts map[string]string
	a := e.c.Static(e.request("GET", "https://example.com/_check/captcha/texts?lang=ar"), "/_check/captcha/texts")
	if err := json.Unmarshal(a.Body, &texts); err != nil || texts["lang"] != "ar" || texts["dir"] != "rtl" ||
		texts["cancel"] == "" {
		t.Errorf("texts: %v %v", err, texts)
	}
}

// TestFreshJSON: a script requests another picture without an answer, and says where its visitor is.
func TestFreshJSON(t *testing.T) {
	e := newEnv(t, nil)
	ask := func(pairs ...string) (c challengeJSON) {
		t.Helper()
		a := e.check(form(append(pairs, "format", "json", "new", "1")...))
		if err := json.Unmarshal(a.Body, &c); err != nil || a.Status != 200 {
			t.Fatalf("%d %v %s", a.Status, err, a.Body)
		}
		return c
	}
	back := func(c challengeJSON) string {
		t.Helper()
		u, err := url.Parse(c.Captcha.CaptchaPage)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("retpath")
	}
	var first challengeJSON
	if err := json.Unmarshal(e.c.ChallengeJSON(e.request("GET", "https://example.com/api")).Body, &first); err != nil {
		t.Fatal(err)
	}
	second := ask("key", first.Captcha.Key, "retpath", "https://example.com/app?a=1&b=2#c")
	if second.Captcha.Key == first.Captcha.Key || second.Captcha.Status != "" ||
		back(second) != "https://example.com/app?a=1&b=2#c" {
		t.Errorf("%+v leads to %s", second, back(second))
	}
	// The first key is not spent: nothing was answered.
	a := e.check(form("key", first.Captcha.Key, "rep", e.answerOf(first.Captcha.Key), "format", "json"))
	if !strings.Contains(string(a.Body), `"success"`) {
		t.Errorf("%s", a.Body)
	}
	for _, evil := range []string{"https://evil.test/", "javascript:alert(1)", "//evil.test/", "/relative"} {
		if to := back(ask("retpath", evil)); to != "https://example.com/" {
			t.Errorf("%s leads to %s", evil, to)
		}
	}
}

// TestCrossSitePass: the pass is given to pages of another site only where the configuration says so.
func TestCrossSitePass(t *testing.T) {
	for _, cross := range []bool{false, true} {
		e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
			s.CrossSite, s.CORSOrigins = cross, []string{"https://shop.example.org"}
		})
		_, fields := e.visit("https://example.com/")
		a := e.submit(fields, e.answerOf(fields.Get("key")))
		cookie := cookies(&a)["spravka"]
		if strings.Contains(cookie, "; Secure; HttpOnly; SameSite=None; Partitioned") != cross ||
			strings.Contains(cookie, "SameSite=Lax") == cross {
			t.Errorf("cross_site %t: %s", cross, cookie)
		}
	}
	c := DefaultServiceConfig()
	c.CrossSite = true
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "cross_site: ") {
		t.Errorf("cross_site without cors_origins: %v", err)
	}
}
