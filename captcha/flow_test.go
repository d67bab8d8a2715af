package captcha

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"antirobot/identity"
	"antirobot/spravka"
)

// fieldsOf reads the hidden fields of the page's form as a browser would send them.
func fieldsOf(t testing.TB, page []byte) url.Values {
	t.Helper()
	fields, moving := formOf(t, page)
	if moving != "" {
		fields.Set("key", moving)
	}
	return fields
}

// formOf returns the fields of a page as a browser without scripts sends them, and the key that a script puts in their
// place.
func formOf(t testing.TB, page []byte) (fields url.Values, moving string) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	fields = url.Values{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "input" {
			continue
		}
		attrs := map[string]string{}
		for _, a := range n.Attr {
			attrs[a.Key] = a.Val
		}
		if attrs["type"] == "hidden" {
			fields.Set(attrs["name"], attrs["value"])
			moving += attrs["data-moving"]
		}
	}
	return fields, moving
}

func (e *env) submit(fields url.Values, rep string, opts ...opt) Response {
	e.t.Helper()
	f := url.Values{}
	for k, v := range fields {
		f[k] = v
	}
	f.Set("rep", rep)
	all := append([]opt{body("application/x-www-form-urlencoded", f.Encode())}, opts...)
	return e.check(all...)
}

func TestVisitorSolvesAndGoesOn(t *testing.T) {
	e := newEnv(t, nil)
	const wanted = "https://example.com/search?text=a+b&p=2"
	page, fields := e.visit(wanted)
	if page.Outcome != OutcomeShown {
		t.Errorf("outcome %d", page.Outcome)
	}
	e.pass(7 * time.Second)
	a := e.submit(fields, e.answerOf(fields.Get("key")))
	if a.Status != 303 || a.Get("Location") != wanted {
		t.Fatalf("%d to %q", a.Status, a.Get("Location"))
	}
	set := cookies(&a)["spravka"]
	for _, attr := range []string{"; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Max-Age=2592000"} {
		if !strings.Contains(set, attr) {
			t.Errorf("%q lacks %q", set, attr)
		}
	}
	if strings.Contains(set, "Domain=") {
		t.Errorf("%q names a domain that is not configured", set)
	}
	p, err := e.ring.OpenPass([]byte(value(set)), e.now())
	if err != nil {
		t.Fatal(err)
	}
	if !p.Earned || p.Allowance != 100 || p.Scope != spravka.ScopeOf("example.com") || p.Partner != 0 ||
		p.Net != identity.NetKey(identity.NetOf(addr("203.0.113.7"))) || p.Agent == 0 || p.Expires-p.Born != 30*86400 {
		t.Errorf("the pass is %+v", p)
	}
	if a.Outcome != OutcomeSolved || a.Took != 7*time.Second || a.Pass.ID != p.ID {
		t.Errorf("outcome %d after %v", a.Outcome, a.Took)
	}
}

// TestOriginalClientsQuery: clients of the original system send key, rep and retpath in the query, and nothing else.
func TestOriginalClientsQuery(t *testing.T) {
	e := newEnv(t, nil)
	const wanted = "https://example.com/search?a=1&b=2"
	_, fields := e.visit(wanted)
	rep := e.answerOf(fields.Get("key"))
	a := e.c.Check(e.request("GET", "https://example.com/checkcaptcha?key="+fields.Get("key")+"&rep="+rep+"&retpath="+
		url.QueryEscape(wanted)+"&utm=1&foo[]=%zz"))
	if a.Status != 302 || a.Get("Location") != wanted || cookies(&a)["spravka"] == "" {
		t.Errorf("%d to %q", a.Status, a.Get("Location"))
	}
}

func TestWrongAnswerLeadsBackWithStatusFailed(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.visit("https://example.com/x?y=1")
	a := e.submit(fields, wrong(e.answerOf(fields.Get("key"))))
	loc := a.Get("Location")
	if a.Status != 303 || !strings.HasPrefix(loc, "https://example.com/showcaptcha?cc=1&retpath=") ||
		!strings.Contains(loc, "&status=failed") {
		t.Fatalf("%d to %q", a.Status, loc)
	}
	if cookies(&a)["spravka"] != "" || a.Outcome != OutcomeFailed {
		t.Error("a wrong answer earned a pass")
	}
	page, again := e.open(loc)
	if again.Get("key") == fields.Get("key") {
		t.Error("the key is the same")
	}
	if !bytes.Contains(page.Body, []byte("<title>Error:")) || !bytes.Contains(page.Body, []byte(`role="alert"`)) ||
		!bytes.Contains(page.Body, []byte("autofocus")) {
		t.Error("the page does not tell the error")
	}
	if a := e.submit(again, e.answerOf(again.Get("key"))); a.Get("Location") != "https://example.com/x?y=1" {
		t.Errorf("after the second try to %q", a.Get("Location"))
	}
	get := e.c.Check(e.request("GET", "https://example.com/checkcaptcha?key="+fields.Get("key")+"&rep=1"))
	if get.Status != 302 {
		t.Errorf("status %d after a GET", get.Status)
	}
}

func TestPageOf302(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.CompatYandex = true })
	a := e.c.Redirect(e.request("GET", "https://example.com/a?b=c&d=e"))
	loc := a.Get("Location")
	u, err := url.Parse(loc)
	if err != nil || u.Scheme != "https" || u.Host != "example.com" || u.Path != "/showcaptcha" {
		t.Fatalf("Location %q", loc)
	}
	names := []string{}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	if strings.Join(names, " ") != "cc retpath t u s" {
		t.Errorf("parameters %v", names)
	}
	if u.Query().Get("retpath") != "https://example.com/a?b=c&d=e" {
		t.Errorf("retpath %q", u.Query().Get("retpath"))
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Antirobot-Verdict": "captcha", "X-Request-Id": "req-1", "X-Yandex-Captcha": "captcha",
	} {
		if a.Get(name) != want {
			t.Errorf("%s is %q", name, a.Get(name))
		}
	}
}

// TestPitfall05AnswersInAnyDigits also shows that an answer with anything else in it is wrong.
func TestPitfall05AnswersInAnyDigits(t *testing.T) {
	d := newDigits(6, "")
	secret := []byte{3, 1, 4, 1, 5, 9}
	f := func(answer string, right, given bool) {
		t.Helper()
		if r, g := d.check(secret, answer); r != right || g != given {
			t.Errorf("check(%q) = %v, %v", answer, r, g)
		}
	}
	f("314159", true, true)
	f(" 314 159\t\n", true, true)
	f("٣١٤١٥٩", true, true)
	f("۳۱۴۱۵۹", true, true)
	f("３１４１５９", true, true)
	f("३१४१५९", true, true)
	f("\u200e314\u00a0159\u200b", true, true)
	f("", false, false)
	f("  \u00a0", false, false)
	f("31415", false, true)
	f("3141599", false, true)
	f("0314159", false, true)
	f("314158", false, true)
	f("31415x", false, true)
	f("-314159", false, true)
	f("314159\x00", false, true)
	f(strings.Repeat("314159 ", 100), false, true)
	f("\xff\xfe", false, true)
}

func TestCookieDomain(t *testing.T) {
	e := newEnv(t, func(_ *Config, _ *ServiceConfig, i *identity.ServiceConfig) { i.Domain = "example.com" })
	_, fields := e.visit("https://example.com/")
	a := e.submit(fields, e.answerOf(fields.Get("key")))
	if !strings.Contains(cookies(&a)["spravka"], "; Domain=example.com") ||
		a.Pass.Scope != spravka.ScopeOf("example.com") {
		t.Errorf("%q, scope %x", cookies(&a)["spravka"], a.Pass.Scope)
	}
}

// TestCookiesNeeded: a visitor whose browser keeps no cookies is told so before working on a challenge, and after two
// right answers why these led nowhere; a visitor whose browser keeps them never sees either message.
func TestCookiesNeeded(t *testing.T) {
	e := newEnv(t, nil)
	const off, lost = "does not seem to accept cookies", "did not keep the cookie"
	solve := func(opts ...opt) Response {
		t.Helper()
		_, fields := e.visit("https://example.com/", opts...)
		return e.submit(fields, e.answerOf(fields.Get("key")), opts...)
	}
	page, _ := e.visit("https://example.com/")
	if !bytes.Contains(page.Body, []byte(off)) {
		t.Error("cookies that did not come back are not told before the work")
	}
	solve()
	if page, _ := e.visit("https://example.com/"); bytes.Contains(page.Body, []byte(lost)) {
		t.Error("told after one right answer")
	}
	solve()
	if page, _ := e.visit("https://example.com/"); !bytes.Contains(page.Body, []byte(lost)) {
		t.Error("not told after two right answers")
	}
	// Another person behind the same address, whose browser keeps cookies.
	a := e.c.Redirect(e.request("GET", "https://example.com/"))
	probe := header("Cookie", "x=1; antirobot_probe="+value(cookies(&a)["antirobot_probe"]))
	page, _ = e.open(a.Get("Location"), probe)
	if bytes.Contains(page.Body, []byte(off)) || bytes.Contains(page.Body, []byte(lost)) {
		t.Error("a browser that keeps cookies is told that it does not")
	}
	// A browser that keeps the probe but loses the pass.
	_, fields := e.open(a.Get("Location"), probe)
	a = e.submit(fields, e.answerOf(fields.Get("key")), probe)
	_, fields = e.visit("https://example.com/",
		header("Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"])))
	a = e.submit(fields, e.answerOf(fields.Get("key")),
		header("Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"])))
	again := header("Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"]))
	if page, _ := e.visit("https://example.com/", again); !bytes.Contains(page.Body, []byte(lost)) {
		t.Error("a lost pass is not told")
	}
	kept := header(
		"Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"])+"; spravka="+value(cookies(&a)["spravka"]),
	)
	if page, _ := e.visit("https://example.com/", kept); bytes.Contains(page.Body, []byte(lost)) {
		t.Error("told although the pass came back")
	}
}

func TestLanguage(t *testing.T) {
	e := newEnv(t, nil)
	f := func(want, location string, opts ...opt) Response {
		t.Helper()
		page := e.c.Page(e.request("GET", location, opts...))
		if !bytes.Contains(page.Body, []byte(`<html lang="`+want+`"`)) || page.Get("Content-Language") != want {
			t.Errorf("%s: Content-Language %q, want %s", location, page.Get("Content-Language"), want)
		}
		return page
	}
	f("en", "https://example.com/showcaptcha")
	f("ru", "https://example.com/showcaptcha", header("Accept-Language", "ru-RU,ru;q=0.9,en;q=0.5"))
	a := f("ru", "https://example.com/showcaptcha?lang=ru", header("Accept-Language", "en"))
	if value(cookies(&a)["antirobot_lang"]) != "ru" {
		t.Error("the choice is not remembered")
	}
	f("ru", "https://example.com/showcaptcha", header("Accept-Language", "en"), header("Cookie", "antirobot_lang=ru"))
	f("en", "https://example.com/showcaptcha?lang=%22%3E", header("Cookie", "antirobot_lang=../../etc"))
	// The switch is a button of the form; whatever was typed so far does not matter.
	page, fields := e.visit("https://example.com/x")
	fields.Set("switch", "ru")
	b := e.submit(fields, "12", header("Accept-Language", "en"))
	if a := f("ru", b.Get("Location")); b.Status != 303 || b.Outcome != OutcomeNone ||
		fieldsOf(t, a.Body).Get("retpath") != "https://example.com/x" {
		t.Errorf("after the switch: %d to %q", b.Status, b.Get("Location"))
	}
	if !bytes.Contains(page.Body, []byte(`name=switch value=ru lang=ru`)) {
		t.Error("no switch")
	}
	// The choice survives a wrong answer without cookies.
	fields = fieldsOf(t, a.Body)
	b = e.submit(fields, wrong(e.answerOf(fields.Get("key"))))
	if !strings.Contains(b.Get("Location"), "&lang=ru") {
		t.Errorf("the language is lost: %q", b.Get("Location"))
	}
}

func TestTestAnswerIsMarked(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) { c.TestAnswer = "314159" })
	page, fields := e.visit("https://example.com/")
	if page.Get("X-Antirobot-Test") != "1" || !bytes.Contains(page.Body, []byte("Test mode")) {
		t.Error("the page is not marked")
	}
	if a := e.submit(fields, "314159"); a.Outcome != OutcomeSolved || a.Get("X-Antirobot-Test") != "1" {
		t.Error("the test answer is refused, or its answer not marked")
	}
	if b := e.c.ChallengeJSON(e.request("GET", "https://example.com/")).Body; !bytes.Contains(
		b, []byte(`"test":true`),
	) {
		t.Errorf("%s", b)
	}
	_, fields = e.visit("https://example.com/")
	if a := e.submit(fields, "314158"); a.Outcome != OutcomeFailed {
		t.Error("any answer is right")
	}
}

func TestPrefix(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Prefix = "/_gate" })
	a := e.c.Redirect(e.request("GET", "https://example.com/x"))
	if !strings.HasPrefix(a.Get("Location"), "https://example.com/_gate/showcaptcha?") {
		t.Fatalf("Location %q", a.Get("Location"))
	}
	page, fields := e.open(a.Get("Location"))
	for _, want := range []string{`action="/_gate/checkcaptcha"`, `src="/_gate/captcha/image?key=`, `src="/_gate/captcha/audio?key=`} {
		if !bytes.Contains(page.Body, []byte(want)) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if !strings.Contains(
		string(e.c.ChallengeXML(e.request("GET", "https://example.com/"), false).Body),
		"https://example.com/_gate/captcha/image?key=",
	) {
		t.Error("the XML has another path")
	}
	_ = fields
	for path, want := range map[string]Endpoint{
		"/_gate/showcaptcha": EndpointPage, "/_gate/checkcaptcha": EndpointCheck, "/_gate/xcheckcaptcha": EndpointXCheck,
		"/_gate/captcha/image": EndpointImage, "/_gate/captcha/audio": EndpointAudio, "/_gate/captcha/page.css": EndpointStatic,
		"/showcaptcha": EndpointNone, "/_gate/showcaptcha/": EndpointNone, "/_gate//showcaptcha": EndpointNone, "/_gate/captcha": EndpointNone,
		"/_GATE/showcaptcha": EndpointNone,
	} {
		if got := e.svc.Route([]byte(path)); got != want {
			t.Errorf("Route(%s) = %d, want %d", path, got, want)
		}
	}
}
