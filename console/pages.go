package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"go.yaml.in/yaml/v3"

	"antirobot/admin"
	"antirobot/journal"
	"antirobot/svg"
	"antirobot/verdict/words"
)

// languages are those of the console; the first one is the default.
var languages = []string{"en", "ru"}

// texts are those of a language, by key.
type texts map[string]string

// word is the text of a key, or the key itself if a later version, or an operator's word, may have brought it along.
func (t texts) word(prefix, key string) string {
	if text, ok := t[prefix+key]; ok {
		return text
	}
	return key
}

// book returns the templates and the texts by language, which are read when the first page is asked for.
var book = sync.OnceValues(func() (map[string]*template.Template, map[string]texts) {
	pages, all, err := parsePages()
	if err != nil {
		panic("BUG: " + err.Error()) // they are built in
	}
	return pages, all
})

func (v *visit) said() texts {
	_, all := book()
	return all[v.lang]
}

// parsePages reads the texts, and the templates once for each language.
func parsePages() (map[string]*template.Template, map[string]texts, error) {
	pages, all := map[string]*template.Template{}, map[string]texts{}
	for _, lang := range languages {
		text, err := files.ReadFile("locales/" + lang + ".yaml")
		if err != nil {
			return nil, nil, fmt.Errorf("console: %w", err)
		}
		all[lang] = texts{}
		if err := yaml.Unmarshal(text, all[lang]); err != nil {
			return nil, nil, fmt.Errorf("console: locales/%s.yaml: %w", lang, err)
		}
		if pages[lang], err = template.New(lang).Funcs(functions(words.Language(lang), all[lang])).ParseFS(files,
			"pages/*.html"); err != nil {
			return nil, nil, fmt.Errorf("console: %w", err)
		}
	}
	return pages, all, nil
}

func functions(lang words.Language, said texts) template.FuncMap {
	say := func(key string, args ...any) (string, error) {
		text, ok := said[key]
		if !ok {
			return "", fmt.Errorf("there is no text %q", key)
		}
		if len(args) == 0 {
			return text, nil
		}
		return words.Sprintf(lang, text, args...), nil
	}
	return template.FuncMap{
		"t":      say,
		"word":   said.word,
		"factor": func(name string, value float32) string { return words.Factor(lang, name, value) },
		"reason": func(reason string) string { return words.Reason(lang, reason) },
		"time":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") },
		"day":    func(at time.Time) string { return at.UTC().Format(time.DateOnly) },
		"clock":  func(at time.Time) string { return at.UTC().Format("15:04:05") },
		"iso":    func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"number": func(v any) string { return numberWords(v) },
		"join":   func(all []string) string { return strings.Join(all, ", ") },
		"term":   journal.Term,
		"bar":    bar,
		"solved": solvedShare,
		"took":   took,
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}
}

func numberWords(v any) string {
	switch n := v.(type) {
	case float32:
		return fmt.Sprintf("%.4g", n)
	case float64:
		return fmt.Sprintf("%.4g", n)
	}
	return fmt.Sprint(v)
}

// bar draws how much a factor weighs: to the right what speaks for a robot, to the left what speaks against it.
func bar(amount float32) template.HTML {
	const half, most = 100, 4
	w := float64(min(max(amount, -most), most)) / most * half
	m := svg.New(2*half, 14, fmt.Sprintf("%+.2f", amount))
	m.Line(half, 0, half, 14, "axis", "")
	if w >= 0 {
		m.Rect(half, 2, w, 10, "for", "")
	} else {
		m.Rect(half+w, 2, -w, 10, "against", "")
	}
	return m.HTML()
}

// languageOf returns the language of a visit: the chosen one, or the first one that the browser asks for and that there
// is.
func languageOf(ctx *fasthttp.RequestCtx) string {
	wanted := string(ctx.Request.Header.Cookie(languageName)) + "," + string(ctx.Request.Header.Peek("Accept-Language"))
	for tag := range strings.SplitSeq(wanted, ",") {
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), ";")
		tag, _, _ = strings.Cut(tag, "-")
		for _, lang := range languages {
			if strings.EqualFold(tag, lang) {
				return lang
			}
		}
	}
	return languages[0]
}

type frame struct {
	Lang      string
	Languages []string
	Page      string
	Here      string // the address of the page
	Token     string // for forms
	Name      string // whose token it is
	Role      string
	May       bool // act
	Admin     bool // change settings
	Said      string
	Query     string // in the search field
	Provider  string // that people may sign in at; empty: none
	Data      map[string]any
}

func (v *visit) page(name string, status int, data map[string]any) {
	f := frame{Lang: v.lang, Languages: languages, Page: name, Here: string(v.ctx.RequestURI()), Data: data}
	if v.oidc != nil {
		f.Provider = v.oidc.host()
	}
	if v.s != nil && name != "signin" {
		f.Token, f.Name, f.Role, f.May, f.Said = v.s.token, v.s.who.Name, v.s.who.Role.String(),
			v.s.who.Role >= admin.Operator, v.s.hear()
		f.Admin = v.s.who.Role >= admin.Admin
		f.Query = string(v.ctx.QueryArgs().Peek("q"))
	}
	var b bytes.Buffer
	pages, _ := book()
	if err := pages[v.lang].ExecuteTemplate(&b, name+".html", f); err != nil {
		v.log.Error().Err(err).Str("page", name).Msg("console: a page could not be made")
		v.ctx.Error("the page could not be made; the log says why\n", fasthttp.StatusInternalServerError)
		return
	}
	v.ctx.SetStatusCode(status)
	v.ctx.SetContentType("text/html; charset=utf-8")
	v.ctx.SetBody(b.Bytes())
}

func (v *visit) problem(status int, key, details string) {
	v.page("problem", status, map[string]any{"Problem": key, "Details": details})
}

// act does what a button of a page says, and leads back to the page.
func (v *visit) act() {
	f := func(name string) string {
		b := v.ctx.PostArgs().Peek(name)
		return strings.TrimSpace(string(b[:min(len(b), longestField)]))
	}
	method := "POST"
	var target string
	var body map[string]string
	what := f("do")
	switch what {
	case "unban":
		method, target = "DELETE", "/api/bans?"+url.Values{"subject": {f("subject")}, "service": {"*"}}.Encode()
	case "ban":
		target, body = "/api/bans", map[string]string{
			"subject": subjectOf(f("subject")), "ttl": f("ttl"),
			"reason": f("reason"),
		}
	case "white", "block", "banlist":
		target, body = "/api/lists/"+strings.TrimSuffix(what, "list"),
			map[string]string{"entry": f("entry"), "ttl": f("ttl"), "reason": f("reason")}
	case "unlist":
		method, target = "DELETE", "/api/lists/"+url.PathEscape(f("list"))+"?"+url.Values{
			"entry":   {f("entry")},
			"service": {f("service")},
		}.Encode()
	case "human", "robot":
		target, body = "/api/labels", map[string]string{"subject": f("subject"), "label": what, "reason": f("reason")}
	case "erase":
		method, target = "DELETE", "/api/subjects/"+url.PathEscape(f("subject"))
	case "test-alarms":
		target = "/api/alarms/test"
	default:
		v.problem(fasthttp.StatusBadRequest, "not_here", what)
		return
	}
	var text []byte
	if body != nil {
		for k, s := range body {
			if s == "" && k != "ttl" {
				delete(body, k)
			}
		}
		if body["ttl"] == "" {
			delete(body, "ttl")
		}
		text, _ = json.Marshal(body) // texts always encode
	}
	status, answer := v.api.Ask(v.s.who, method, target, text)
	if status == fasthttp.StatusOK {
		v.s.say("done_" + what)
		away(v.ctx, f("back"))
		return
	}
	v.problem(status, "problem", problemOf(answer))
}

func subjectOf(s string) string {
	if networkOf(s) != "" && !strings.HasPrefix(s, "ip:") {
		return "ip:" + s
	}
	return s
}
