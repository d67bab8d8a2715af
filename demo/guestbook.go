package demo

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds of the guest-book.
const (
	maxEntries    = 30
	entryLife     = 10 * time.Minute
	maxForm       = 128 << 10 // bytes of a posted form
	maxNameRunes  = 60
	maxWordsRunes = 600
)

type signature struct {
	At          time.Time
	Name, Words string
}

type guestbook struct {
	mu   sync.Mutex
	kept []signature // oldest first
}

func (g *guestbook) add(e signature) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = append(g.kept, e)
	if len(g.kept) > maxEntries {
		g.kept = append([]signature(nil), g.kept[len(g.kept)-maxEntries:]...)
	}
}

// latest returns the signatures that have not expired, newest first.
func (g *guestbook) latest(at time.Time) []signature {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []signature{}
	for i := len(g.kept) - 1; i >= 0 && at.Sub(g.kept[i].At) < entryLife; i-- {
		out = append(out, g.kept[i])
	}
	return out
}

type pair struct{ Name, Value string }

type receipt struct {
	Entries []signature
	Posted  bool
	Problem string // key of a text
	Fields  []pair
	Headers []pair
	File    string
}

func (s *site) showGuestbook(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "guestbook", receipt{Entries: s.book.latest(s.now())})
}

// sign accepts the form, urlencoded or multipart, and shows what reached the site: fields and headers.
func (s *site) sign(w http.ResponseWriter, r *http.Request) {
	rec := receipt{Posted: true, Headers: received(r)}
	status := http.StatusOK
	fields, file, err := readForm(w, r)
	rec.Fields, rec.File = fields, file
	e := signature{At: s.now()}
	for _, f := range fields {
		switch f.Name {
		case "name":
			e.Name = clip(f.Value, maxNameRunes)
		case "words":
			e.Words = clip(f.Value, maxWordsRunes)
		}
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		rec.Problem, status = "guestbook.too_large", http.StatusRequestEntityTooLarge
	case err != nil:
		rec.Problem, status = "guestbook.unreadable", http.StatusBadRequest
	case e.Words == "" && file == "":
		rec.Problem, status = "guestbook.empty", http.StatusUnprocessableEntity
	case r.Header.Get(playField) == "":
		s.book.add(e)
	}
	rec.Entries = s.book.latest(s.now())
	s.render(w, r, status, "guestbook", rec)
}

// readForm reads the fields of a form in their order and describes its file. Nothing is written to disk.
func readForm(w http.ResponseWriter, r *http.Request) (fields []pair, file string, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		if err := r.ParseForm(); err != nil {
			return nil, "", err
		}
		for _, name := range []string{"name", "words"} {
			if r.PostForm.Has(name) {
				fields = append(fields, pair{name, clip(r.PostForm.Get(name), maxWordsRunes)})
			}
		}
		return fields, "", nil
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	for range 16 {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, "", err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, "", err
		}
		if p.FileName() != "" {
			file = fmt.Sprintf("%s, %s, %d bytes", clip(p.FileName(), 80), clip(p.Header.Get("Content-Type"), 60),
				len(b))
		} else if name := p.FormName(); name == "name" || name == "words" {
			fields = append(fields, pair{name, clip(string(b), maxWordsRunes)})
		}
	}
	return fields, file, nil
}

// received lists the headers of a request. Cookie values are shortened: a page that prints a whole pass would reveal it
// to every script that can read the page.
func received(r *http.Request) []pair {
	out := []pair{{"Host", r.Host}}
	for name, values := range r.Header {
		for _, v := range values {
			if name == "Cookie" || name == "Authorization" {
				v = shorten(v)
			}
			out = append(out, pair{name, clip(v, 300)})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// shorten leaves six characters of every cookie's value.
func shorten(cookies string) string {
	parts := strings.Split(cookies, ";")
	for i, p := range parts {
		if name, v, ok := strings.Cut(p, "="); ok && len(v) > 6 {
			parts[i] = name + "=" + v[:6] + "…"
		} else if !ok && len(p) > 6 {
			parts[i] = p[:6] + "…"
		}
	}
	return strings.Join(parts, ";")
}

// clip makes a text valid and cuts it to the given number of runes.
func clip(s string, runes int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes]) + "…"
}
