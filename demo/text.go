package demo

import (
	"encoding/json"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// catalogue holds the texts of one language by key.
type catalogue map[string]string

// texts are the catalogues by language.
type texts map[string]catalogue

const usualLanguage = "en"

// text returns a text; a missing one is shown as its key (a test finds it).
func (c catalogue) text(key string) string {
	if s, ok := c[key]; ok {
		return s
	}
	return key
}

func (c catalogue) markup(key string) template.HTML { return template.HTML(c.text(key)) } //nolint:gosec // our own embedded texts

func loadTexts() texts {
	names, err := files.ReadDir("texts")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	t := texts{}
	for _, f := range names {
		b, err := files.ReadFile(path.Join("texts", f.Name()))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		var c catalogue
		if err := json.Unmarshal(b, &c); err != nil {
			panic("BUG: " + f.Name() + ": " + err.Error())
		}
		t[strings.TrimSuffix(f.Name(), ".json")] = c
	}
	return t
}

const languageCookie = "demo_lang"

// language returns the visitor's choice, otherwise the best available language of Accept-Language by its weight.
func (s *site) language(r *http.Request) string {
	if c, err := r.Cookie(languageCookie); err == nil && s.texts[c.Value] != nil {
		return c.Value
	}
	best, weight := usualLanguage, 0.0
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		base, _, _ := strings.Cut(strings.ToLower(tag), "-")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			q, _ = strconv.ParseFloat(v, 64)
		}
		if s.texts[base] != nil && q > weight {
			best, weight = base, q
		}
	}
	return best
}

// setLanguage stores the choice and returns to the page on which it was made.
func (s *site) setLanguage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	if lang := r.PostFormValue("lang"); s.texts[lang] != nil {
		http.SetCookie(w, &http.Cookie{
			Name: languageCookie, Value: lang, Path: "/", MaxAge: int(30 * 24 * time.Hour / time.Second),
			HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	back := r.PostFormValue("back")
	if !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\t\r\n") {
		back = "/"
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}
