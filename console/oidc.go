package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/valyala/fasthttp"
	"golang.org/x/oauth2"

	"antirobot/admin"
)

const (
	oidcName    = "antirobot_console_oidc"
	oidcPath    = root + "oidc"
	oidcTime    = 10 * time.Second // for the provider's answers
	oidcMost    = 1 << 20          // bytes of one
	maxAttempts = 1000
)

// provider signs people in at a provider of OpenID Connect: the flow with a code, PKCE and a nonce. Safe for concurrent
// use.
type provider struct {
	cfg    admin.OIDCConfig
	secret string
	client *http.Client
	url    string // of the console as browsers see it

	mu       sync.Mutex
	found    *oidc.Provider // nil: it has not answered yet
	attempts map[[sha256.Size]byte]attempt
}

type attempt struct {
	nonce, verifier, back string
	until                 time.Time
}

func newProvider(cfg *admin.OIDCConfig, secret, url string) *provider {
	return &provider{cfg: *cfg, secret: secret, url: url, client: newClient(), attempts: map[[sha256.Size]byte]attempt{}}
}

func (p *provider) host() string {
	u, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return p.cfg.Issuer
	}
	return u.Host
}

// newClient makes what a provider is asked by, in bounded time.
func newClient() *http.Client { return &http.Client{Timeout: oidcTime, Transport: bounded{}} }

// bounded reads at most oidcMost bytes of an answer: the rest is as if it had not come.
type bounded struct{}

func (bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, oidcMost), res.Body}
	}
	return res, err
}

// describe reads a provider's metadata (OpenID Connect Discovery, 4).
func describe(ctx context.Context, client *http.Client, issuer string) (*oidc.Provider, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return nil, fmt.Errorf("ask for the openid-configuration of %s: %w", issuer, err)
	}
	return found, nil
}

// Discover returns the name of the provider at an issuer's address, which must be that address, or sign-ins fail. It
// answers within ten seconds, or before the context ends.
func Discover(ctx context.Context, issuer string) (name string, err error) {
	_, err = describe(ctx, newClient(), issuer)
	if other := new(oidc.IssuerMismatchError); errors.As(err, &other) {
		return other.Discovered, nil
	}
	if err != nil {
		return "", err
	}
	return issuer, nil
}

// discover returns what the provider says of itself, which it is asked until it answers.
func (p *provider) discover() (*oidc.Provider, error) {
	p.mu.Lock()
	found := p.found
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := describe(context.Background(), p.client, p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = found
	return found, nil
}

func (p *provider) flow(at *oidc.Provider) *oauth2.Config {
	scopes := []string{oidc.ScopeOpenID, "profile", "email"}
	var named struct {
		Scopes []string `json:"scopes_supported"`
	}
	if at.Claims(&named) == nil && slices.Contains(named.Scopes, p.cfg.RoleClaim) && !slices.Contains(scopes, p.cfg.RoleClaim) {
		scopes = append(scopes, p.cfg.RoleClaim) // many providers send groups only with the scope of that name
	}
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.secret, Endpoint: at.Endpoint(), Scopes: scopes,
		RedirectURL: strings.TrimRight(p.url, "/") + oidcPath,
	}
}

func (p *provider) begin(a attempt, now time.Time) (state string) {
	state = secret()
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, o := range p.attempts {
		if now.After(o.until) || len(p.attempts) >= maxAttempts { // any: its user can begin again
			delete(p.attempts, k)
		}
	}
	p.attempts[sha256.Sum256([]byte(state))] = a
	return state
}

// end takes an attempt back, once.
func (p *provider) end(state []byte, now time.Time) (attempt, bool) {
	sum := sha256.Sum256(state)
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.attempts[sum]
	delete(p.attempts, sum)
	return a, ok && now.Before(a.until)
}

var errNoRole = errors.New("no role")

func (p *provider) who(code string, a *attempt, now func() time.Time) (who admin.Caller, err error) {
	at, err := p.discover()
	if err != nil {
		return who, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), p.client), oidcTime)
	defer cancel()
	token, err := p.flow(at).Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		return who, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := at.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: now}).Verify(ctx, raw)
	if err != nil {
		return who, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.nonce)) != 1 {
		return who, errors.New("the token has another nonce")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return who, err
	}
	who, ok := p.cfg.CallerOf(claims)
	if !p.cfg.Complete(claims) && at.UserInfoEndpoint() != "" {
		switch err := p.addUserInfo(ctx, at, token, claims); {
		case err == nil:
			who, ok = p.cfg.CallerOf(claims)
		case !ok: // otherwise the token has said enough
			return who, fmt.Errorf("ask for the claims that the token lacks: %w", err)
		}
	}
	if !ok {
		return who, fmt.Errorf("%w: %s", errNoRole, p.cfg.WhyNoRole(claims))
	}
	return who, nil
}

// addUserInfo adds what the provider says of the person beside the signed token, which many leave short (OpenID Connect
// Core, 5.4). What the token says stays.
func (p *provider) addUserInfo(ctx context.Context, at *oidc.Provider, token *oauth2.Token, claims map[string]any,
) error {
	info, err := at.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	if info.Subject != claims["sub"] { // 5.3.2: it then belongs to another user
		return errors.New("the provider tells of another person than its token")
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return err
	}
	for name, v := range more {
		if _, ok := claims[name]; !ok {
			claims[name] = v
		}
	}
	return nil
}

// signInAt leads to the provider, and takes who comes back from it.
func (c *Console) signInAt(v *visit) {
	ctx, now := v.ctx, c.now()
	from, _, _ := net.SplitHostPort(ctx.RemoteAddr().String())
	args := ctx.QueryArgs()
	back := inside(string(args.Peek("back"))) // where they wanted to go, for the next try too
	fail := func(status int, problem string) {
		v.page("signin", status, map[string]any{"Problem": problem, "Back": back})
	}
	if !ctx.IsGet() || !c.sessions.tries.Allowed(from, now) {
		fail(fasthttp.StatusTooManyRequests, "signin_wait")
		return
	}
	if !args.Has("state") {
		at, err := c.oidc.discover()
		if err != nil {
			c.log.Warn().Err(err).Msg("console: the provider of OpenID Connect does not answer")
			fail(fasthttp.StatusBadGateway, "signin_provider")
			return
		}
		a := attempt{nonce: secret(), verifier: oauth2.GenerateVerifier(), back: back, until: now.Add(linkLife)}
		state := c.oidc.begin(a, now)
		k := c.cookie(oidcName, state, linkLife)
		k.SetPath(oidcPath)
		k.SetSameSite(fasthttp.CookieSameSiteLaxMode) // the way back begins at the provider
		ctx.Response.Header.SetCookie(k)
		ctx.Response.Header.Set("Location", c.oidc.flow(at).AuthCodeURL(state, oidc.Nonce(a.nonce),
			oauth2.S256ChallengeOption(a.verifier)))
		ctx.SetStatusCode(fasthttp.StatusSeeOther)
		return
	}
	state := args.Peek("state")
	a, ok := c.oidc.end(state, now)
	if !ok || subtle.ConstantTimeCompare(state, ctx.Request.Header.Cookie(oidcName)) != 1 {
		// not counted as a try: any page can send a wrong state, and a right one can't be guessed
		fail(fasthttp.StatusForbidden, "signin_again")
		return
	}
	if !args.Has("code") { // RFC 6749, 4.1.2.1
		c.sessions.tries.Note(from)
		why := fmt.Sprintf("%.100s: %.500s", args.Peek("error"), args.Peek("error_description"))
		c.log.Warn().Str("error", why).Str("address", from).Msg("console: the provider of OpenID Connect refused a " +
			"sign-in")
		fail(fasthttp.StatusForbidden, "signin_refused")
		return
	}
	back = a.back
	who, err := c.oidc.who(string(args.Peek("code")), &a, c.now)
	if err != nil {
		c.sessions.tries.Note(from)
		c.log.Warn().Err(err).Str("address", from).Str("by",
			who.Name).Msg("console: nobody was signed in by OpenID Connect")
		if errors.Is(err, errNoRole) {
			fail(fasthttp.StatusForbidden, "signin_role")
			return
		}
		fail(fasthttp.StatusForbidden, "signin_again")
		return
	}
	c.enter(ctx, who, back)
	v.goOn()
}

// goOn has a page of our own send a browser on that has just been signed in: it keeps a strict cookie from no redirect
// that began elsewhere.
func (v *visit) goOn() {
	to := string(v.ctx.Response.Header.Peek("Location"))
	v.ctx.Response.Header.Del("Location")
	v.ctx.Response.Header.Set("Refresh", "0;url="+to)
	v.page("welcome", fasthttp.StatusOK, map[string]any{"To": to})
}
