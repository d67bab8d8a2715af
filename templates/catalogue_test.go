//go:build !race

package templates

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// catalogueOf returns the embedded texts of a language.
func (s *Set) catalogueOf(t *testing.T, tag string) *catalogue {
	t.Helper()
	cs, err := source{}.catalogues()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs {
		if c.tag == tag {
			return c
		}
	}
	t.Fatalf("no catalogue %s", tag)
	return nil
}

// TestHeads: what is read of a language at the start is what its file says.
func TestHeads(t *testing.T) {
	part, err := heads()
	if err != nil {
		t.Fatal(err)
	}
	all, err := source{}.catalogues()
	if err != nil {
		t.Fatal(err)
	}
	if len(part) != len(all) {
		t.Fatalf("%d heads, %d catalogues", len(part), len(all))
	}
	for i, c := range all {
		if h := part[i]; h.tag != c.tag || h.name != c.name || h.dir != c.dir || h.voice != c.voice {
			t.Errorf("%s: the head says %q %q %q, the file %q %q %q", c.tag, h.name, h.dir, h.voice, c.name, c.dir, c.voice)
		}
		if h, err := part[i].whole(); err != nil || !maps.Equal(h.texts, c.texts) {
			t.Errorf("%s: other texts when they are read later: %v", c.tag, err)
		}
	}
}

func TestMatch(t *testing.T) {
	s, _ := newSet(t, nil)
	f := func(accept, want string) {
		t.Helper()
		if got := s.Match(accept).Tag; got != want {
			t.Errorf("Match(%.60q) = %s, want %s", accept, got, want)
		}
	}
	f("", "en")
	f("ru", "ru")
	f("ru-RU,ru;q=0.9,en-US;q=0.8,en;q=0.7", "ru")
	f("en-GB,en;q=0.9,ru;q=0.5", "en")
	f("de-AT,de;q=0.9", "de")
	f("uk-UA,uk;q=0.9,ru;q=0.8", "uk")
	f("pt-PT,pt;q=0.9", "pt")
	f("zh-CN,zh;q=0.9", "zh")
	f("ar-EG", "ar")
	f("sw-KE,sw;q=0.9", "en")
	f("sw-KE,sw;q=0.9,ru;q=0.4", "ru")
	f("*", "en")
	f("xx;;;q=oops,,", "en")
	f(strings.Repeat("a-", 4000), "en")
	f("ru,"+strings.Repeat("sw;q=0.1,", 1000), "ru")
	if l := s.Lang("RU"); l == nil || l.Tag != "ru" {
		t.Error("Lang does not find RU")
	}
	if s.Lang("") != nil || s.Lang("zz") != nil {
		t.Error("Lang finds what is not there")
	}
}

// TestOlderCatalogues: a catalogue that an operator made for an earlier version goes on to work.
func TestOlderCatalogues(t *testing.T) {
	old := func(tag string) []byte {
		b, err := embedded.ReadFile("locales/" + tag + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^queued_.*\n`).ReplaceAll(b, nil)
	}
	s, err := New(fstest.MapFS{"locales/ru.yaml": {Data: old("ru")}, "locales/eo.yaml": {Data: old("en")}})
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{"ru": "Ваш текст ждёт человека", "eo": "Your text waits for a person"} {
		page, err := s.Lang(tag).AppendMessage(nil, &MessagePage{Message: Queued, Brand: &Brand{}})
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %v %s", tag, err, page)
		}
	}
}

func TestAddingALanguageIsAddingAFile(t *testing.T) {
	en, err := embedded.ReadFile("locales/en.yaml")
	if err != nil {
		t.Fatal(err)
	}
	he := bytes.Replace(en, []byte("\ndir: ltr"), []byte("\ndir: rtl"), 1)
	he = bytes.Replace(he, []byte("name: English"), []byte("name: עברית"), 1)
	s, b := newSet(t, fstest.MapFS{"locales/he.yaml": {Data: he}})
	l := s.Match("he-IL,he;q=0.9")
	if l.Tag != "he" || l.Dir != "rtl" {
		t.Fatalf("got %s %s", l.Tag, l.Dir)
	}
	page, err := l.AppendChallenge(nil, ordinary(b))
	if err != nil || !bytes.Contains(page, []byte(`<html lang="he" dir="rtl">`)) {
		t.Errorf("%v\n%s", err, page)
	}
	if s.Languages()[0].Tag != "en" {
		t.Error("English is no longer the fallback")
	}
}

// TestOwnLayoutReplacesWhatItDefines: an operator's layout of today goes on to work when the built-in one has grown.
func TestOwnLayoutReplacesWhatItDefines(t *testing.T) {
	s, b := newSet(t, fstest.MapFS{"pages/layout.html": {Data: []byte(`{{define "masthead"}}<p>Ours</p>{{end}}`)}})
	page, err := s.Match("en").AppendChallenge(nil, ordinary(b))
	if err != nil || !bytes.Contains(page, []byte("<p>Ours</p>")) || !bytes.Contains(page, []byte(`<meta charset="utf-8">`)) {
		t.Errorf("%v\n%s", err, page)
	}
}

// TestTextsAreEscaped: a translator may use characters that are special in HTML.
func TestTextsAreEscaped(t *testing.T) {
	en, err := embedded.ReadFile("locales/en.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const text = `<b onclick="x">"A" & 'B'</b>`
	de := regexp.MustCompile(`(?m)^(picture_alt|challenge_title|reason_network): .*$`).ReplaceAll(en, []byte("$1: >-\n  "+text))
	s, b := newSet(t, fstest.MapFS{"locales/de.yaml": {Data: de}})
	page, err := s.Lang("de").AppendChallenge(nil, ordinary(b))
	if err != nil {
		t.Fatal(err)
	}
	checkHarmless(t, "de", page)
	_, find := elements(t, page)
	if find("b", "", "") != nil {
		t.Error("a text became an element")
	}
	if alt := attribute(find("img", "width", "240"), "alt"); alt != text {
		t.Errorf("alt %q", alt)
	}
	if p := find("p", "class", "reason"); !strings.HasPrefix(p.FirstChild.Data, text+"\n") {
		t.Errorf("reason %q", p.FirstChild.Data)
	}
}

func TestBadCataloguesAreRefused(t *testing.T) {
	en, err := embedded.ReadFile("locales/en.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := func(what, old, repl, want string) {
		t.Helper()
		bad := strings.Replace(string(en), old, repl, 1)
		if bad == string(en) {
			t.Fatalf("%s: nothing replaced", what)
		}
		_, err := New(fstest.MapFS{"locales/de.yaml": {Data: []byte(bad)}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "locales/de.yaml") {
			t.Errorf("%s: %v, want it to name %q", what, err, want)
		}
	}
	f("unknown text", "picture_alt: ", "picture_alz: x\npicture_alt: ", "picture_alz: no page")
	f("template action", "try_again: Try", "try_again: '{{.Key}}'\nx: Try", "try_again: unknown placeholder")
	f("token", "try_again: Try", "try_again: '[[continue]]'\nx: Try", "try_again: braces")
	f("waits", "limited_wait_seconds_other: ", "limited_wait_seconds_several: ", "limited_wait_seconds_other: missing")
	f("unknown form", "limited_wait_seconds_other: ", "limited_wait_seconds_several: x\nlimited_wait_seconds_other: ", "limited_wait_seconds_several: no page")
	f("number", "again in {n} seconds", "again in {s} seconds", "limited_wait_seconds_other: ")
	f("placeholder", "{limit} and", "{limt} and", "form_too_large: unknown placeholder {limt}")
	f("direction", "\ndir: ltr", "\ndir: up", "dir: \"up\"")
	f("twice", "try_again: ", "try_again: x\ntry_again: ", "already defined")
	f("empty", "try_again: Try again", "try_again: ''", "try_again: empty")
	if _, err := New(fstest.MapFS{"locales/not a tag.yaml": {Data: en}}); err == nil {
		t.Error("a file name that is no language is accepted")
	}
	if _, err := New(fstest.MapFS{"pages/message.html": {Data: []byte("<p>{{.Nothing}}")}}); err == nil {
		t.Error("a page with an unknown field is accepted")
	}
	if _, err := New(brokenFS{}); err == nil {
		t.Error("an override that can't be read is ignored")
	}
}

// TestOlderCatalogueGoesOn: a text that an operator's catalogue does not have yet is the shipped one of its language, or English.
func TestOlderCatalogueGoesOn(t *testing.T) {
	en, err := embedded.ReadFile("locales/en.yaml")
	if err != nil {
		t.Fatal(err)
	}
	older := []byte(strings.Replace(string(en), "try_again: Try again", "# not yet", 1))
	s, b := newSet(t, fstest.MapFS{"locales/de.yaml": {Data: older}, "locales/sv.yaml": {Data: older}})
	for tag, want := range map[string]string{"de": ">Noch einmal versuchen<", "sv": ">Try again<"} {
		page, err := s.Lang(tag).AppendMessage(nil, &MessagePage{Brand: b, Retry: "/"})
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %v\n%s", tag, err, page)
		}
	}
}

type brokenFS struct{}

func (brokenFS) Open(string) (fs.File, error) { return nil, errors.New("disk on fire") }

// TestTranslationsAreTranslated: an identical text is most likely an untranslated one.
func TestTranslationsAreTranslated(t *testing.T) {
	cs, err := source{}.catalogues()
	if err != nil {
		t.Fatal(err)
	}
	if len(cs) < 20 || cs[0].tag != "en" {
		t.Fatal("catalogues missing")
	}
	for _, c := range cs[1:] {
		for key, text := range c.texts {
			if text == cs[0].texts[key] && c.tag+" "+key != "es error_prefix" {
				t.Errorf("%s: %s is still English: %q", c.tag, key, text)
			}
			if strings.Contains(cs[0].texts[key], "{limit}") != strings.Contains(text, "{limit}") {
				t.Errorf("%s: %s lost its {limit}", c.tag, key)
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	s, _ := newSet(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		s.Match("ru-RU,ru;q=0.9,en-US;q=0.8,en;q=0.7")
	}
}
