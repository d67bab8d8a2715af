// Package demo is the small site that `antirobot demo` puts behind the gateway: pages, a guest-book with what the rules
// say about it, an AJAX list, a WebSocket, an event stream, pictures, an XML search, and a page on which the visitor
// plays robot.
//
// Invariants:
//  1. It imports nothing of the gateway and talks to it as any service and any operator would: over HTTP.
//  2. The browser never sees the token of the admin API. The play page only bans or lists the visitor's own address as
//     the gateway names it, the visitor's own cookie, or an address reserved for documentation; each ban and entry ends
//     by itself after two minutes.
//  3. All state is bounded, and nothing is loaded from anywhere else.
package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Options describe the site's surroundings. All functions must be safe for concurrent use.
type Options struct {
	// GatewayURL returns the public base URL of the gateway before the site, such as http://127.0.0.1:8080. The play
	// page sends its example requests there, with the pretend visitor in X-Forwarded-For and X-Real-IP: the gateway
	// must trust the site's own address as a proxy. Nil or "": the play page explains that it has nothing to play with.
	GatewayURL func() string
	// AdminURL returns the base URL of the gateway's private listener, and Token is its bearer token.
	AdminURL func() string
	Token    string
	// XMLQuery is appended to the query of the example XML request; it contains what makes the site a known partner, such
	// as "key=demo".
	XMLQuery string
	// CookieName and SignCookie give a visitor the site's own signed identity (the kind "service"), issued as of the given
	// time; SignCookie returns the cookie's value. Nil: the site gives no such cookie.
	CookieName string
	SignCookie func(name, value string, made time.Time) (string, error)

	Log zerolog.Logger
	Now func() time.Time // nil: time.Now
}

//go:embed pages texts static
var files embed.FS

// site is the site. It keeps its state in memory; the streams that it serves end with their request's context.
type site struct {
	opts     Options
	now      func() time.Time
	texts    texts
	pages    map[string]*template.Template
	pictures *gallery
	book     guestbook
	streams  bound           // WebSockets and event streams in progress
	tries    bound           // pages of example requests in progress
	runs     bound           // scrapers at work
	life     context.Context //nolint:containedctx // of scrapers, which outlive the request that started them
	visitors visitors
	api      *api
	prober   *prober
	handler  http.Handler
	running  sync.WaitGroup // streams and scrapers, which http.Server does not wait for
}

// Bounds on concurrent work.
const (
	maxStreams = 256
	maxTries   = 4
)

func newSite(opts Options) *site {
	s := &site{
		opts: opts, now: opts.Now, texts: loadTexts(), pictures: newGallery(),
		streams: newBound(maxStreams), tries: newBound(maxTries), runs: newBound(maxRuns), life: context.Background(),
	}
	if s.now == nil {
		s.now = time.Now
	}
	direct := plainClient()
	s.api = &api{url: opts.AdminURL, token: opts.Token, http: direct}
	s.prober = &prober{opts: &s.opts, now: s.now, api: s.api, http: direct}
	s.pages = loadPages()
	s.handler = s.routes()
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *site) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.show("home", nil))
	mux.HandleFunc("GET /articles/{name}", s.article)
	mux.HandleFunc("GET /gallery", s.showGallery)
	mux.HandleFunc("GET /pictures/{file}", s.picture)
	mux.HandleFunc("GET /guestbook", s.showGuestbook)
	mux.HandleFunc("POST /guestbook", s.sign)
	mux.HandleFunc("GET /guestbook/rules", s.showRules)
	mux.HandleFunc("POST /guestbook/rules", s.teach)
	mux.HandleFunc("GET /list", s.show("list", nil))
	mux.HandleFunc("GET /shop/{section}/{item}", s.item)
	mux.HandleFunc("GET /api/list", s.listItems)
	mux.HandleFunc("OPTIONS /api/list", s.listPreflight)
	mux.HandleFunc("GET /live", s.show("live", nil))
	mux.HandleFunc("GET /live/clock", s.clock)
	mux.HandleFunc("GET /live/events", s.events)
	mux.HandleFunc("GET /search", s.showSearch)
	mux.HandleFunc("GET /xmlsearch", s.xmlSearch)
	mux.HandleFunc("GET /play", s.showPlay)
	mux.HandleFunc("GET /play/score", s.score)
	mux.HandleFunc("POST /play", s.turn)
	mux.HandleFunc("POST /language", s.setLanguage)
	mux.HandleFunc("GET /static/{file}", s.static)
	mux.HandleFunc("/", s.missing)
	return s.protect(http.NewCrossOriginProtection().Handler(mux))
}

// protect sets the headers of every answer. The policy allows nothing but the site itself.
func (s *site) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// Serve answers on ln until ctx ends, then ends the streams, finishes requests in progress and returns nil.
func Serve(ctx context.Context, ln net.Listener, opts Options) error {
	s := newSite(opts)
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	s.life = streams
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return streams },
	}
	srv.RegisterOnShutdown(endStreams)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		stopped <- srv.Shutdown(grace)
	})
	err := srv.Serve(ln)
	if stop() { // Serve ended by itself
		_ = srv.Close()
		endStreams()
		s.running.Wait()
		return fmt.Errorf("demo site: %w", err)
	}
	err = <-stopped
	s.running.Wait()
	s.prober.http.CloseIdleConnections()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		_ = srv.Close()
		return fmt.Errorf("demo site: stop: %w", err)
	}
	return nil
}

// view is what every page's template gets.
type view struct {
	T    func(key string) string        // a text in the page's language
	H    func(key string) template.HTML // a text that holds markup; only texts of our own catalogue
	Lang string
	Path string // of this page with its query, for the language switch
	Page string
	Data any
}

func (s *site) show(page string, data func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var d any
		if data != nil {
			d = data(r)
		}
		s.render(w, r, http.StatusOK, page, d)
	}
}

func (s *site) render(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	lang := s.language(r)
	t := s.texts[lang]
	var buf bytes.Buffer
	err := s.pages[page].ExecuteTemplate(&buf, "layout", view{
		T: t.text, H: t.markup, Lang: lang, Path: r.URL.RequestURI(), Page: page, Data: data,
	})
	if err != nil {
		s.opts.Log.Error().Err(err).Str("page", page).Msg("demo page")
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", lang)
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept-Language, Cookie")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes())
}

// item serves a page of a made-up shop, to which no page links: scrapers read it.
func (s *site) item(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "shop", r.PathValue("item"))
}

func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.render(w, r, http.StatusNotFound, "missing", nil)
		return
	}
	http.Error(w, "not found", http.StatusNotFound)
}

func (s *site) static(w http.ResponseWriter, r *http.Request) {
	b, err := files.ReadFile("static/" + r.PathValue("file"))
	if err != nil {
		s.missing(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, r.PathValue("file"), time.Time{}, bytes.NewReader(b))
}

// loadPages parses each page together with the layout. The pages are part of the binary: a parse error is a bug.
func loadPages() map[string]*template.Template {
	names, err := files.ReadDir("pages")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	pages := map[string]*template.Template{}
	for _, f := range names {
		if name := strings.TrimSuffix(f.Name(), ".html"); name != "layout" {
			pages[name] = template.Must(template.ParseFS(files, "pages/layout.html", "pages/"+f.Name()))
		}
	}
	return pages
}

// bound admits a limited number of callers at once; the others are told to come later.
type bound chan struct{}

func newBound(n int) bound { return make(bound, n) }

func (b bound) enter() bool {
	select {
	case b <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b bound) leave() { <-b }
