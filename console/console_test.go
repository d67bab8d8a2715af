package console

import (
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.yaml.in/yaml/v3"

	"antirobot/admin"
	"antirobot/captcha/outcomes"
	"antirobot/journal"
	"antirobot/servertest"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

const (
	viewerToken   = "viewer-viewer-viewer-viewer-viewer"
	operatorToken = "operator-operator-operator-operator"
	number        = "01KDZ6JQ4GF3V5N8X2C7B9W0TA"
	hostile       = `/<script>alert(1)</script>`
)

// gate stands for the API: it answers as documented, and notes what was asked of it.
type gate struct {
	asked    []string
	standing *standing // of the subject; nil: one with a ban
}

func (*gate) SignIn(token string) (admin.Caller, bool) {
	switch token {
	case viewerToken:
		return admin.Caller{Name: "vera", Role: admin.Viewer}, true
	case operatorToken:
		return admin.Caller{Name: "olga", Role: admin.Operator}, true
	}
	return admin.Caller{}, false
}

func (g *gate) Ask(who admin.Caller, method, target string, body []byte) (int, []byte) {
	path, _, _ := strings.Cut(target, "?")
	g.asked = append(g.asked, who.Name+" "+method+" "+target+" "+string(body))
	if method != "GET" {
		return 200, []byte(`{}`)
	}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	entry := journal.Entry{ID: number, At: at, Kind: "request", Verdict: "robot", Cause: "ban", Mode: "enforce", Method: "GET", Path: hostile, Subject: "ip:203.0.113.7", Address: "203.0.113.7", Agent: "=cmd()", Status: 302}
	ban := &bans.Story{Subject: "ip:203.0.113.7", Source: "processor", Score: 0.8, Threshold: 0.5, Reason: "formula", Made: at, Until: at, Factors: map[string]float32{"agent_library": 1}, Amounts: map[string]float32{"agent_library": 2.5}}
	var v any
	switch path {
	case "/api/journal":
		if strings.Contains(target, "colour") {
			return 400, []byte(`{"error":{"code":"invalid_field","message":"\"colour\" is no key of a query","field":"q"}}`)
		}
		v = journal.Found{Entries: []journal.Entry{entry, entry}, Next: number, Scanned: 2}
	case "/api/journal/" + number:
		v = told{Items: []journal.Entry{entry}, Story: &verdict.Story{RequestID: number, At: at, Service: "shop", Mode: "enforce", Path: hostile, Verdict: "robot", Cause: "ban", Subject: "ip:203.0.113.7", Trace: "0af7651916cd43dd8448eb211c80319c", TracePage: "http://127.0.0.1:16686/trace/0af7651916cd43dd8448eb211c80319c?a=b", Considered: []string{"ip:203.0.113.7"}, Ban: ban}}
	case "/api/subjects/ip:203.0.113.7":
		v = standing{Subject: "ip:203.0.113.7", Bans: []*bans.Story{ban}}
		if g.standing != nil {
			v = g.standing
		}
	case "/api/status":
		return 200, []byte(`{"version":"1","ready":false,"checks":[{"name":"lists","ok":false,"detail":"x"}],"services":[{"name":"shop","mode":"observe","upstreams":[{"address":"10.0.0.1:80","healthy":false}]}],"store":{"backend":"pebble","healthy":false,"error":"full"}}`)
	case "/api/journal/figures":
		v = figures{By: "minute", Items: []journal.Figures{{At: at, Counts: map[string]float64{"requests/robot/ban": 3, "shown/page": 2, "answers/solved": 1}}}, Stopped: journal.Stopped{"reason": {{Name: "<b>x</b>", Entries: 3}}, "network": {{Name: "198.51.100.0/24", Entries: 1}}, "agent": {{Name: `Об "1"`, Entries: 1}}}}
	case "/api/challenges":
		v = outcomes.Challenges{Since: at, Total: outcomes.Count{Shown: 4, Loaded: 3, Tried: 2, Solved: 1, CameBack: 1, Median: 3.1, P90: 5.2}, Ways: []outcomes.Row{{Name: "page", Count: outcomes.Count{Shown: 4, Solved: 1}}}, Devices: []outcomes.Row{{Name: "phone", Count: outcomes.Count{Shown: 4, Loaded: 3}}}, MachinesSolve: []string{"203.0.113.0/24"}}
	case "/api/alarms":
		return 200, []byte(`{"items":[{"name":"machines-solve","about":"203.0.113.0/24"},{"name":"list-old","about":"tor","value":"26h"},{"name":"people-stuck","value":"30 of 40"},{"name":"stopped-doubled"},{"name":"events-shed"},{"name":"certificate-end"},{"name":"certificate-none"},{"name":"store-away"},{"name":"service-away"}],"webhooks":[{"host":"hooks.example","error":"answers 503"}]}`)
	case "/api/messages":
		return 200, []byte(`{"entries":[{"id":1,"when":"2026-01-02T15:04:05Z","tags":["spam"],"message":{"text":"` + `<b>x</b>` + `","from":2312592931745422300},"score":0.9,"by":"model","reasons":["pills +2.1"]}]}`)
	case "/api/messages/recent":
		v = map[string]any{"messages": []verdict.Story{{RequestID: number, At: at, Verdict: "robot", Subject: "ip:203.0.113.7", Message: &verdict.StoryRules{Action: "captcha", Decision: "SPAM", Trace: hostile}}}}
	case "/api/queue":
		return 200, []byte(`{"total":1,"items":[{"id":"3cd5","at":"2026-01-02T15:04:05Z","service":"shop","message":{"text":"<i>","from":2312592931745422300},"score":0.6}]}`)
	case "/api/bans":
		return 200, []byte(`{"items":[{"subject":"ip:203.0.113.7","source":"api","reason":"` + `<i>` + `"}]}`)
	case "/api/lists", "/api/lists/abuse", "/api/lists/white", "/api/lists/block", "/api/lists/ban":
		return 200, []byte(listsAnswers[path])
	default:
		return 404, []byte(`{"error":{"code":"not_found","message":"there is none"}}`)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return 200, text
}

// tab is a browser with its cookies.
type tab struct {
	t       *testing.T
	c       *Console
	cookies map[string]string
	from    string
	lang    string
}

func newConsole(t *testing.T, g *gate, now func() time.Time) *Console {
	t.Helper()
	return New(Deps{API: g, Now: now})
}

func open(t *testing.T, c *Console) *tab {
	return &tab{t: t, c: c, cookies: map[string]string{}, from: "127.0.0.1", lang: "en"}
}

// ask sends a request; form is the body of a POST, or empty.
func (b *tab) ask(path, form string) (status int, body, location string) {
	b.t.Helper()
	var req fasthttp.Request
	req.SetRequestURI(path)
	req.Header.Set("Accept-Language", b.lang)
	if form != "" {
		req.Header.SetMethod("POST")
		req.Header.SetContentType("application/x-www-form-urlencoded")
		req.SetBodyString(form)
	}
	for k, v := range b.cookies {
		req.Header.SetCookie(k, v)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&req, &net.TCPAddr{IP: net.ParseIP(b.from), Port: 1}, nil)
	b.c.Serve(&ctx)
	for _, v := range ctx.Response.Header.Cookies() {
		var k fasthttp.Cookie
		if err := k.ParseBytes(v); err != nil {
			b.t.Fatal(err)
		}
		if lax := string(k.Key()) == oidcName && string(k.Path()) == oidcPath; !k.HTTPOnly() || !lax && (k.SameSite() != fasthttp.CookieSameSiteStrictMode || string(k.Path()) != "/console/") {
			b.t.Errorf("a cookie that others could use: %s", v)
		}
		b.cookies[string(k.Key())] = string(k.Value())
	}
	if p := string(ctx.Response.Header.Peek("Content-Security-Policy")); p != policy {
		b.t.Errorf("%s has the policy %q", path, p)
	}
	return ctx.Response.StatusCode(), string(ctx.Response.Body()), string(ctx.Response.Header.Peek("Location"))
}

func (b *tab) signIn(token string) *tab {
	b.t.Helper()
	if status, body, to := b.ask("/console/signin", "secret="+token+"&back=/console/requests"); status != 303 || to != "/console/requests" {
		b.t.Fatalf("sign in: %d %s %s", status, to, body)
	}
	return b
}

var formToken = regexp.MustCompile(`name="token" value="([0-9a-f]{64})"`)

// pages are all of them.
var pages = []string{
	"/console/", "/console/?span=week", "/console/requests?q=verdict:robot", "/console/requests?q=colour:red", "/console/requests/" + number,
	"/console/subjects/ip:203.0.113.7", "/console/challenges", "/console/lists", "/console/lists?silent=1", "/console/lists?list=abuse", "/console/messages", "/console/messages?taught=1&marker=bad&text=x", "/console/nothing", "/console/requests/none",
}

// TestPages opens every page in every language: it is made, nothing that visitors sent is taken for HTML, and nothing stands in
// it that the policy forbids.
func TestPages(t *testing.T) {
	g := new(gate)
	b := open(t, newConsole(t, g, nil)).signIn(viewerToken)
	for _, lang := range languages {
		b.lang = lang
		for _, path := range pages {
			status, body, _ := b.ask(path, "")
			if status != 200 && !strings.Contains(path, "no") || !strings.Contains(body, `<html lang="`+lang+`"`) || !strings.Contains(body, "</html>") {
				t.Errorf("%s in %s: %d %s", path, lang, status, body)
			}
			for _, bad := range []string{"<script>alert", "<b>x", "<i>", " style=", "javascript:", " onclick", "ZgotmplZ", "%!"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s in %s has %q", path, lang, bad)
				}
			}
		}
	}
	if _, body, _ := b.ask("/console/", ""); !strings.Contains(body, "&lt;b&gt;x&lt;/b&gt;") || !strings.Contains(body, "198.51.100.0/24") ||
		!strings.Contains(body, `/console/requests?q=`+strings.ToLower(url.QueryEscape(`agent:"Об \"1\""`)[:16])) {
		t.Errorf("the first page does not say what is stopped most: %s", body)
	}
	if _, body, _ := b.ask("/console/requests.csv", ""); !strings.Contains(body, "'=cmd()") {
		t.Errorf("a spreadsheet would run what a visitor sent: %s", body)
	}
	if _, _, to := b.ask("/console/requests?q="+strings.ToLower(number), ""); to != "/console/requests/"+number {
		t.Errorf("a number leads to %q", to)
	}
}

// TestViewerChangesNothing: a viewer's pages have no buttons; forms that are sent all the same are asked of the API in the viewer's
// name, which refuses; a form without its token is refused here.
func TestViewerChangesNothing(t *testing.T) {
	g := new(gate)
	c := newConsole(t, g, nil)
	viewer, operator := open(t, c).signIn(viewerToken), open(t, c).signIn(operatorToken)
	for _, path := range pages {
		if _, body, _ := viewer.ask(path, ""); strings.Contains(body, "/console/act") || strings.Contains(body, `<button class="go"`) || strings.Contains(body, `value="bad"`) {
			t.Errorf("%s shows a viewer a button", path)
		}
	}
	_, page, _ := operator.ask("/console/requests/"+number, "")
	token := formToken.FindStringSubmatch(page)
	if token == nil || !strings.Contains(page, "/console/act") {
		t.Fatalf("no button for an operator: %s", page)
	}
	g.asked = nil
	for _, form := range []string{"do=unban&subject=ip:203.0.113.7", "do=unban&subject=ip:203.0.113.7&token=" + strings.Repeat("0", 64)} {
		if status, _, _ := operator.ask("/console/act", form); status != 403 {
			t.Errorf("%q: %d", form, status)
		}
	}
	if status, _, _ := viewer.ask("/console/act", "do=unban&token="+token[1]); status != 403 {
		t.Errorf("with the token of another session: %d", status)
	}
	if g.asked != nil {
		t.Errorf("forged forms did %v", g.asked)
	}
	for form, want := range map[string]string{
		"do=unban&subject=ip:203.0.113.7":                     "olga DELETE /api/bans?service=%2A&subject=ip%3A203.0.113.7 ",
		"do=white&entry=203.0.113.7&ttl=1d&reason=a+customer": `olga POST /api/lists/white {"entry":"203.0.113.7","reason":"a customer","ttl":"1d"}`,
		"do=banlist&entry=203.0.113.0/24&ttl=":                `olga POST /api/lists/ban {"entry":"203.0.113.0/24"}`,
		"do=human&subject=ip:203.0.113.7":                     `olga POST /api/labels {"label":"human","subject":"ip:203.0.113.7"}`,
		"do=ban&subject=203.0.113.7&ttl=1h":                   `olga POST /api/bans {"subject":"ip:203.0.113.7","ttl":"1h"}`,
		"do=erase&subject=ip:203.0.113.7":                     "olga DELETE /api/subjects/ip:203.0.113.7 ",
		"do=test-alarms":                                      "olga POST /api/alarms/test ",
		"do=unlist&list=white&entry=203.0.113.7":              "olga DELETE /api/lists/white?entry=203.0.113.7&service= ",
	} {
		g.asked = nil
		status, _, to := operator.ask("/console/act", form+"&back=/console/lists&token="+token[1])
		if status != 303 || to != "/console/lists" || len(g.asked) != 1 || g.asked[0] != want {
			t.Errorf("%q: %d %q %q, want %q", form, status, to, g.asked, want)
		}
	}
	if _, _, to := operator.ask("/console/act", "do=unban&back=https://evil.example/&token="+token[1]); to != "/console/" {
		t.Errorf("led away to %q", to)
	}
}

// TestForms: the forms of the messages ask the API for what differs from what there is, and for nothing else.
func TestForms(t *testing.T) {
	g := new(gate)
	c := newConsole(t, g, nil)
	viewer, operator := open(t, c).signIn(viewerToken), open(t, c).signIn(operatorToken)
	_, page, _ := operator.ask("/console/messages", "")
	token := formToken.FindStringSubmatch(page)
	for form, want := range map[string]string{
		"do=bad&id=1&partner=p":             `olga POST /api/messages/1/mark {"domain":"","log":"","marker":"bad","partner":"p"}`,
		"do=undo&id=1&marker=bad&partner=p": "olga DELETE /api/messages/1/mark?marker=bad&partner=p ",
		"do=approve&id=3cd5&teach=yes":      `olga POST /api/queue/3cd5/approve {"teach":true}`,
		"do=learn-bad&id=3cd5":              `olga POST /api/queue/3cd5/teach {"marker":"bad"}`,
		"do=refuse&id=..%2Fx":               `olga POST /api/queue/..%2Fx/refuse {"teach":false}`,
	} {
		g.asked = nil
		if status, _, _ := operator.ask("/console/messages", form+"&token="+token[1]); status != 303 || len(g.asked) != 1 || g.asked[0] != want {
			t.Errorf("%q: %d %q, want %q", form, status, g.asked, want)
		}
	}
	for _, path := range []string{"/console/messages"} {
		g.asked = nil
		if status, _, _ := viewer.ask(path, "do=apply&token="+token[1]); status != 403 || g.asked != nil {
			t.Errorf("%s with the token of another session: %d %v", path, status, g.asked)
		}
	}
}

// TestSignIn: without a session there is only the form; tries are limited, a link works once and for ten minutes, a session ends.
func TestSignIn(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	c := newConsole(t, new(gate), func() time.Time { return at })
	b := open(t, c)
	for _, path := range pages {
		if status, _, to := b.ask(path, ""); status != 303 || !strings.HasPrefix(to, "/console/signin?back=") {
			t.Errorf("%s without a session: %d %s", path, status, to)
		}
	}
	for range 10 {
		if status, body, _ := b.ask("/console/signin", "secret=wrong&back=/console/lists"); status != 403 || !strings.Contains(body, `name="back" value="/console/lists"`) {
			t.Fatalf("a wrong token: %d %s", status, body)
		}
	}
	if status, _, _ := b.ask("/console/signin", "secret=wrong"); status != 429 {
		t.Errorf("after ten tries: %d", status)
	}
	open(t, c).signIn(operatorToken) // who has one is not kept out by who has none
	at = at.Add(time.Minute + time.Second)
	b.signIn(operatorToken)
	for range 20 { // which any page can have a browser of theirs open
		open(t, c).ask("/console/signin?once=wrong", "")
	}
	open(t, c).signIn(operatorToken)
	link := c.Link()
	visitor := open(t, c)
	if status, _, to := visitor.ask(link, ""); status != 303 || to != "/console/" {
		t.Errorf("the link: %d %s", status, to)
	}
	if status, _, _ := open(t, c).ask(link, ""); status != 403 {
		t.Errorf("the link again: %d", status)
	}
	late := c.Link()
	at = at.Add(linkLife + time.Second)
	if status, _, _ := open(t, c).ask(late, ""); status != 403 {
		t.Errorf("a late link: %d", status)
	}
	_, page, _ := b.ask("/console/lists", "")
	b.ask("/console/signout", "token="+formToken.FindStringSubmatch(page)[1])
	if status, _, _ := b.ask("/console/lists", ""); status != 303 {
		t.Errorf("after signing out: %d", status)
	}
	at = at.Add(sessionLife)
	if status, _, _ := open(t, c).ask("/console/lists", ""); status != 303 {
		t.Errorf("after %v: %d", sessionLife, status)
	}
}

// TestWords: the languages have the same texts, with the same places in them.
func TestWords(t *testing.T) {
	all := map[string]map[string]string{}
	for _, lang := range languages {
		text, err := os.ReadFile("locales/" + lang + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]string{}
		if err := yaml.Unmarshal(text, &words); err != nil {
			t.Fatal(err)
		}
		all[lang] = words
	}
	verb := regexp.MustCompile(`%[sd]`)
	for _, lang := range languages[1:] {
		for key, text := range all[languages[0]] {
			if a, b := verb.FindAllString(text, -1), verb.FindAllString(all[lang][key], -1); all[lang][key] == "" || strings.Join(a, "") != strings.Join(b, "") {
				t.Errorf("%s: %s is %q, and in English %q", lang, key, all[lang][key], text)
			}
		}
		maps.DeleteFunc(all[lang], func(key, _ string) bool { return strings.HasPrefix(key, "why_") }) // which the API tells in English
		if len(all[lang]) != len(all[languages[0]]) {
			t.Errorf("%s has %d texts, English %d", lang, len(all[lang]), len(all[languages[0]]))
		}
	}
}

// TestScriptIsFresh builds console.js from its source, byte for byte as the committed file.
func TestScriptIsFresh(t *testing.T) {
	esbuild := servertest.Tool(t, "esbuild")
	got, err := exec.Command(esbuild, "js/console.ts", "--format=iife", "--bundle", "--minify", "--target=es2022", "--charset=utf8", "--legal-comments=none").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("static/console.js")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("static/console.js is not fresh: run make js")
	}
}

// TestScriptTypes checks the types of the source strictly.
func TestScriptTypes(t *testing.T) {
	tsc := filepath.Join(servertest.Module(t, "typescript"), "bin", "tsc")
	if out, err := exec.Command("node", tsc, "-p", "js").CombinedOutput(); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
}

// TestSignInLeadsInside: what follows a sign-in is a page of the console, however its address is written.
func TestSignInLeadsInside(t *testing.T) {
	c := newConsole(t, new(gate), time.Now)
	f := func(back, want string) {
		t.Helper()
		b := open(t, c)
		if status, _, to := b.ask("/console/signin", "secret="+operatorToken+"&back="+url.QueryEscape(back)); status != 303 || to != want {
			t.Errorf("%s leads to %s (%d), wanted %s", back, to, status, want)
		}
		if _, body, _ := b.ask("/console/signin?back="+url.QueryEscape(back), ""); want == "/console/" && strings.Contains(body, "evil.test") {
			t.Errorf("the form to sign in carries %s", back)
		}
	}
	f("/console/requests?verdict=robot&page=2", "/console/requests?verdict=robot&page=2")
	f("/console/", "/console/")
	f("/console/lists/", "/console/lists/")
	f("", "/console/")
	for _, away := range []string{
		"/console/../..//evil.test", "/console/..%2f..%2f%2fevil.test", "/console/%2e%2e/%2e%2e//evil.test", "/console//evil.test", "//evil.test/console/",
		"https://evil.test/console/", "/console/\\evil.test", "/console/%5cevil.test", "/console/./evil.test", "javascript:alert(1)//evil.test", "/console/\tevil.test",
	} {
		f(away, "/console/")
	}
}
