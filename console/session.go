package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/admin"
)

const (
	cookieName   = "antirobot_console"
	languageName = "antirobot_console_lang"
	sessionLife  = 12 * time.Hour
	linkLife     = 10 * time.Minute
	maxSessions  = 1000
	longestField = 1 << 10 // bytes of a field of a form
)

type session struct {
	who   admin.Caller
	token string // that the forms carry
	until time.Time

	mu   sync.Mutex
	said string // to be shown once, on the next page
}

// say keeps a message for the next page.
func (s *session) say(text string) {
	s.mu.Lock()
	s.said = text
	s.mu.Unlock()
}

func (s *session) hear() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.said
	s.said = ""
	return text
}

// sessions are all of them, by the hash of their cookie. Safe for concurrent use.
type sessions struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*session
	links map[[sha256.Size]byte]time.Time // one-time links, with their ends
	tries admin.Tries
}

func newSessions() *sessions {
	return &sessions{all: map[[sha256.Size]byte]*session{}, links: map[[sha256.Size]byte]time.Time{}}
}

func secret() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

func (s *sessions) begin(who admin.Caller, at time.Time) (cookie string) {
	cookie = secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	var first [sha256.Size]byte
	for k, o := range s.all {
		switch {
		case at.After(o.until):
			delete(s.all, k)
		case s.all[first] == nil || o.until.Before(s.all[first].until):
			first = k
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, first)
	}
	s.all[sha256.Sum256([]byte(cookie))] = &session{who: who, token: secret(), until: at.Add(sessionLife)}
	return cookie
}

// find returns the session of a cookie, or nil.
func (s *sessions) find(cookie []byte, at time.Time) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.all[sha256.Sum256(cookie)]
	if o == nil || at.After(o.until) || !o.who.Valid(at) {
		return nil
	}
	return o
}

func (s *sessions) end(cookie []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256(cookie))
}

// link makes a code that signs in once.
func (s *sessions) link(at time.Time) string {
	code := secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[sha256.Sum256([]byte(code))] = at.Add(linkLife)
	return code
}

// follow spends the code of a link.
func (s *sessions) follow(code []byte, at time.Time) bool {
	sum := sha256.Sum256(code)
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.links[sum]
	delete(s.links, sum)
	return ok && at.Before(until)
}

func (c *Console) cookie(name, value string, life time.Duration) *fasthttp.Cookie {
	k := new(fasthttp.Cookie)
	k.SetKey(name)
	k.SetValue(value)
	k.SetPath(root)
	k.SetHTTPOnly(true)
	k.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	k.SetSecure(c.secure)
	k.SetMaxAge(int(life / time.Second))
	return k
}

func (s *session) formOf(ctx *fasthttp.RequestCtx) bool {
	return subtle.ConstantTimeCompare(ctx.PostArgs().Peek("token"), []byte(s.token)) == 1
}

// signIn shows the form, or reads it.
func (c *Console) signIn(v *visit) {
	ctx := v.ctx
	from, _, _ := net.SplitHostPort(ctx.RemoteAddr().String())
	at, back := c.now(), inside(string(ctx.PostArgs().Peek("back")))
	fail := func(status int, problem string) {
		v.page("signin", status, map[string]any{"Problem": problem, "Back": back})
	}
	switch {
	case ctx.IsGet() && ctx.QueryArgs().Has("once"):
		// Nobody guesses a code, and any page can have a browser bring a wrong one: it is no try of its user's.
		if c.sessions.follow(ctx.QueryArgs().Peek("once"), at) {
			c.enter(ctx, c.linked, root)
			return
		}
		fail(fasthttp.StatusForbidden, "signin_link")
	case ctx.IsGet() || ctx.IsHead():
		v.page("signin", fasthttp.StatusOK, map[string]any{"Back": inside(string(ctx.QueryArgs().Peek("back")))})
	default:
		who, ok := c.api.SignIn(string(ctx.PostArgs().Peek("secret")))
		switch {
		case ok: // whatever others try: tokens are too long to be guessed, and who is sent away would be the operator
			c.enter(ctx, who, back)
		case !c.sessions.tries.Allowed(from, at):
			fail(fasthttp.StatusTooManyRequests, "signin_wait")
		default:
			c.sessions.tries.Note(from)
			c.log.Warn().Str("address", from).Msg("console: a wrong token")
			fail(fasthttp.StatusForbidden, "signin_wrong")
		}
	}
}

func (c *Console) enter(ctx *fasthttp.RequestCtx, who admin.Caller, back string) {
	cookie := c.sessions.begin(who, c.now())
	ctx.Response.Header.SetCookie(c.cookie(cookieName, cookie, sessionLife))
	c.log.Info().Str("by", who.Name).Msg("console: signed in")
	away(ctx, back)
}
