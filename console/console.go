package console

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"antirobot/admin"
)

// API is what the console shows and changes. *admin.Server is it.
type API interface {
	// SignIn returns who holds a token.
	SignIn(token string) (admin.Caller, bool)
	// Ask calls the API as who. Body is JSON, or nil.
	Ask(who admin.Caller, method, target string, body []byte) (status int, answer []byte)
}

// Deps is what a Console works with. API is required.
type Deps struct {
	API    API
	URL    string            // of the console as browsers see it, for OIDC
	OIDC   *admin.OIDCConfig // nil, or without an issuer: people sign in by tokens alone
	Secret string            // of the client at that provider; empty: it has none
	Secure bool              // the listener speaks TLS: cookies go nowhere else
	Now    func() time.Time  // nil: time.Now
	Log    zerolog.Logger
}

// Console serves the pages. Safe for concurrent use; made by New.
type Console struct {
	api      API
	secure   bool
	now      func() time.Time
	log      zerolog.Logger
	sessions *sessions
	oidc     *provider    // nil: there is none
	linked   admin.Caller // who comes by a link
}

const root = "/console/"

//go:embed pages locales static
var files embed.FS

// New makes a console.
func New(d Deps) *Console {
	if d.Now == nil {
		d.Now = time.Now
	}
	c := &Console{
		api: d.API, secure: d.Secure, now: d.Now, log: d.Log, sessions: newSessions(),
		linked: admin.Caller{Name: "link", Role: admin.Admin},
	}
	if d.OIDC != nil && d.OIDC.Issuer != "" {
		c.oidc = newProvider(d.OIDC, d.Secret, d.URL)
	}
	return c
}

// Link returns the path of a page that signs in as an administrator, once, within ten minutes: for who starts the
// program.
func (c *Console) Link() string { return root + "signin?once=" + c.sessions.link(c.now()) }

// SignedIn implements admin.Console.
func (c *Console) SignedIn(h *fasthttp.RequestHeader) bool {
	return c.sessions.find(h.Cookie(cookieName), c.now()) != nil
}

type visit struct {
	*Console
	ctx  *fasthttp.RequestCtx
	s    *session // nil: not signed in
	lang string
	arg  string // what stands behind the name of the page
}

// Serve answers a request below /console/.
func (c *Console) Serve(ctx *fasthttp.RequestCtx) {
	path := string(ctx.URI().PathOriginal())
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	if name, ok := strings.CutPrefix(path, root+"static/"); ok {
		static(ctx, name)
		return
	}
	header.Set("Cache-Control", "no-store")
	name, ok := strings.CutPrefix(path, root)
	switch {
	case !ok:
		away(ctx, root)
		return
	case !ctx.IsGet() && !ctx.IsHead() && !ctx.IsPost():
		ctx.Error("GET or POST\n", fasthttp.StatusMethodNotAllowed)
		return
	}
	v := &visit{
		Console: c, ctx: ctx, s: c.sessions.find(ctx.Request.Header.Cookie(cookieName), c.now()),
		lang: languageOf(ctx),
	}
	if name == "signin" {
		c.signIn(v)
		return
	}
	if name == "oidc" && c.oidc != nil {
		c.signInAt(v)
		return
	}
	if v.s == nil {
		if ctx.IsPost() {
			v.page("signin", fasthttp.StatusForbidden, nil)
			return
		}
		away(ctx, root+"signin?back="+url.QueryEscape(string(ctx.RequestURI())))
		return
	}
	v.serve(name)
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (v *visit) serve(name string) {
	if v.ctx.IsPost() {
		switch {
		case !v.s.formOf(v.ctx):
			v.problem(fasthttp.StatusForbidden, "form_old", "")
		case name == "act":
			v.act()
		case name == "messages":
			v.useMessages()
		case name == "language":
			v.ctx.Response.Header.SetCookie(v.cookie(languageName, string(v.ctx.PostArgs().Peek("lang")),
				366*24*time.Hour))
			away(v.ctx, string(v.ctx.PostArgs().Peek("back")))
		case name == "signout":
			v.sessions.end(v.ctx.Request.Header.Cookie(cookieName))
			v.ctx.Response.Header.SetCookie(v.cookie(cookieName, "", -time.Second))
			away(v.ctx, root+"signin")
		default:
			v.problem(fasthttp.StatusNotFound, "not_here", "")
		}
		return
	}
	name, arg, _ := strings.Cut(name, "/")
	v.arg, _ = url.PathUnescape(arg) // an escape that is none leads nowhere
	show, ok := map[string]func(){
		"": v.showNow, "requests": v.showRequests, "requests.csv": v.exportCSV, "requests.json": v.exportJSON,
		"subjects":   v.showSubject,
		"challenges": v.showChallenges, "lists": v.showLists,
		"messages": v.showMessages,
	}[name]
	if !ok {
		v.problem(fasthttp.StatusNotFound, "not_here", "")
		return
	}
	show()
}

// get asks the API and reads its answer into out. False: the problem has been shown.
func (v *visit) get(target string, out any) bool {
	status, answer := v.api.Ask(v.s.who, "GET", target, nil)
	if status == fasthttp.StatusOK && json.Unmarshal(answer, out) == nil {
		return true
	}
	v.problem(status, "problem", problemOf(answer))
	return false
}

// look is get for what a page can do without.
func (v *visit) look(target string, out any) bool {
	status, answer := v.api.Ask(v.s.who, "GET", target, nil)
	return status == fasthttp.StatusOK && json.Unmarshal(answer, out) == nil
}

func problemOf(answer []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &e) != nil || e.Error.Message == "" {
		return string(answer)
	}
	return e.Error.Message
}

// away leads to another page of the console; to its first one, unless the address is one of its own.
func away(ctx *fasthttp.RequestCtx, to string) {
	ctx.Response.Header.Set("Location", cmp.Or(inside(to), root))
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// inside returns to if it is empty or the plain path of one of the console's pages, with or without a query, and
// otherwise the path of the first one: what browsers and proxies may read as another place is not followed.
func inside(to string) string {
	if to == "" {
		return ""
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme+u.Host+u.Opaque != "" || u.User != nil || !strings.HasPrefix(u.Path, root) ||
		strings.Contains(u.Path, "\\") || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return root
	}
	return u.String()
}

// static serves the style sheet and the script.
func static(ctx *fasthttp.RequestCtx, name string) {
	types := map[string]string{"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"}
	if types[name] == "" {
		ctx.Error("nothing is here\n", fasthttp.StatusNotFound)
		return
	}
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		panic("BUG: a file of the console is missing: " + err.Error())
	}
	ctx.SetContentType(types[name])
	ctx.Response.Header.Set("Cache-Control", "no-cache")
	ctx.SetBody(bytes.Clone(text))
}
