//go:build !race

package templates

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestWaitsHaveTheirPluralForms: numbers are told as the language tells them, and no built-in catalogue lacks a form.
func TestWaitsHaveTheirPluralForms(t *testing.T) {
	s, b := newSet(t, nil)
	f := func(tag string, wait time.Duration, want string) {
		t.Helper()
		page, err := s.Lang(tag).AppendMessage(nil, &MessagePage{Message: Limited, Brand: b, Wait: wait})
		if err != nil || !bytes.Contains(page, []byte(want)) {
			t.Errorf("%s after %v: %v, no %q in\n%s", tag, wait, err, want, page)
		}
	}
	f("en", time.Second, "in 1 second.")
	f("en", 22*time.Second, "in 22 seconds.")
	f("en", 179*time.Second, "in 3 minutes.")
	f("en", 300*time.Hour, "in 1440 minutes.")
	f("ru", 21*time.Second, "через 21 секунду.")
	f("ru", 3*time.Second, "через 3 секунды.")
	f("ru", 11*time.Second, "через 11 секунд.")
	f("ru", 22*time.Minute, "через 22 минуты.")
	f("pl", 5*time.Minute, "za 5 minut.")
	f("pl", 23*time.Minute, "za 23 minuty.")
	f("ar", 2*time.Minute, "دقيقتين")
	f("ar", 7*time.Minute, "7 دقائق")
	f("ar", 11*time.Minute, "11 دقيقة")
	f("ja", 40*time.Second, "40 秒後")
	f("fr", 1500*time.Millisecond, "2 secondes.")
	for _, l := range s.Languages() {
		c := s.catalogueOf(t, l.Tag)
		for key, text := range l.prints().waits.texts {
			if c.texts[waitKey+key] == "" {
				t.Errorf("%s: %s%s is missing", l.Tag, waitKey, key)
			}
			if !strings.Contains(text, "{n}") && l.Tag != "ar" { // Arabic has words for one and two of a thing
				t.Errorf("%s: %s%s says no number", l.Tag, waitKey, key)
			}
		}
	}
}

// TestRefusedPageShowsTheWayOut: who is refused reaches the owner, with the number of the request, and can choose a
// language; other pages show neither.
func TestRefusedPageShowsTheWayOut(t *testing.T) {
	s, _ := newSet(t, nil)
	f := func(contact, want string) {
		t.Helper()
		b, err := s.Brand(Branding{Contact: contact})
		if err != nil {
			t.Fatal(err)
		}
		p := &MessagePage{Message: Blocked, Brand: b, RequestID: "01JD3MZ9T6V5", SwitchURL: "/showcaptcha", Hidden: []HiddenField{{"retpath", "https://example.com/"}}}
		page, err := s.Lang("de").AppendMessage(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		_, find := elements(t, page)
		if want == "" != (find("a", "", "") == nil) || want != "" && find("a", "href", want) == nil {
			t.Errorf("contact %q: no link to %q in\n%s", contact, want, page)
		}
		if find("form", "action", "/showcaptcha") == nil || find("button", "value", "fa") == nil || find("input", "name", "retpath") == nil {
			t.Errorf("no switch of languages in\n%s", page)
		}
		p.SwitchURL = ""
		page, err = s.Lang("de").AppendMessage(nil, p)
		if _, find := elements(t, page); err != nil || find("form", "", "") != nil || find("a", "", "") != nil {
			t.Errorf("%v: a page of another kind shows them\n%s", err, page)
		}
	}
	f("", "")
	f("abuse@example.com", "mailto:abuse@example.com?subject=01JD3MZ9T6V5")
	f("https://status.example.com/contact", "https://status.example.com/contact")
	for _, bad := range []string{"javascript:alert(1)", "Owner <a@example.com>", "example.com", "https://", "a@b@c", strings.Repeat("a", 300) + "@example.com"} {
		if err := (&Branding{Contact: bad}).Validate(); err == nil || !strings.Contains(err.Error(), "contact: ") {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestReasons: a page says why somebody is asked, in every language.
func TestReasons(t *testing.T) {
	s, b := newSet(t, nil)
	for _, l := range s.Languages() {
		c := s.catalogueOf(t, l.Tag)
		for r := range reasonCount {
			p := ordinary(b)
			p.Reason = r
			page, err := l.AppendChallenge(nil, p)
			if err != nil {
				t.Fatal(err)
			}
			_, find := elements(t, page)
			if got, want := find("p", "class", "reason").FirstChild.Data, c.texts["reason_"+r.String()]; !strings.HasPrefix(got, want+"\n") || want == "" {
				t.Errorf("%s, %s: %q, want %q", l.Tag, r, got, want)
			}
		}
	}
}
