// Package templates renders the gateway's own pages and knows their languages.
//
// Invariants:
//  1. Every language has every text: an operator's catalogue with a missing, unknown or malformed text is refused at
//     loading, an embedded one by the tests.
//  2. Texts are escaped and put into a page when it is parsed; request data goes through html/template's contextual
//     escaping. Nothing is concatenated into HTML by hand.
//  3. A page is self-contained: styles and script are inside, named by their hashes in its policy (Brand.CSP).
//  4. A Set and its pages are immutable after New and safe for concurrent use.
package templates

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

//go:embed pages locales static
var embedded embed.FS

// Set holds the pages in all languages. Make it with New.
type Set struct {
	languages []*Language // English first: the fallback
	matcher   language.Matcher
	style     string
	script    string
	steps     string // the script of a page that checks the browser
	wait      string // the script of a page that says how long to wait
	moving    string // the script of a page with a moving picture
	over      string // the script of a page with a question, which notices that it is over
	keys      string // the script that signs the answers of the other pages
	static    map[string]Asset
	source    source
}

// Language is one language's pages. The embedded ones are parsed when the first of them is needed: nobody meets twenty
// languages at once.
type Language struct {
	Tag   string // BCP 47, from the catalogue's file name
	Name  string // in the language itself
	Dir   string // "ltr" or "rtl"
	Voice string // the language of the spoken digits: this one, or the nearest available

	compiled func() (*prints, error) // once
}

type prints struct {
	challenge *template.Template
	check     *template.Template
	messages  [messageCount]*template.Template
	waits     waits
	script    Asset // the texts of the dialog that antirobot.js shows, as JSON
}

// Asset is a file that pages may use. Its bytes are owned by the Set.
type Asset struct {
	Type string // its Content-Type
	Body []byte
	Gzip func() []byte // the same compressed, when it is first asked for; nil if compression gains nothing
}

func newAsset(contentType string, body []byte) Asset {
	return Asset{contentType, body, sync.OnceValue(func() []byte {
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		if _, err := w.Write(body); err != nil || w.Close() != nil || z.Len() >= len(body) {
			return nil
		}
		return z.Bytes()
	})}
}

// New loads the embedded pages and catalogues. Files of override, which may be nil, replace embedded ones of the same
// name (pages/challenge.html, static/page.css, …) and add languages (locales/*.yaml). All problems are returned at
// once, those of a page with its name and line.
func New(override fs.FS) (*Set, error) {
	var src source
	if override != nil {
		src = source{override}
	}
	s, err := load(src, nil)
	if err != nil {
		return nil, fmt.Errorf("load pages: %w", err)
	}
	return s, nil
}

// For returns the pages of a service: s itself, or a Set of its own if the branding has texts or pages of its own.
func (s *Set) For(b *Branding) (*Set, error) {
	if b.Templates == "" && len(b.Texts) == 0 {
		return s, nil
	}
	src := s.source
	if b.Templates != "" {
		if _, err := os.Stat(b.Templates); err != nil {
			return nil, fmt.Errorf("templates: %w", err)
		}
		src = append(source{os.DirFS(b.Templates)}, src...)
	}
	catalogues, err := src.catalogues()
	if err == nil {
		if err := replaceTexts(catalogues, b.Texts); err != nil {
			return nil, err
		}
	}
	own, err := load(src, b.Texts)
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	return own, nil
}

func load(src source, own []Text) (*Set, error) {
	s := &Set{static: map[string]Asset{}, source: src}
	var errs []error

	pages := map[string]string{}
	for _, name := range [...]string{"layout.html", "challenge.html", "check.html", "message.html"} {
		b, err := src.read("pages/" + name)
		errs = append(errs, err)
		pages[name] = string(b)
	}
	b, err := embedded.ReadFile("pages/layout.html")
	errs = append(errs, err)
	pages[shippedLayout] = string(b)
	for _, name := range [...]string{"page.css", "page.js"} {
		b, err := src.read("static/" + name)
		errs = append(errs, err)
		s.static[name] = newAsset(contentTypes[path.Ext(name)], b)
	}
	maps.Copy(s.static, scripts())
	s.style, s.script = tidy(s.static["page.css"].Body), tidy(s.static["page.js"].Body)
	s.steps = string(bytes.TrimSpace(s.static["steps.js"].Body))
	s.wait = tidy(s.static["wait.js"].Body)
	s.moving = tidy(s.static["moving.js"].Body)
	s.over = tidy(s.static["over.js"].Body)
	s.keys = string(bytes.TrimSpace(s.static["keys.js"].Body))
	if strings.Contains(s.style, "</") || strings.Contains(s.script, "</") {
		errs = append(errs, errors.New("static: a style or script may not contain </"))
	}

	read := src.catalogues
	if len(src) == 0 && len(own) == 0 {
		read = heads
	}
	catalogues, err := read()
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := replaceTexts(catalogues, own); err != nil {
		return nil, err
	}
	for _, c := range catalogues {
		s.languages = append(s.languages, &Language{
			Tag: c.tag, Name: c.name, Dir: c.dir, Voice: c.voice,
			compiled: sync.OnceValues(func() (*prints, error) { return c.compile(pages, catalogues) }),
		})
	}
	if len(src) > 0 || len(own) > 0 {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	tags := make([]language.Tag, len(s.languages))
	for i, l := range s.languages {
		tags[i] = language.Make(l.Tag)
	}
	s.matcher = language.NewMatcher(tags)
	return s, nil
}

func (s *Set) check() error {
	var errs []error
	for _, l := range s.languages {
		_, err := l.compiled()
		if err != nil && !errors.As(err, new(pageError)) {
			errs = append(errs, fmt.Errorf("locales/%s.yaml: %w", l.Tag, err))
			continue
		}
		if err == nil {
			err = l.try()
		}
		if err != nil { // the same in every language
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// prints returns what the pages are printed with. Whether it can be made was found out by load, or by a test.
func (l *Language) prints() *prints {
	p, err := l.compiled()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}

// scripts returns the files that are never an operator's: pages rely on them.
var scripts = sync.OnceValue(func() map[string]Asset {
	out := map[string]Asset{}
	for _, name := range [...]string{
		"antirobot.js", "antirobot.mjs", "work.js", "steps.js", "evidence.js", "keys.js",
		"wait.js", "moving.js", "over.js",
	} {
		b, err := embedded.ReadFile("static/" + name)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		out[name] = newAsset(contentTypes[path.Ext(name)], b)
	}
	return out
})

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".mjs": "text/javascript; charset=utf-8",
}

// Static returns a file of the pages by its name, such as page.css.
func (s *Set) Static(name string) (Asset, bool) {
	a, ok := s.static[name]
	return a, ok
}

// Texts returns the file of texts that antirobot.js requests if the language is not built in.
func (l *Language) Texts() Asset { return l.prints().script }

// Languages returns all languages, English first. The caller must not change the slice.
func (s *Set) Languages() []*Language { return s.languages }

// Lang returns the language with this tag, ignoring case, or nil.
func (s *Set) Lang(tag string) *Language {
	if tag == "" {
		return nil
	}
	for _, l := range s.languages {
		if strings.EqualFold(l.Tag, tag) {
			return l
		}
	}
	return nil
}

// maxAccept bounds how much of an Accept-Language is read: browsers send under 100 bytes.
const maxAccept = 256

// Match returns the language for a value of Accept-Language; English if none fits.
func (s *Set) Match(accept string) *Language {
	if len(accept) > maxAccept {
		cut := strings.LastIndexByte(accept[:maxAccept], ',')
		if cut < 0 {
			return s.languages[0]
		}
		accept = accept[:cut]
	}
	if accept == "" {
		return s.languages[0]
	}
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return s.languages[0]
	}
	_, i, confidence := s.matcher.Match(tags...)
	if confidence == language.No {
		i = 0
	}
	return s.languages[i]
}

// source reads a file from the first file system that has it, or from the embedded files.
type source []fs.FS

func (s source) read(name string) ([]byte, error) {
	for _, over := range s {
		b, err := fs.ReadFile(over, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return embedded.ReadFile(name)
}

// catalogues returns the catalogues of all sources, English first, the others by tag.
func (s source) catalogues() ([]*catalogue, error) {
	var names []string
	for _, from := range append([]fs.FS{embedded}, s...) {
		more, err := fs.Glob(from, "locales/*.yaml")
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var out []*catalogue
	var errs []error
	for _, name := range names {
		b, err := s.read(name)
		if err == nil {
			var c *catalogue
			if c, err = parseCatalogue(tagOf(name), b); err == nil {
				out = append(out, c)
				err = c.complete(name, b)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	slices.SortStableFunc(out, englishFirst)
	return out, errors.Join(errs...)
}

func tagOf(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") }

func englishFirst(a, b *catalogue) int {
	switch {
	case a.tag == b.tag:
		return 0
	case a.tag == "en":
		return -1
	case b.tag == "en":
		return 1
	}
	return strings.Compare(a.tag, b.tag)
}

var cssSpace = regexp.MustCompile(`\s*\n\s*`)

// tidy removes line ends: the source file stays readable, the page small.
func tidy(b []byte) string { return strings.TrimSpace(cssSpace.ReplaceAllString(string(b), "")) }

// sourceHash is how a policy identifies an inline style or script.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// escapeText escapes a text for an element and for a quoted attribute.
func escapeText(text string) string { return html.EscapeString(text) }
