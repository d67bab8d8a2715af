package demo

import (
	"bytes"
	"image/png"
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPages: every page exists in both languages, is well formed, is accessible without sight, and loads nothing external.
func TestPages(t *testing.T) {
	site := newSite(Options{})
	for _, path := range pagePaths {
		for _, lang := range []string{"en", "ru"} {
			w := get(t, site, path, "Accept-Language", lang, "Accept", "text/html", "X-Real-Ip", "198.51.100.9")
			want := 200
			if path == "/nowhere" {
				want = 404
			}
			if w.Code != want || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: %d %v", path, w.Code, w.Header())
			}
			body := w.Body.String()
			if !strings.Contains(body, `<html lang="`+lang+`">`) {
				t.Errorf("%s: not in %s", path, lang)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q", path, csp)
			}
			checkHTML(t, path+" "+lang, body)
		}
	}
}

// checkHTML checks a page for what a validator would report first.
func checkHTML(t *testing.T, where, body string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "img": true, "input": true, "br": true}
	var open []string
	ids, labelled := map[string]bool{}, map[string]bool{}
	var inputs []string
	h1 := 0
	z := html.NewTokenizer(strings.NewReader(body))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		tok := z.Token()
		attr := map[string]string{}
		for _, a := range tok.Attr {
			if _, twice := attr[a.Key]; twice {
				t.Errorf("%s: <%s> has %s twice", where, tok.Data, a.Key)
			}
			attr[a.Key] = a.Val
		}
		switch kind {
		case html.StartTagToken:
			if !void[tok.Data] {
				open = append(open, tok.Data)
			}
			if id := attr["id"]; id != "" {
				if ids[id] {
					t.Errorf("%s: id %s twice", where, id)
				}
				ids[id] = true
			}
			for _, name := range []string{"src", "href", "action", "formaction", "poster", "srcset"} {
				if v, ok := attr[name]; ok && (!strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "#") || strings.HasPrefix(v, "//")) {
					t.Errorf("%s: <%s %s=%q> leads outside", where, tok.Data, name, v)
				}
			}
			for name := range attr {
				if strings.HasPrefix(name, "on") || name == "style" {
					t.Errorf("%s: <%s %s> is refused by the policy", where, tok.Data, name)
				}
			}
			switch tok.Data {
			case "h1":
				h1++
			case "img":
				if _, ok := attr["alt"]; !ok {
					t.Errorf("%s: picture without alt: %s", where, attr["src"])
				}
			case "label":
				labelled[attr["for"]] = true
			case "input", "textarea":
				if attr["type"] != "hidden" && attr["type"] != "radio" {
					inputs = append(inputs, attr["id"])
				}
			case "script":
				if attr["src"] == "" {
					t.Errorf("%s: inline script", where)
				}
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Fatalf("%s: </%s> closes %v", where, tok.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 || h1 != 1 {
		t.Errorf("%s: left open %v, %d first headings", where, open, h1)
	}
	for _, id := range inputs {
		if id == "" || !labelled[id] {
			t.Errorf("%s: field %q without label", where, id)
		}
	}
	if m := regexp.MustCompile(`[a-z]+\.[a-z_]+(\.[a-z0-9]+)?\s*<`).FindAllString(body, -1); m != nil {
		for _, s := range m {
			if key := strings.TrimSpace(strings.TrimSuffix(s, "<")); regexp.MustCompile(`^(site|nav|home|article|gallery|guestbook|list|live|search|missing|role|rules|play|me|verdict|picture)\.`).MatchString(key) {
				t.Errorf("%s: text %s is missing", where, key)
			}
		}
	}
}

// TestTexts: the catalogues have the same keys, and no empty texts.
func TestTexts(t *testing.T) {
	all := loadTexts()
	if len(all) != 2 {
		t.Fatalf("%d languages", len(all))
	}
	for lang, c := range all {
		for key, text := range c {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s: %s is empty", lang, key)
			}
			for other, d := range all {
				if _, ok := d[key]; !ok {
					t.Errorf("%s has %s, %s has not", lang, key, other)
				}
			}
		}
	}
	// The texts that templates name literally exist.
	names, _ := fs.Glob(files, "pages/*.html")
	for _, name := range names {
		b, _ := files.ReadFile(name)
		for _, m := range regexp.MustCompile(`call \$?\.[TH] "([^"]+)"`).FindAllSubmatch(b, -1) {
			if _, ok := all["en"][string(m[1])]; !ok {
				t.Errorf("%s: no text %s", name, m[1])
			}
		}
	}
}

func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		b = bytes.ReplaceAll(b, []byte(`xmlns="http://www.w3.org/2000/svg"`), nil)
		if m := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]+|url\(|@import`).Find(b); m != nil {
			t.Errorf("%s refers to %s", path, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLanguage(t *testing.T) {
	site := newSite(Options{})
	f := func(accept, cookie, want string) {
		t.Helper()
		w := get(t, site, "/", "Accept-Language", accept, "Cookie", cookie)
		if got := w.Header().Get("Content-Language"); got != want {
			t.Errorf("%q %q: %s, want %s", accept, cookie, got, want)
		}
	}
	f("", "", "en")
	f("ru-RU,ru;q=0.9,en;q=0.8", "", "ru")
	f("de,en;q=0.5,ru;q=0.7", "", "ru")
	f("ru;q=0", "", "en")
	f("ru", "demo_lang=en", "en")
	f("ru", "demo_lang=xx", "ru")

	back := func(to, want string) {
		t.Helper()
		r := httptest.NewRequest("POST", "/language", strings.NewReader("lang=ru&back="+to))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != 303 || w.Header().Get("Location") != want || !strings.HasPrefix(w.Header().Get("Set-Cookie"), "demo_lang=ru;") {
			t.Errorf("back=%s: %d %v", to, w.Code, w.Header())
		}
	}
	back("/search?query=x", "/search?query=x")
	for _, evil := range []string{"//evil.example/", "https://evil.example/", "/%5Cevil.example", "javascript:alert(1)", "/%09/evil.example"} {
		back(evil, "/")
	}
}

func TestPictures(t *testing.T) {
	site := newSite(Options{})
	seen := map[string]string{}
	for _, name := range pictureNames {
		w := get(t, site, "/pictures/"+name+".png")
		img, err := png.Decode(bytes.NewReader(w.Body.Bytes()))
		if w.Code != 200 || err != nil || img.Bounds().Dx() != pictureW || img.Bounds().Dy() != pictureH {
			t.Fatalf("%s: %d %v", name, w.Code, err)
		}
		if len(w.Body.Bytes()) > 40<<10 {
			t.Errorf("%s has %d bytes", name, w.Body.Len())
		}
		tag := w.Header().Get("ETag")
		if seen[tag] != "" {
			t.Errorf("%s looks like %s", name, seen[tag])
		}
		seen[tag] = name
		if again := get(t, site, "/pictures/"+name+".png", "If-None-Match", tag); again.Code != 304 {
			t.Errorf("%s: %d with its own tag", name, again.Code)
		}
	}
	for _, path := range []string{"/pictures/x.png", "/pictures/dawn", "/pictures/..%2fsite.css.png"} {
		if w := get(t, site, path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestStatic(t *testing.T) {
	site := newSite(Options{})
	for file, kind := range map[string]string{"site.css": "text/css", "list.js": "text/javascript", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := get(t, site, "/static/"+file)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/static/none.css", "/static/..%2fpages%2flayout.html", "/static/"} {
		if w := get(t, site, path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
