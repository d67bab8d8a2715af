package captcha

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/templates"
)

func TestJSONChallenge(t *testing.T) {
	e := newEnv(t, nil)
	a := e.c.ChallengeJSON(e.request("POST", "https://example.com/api/list?x=<1>&y=2",
		header("X-Retpath-Y", "https://www.example.com/shop#top")))
	if a.Status != 200 || !strings.HasPrefix(a.Get("Content-Type"), "application/json") ||
		a.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v", a.Status, a.Header)
	}
	var got struct {
		Type    string
		Captcha map[string]any
		V       int
		ID      string `json:"request-id"`
		Forward *bool  `json:"forwarded"`
	}
	if err := json.Unmarshal(a.Body, &got); err != nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	key, _ := got.Captcha["key"].(string)
	if got.Type != "captcha" || got.V != 1 || got.ID != "req-1" || got.Forward == nil || *got.Forward {
		t.Errorf("%s", a.Body)
	}
	for name, want := range map[string]any{
		"img-url": "https://example.com/captcha/image?key=" + key, "audio-url": "https://example.com/captcha/audio?key=" + key,
		"check-url": "https://example.com/checkcaptcha", "status": "", "expires-in": 1800.0, "length": 6.0,
	} {
		if got.Captcha[name] != want {
			t.Errorf("%s is %v, want %v", name, got.Captcha[name], want)
		}
	}
	page, _ := got.Captcha["captcha-page"].(string)
	if !strings.HasPrefix(page, "https://example.com/showcaptcha?cc=1&retpath=") ||
		retpathOf(t, page) != "https://www.example.com/shop#top" {
		t.Errorf("captcha-page %q", page)
	}
	if bytes.Contains(a.Body, []byte(`\u0026`)) {
		t.Error("clients that look for URLs in the text do not find them")
	}
	// The page works like any other.
	_, fields := e.open(page)
	if b := e.submit(fields, e.answerOf(fields.Get("key"))); b.Get("Location") != "https://www.example.com/shop#top" {
		t.Errorf("from captcha-page to %q", b.Get("Location"))
	}
	// The key of the JSON is answered by a script.
	check := func(key, rep string, opts ...opt) Response {
		return e.c.Check(e.request("GET", "https://example.com/checkcaptcha?key="+key+"&rep="+rep, opts...))
	}
	xhr := header("X-Requested-With", "XMLHttpRequest")
	bad := check(key, wrong(e.answerOf(key)), xhr)
	var again challengeJSON
	if err := json.Unmarshal(bad.Body, &again); err != nil || bad.Status != 200 || again.Captcha.Status != "failed" ||
		again.Captcha.Key == key || again.Captcha.Key == "" {
		t.Fatalf("%d %s", bad.Status, bad.Body)
	}
	good := check(
		again.Captcha.Key, e.answerOf(again.Captcha.Key), header("Accept", "application/json, text/plain, */*"),
	)
	if good.Status != 200 || string(good.Body) != `{"type":"captcha","captcha":{"status":"success"}}` ||
		cookies(&good)["spravka"] == "" {
		t.Errorf("%d %s %v", good.Status, good.Body, good.Header)
	}
	if old := check(again.Captcha.Key, "1", header("Accept", "text/html"), xhr); !bytes.Contains(
		old.Body, []byte(`"status":"failed"`),
	) {
		t.Errorf("an answered key: %s", old.Body)
	}
	e.pass(time.Hour)
	if old := check(key, "1", xhr); !bytes.Contains(old.Body, []byte(`"status":"expired"`)) {
		t.Errorf("an expired key: %s", old.Body)
	}
	if html := check(key, "1", xhr, header("Accept", "application/json")); html.Status != 200 {
		t.Errorf("status %d", html.Status)
	}
	if page := e.c.Check(e.request("GET", "https://example.com/checkcaptcha?format=html&key=x&rep=1", xhr)); page.Status != 302 {
		t.Errorf("format=html: status %d", page.Status)
	}
}

func TestKeyAndAnswerInQueryOrBody(t *testing.T) {
	e := newEnv(t, nil)
	multipart := func(pairs ...string) opt {
		var b strings.Builder
		for i := 0; i+1 < len(pairs); i += 2 {
			b.WriteString(
				"--xyz\r\nContent-Disposition: form-data; name=\"" + pairs[i] + "\"\r\n\r\n" + pairs[i+1] + "\r\n",
			)
		}
		return body("multipart/form-data; boundary=xyz", b.String()+"--xyz--\r\n")
	}
	for what, build := range map[string]func(key, rep string) *Request{
		"query": func(k, r string) *Request {
			return e.request("GET", "https://example.com/checkcaptcha?key="+k+"&rep="+r+"&format=json")
		},
		"body": func(k, r string) *Request {
			return e.request("POST", "https://example.com/checkcaptcha?format=json", form("key", k, "rep", r))
		},
		"both": func(k, r string) *Request {
			return e.request("POST", "https://example.com/checkcaptcha?key="+k, form("rep", r, "format", "json", "key", "x"))
		},
		"multipart": func(k, r string) *Request {
			return e.request("POST", "https://example.com/checkcaptcha", multipart("rep", r, "other", "1", "key", k, "format", "json"))
		},
		"no type": func(k, r string) *Request {
			return e.request("POST", "https://example.com/checkcaptcha?format=json", func(q *Request) { q.Body = []byte("key=" + k + "&rep=" + r) })
		},
	} {
		_, fields := e.visit("https://example.com/")
		key := fields.Get("key")
		if a := e.c.Check(build(key, e.answerOf(key))); string(a.Body) != solvedJSON {
			t.Errorf("%s: %d %s", what, a.Status, a.Body)
		}
	}
}

func TestInlineTemplateAndStatus(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.AJAX, s.ImgURLTemplate, s.AJAXStatus = "inline", "{base}/img/{key}.png?v=2", 429
	})
	a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
	var got challengeJSON
	if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != 429 ||
		got.Captcha.ImgURL != "https://example.com/img/"+got.Captcha.Key+".png?v=2" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestPitfall20CORS(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.CORSOrigins = []string{
			"https://app.example.org",
			"https://*.trusted.net",
			"http://localhost:3000",
			"https://bank.example",
		}
	})
	f := func(origin string, allowed bool) {
		t.Helper()
		q := func(method, url string) *Request {
			if origin == "" {
				return e.request(method, url)
			}
			return e.request(method, url, header("Origin", origin), header("Accept", "application/json"))
		}
		preflight := q("OPTIONS", "https://example.com/checkcaptcha")
		for what, a := range map[string]Response{
			"challenge": e.c.ChallengeJSON(q("GET", "https://example.com/api")), "blocked": e.c.Blocked(q("GET", "https://example.com/api"), ReadsJSON),
			"check": e.c.Check(q("GET", "https://example.com/checkcaptcha?key=x&rep=1&format=json")), "preflight": e.c.Check(preflight),
		} {
			want, credentials := "", ""
			if allowed {
				want, credentials = origin, "true"
			}
			if a.Get("Access-Control-Allow-Origin") != want ||
				a.Get("Access-Control-Allow-Credentials") != credentials {
				t.Errorf("%s of %q: %v", what, origin, a.Header)
			}
			if a.Get("Vary") != "Origin" {
				t.Errorf("%s: Vary %q", what, a.Get("Vary"))
			}
			if expose := a.Get("Access-Control-Expose-Headers"); allowed &&
				expose != "X-Antirobot-Verdict, X-Request-Id" {
				t.Errorf("%s: exposes %q", what, expose)
			}
			if what == "preflight" &&
				(a.Status != 204 || allowed && !strings.Contains(a.Get("Access-Control-Allow-Headers"), "X-Requested-With")) {
				t.Errorf("preflight: %d %v", a.Status, a.Header)
			}
		}
	}
	f("https://example.com", true)
	f("https://app.example.org", true)
	f("https://a.trusted.net", true)
	f("https://a.b.trusted.net", true)
	f("http://localhost:3000", true)
	f("HTTPS://Bank.example", true)
	f("https://ban\u212a.example", false) // a Kelvin sign, which is not a k
	f("", false)
	f("null", false)
	f("https://evil.com", false)
	f("http://app.example.org", false)
	f("https://app.example.org:8443", false)
	f("https://app.example.org.evil.com", false)
	f("https://trusted.net", false)
	f("https://eviltrusted.net", false)
	f("https://evil.com/.trusted.net", false)
	f("https://evil.com?.trusted.net", false)
	f("http://localhost:30000", false)
}

func TestBlocked(t *testing.T) {
	e := newEnv(t, nil)
	a := e.c.Blocked(e.request("GET", "https://example.com/"), ReadsPage)
	if a.Status != 403 || !bytes.Contains(a.Body, []byte("req-1")) || !bytes.Contains(a.Body, []byte("Access denied")) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a = e.c.Blocked(e.request("GET", "https://example.com/", header("Accept-Language", "ru")), ReadsJSON)
	if a.Status != 403 || strings.TrimSpace(string(a.Body)) != `{"type":"blocked","request-id":"req-2"}` {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a = e.c.SubResource(e.request("GET", "https://example.com/x.css"), true)
	if a.Status != 403 || len(a.Body) != 0 || a.Get("X-Antirobot-Verdict") != "blocked" || a.Get("Content-Type") != "" {
		t.Errorf("a sub-resource: %d %q %v", a.Status, a.Body, a.Header)
	}
}

func TestPlainPages(t *testing.T) {
	e := newEnv(t, nil)
	for status := range failures {
		a := e.c.Failed(e.request("GET", "https://example.com//evil.com/?x"), status, ReadsPage)
		if bytes.Contains(a.Body, []byte(`href="//`)) {
			t.Errorf("%d: the link to try again leaves the site", status)
		}
	}
	if a := e.c.Static(e.request("GET", "https://example.com/captcha/../x"), "/captcha/../x"); a.Status != 404 {
		t.Errorf("status %d", a.Status)
	}
}

func TestFreshPass(t *testing.T) {
	e := newEnv(t, nil)
	if _, ok := e.c.FreshPass(e.request("GET", "https://example.com/xml")); ok {
		t.Error("handed out to everybody")
	}
	withPass := func(q *Request) { q.ID.NFresh = 1 }
	if _, ok := e.c.FreshPass(e.request("GET", "https://example.com/xml", partner("one"), withPass)); ok {
		t.Error("handed out to a user who has one")
	}
	if f, ok := e.c.FreshPass(e.request("GET", "https://example.com/xml", partner("one"))); !ok ||
		f.Name != "Set-Cookie" {
		t.Error("not handed out")
	}
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	goodService := DefaultServiceConfig()
	if err := goodService.Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{
		Digits: 3, TestAnswer: "12x", FormMaxBytes: -1, Headers: HeadersConfig{Verdict: "a b"},
	}
	err := bad.Validate()
	for _, path := range []string{
		"key_ttl: ", "digits: ", "form_max_bytes: ", "passes_per_day: ",
		"pass.lifetime: ", "work.hashes: ", "test_answer: ", "headers.verdict: ",
		"headers.request_id: ",
	} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+path) {
			t.Errorf("no complaint about %s in:\n%v", path, err)
		}
	}
	badService := ServiceConfig{
		Prefix: "x/", RetpathHosts: []string{"https://x", "ok.org", "a_b:0"}, AJAX: "x", AJAXStatus: 500, ImgURLTemplate: "//evil/{key}",
		CORSOrigins: []string{"*", "https://a.org/path"}, OnStoreFailure: "maybe",
		Partners: []PartnerConfig{{Name: "", Key: "short"}, {Name: "b"}, {Name: "b", Addresses: []string{"x"}}},
		Branding: templates.Branding{Accent: "x"},
	}
	err = badService.Validate()
	for _, path := range []string{
		"prefix: ", "retpath_hosts[0]: ", "retpath_hosts[2]: ", "ajax: ", "ajax_status: ", "img_url_template: ", "cors_origins[0]: ", "cors_origins[1]: ",
		"partners[0].name: ", "partners[0].key: ", "partners[1]: ", "partners[2].name: ", "partners[2].addresses[0]: ", "partner_param: ", "on_store_failure: ",
		"branding.accent: ",
	} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+path) {
			t.Errorf("no complaint about %s in:\n%v", path, err)
		}
	}
	for _, c := range []any{Config{}, ServiceConfig{}, HeadersConfig{}, PartnerConfig{}} {
		typ := reflect.TypeOf(c)
		for i := range typ.NumField() {
			if typ.Field(i).Tag.Get("mapstructure") == "" {
				t.Errorf("%s.%s has no key", typ.Name(), typ.Field(i).Name)
			}
		}
	}
}
