package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
)

type catalogue struct {
	tag, name, dir, voice string
	texts                 map[string]string // nil: an embedded one of which only the head was read
}

// voices are the languages in which digits are spoken, starting with the default for all others.
var voices = [...]string{"en", "ja", "pt", "ru", "zh"}

// placeholders maps what a text may contain in braces to what replaces it in the page.
var placeholders = map[string]string{"{limit}": "{{.Limit}}"}

// scriptTexts are the texts of the dialog that antirobot.js shows; they have no placeholders.
var scriptTexts = [...]string{
	"challenge_heading", "reason_network", "reason_pace", "reason_message", "reason_load", "reason_service",
	"dialog_todo", "picture_alt", "audio_label", "new_picture", "answer_label", "answer_hint",
	"continue", "cancel", "checking", "problem_failed", "problem_expired", "limited_text", "offline", "why_heading",
	"why_text", "request_id", "test_notice", "work_offer", "work_running", "work_failed", "press_todo", "press_button",
	"digits_instead",
	"moving_todo", "moving_label", "moving_hint",
}

var (
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
	token       = regexp.MustCompile(`\[\[(@?[a-z_]+)\]\]`)
)

// parseCatalogue reads a file of texts. Its errors name the keys.
func parseCatalogue(tag string, b []byte) (*catalogue, error) {
	if _, err := language.Parse(tag); err != nil {
		return nil, fmt.Errorf("the file's name is not a language tag: %w", err)
	}
	c := &catalogue{tag: tag}
	if err := yaml.Unmarshal(b, &c.texts); err != nil {
		return nil, err
	}
	c.name, c.dir = c.texts["name"], c.texts["dir"]
	if c.voice = c.texts["voice"]; c.voice == "" {
		c.voice = voices[0]
	}
	delete(c.texts, "name")
	delete(c.texts, "dir")
	delete(c.texts, "voice")
	var errs []error
	if c.name == "" || strings.ContainsAny(c.name, "{}") {
		errs = append(errs, errors.New("name: missing, or with braces"))
	}
	if c.dir != "ltr" && c.dir != "rtl" {
		errs = append(errs, fmt.Errorf("dir: %q is neither ltr nor rtl", c.dir))
	}
	if !slices.Contains(voices[:], c.voice) {
		errs = append(errs, fmt.Errorf("voice: %q is not one of %s", c.voice, strings.Join(voices[:], ", ")))
	}
	for _, key := range slices.Sorted(maps.Keys(c.texts)) {
		if err := checkText(key, c.texts[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return c, errors.Join(errs...)
}

// heads returns the embedded catalogues, English first, without their texts, which are read when the language is
// needed: a gateway starts in two thirds of the time, and seldom meets them all. What says the language's name, dir and
// voice stands before the first empty line.
func heads() ([]*catalogue, error) {
	names, err := fs.Glob(embedded, "locales/*.yaml")
	if err != nil {
		return nil, err
	}
	out := make([]*catalogue, 0, len(names))
	for _, name := range names {
		b, err := embedded.ReadFile(name)
		if err != nil {
			return nil, err
		}
		head, _, _ := bytes.Cut(b, []byte("\n\n"))
		c, err := parseCatalogue(tagOf(name), head)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.texts = nil
		out = append(out, c)
	}
	slices.SortStableFunc(out, englishFirst)
	return out, nil
}

func (c *catalogue) whole() (*catalogue, error) {
	if c.texts != nil {
		return c, nil
	}
	b, err := embedded.ReadFile("locales/" + c.tag + ".yaml")
	if err != nil {
		return nil, err
	}
	return parseCatalogue(c.tag, b)
}

// complete takes what an operator's catalogue lacks from the shipped one of that name, or else of English: a catalogue
// that was written for an earlier version goes on to work. Waits have plural forms of their own, and are not taken.
func (c *catalogue) complete(name string, own []byte) error {
	b, err := embedded.ReadFile(name)
	if err != nil {
		b, err = embedded.ReadFile("locales/en.yaml")
	} else if bytes.Equal(b, own) {
		return nil
	}
	var shipped map[string]string
	if err == nil {
		err = yaml.Unmarshal(b, &shipped)
	}
	for key, text := range shipped {
		if _, there := c.texts[key]; !there && !strings.HasPrefix(key, waitKey) &&
			!slices.Contains([]string{"name", "dir", "voice"}, key) {
			c.texts[key] = text
		}
	}
	return err
}

func checkText(key, text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("empty")
	}
	if strings.HasPrefix(key, waitKey) {
		return checkWait(text)
	}
	for _, p := range placeholder.FindAllString(text, -1) {
		if placeholders[p] == "" {
			return fmt.Errorf("unknown placeholder %s", p)
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(text, ""), "{}") || strings.Contains(text, "[[") {
		return errors.New("braces and [[ have a meaning here and may not stand alone")
	}
	return nil
}

// Text is a service's own text, replacing one of a catalogue.
type Text struct {
	Lang string `mapstructure:"lang"` // a catalogue's tag
	Key  string `mapstructure:"key"`
	Text string `mapstructure:"text"`
}

// replaceTexts puts a service's own texts into the catalogues, which are copied for this service.
func replaceTexts(all []*catalogue, own []Text) error {
	var errs []error
	for i, t := range own {
		at := slices.IndexFunc(all, func(c *catalogue) bool { return strings.EqualFold(c.tag, t.Lang) })
		switch err := checkText(t.Key, t.Text); {
		case at < 0:
			errs = append(errs, fmt.Errorf("texts.%d.lang: there is no catalogue %q", i, t.Lang))
		case all[at].texts[t.Key] == "":
			errs = append(errs, fmt.Errorf("texts.%d.key: no page has a text %q", i, t.Key))
		case err != nil:
			errs = append(errs, fmt.Errorf("texts.%d.text: %w", i, err))
		default:
			all[at].texts[t.Key] = t.Text
		}
	}
	return errors.Join(errs...)
}

// shippedLayout names the embedded layout among the pages: what an operator's own layout leaves out is taken from it.
const shippedLayout = "shipped/layout.html"

// pageError is an error in a page itself: every language has it.
type pageError struct{ error }

func (e pageError) Unwrap() error { return e.error }

// compile puts the texts into the pages and parses them. An unused text is an error just as a missing one is: it is
// most likely a typo.
func (c *catalogue) compile(pages map[string]string, all []*catalogue) (*prints, error) {
	c, err := c.whole()
	if err != nil {
		return nil, err
	}
	l := &prints{}
	f := filler{c: c, all: all, missing: map[string]bool{}, used: map[string]bool{}}
	var errs, bad []error
	shipped, layout := f.fill(pages[shippedLayout], ""), f.fill(pages["layout.html"], "")
	funcs := template.FuncMap{
		"waiting": func(d time.Duration) string { return l.waits.text(d) }, "seconds": wholeSeconds,
		"waits": func() (string, error) { b, err := json.Marshal(l.waits.texts); return string(b), err },
		"owner": contactAbout,
	}
	parse := func(name, message string) *template.Template {
		t, err := template.New(name).Funcs(funcs).Option("missingkey=error").Parse(f.fill(pages[name], message))
		if err == nil {
			t, err = t.Parse(shipped)
		}
		if err == nil && layout != shipped {
			t, err = t.Parse(layout) // replaces its definitions
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("pages: %w", err))
			return nil
		}
		return t
	}
	l.challenge, l.check = parse("challenge.html", ""), parse("check.html", "")
	for m := range messageCount {
		l.messages[m] = parse("message.html", m.String())
		if l.messages[m] == nil {
			break // the same page has the same error
		}
	}
	if len(bad) > 0 {
		return nil, pageError{errors.Join(bad...)}
	}
	l.waits = f.waits()
	texts, err := f.script(&l.waits)
	if err != nil {
		errs = append(errs, err)
	}
	l.script = newAsset("application/json; charset=utf-8", texts)
	for _, key := range slices.Sorted(maps.Keys(f.missing)) {
		errs = append(errs, fmt.Errorf("%s: missing", key))
	}
	for _, key := range slices.Sorted(maps.Keys(c.texts)) {
		if !f.used[key] && !known(key) {
			errs = append(errs, fmt.Errorf("%s: no page has such a text", key))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return l, nil
}

// script returns the texts of antirobot.js, and those of waits, of which it has none built in.
func (f *filler) script(w *waits) ([]byte, error) {
	texts := map[string]string{"lang": f.c.tag, "dir": f.c.dir}
	for key, text := range w.texts {
		texts[waitKey+key] = text
	}
	for _, key := range slices.Concat(scriptTexts[:], []string{"goes_on"}) {
		text, ok := f.c.texts[key]
		if !ok {
			f.missing[key] = true
		}
		f.used[key] = true
		texts[key] = text
	}
	return json.Marshal(texts)
}

// try renders every page. Templates are escaped at their first use; this happens here, so that a page that can't be
// escaped is refused at once. Each page is rendered twice, so that the contents of each {{if}} are tried too.
func (l *Language) try() error {
	for _, p := range [...]*ChallengePage{{Brand: &Brand{}}, sampleChallenge()} {
		if _, err := l.AppendChallenge(nil, p); err != nil {
			return err
		}
	}
	for _, p := range [...]*CheckPage{{Brand: &Brand{}}, {
		Brand: &Brand{Name: "x", Logo: "x"}, RequestID: "x",
		Hidden: []HiddenField{{"x", "x"}}, Press: true, FormKept: true, DigitsURL: "/",
	}} {
		if _, err := l.AppendCheck(nil, p); err != nil {
			return err
		}
	}
	for m := range messageCount {
		for _, p := range [...]*MessagePage{
			{Message: m, Brand: &Brand{}},
			{
				Message: m, Brand: &Brand{Name: "x", Logo: "x", Contact: "/"}, RequestID: "x", Retry: "/", Limit: "x",
				SwitchURL: "/", SendURL: "/", Hidden: []HiddenField{{"x", "x"}}, Wait: time.Second,
			},
		} {
			if _, err := l.AppendMessage(nil, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func sampleChallenge() *ChallengePage {
	return &ChallengePage{
		Brand: &Brand{Name: "x", Logo: "x"}, RequestID: "x", CheckURL: "/", Key: "x", Hidden: []HiddenField{{"x", "x"}},
		ImageURL: "/", AudioURL: "/", NewURL: "/", WorkURL: "/", Problem: ProblemFailed, CookiesOff: true,
		FormKept: true,
		Moving:   true, Still: &ChallengePage{}, FormTooLarge: true, Limit: "x", Test: true,
	}
}

// known reports whether the embedded pages use the text, even if an operator's own page does not.
func known(key string) bool {
	if strings.HasPrefix(key, waitKey) {
		return knownWait(key)
	}
	for m := range messageCount {
		if rest, ok := strings.CutPrefix(key, m.String()+"_"); ok && slices.Contains(messageParts[:], rest) {
			return true
		}
	}
	for _, name := range [...]string{
		"pages/layout.html", "pages/challenge.html", "pages/check.html",
		"pages/message.html",
	} {
		b, err := embedded.ReadFile(name)
		if err == nil && strings.Contains(string(b), "[["+key+"]]") {
			return true
		}
	}
	return false
}

// filler replaces [[key]] with texts.
type filler struct {
	c             *catalogue
	all           []*catalogue
	missing, used map[string]bool
}

// languages is the language switch: a button of the challenge's form for every language. They are buttons because a
// page that carries a request has no URL to which a link could lead.
func (f *filler) languages() string {
	var b strings.Builder
	for _, c := range f.all {
		current := ""
		if c.tag == f.c.tag {
			current = " aria-current=true"
		}
		fmt.Fprintf(&b, `<button class=link form=challenge name=switch value=%s lang=%[1]s%s>%s</button> `,
			escapeText(c.tag), current, escapeText(c.name))
	}
	return b.String()
}

// fill replaces the tokens of a page: [[key]] with the text, [[@tag]] and [[@dir]] with the language's own,
// [[@languages]] with the switch, and [[@message_part]] with that part of the message.
func (f *filler) fill(page, message string) string {
	return token.ReplaceAllStringFunc(page, func(tok string) string {
		key := tok[2 : len(tok)-2]
		switch key {
		case "@tag":
			return escapeText(f.c.tag)
		case "@dir":
			return escapeText(f.c.dir)
		case "@languages":
			return f.languages()
		}
		if part, ok := strings.CutPrefix(key, "@message_"); ok {
			key = message + "_" + part
		}
		text, ok := f.c.texts[key]
		if !ok {
			f.missing[key] = true
			return ""
		}
		f.used[key] = true
		text = escapeText(text)
		for p, action := range placeholders {
			text = strings.ReplaceAll(text, p, action)
		}
		return text
	})
}
