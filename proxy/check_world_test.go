package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/servertest"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
	"antirobot/verdict"
)

// fragile is a Decider that panics for /panic, and remembers what it was asked about.
type fragile struct{ *verdict.Cacher }

func (f fragile) Decide(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings) {
	if string(v.Path) == "/panic" {
		panic("a fault of ours")
	}
	f.Cacher.Decide(d, v, id, s)
}

// heard is a Sink that keeps events.
type heard chan verdict.Event

func (h heard) Offer(e *verdict.Event) bool {
	select {
	case h <- *e:
		return true
	default:
		return false
	}
}

// written is a log whose lines are waited for.
type written chan string

func (l written) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// checkEnv is a gateway in check mode on a listener, without the rest of the process.
type checkEnv struct {
	t      testing.TB
	check  *Check
	cacher *verdict.Cacher
	addr   string
	events heard
	access written
	logs   *servertest.Log
	set    *metrics.Set
}

func newCheckEnv(t testing.TB, edit func(*CheckConfig)) *checkEnv {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	e := &checkEnv{
		t: t, events: make(heard, 64), access: make(written, 64), logs: new(servertest.Log),
		set: metrics.NewSet(),
	}
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	must(err)
	kv := store.NewMemory(time.Now)
	lists, err := cbb.New(cbb.DefaultConfig(), cbb.Deps{KV: kv, Feed: kv, Dir: t.TempDir(), Log: zerolog.Nop()})
	must(err)
	e.cacher, err = verdict.New(verdict.DefaultConfig(),
		verdict.Deps{Store: kv, Lists: lists, Log: zerolog.Nop(), Metrics: e.set})
	must(err)
	must(e.cacher.Start(context.Background()))
	resolver, err := identity.New(identity.DefaultConfig(), identity.Deps{Keys: spravka.NewKeys(ring)})
	must(err)
	pages, err := templates.New(nil)
	must(err)
	c, err := captcha.New(captcha.DefaultConfig(), captcha.Deps{
		Keys: spravka.NewKeys(ring), Store: kv,
		Log: zerolog.Nop(),
	})
	must(err)
	who, err := identity.NewCookieSettings(identity.DefaultServiceConfig())
	must(err)
	own, err := captcha.NewSettings(captcha.DefaultServiceConfig(),
		captcha.SettingsDeps{Service: "shop", Hosts: anyHost{}, Cookies: who, Pages: pages})
	must(err)
	vc := verdict.DefaultServiceConfig()
	judged, err := vc.Settings("shop", 0)
	must(err)
	router, err := NewRouter([]*Service{{
		Name: "shop", Hosts: []string{"shop.example"}, Verdict: judged, Identity: who, Captcha: own,
		Config: DefaultServiceConfig(),
	}})
	must(err)
	var access *zerolog.Logger
	if _, measured := t.(*testing.B); !measured { // the benchmark measures checks, not log lines
		l := zerolog.New(e.access)
		access = &l
	}
	g, err := New(&Snapshot{Router: router, Captcha: c}, Deps{
		Resolver: resolver, Decider: fragile{e.cacher}, Sink: e.events, Log: zerolog.New(e.logs), Access: access,
		AccessFields: true, Metrics: e.set,
	})
	must(err)
	cfg := DefaultCheckConfig()
	cfg.Listen = []string{"127.0.0.1:0"}
	if edit != nil {
		edit(&cfg)
	}
	e.check, err = NewCheck(cfg, g)
	must(err)
	limits := h1.DefaultConfig()
	limits.MaxRequestsPerConn = 0
	server, err := h1.NewServer(limits, h1.Deps{Handler: e.check, Log: zerolog.New(e.logs), Metrics: e.set})
	must(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	e.addr = ln.Addr().String()
	served := make(chan struct{})
	go func() { _ = server.Serve(ln, h1.ListenerOptions{Trusted: e.check}); close(served) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-served
		_ = e.cacher.Close()
		_ = lists.Close()
	})
	return e
}

// send sends a request as it is, and returns the answer.
func (e *checkEnv) send(request string) *http.Response {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		e.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res
}

func asked(method, uri, addr string, more ...string) string {
	return "GET /check HTTP/1.1\r\nHost: antirobot\r\nX-Forwarded-Method: " + method +
		"\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: " + uri +
		"\r\nX-Forwarded-For: " + addr + "\r\nX-Forwarded-Proto: https\r\n" + chromeLines + strings.Join(more, "") +
		"\r\n"
}

// chromeLines are what every browser says of itself.
const chromeLines = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
	"Chrome/140.0.0.0 Safari/537.36\r\n" +
	"Accept-Language: en\r\nAccept-Encoding: gzip\r\n"

// anyHost is captcha.HostOwner of a test.
type anyHost struct{}

func (anyHost) OwnsHost(string) bool { return true }
