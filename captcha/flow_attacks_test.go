package captcha

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
)

func TestPitfall14AnswersAreNotCached(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.CompatYandex = true })
	page, fields := e.visit("https://example.com/")
	get := func(path string) *Request { return e.request("GET", "https://example.com"+path) }
	for what, a := range map[string]Response{
		"page": page, "form": e.c.ChallengeForm(get("/")), "json": e.c.ChallengeJSON(get("/")), "xml": e.c.ChallengeXML(get("/"), false),
		"blocked": e.c.Blocked(get("/"), ReadsPage), "blocked ajax": e.c.Blocked(get("/"), ReadsJSON), "sub-resource": e.c.SubResource(get("/"), false),
		"image": e.c.Image(get("/captcha/image?key=" + fields.Get("key"))), "no image": e.c.Image(get("/captcha/image?key=x")),
		"audio": e.c.Audio(get("/captcha/audio?key=" + fields.Get("key"))), "wrong": e.submit(fields, "1"), "static": e.c.Static(get("/"), "/captcha/page.css"),
	} {
		if a.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q", what, a.Get("Cache-Control"))
		}
		want, yandex := "captcha", "captcha"
		if strings.HasPrefix(what, "blocked") {
			want, yandex = "blocked", "403"
		}
		if a.Get("X-Antirobot-Verdict") != want || a.Get("X-Yandex-Captcha") != yandex || a.Get("X-Request-Id") == "" {
			t.Errorf("%s: verdict %q, %q, request id %q", what, a.Get("X-Antirobot-Verdict"), a.Get("X-Yandex-Captcha"),
				a.Get("X-Request-Id"))
		}
		if strings.HasPrefix(a.Get("Content-Type"), "text/html") {
			referrer := "no-referrer"
			if what == "form" {
				referrer = "same-origin" // it must be known by its Origin; others learn nothing either way
			}
			if a.Get("Referrer-Policy") != referrer || !strings.Contains(a.Get("X-Robots-Tag"), "noindex") ||
				!strings.Contains(
					a.Get("Content-Security-Policy"), "default-src 'none'",
				) || !strings.Contains(a.Get("Vary"), "Accept-Language") {
				t.Errorf("%s: %v", what, a.Header)
			}
		}
	}
}

// TestPitfall02ClientChoosesNothing: parameters added by a client change neither the difficulty nor the expiry nor the
// allowance, and a key can't be forged or altered.
func TestPitfall02ClientChoosesNothing(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/")
	key := fields.Get("key")
	rep := e.answerOf(key)
	if strings.Contains(key, rep) {
		t.Error("the answer stands in the key")
	}
	for i := range key {
		for _, c := range []byte{'A', 'b', '.', '-'} {
			if key[i] == c {
				continue
			}
			bad := key[:i] + string(c) + key[i+1:]
			if _, _, err := e.c.issuer.open(e.request("GET", "https://example.com/"), bad, e.now()); err == nil {
				t.Fatalf("the key opens with another byte %d", i)
			}
		}
	}
	q := e.request("POST", "https://example.com/checkcaptcha?allowance=100000&digits=1&expires=9999999999&ttl=9h",
		form("key", key, "rep", rep, "allowance", "9999"))
	a := e.c.Check(q)
	if a.Outcome != OutcomeSolved || a.Pass.Allowance != 100 || a.Pass.Expires != start.Add(30*24*time.Hour).Unix() {
		t.Errorf("outcome %d, pass %+v", a.Outcome, a.Pass)
	}
}

// TestPitfall04KeyFitsOnlyItsPlace: a key of one service, host, channel or purpose is invalid everywhere else.
func TestPitfall04KeyFitsOnlyItsPlace(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/")
	key := fields.Get("key")
	rep := e.answerOf(key)
	other := e.newService("other", DefaultServiceConfig(), identity.DefaultServiceConfig())
	check := func(what string, a Response) {
		t.Helper()
		if a.Outcome == OutcomeSolved || cookies(&a)["spravka"] != "" {
			t.Errorf("%s: the key was accepted", what)
		}
	}
	check("another host", e.c.Check(e.request("POST", "https://www.example.com/checkcaptcha",
		form("key", key, "rep", rep))))
	check("another service", e.check(form("key", key, "rep", rep), service(other)))
	check("as XML", e.c.XCheck(e.request("GET", "https://example.com/xcheckcaptcha?key="+key+"&rep="+rep)))
	check("another network", e.check(form("key", key, "rep", rep), from("198.51.100.1")))
	if _, err := e.ring.OpenPass([]byte(key), e.now()); err == nil {
		t.Error("a captcha key is a spravka")
	}
	if _, err := e.c.forms.openSaved(e.request("GET", "https://example.com/"), key, e.now()); err == nil {
		t.Error("a captcha key is a sealed request")
	}
	if a := e.submit(fields, rep); a.Outcome != OutcomeSolved {
		t.Error("the trials elsewhere spent the key at home")
	}
}

func TestExpiredKeyIsNoFailure(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/x")
	rep := e.answerOf(fields.Get("key"))
	e.pass(30 * time.Minute)
	a := e.submit(fields, rep)
	if a.Outcome != OutcomeNone || !strings.Contains(a.Get("Location"), "&status=expired") {
		t.Fatalf("outcome %d, %q", a.Outcome, a.Get("Location"))
	}
	page, again := e.open(a.Get("Location"))
	if !bytes.Contains(page.Body, []byte("nothing is lost")) {
		t.Error("the page does not say that the picture was too old")
	}
	if again.Get("retpath") != "https://example.com/x" {
		t.Errorf("the way back is lost: %q", again.Get("retpath"))
	}
}

func TestEmptyAnswerSpendsNothing(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/x")
	if a := e.submit(fields, "  "); a.Outcome != OutcomeNone || !strings.Contains(a.Get("Location"), "status=empty") {
		t.Errorf("outcome %d, %q", a.Outcome, a.Get("Location"))
	}
	if a := e.submit(fields, e.answerOf(fields.Get("key"))); a.Outcome != OutcomeSolved {
		t.Error("the key was spent by no answer")
	}
}

// TestPitfall19TwoTabs: two pages are open at once; each answer earns its own pass, and neither cancels the other.
func TestPitfall19TwoTabs(t *testing.T) {
	e := newEnv(t, nil)
	_, one := e.visit("https://example.com/one")
	_, two := e.visit("https://example.com/two")
	a := e.submit(one, e.answerOf(one.Get("key")))
	jar := header("Cookie", "spravka="+value(cookies(&a)["spravka"]))
	b := e.submit(two, e.answerOf(two.Get("key")), jar)
	if a.Outcome != OutcomeSolved || b.Outcome != OutcomeSolved || a.Pass.ID == b.Pass.ID {
		t.Fatalf("outcomes %d and %d", a.Outcome, b.Outcome)
	}
	if a.Get("Location") != "https://example.com/one" || b.Get("Location") != "https://example.com/two" {
		t.Errorf("to %q and %q", a.Get("Location"), b.Get("Location"))
	}
	_, three := e.visit("https://example.com/three", jar)
	wrongAnswer := e.submit(three, wrong(e.answerOf(three.Get("key"))), jar)
	for what, x := range map[string]Response{"wrong": wrongAnswer, "sub-resource": e.c.SubResource(e.request("GET", "https://example.com/a.css", jar), false)} {
		if _, ok := cookies(&x)["spravka"]; ok {
			t.Errorf("%s: the pass is touched", what)
		}
	}
}
