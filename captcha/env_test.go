package captcha

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/captcha/media"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
)

// env is a gateway's captcha with its own clock.
type env struct {
	t     testing.TB
	c     *Captcha
	clock atomic.Int64 // unix nanoseconds
	store store.Store
	ring  *spravka.Ring
	set   *templates.Set
	svc   *Settings
	ids   int

	bounds bounds
}

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// testPages are those of every env: nobody changes them.
var testPages = sync.OnceValues(func() (*templates.Set, error) { return templates.New(nil) })

func newEnv(t testing.TB, edit func(*Config, *ServiceConfig, *identity.ServiceConfig), tune ...func(*bounds)) *env {
	t.Helper()
	e := &env{t: t}
	e.clock.Store(start.UnixNano())
	e.store = store.NewMemory(e.now)
	var err error
	if e.set, err = testPages(); err != nil {
		t.Fatal(err)
	}
	if e.ring, err = spravka.NewRing([]spravka.Key{spravka.MakeKey(start)}); err != nil {
		t.Fatal(err)
	}
	cfg, scfg, icfg := DefaultConfig(), DefaultServiceConfig(), identity.DefaultServiceConfig()
	e.bounds = defaultBounds()
	e.bounds.store = time.Minute // the machine may be busy
	e.bounds.entries = 1 << 12   // the race detector marks every byte of these tables, for each test anew
	for _, f := range tune {
		f(&e.bounds)
	}
	if edit != nil {
		edit(&cfg, &scfg, &icfg)
	}
	e.c = e.newCaptcha(cfg)
	e.svc = e.newService("shop", scfg, icfg)
	return e
}

func (e *env) newCaptcha(cfg Config) *Captcha {
	e.t.Helper()
	c, err := New(
		cfg, Deps{Keys: spravka.NewKeys(e.ring), Store: e.store, Now: e.now, Log: zerolog.Nop(), bounds: &e.bounds},
	)
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// ownHosts is a HostOwner for tests.
type ownHosts struct{}

func (ownHosts) OwnsHost(host string) bool { return host == "example.com" || host == "www.example.com" }

func (e *env) newService(name string, scfg ServiceConfig, icfg identity.ServiceConfig) *Settings {
	e.t.Helper()
	id, err := identity.NewCookieSettings(icfg)
	if err != nil {
		e.t.Fatal(err)
	}
	s, err := NewSettings(scfg, SettingsDeps{
		Service: name, Hosts: ownHosts{}, Cookies: id, Pages: e.set,
		Pictures: []string{scfg.Picture()},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *env) now() time.Time { return time.Unix(0, e.clock.Load()).UTC() }

func (e *env) pass(d time.Duration) { e.clock.Add(int64(d)) }

// manyChecks lifts the rate of answers; onePlace renders one medium at a time.
func manyChecks(b *bounds) { b.checks = rate{60_000, 10_000} }

func onePlace(b *bounds) { b.places = 1 }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func header(name, value string) opt { return func(q *Request) { q.setHeader(name, value) } }

func from(a string) opt { return func(q *Request) { q.setAddr(addr(a)) } }

func service(s *Settings) opt { return func(q *Request) { q.Service = s } }

func partner(name string) opt { return func(q *Request) { q.Partner = &Partner{Name: name} } }

func body(contentType, text string) opt {
	return func(q *Request) {
		q.setHeader("Content-Type", contentType)
		q.Body = []byte(text)
	}
}

func form(pairs ...string) opt {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return body("application/x-www-form-urlencoded", v.Encode())
}

type opt func(*Request)

func (q *Request) setHeader(name, value string) {
	q.View.Fields = append(q.View.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
}

func (q *Request) setAddr(a netip.Addr) {
	q.View.Peer = a
	q.ID.Addr, q.ID.Net = a, identity.NetOf(a)
	q.ID.Subjects[0], q.ID.N = identity.AddrSubject(a), 1
}

// request is a request of a browser at 203.0.113.7.
func (e *env) request(method, rawURL string, opts ...opt) *Request {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		e.t.Fatalf("%q is not absolute", rawURL)
	}
	hostPort, target := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		hostPort, target = rest[:i], rest[i:]
	}
	host, _, _ := strings.Cut(hostPort, ":")
	path, query, _ := strings.Cut(target, "?")
	e.ids++
	q := &Request{
		View: &request.View{
			At: e.now(), Method: []byte(method), Host: []byte(host), HostPort: []byte(hostPort),
			Target: []byte(target), Path: []byte(path), Query: []byte(query), TLS: scheme == "https",
		},
		ID: &identity.Identity{}, Service: e.svc, RequestID: fmt.Sprintf("req-%d", e.ids), Base: scheme + "://" + hostPort,
	}
	q.setAddr(addr("203.0.113.7"))
	for _, o := range opts {
		o(q)
	}
	if q.View.Get("User-Agent") == nil {
		q.setHeader("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	}
	return q
}

// answerOf reads the answer from a key, which no client can do.
func (e *env) answerOf(token string) string {
	e.t.Helper()
	for _, host := range []string{"example.com", "www.example.com"} {
		q := e.request("GET", "https://"+host+"/")
		if k, _, err := e.c.issuer.open(q, token, e.now()); err == nil {
			var b strings.Builder
			for _, d := range k.secret {
				b.WriteByte('0' + d)
			}
			return b.String()
		}
	}
	e.t.Fatalf("no key of this host: %.20q", token)
	return ""
}

// wrong returns an answer that is certainly wrong.
func wrong(right string) string {
	if right[0] == '1' {
		return "2" + right[1:]
	}
	return "1" + right[1:]
}

// between returns the text between two marks.
func between(t testing.TB, s, before, after string) string {
	t.Helper()
	_, s, ok := strings.Cut(s, before)
	mid, _, ok2 := strings.Cut(s, after)
	if !ok || !ok2 {
		t.Fatalf("%q is not there", before)
	}
	return mid
}

// visit goes from a challenged URL to the captcha page and returns the page's form.
func (e *env) visit(rawURL string, opts ...opt) (page Response, fields url.Values) {
	e.t.Helper()
	a := e.c.Redirect(e.request("GET", rawURL, opts...))
	if a.Status != 302 {
		e.t.Fatalf("status %d", a.Status)
	}
	return e.open(a.Get("Location"), opts...)
}

func (e *env) open(location string, opts ...opt) (page Response, fields url.Values) {
	e.t.Helper()
	page = e.c.Page(e.request("GET", location, opts...))
	if page.Status != 200 {
		e.t.Fatalf("status %d of the page", page.Status)
	}
	return page, fieldsOf(e.t, page.Body)
}

// cookies returns what an answer sets, by name.
func cookies(a *Response) map[string]string {
	out := map[string]string{}
	for _, f := range a.Header {
		if f.Name == "Set-Cookie" {
			name, rest, _ := strings.Cut(f.Value, "=")
			out[name] = rest
		}
	}
	return out
}

// value is the value of a Set-Cookie without its attributes.
func value(setCookie string) string {
	v, _, _ := strings.Cut(setCookie, ";")
	return v
}

// occupy takes the only place in which pictures and sounds are made, until leave is called.
func (e *env) occupy() (leave func()) {
	placed, over := make(chan struct{}), make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _, _ = e.c.issuer.maker.Make(&media.Item{Nonce: spravka.NewID()}, 0, func() ([]byte, error) {
			close(placed)
			<-over
			return nil, errors.New("nothing was to be made")
		})
	}()
	<-placed
	return func() { close(over); <-gone }
}

// newLoggingEnv is an env whose store fails and whose log is kept.
func newLoggingEnv(t *testing.T) (*env, *bytes.Buffer) {
	t.Helper()
	e := newEnv(t, nil)
	var log bytes.Buffer
	e.store = &order{Store: e.store, fail: errors.New("store is away")}
	c, err := New(e.c.cfg, Deps{Keys: spravka.NewKeys(e.ring), Store: e.store, Now: e.now, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	e.c = c
	return e, &log
}

// knows sets the established visitors.
func (e *env) knows(v Visitors) { e.c.ladder.visitors, e.c.prices.visitors = v, v }

// check posts an answer.
func (e *env) check(opts ...opt) Response {
	e.t.Helper()
	return e.c.Check(e.request("POST", "https://example.com/checkcaptcha", opts...))
}
