package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"antirobot/message/rpc"
	"antirobot/proxy/connlimit"
	"antirobot/request"
)

// api is shared by the handlers of all calls.
type api struct {
	cfg     Config
	deps    Deps
	log     zerolog.Logger
	now     func() time.Time
	stopped atomic.Bool
	walk    sync.Mutex // held for a walk over the bans or the labels, which copies the table
}

// Server is the private listener. Make it with New; it is safe for concurrent use.
type Server struct {
	*api
	tokens   bearers
	tries    Tries
	hosts    map[string]bool
	server   *fasthttp.Server
	routes   []route
	console  Console       // nil: there is none
	stopping chan struct{} // closed by Shutdown: profiles that are being taken end
	profiles chan struct{} // one token: one CPU profile or trace at a time

	set      *metrics.Set
	requests map[int]*metrics.Counter // by class of status
	refused  *metrics.Counter
	crowded  *metrics.Counter
	panics   *metrics.Counter

	described map[string]metric // what is known of each metric
}

// New makes a server. It answers nothing until Serve.
func New(cfg Config, deps Deps) (*Server, error) {
	token, log, set := deps.Token, deps.Log, deps.Metrics
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if len(token) < minTokenLen {
		return nil, fmt.Errorf("admin: the token has fewer than %d characters", minTokenLen)
	}
	s := &Server{
		api:      &api{cfg: cfg, deps: deps, log: log, now: deps.Now},
		tokens:   newBearers(token, cfg.Tokens),
		hosts:    map[string]bool{"localhost": true},
		stopping: make(chan struct{}), profiles: make(chan struct{}, 1),
		set: set, requests: map[int]*metrics.Counter{}, described: metricNames(),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if u, err := url.Parse(cfg.URL); err == nil && cfg.URL != "" {
		s.hosts[string(request.HostName([]byte(u.Hostname())))] = true
	}
	if cfg.Advertise != "" {
		s.hosts[string(request.HostName([]byte(advertisedHost(cfg.Advertise))))] = true
	}
	for class := 2; class <= 5; class++ {
		s.requests[class] = set.GetOrCreateCounter(fmt.Sprintf(`antirobot_admin_requests_total{status="%dxx"}`, class))
	}
	s.refused = set.GetOrCreateCounter("antirobot_admin_unauthorized_total")
	s.crowded = set.GetOrCreateCounter("antirobot_admin_connections_refused_total")
	s.panics = set.GetOrCreateCounter(`antirobot_panics_total{where="admin"}`)
	s.routes = s.table()
	s.server = &fasthttp.Server{
		Handler:                       s.serve,
		ErrorHandler:                  s.answerUnread,
		HeaderReceived:                s.received,
		Concurrency:                   maxConnections,
		MaxRequestBodySize:            int(max(maxBody, deps.MaxMessage)),
		ReadBufferSize:                16 << 10,
		ReadTimeout:                   readTimeout,
		IdleTimeout:                   idleTimeout,
		WriteTimeout:                  time.Minute,
		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: false,
		NoDefaultServerHeader:         true,
		NoDefaultContentType:          true,
		CloseOnShutdown:               true,
		Logger:                        quiet{log},
	}
	return s, nil
}

// Serve answers on ln until Shutdown, which makes it return nil.
func (s *Server) Serve(ln net.Listener) error {
	ln = newFair(ln, maxConnections, s.crowded)
	if s.deps.TLS != nil {
		ln = tls.NewListener(ln, s.deps.TLS)
	}
	if err := s.server.Serve(ln); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// Shutdown stops listening and waits for the answers under way until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if !s.stopped.Swap(true) {
		close(s.stopping)
	}
	if err := s.server.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("admin: shut down: %w", err)
	}
	return nil
}

// closePatience is for the answers that are under way when the gateway ends.
const closePatience = 5 * time.Second

// Close is Shutdown with five seconds of patience.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return s.Shutdown(ctx)
}

// serve is the outermost handler: it keeps a panic from ending the process.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	defer func() {
		if r := recover(); r != nil {
			s.panics.Inc()
			s.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("admin handler")
			ctx.Response.Reset()
			answerProblem(ctx, errors.New("the handler broke down; the log has the stack"))
		}
		protect(&ctx.Response.Header, inConsole(string(ctx.URI().PathOriginal())))
		if c := s.requests[ctx.Response.StatusCode()/100]; c != nil {
			c.Inc()
		}
	}()
	if err := s.guard(ctx); err != nil {
		answerProblem(ctx, err)
		return
	}
	s.dispatch(ctx)
}

// protect sets the fields that every answer carries.
func protect(h *fasthttp.ResponseHeader, console bool) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if console {
		h.Set("Referrer-Policy", "same-origin") // without it a browser sends the forms of a page with Origin: null
	} else { // the console says itself what it loads and what may be kept
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// guard refuses what a browser sends on behalf of a page (invariant 2).
func (s *Server) guard(ctx *fasthttp.RequestCtx) error {
	h := &ctx.Request.Header
	path := string(ctx.URI().PathOriginal())
	if origin := string(h.Peek("Origin")); origin != "" && !(inConsole(path) && sameOrigin(origin, string(h.Host()))) {
		return &problem{
			status: fasthttp.StatusForbidden, Code: "origin_refused",
			Message: "requests of web pages are refused: send no Origin header",
		}
	}
	switch site := string(h.Peek("Sec-Fetch-Site")); site {
	case "", "none", "same-origin":
	case "cross-site", "same-site":
		if inConsole(path) && ctx.IsGet() && opens(h) { // a link that leads here: nothing happens, and no other site's brings the cookie
			break
		}
		fallthrough
	default:
		return &problem{
			status: fasthttp.StatusForbidden, Code: "origin_refused",
			Message: "requests of web pages are refused: Sec-Fetch-Site is " + site,
		}
	}
	// A probe of a balancer may have no Host; a browser, which could be led here by a name, always has.
	if host := string(h.Host()); host != "" && !s.knownHost(host) && !s.keyedHost(path, host) {
		return &problem{
			status: fasthttp.StatusForbidden, Code: "host_refused",
			Message: "Host must be an address, localhost or the host of admin.url in the configuration",
		}
	}
	return nil
}

// opens reports whether a browser opens a page, which its user sees: what a page loads meanwhile could begin sign-ins, or spend tries at them,
// without end. Over plain HTTP from another machine browsers don't say.
func opens(h *fasthttp.RequestHeader) bool {
	dest := string(h.Peek("Sec-Fetch-Dest"))
	return dest == "" || dest == "document"
}

func (s *Server) knownHost(host string) bool {
	name := string(request.HostName([]byte(host)))
	if _, err := netip.ParseAddr(name); err == nil || strings.HasPrefix(name, "[") {
		return true
	}
	return s.hosts[name]
}

// keyedHost reports whether a host is a key of Akismet's API before a name of ours: KEY.gate.example.
func (s *Server) keyedHost(path, host string) bool {
	_, name, ok := strings.Cut(string(request.HostName([]byte(host))), ".")
	return ok && strings.HasPrefix(path, rpc.AkismetPrefix) && s.hosts[name]
}

// SignIn returns who holds a token.
func (s *Server) SignIn(token string) (Caller, bool) { return s.tokens.find(token, s.now()) }

func (s *Server) authorized(ctx *fasthttp.RequestCtx) bool {
	_, ok := s.tokens.ofField(ctx.Request.Header.Peek("Authorization"), s.now())
	return ok
}

// requireToken returns who calls. It answers 401 unless the request carries a token, and 403 if that may not do it.
func (s *Server) requireToken(ctx *fasthttp.RequestCtx, role Role) (Caller, error) {
	c, ok := s.tokens.ofField(ctx.Request.Header.Peek("Authorization"), s.now())
	if ok {
		return c, c.may(role)
	}
	return c, s.unauthorized(ctx)
}

// unauthorized answers a request without a right token. Who sends wrong ones waits for the answer after some of them.
func (s *Server) unauthorized(ctx *fasthttp.RequestCtx) *problem {
	s.refused.Inc()
	ctx.Response.Header.Set("WWW-Authenticate", `Bearer realm="antirobot"`)
	p := &problem{
		status: fasthttp.StatusUnauthorized, Code: "unauthorized",
		Message: "send the token: Authorization: Bearer TOKEN; it is in admin.token of the data directory",
	}
	if len(ctx.Request.Header.Peek("Authorization")) == 0 {
		return p
	}
	from := ctx.RemoteIP().String()
	if who, counts := other(ctx.RemoteAddr()); counts {
		from = connlimit.KeyOf(who).String()
	}
	if s.tries.Allowed(from, s.now()) {
		s.tries.Note(from)
		return p
	}
	late := time.NewTimer(triesWait)
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.stopping:
	}
	ctx.Response.Header.Set("Retry-After", strconv.Itoa(int(triesFor/time.Second)))
	p.status, p.Code, p.Message = fasthttp.StatusTooManyRequests, "too_many_tries", "too many wrong tokens; a right one always works"
	return p
}

// may returns an error unless the caller has a role, or more.
func (c *Caller) may(role Role) error {
	if c.Role >= role {
		return nil
	}
	return &problem{
		status: fasthttp.StatusForbidden, Code: "role_refused",
		Message: fmt.Sprintf("the token %s has the role %s; this takes the role %s", c.Name, c.Role, role),
	}
}

func local(ctx *fasthttp.RequestCtx) bool {
	a, err := netip.ParseAddrPort(ctx.RemoteAddr().String())
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// answerUnread answers what could not be read as a request.
func (s *Server) answerUnread(ctx *fasthttp.RequestCtx, err error) {
	p := &problem{status: fasthttp.StatusBadRequest, Code: "invalid_request", Message: "this is not a request that HTTP/1.1 allows"}
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = s.tooLong(ctx)
	case errors.As(err, &small):
		p = &problem{status: fasthttp.StatusRequestHeaderFieldsTooLarge, Code: "header_too_large", Message: "the header is longer than 16 KB"}
	case errors.As(err, &netErr) && netErr.Timeout():
		p = &problem{status: fasthttp.StatusRequestTimeout, Code: "timeout", Message: "the request did not arrive in time"}
	}
	answerProblem(ctx, p)
	protect(&ctx.Response.Header, false)
	ctx.SetConnectionClose()
	linger(ctx.Conn())
}

func bodyTooLarge() *problem {
	return &problem{
		status: fasthttp.StatusRequestEntityTooLarge, Code: "body_too_large",
		Message: "the body is longer than 16 MiB, or than 1 MiB for messages",
	}
}

type quiet struct{ log zerolog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug().Msg(fmt.Sprintf(format, args...))
}

// fairShare is the part of all connections that one address may have, as a divisor: probes, scrapers and operators get
// the others.
const fairShare = 4

// fair is a listener on which no address, or /64 of IPv6, but this machine's has more than its share of the
// connections.
type fair struct {
	net.Listener
	most    int
	refused *metrics.Counter
	open    connlimit.Counts
}

func newFair(ln net.Listener, connections int, refused *metrics.Counter) *fair {
	return &fair{Listener: ln, most: max(connections/fairShare, 1), refused: refused}
}

// Accept implements net.Listener.
func (f *fair) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, counts := other(c.RemoteAddr())
		if !counts || f.open.Add(from, f.most) {
			return &fairConn{Conn: c, of: f, from: from, counts: counts}, nil
		}
		f.refused.Inc()
		_ = c.Close()
	}
}

// other returns a peer's address, and whether it is another machine than this one.
func other(peer net.Addr) (from netip.Addr, counts bool) {
	a, err := netip.ParseAddrPort(peer.String())
	from = a.Addr().Unmap()
	return from, err == nil && !from.IsLoopback()
}

// lingerTimeout bounds how long the rest of a refused request is read.
const lingerTimeout = 5 * time.Second

// fairConn is a connection that may count, and that can be closed without losing the last answer.
type fairConn struct {
	net.Conn
	of     *fair
	from   netip.Addr
	counts bool
	once   sync.Once
	unread atomic.Bool // the peer may still be sending
}

// linger has the rest of a request read and discarded when its connection closes. Closing a socket with unread bytes
// resets it, and a reset discards the answer that the client has not read yet.
func linger(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if f, ok := c.(*fairConn); ok {
		f.unread.Store(true)
	}
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.once.Do(func() {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.unread.Load() && half.CloseWrite() == nil {
			_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
			_, _ = io.Copy(io.Discard, c.Conn)
		}
		if c.counts {
			c.of.open.Remove(c.from)
		}
	})
	return c.Conn.Close()
}
