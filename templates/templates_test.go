//go:build !race

package templates

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func newSet(t testing.TB, override fs.FS) (*Set, *Brand) {
	t.Helper()
	s, err := New(override)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Brand(Branding{Name: "Example"})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// hostile closes every context that a value may appear in.
const hostile = `"></title></script><script>alert(1)</script><img src=x onerror=alert(1)>'` + "`{{.Key}}[[continue]]"

func hostilePage(b *Brand) *ChallengePage {
	return &ChallengePage{
		Brand: b, RequestID: hostile, CheckURL: "javascript:alert(1)", Key: hostile,
		Hidden:   []HiddenField{{Name: hostile, Value: hostile}, {Name: "retpath", Value: "javascript:alert(1)"}},
		ImageURL: "javascript:alert(1)", AudioURL: `"onplay="alert(1)`, NewURL: "javascript:alert(1)", Problem: hostile,
		CookiesOff: true, FormKept: true, FormTooLarge: true, Limit: hostile, Test: true, Written: hostile,
	}
}

// TestEmbeddedPagesAreWhole: they are not checked at start.
func TestEmbeddedPagesAreWhole(t *testing.T) {
	s, _ := newSet(t, nil)
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

func TestPitfall17PagesEscapeHostileValues(t *testing.T) {
	s, _ := newSet(t, nil)
	brand, err := s.Brand(Branding{Name: hostile[:70]})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range s.Languages() {
		page, err := l.AppendChallenge(nil, hostilePage(brand))
		if err != nil {
			t.Fatal(err)
		}
		checkHarmless(t, l.Tag+" challenge", page)
		page, err = l.AppendCheck(nil, &CheckPage{Brand: brand, RequestID: hostile, CheckURL: "javascript:alert(1)", Work: hostile, Written: hostile, Press: true})
		if err != nil {
			t.Fatal(err)
		}
		checkHarmless(t, l.Tag+" check", page)
		for m := range messageCount {
			page, err := l.AppendMessage(nil, &MessagePage{Message: m, Brand: brand, RequestID: hostile, Retry: "javascript:alert(1)", Limit: hostile})
			if err != nil {
				t.Fatal(err)
			}
			checkHarmless(t, l.Tag+" "+m.String(), page)
		}
	}
}

// checkHarmless parses the page as a browser does and looks for anything that the values may have turned into.
func checkHarmless(t *testing.T, what string, page []byte) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" {
			scripts++
			if strings.Contains(n.FirstChild.Data, "alert") {
				t.Errorf("%s: a value became a script: %s", what, n.FirstChild.Data)
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: a value became the handler %s=%q on %s", what, a.Key, a.Val, n.Data)
			}
			if slices.Contains([]string{"href", "src", "action"}, a.Key) && strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
				t.Errorf("%s: %s of %s runs a script: %q", what, a.Key, n.Data, a.Val)
			}
		}
	}
	if scripts > 3 { // the page's own, that of the browser's keys, and what notices that the question is over
		t.Errorf("%s: %d scripts in the page", what, scripts)
	}
}

// ordinary is the page that most people see.
func ordinary(b *Brand) *ChallengePage {
	key := strings.Repeat("Kd83-_", 28)
	return &ChallengePage{
		Brand: b, RequestID: "01JD3MZ9T6V5", CheckURL: "/checkcaptcha", Key: key,
		Hidden:   []HiddenField{{"retpath", "https://example.com/?a=1&b=2#c"}, {"t", "1700000000"}, {"u", "abc"}, {"s", key[:90]}},
		ImageURL: "/captcha/image?key=" + key, AudioURL: "/captcha/audio?key=" + key + "&lang=en",
		NewURL: "/showcaptcha?cc=1&retpath=https%3A%2F%2Fexample.com%2F&t=1&u=2&s=3", OverURL: "/showcaptcha?cc=1&retpath=https%3A%2F%2Fexample.com%2F&t=1&u=2&s=3",
	}
}

func TestChallengePageIsSmallAndWhole(t *testing.T) {
	s, b := newSet(t, nil)
	for _, l := range s.Languages() {
		page, err := l.AppendChallenge(nil, ordinary(b))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(newAsset("", page).Gzip()); n > 8<<10 { // a picture has 3 to 6 KB; together they stay far below 30 KB
			t.Errorf("%s: the page has %d bytes, compressed", l.Tag, n)
		}
		if bytes.Contains(page, []byte("ZgotmplZ")) || bytes.Contains(page, []byte("[[")) {
			t.Errorf("%s: the page has holes:\n%s", l.Tag, page)
		}
		if !bytes.Contains(page, []byte(`lang="`+l.Tag+`"`)) || !bytes.Contains(page, []byte(`dir="`+l.Dir+`"`)) {
			t.Errorf("%s: language or direction missing", l.Tag)
		}
	}
}

// TestPageMatchesItsPolicy recomputes the hashes of what a browser would find inside the page.
func TestPageMatchesItsPolicy(t *testing.T) {
	s, _ := newSet(t, nil)
	b, err := s.Brand(Branding{Name: "Shop", Accent: "#0a7", AccentDark: "#9fd"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Languages()[0].AppendChallenge(nil, ordinary(b))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile(`(?s)<(style|script)>(.*?)</(?:style|script)>`).FindAllStringSubmatch(string(page), -1) {
		found++
		if !strings.Contains(b.CSP(), m[1]+"-src '") || !strings.Contains(b.CSP(), sourceHash(m[2])) {
			t.Errorf("the policy %q does not allow %s %q", b.CSP(), m[1], m[2])
		}
	}
	if found != 5 {
		t.Errorf("%d styles and scripts, want two and three", found)
	}
	if regexp.MustCompile(`(?:src|href|action)="(?:https?:)?//`).Match(page) || bytes.Contains(page, []byte("@import")) {
		t.Error("the page asks third parties")
	}
	if regexp.MustCompile(` (?:style|on[a-z]+)="`).Match(page) {
		t.Error("an inline style or handler that the policy forbids")
	}
}

func elements(t *testing.T, page []byte) (*html.Node, func(name, attr, val string) *html.Node) {
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return doc, func(name, attr, val string) *html.Node {
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode || n.Data != name {
				continue
			}
			if attr == "" || attribute(n, attr) == val {
				return n
			}
		}
		return nil
	}
}

func attribute(n *html.Node, key string) string {
	if n == nil {
		return ""
	}
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func TestPitfall18PageIsAccessible(t *testing.T) {
	s, b := newSet(t, nil)
	for _, l := range s.Languages() {
		p := ordinary(b)
		p.Problem = ProblemFailed
		page, err := l.AppendChallenge(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		_, find := elements(t, page)
		if alt := attribute(find("img", "width", "240"), "alt"); len(alt) < 10 {
			t.Errorf("%s: alt of the picture is %q", l.Tag, alt)
		}
		field := find("input", "id", "rep")
		for attr, want := range map[string]string{
			"type": "text", "inputmode": "numeric", "pattern": "[0-9]*", "autocomplete": "off", "aria-invalid": "true", "dir": "ltr",
			"aria-describedby": "problem hint", "placeholder": "",
		} {
			if got := attribute(field, attr); got != want {
				t.Errorf("%s: %s of the field is %q, want %q", l.Tag, attr, got, want)
			}
		}
		if find("label", "for", "rep") == nil {
			t.Errorf("%s: the field has no label", l.Tag)
		}
		if attribute(find("p", "id", "problem"), "role") != "alert" {
			t.Errorf("%s: the error is not announced", l.Tag)
		}
		if find("details", "", "") == nil || find("code", "", "") == nil {
			t.Errorf("%s: no help or no request id", l.Tag)
		}
		title := find("title", "", "").FirstChild.Data
		if !strings.HasPrefix(title, s.catalogueOf(t, l.Tag).texts["error_prefix"]+" ") {
			t.Errorf("%s: the title of a page with an error is %q", l.Tag, title)
		}
		order := []string{`class="reason"`, `class="picture"`, `id="rep"`, `class="go"`, `class="keep"`, "<audio", "<details"}
		at := 0
		for _, o := range order {
			i := bytes.Index(page[at:], []byte(o))
			if i < 0 {
				t.Fatalf("%s: %s is missing or out of order", l.Tag, o)
			}
			at += i
		}
	}
}

// TestDefaultButtonContinues: Enter in the field presses the form's first button, which must not be "another picture".
func TestDefaultButtonContinues(t *testing.T) {
	s, b := newSet(t, nil)
	p := ordinary(b)
	p.NewURL = ""
	page, err := s.Languages()[0].AppendChallenge(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	_, find := elements(t, page)
	if first := find("button", "", ""); attribute(first, "name") != "" || attribute(first, "tabindex") != "-1" {
		t.Errorf("the first button of the form is %v", first.Attr)
	}
	if find("button", "name", "new") == nil || find("button", "name", "switch") == nil {
		t.Error("a page that carries a request needs buttons, not links")
	}
}

func TestExpiredIsNoFailure(t *testing.T) {
	s, b := newSet(t, nil)
	p := ordinary(b)
	p.Problem = ProblemExpired
	page, err := s.Languages()[0].AppendChallenge(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("nothing is lost")) || bytes.Contains(page, []byte("did not match")) {
		t.Errorf("an expired picture is told as a failure:\n%s", page)
	}
}

func TestBrandingValidate(t *testing.T) {
	good := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(good, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := newSet(t, nil)
	b, err := s.Brand(Branding{Name: "Shop", Logo: good, Accent: "#abc"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Languages()[0].AppendMessage(nil, &MessagePage{Message: Blocked, Brand: b})
	if err != nil || !bytes.Contains(page, []byte(`src="data:image/svg&#43;xml;base64,`)) && !bytes.Contains(page, []byte(`src="data:image/svg+xml;base64,`)) {
		t.Errorf("%v: no logo in the page", err)
	}
	bad := Branding{Name: strings.Repeat("x", 100), Logo: "logo.exe", Accent: "red;}", AccentDark: "#12"}
	err = bad.Validate()
	for _, key := range []string{"name: ", "logo: ", "accent: ", "accent_dark: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no complaint about %s in %v", key, err)
		}
	}
	if _, err := s.Brand(Branding{Logo: good + ".png"}); err == nil {
		t.Error("a logo that is not there is accepted")
	}
}

func BenchmarkChallengePage(b *testing.B) {
	s, brand := newSet(b, nil)
	p, l := ordinary(brand), s.Languages()[1]
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = l.AppendChallenge(dst[:0], p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
	b.ReportMetric(float64(len(dst)), "bytes/page")
}
