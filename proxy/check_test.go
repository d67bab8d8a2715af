package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/proxy/traces"
	"antirobot/request"
	"antirobot/servertest"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// TestCheckSurvivesAPanic: a check that fails because of an internal error gets the policy's answer and the server goes
// on; other requests are served as before.
func TestCheckSurvivesAPanic(t *testing.T) {
	for policy, want := range map[string]int{"closed": 503, "open": 200} {
		e := newCheckEnv(t, func(c *CheckConfig) { c.OnError = policy })
		for range 3 {
			res := e.send(asked("GET", "/panic", "203.0.113.5"))
			if res.StatusCode != want || res.Header.Get("X-Antirobot-Reason") != "error" {
				t.Errorf("%s: %d, reason %q", policy, res.StatusCode, res.Header.Get("X-Antirobot-Reason"))
			}
		}
		if res := e.send(asked("GET", "/", "203.0.113.5")); res.StatusCode != 200 ||
			res.Header.Get("X-Antirobot-Reason") != "none" {
			t.Errorf("after panics: %d %v", res.StatusCode, res.Header)
		}
		if n := e.check.count[checkOutcome{styleVerdict, answerError}].Get(); n != 3 {
			t.Errorf("%d panics counted", n)
		}
		if !strings.Contains(e.logs.String(), "a fault of ours") {
			t.Error("the log does not say why")
		}
	}
	e := newCheckEnv(t, func(c *CheckConfig) { c.Style, c.OnError = "full", "open" })
	res := e.send("GET /panic HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.5\r\nX-Forwarded-Proto: " +
		"http\r\n\r\n")
	if res.StatusCode != 500 {
		t.Errorf("style full: %d, wanted 500, which nginx can pass on by error_page", res.StatusCode)
	}
}

// TestCheckEvent: a check is an event without facts about the answer, which is given elsewhere; a challenge call after
// it is no event.
func TestCheckEvent(t *testing.T) {
	e := newCheckEnv(t, nil)
	e.banned()
	want := func(v verdict.Verdict, kind verdict.EventKind) {
		t.Helper()
		select {
		case got := <-e.events:
			if got.Verdict != v || got.Kind != kind || kind == verdict.EventRequest &&
				(got.Status != 0 || got.BytesOut != 0 || got.Took != 0 || got.Document || !got.Advised || !got.Page) {
				t.Errorf("event %+v, wanted %s of kind %d without facts", got, v, kind)
			}
			if addr := got.Subjects[got.N-1]; addr == identity.AddrSubject(netip.MustParseAddr("127.0.0.1")) {
				t.Error("the balancer is charged")
			}
		case <-time.After(60 * time.Second):
			t.Fatal("no event")
		}
	}
	none := func() {
		t.Helper()
		select {
		case got := <-e.events:
			t.Errorf("an event too many: %+v", got)
		case <-time.After(50 * time.Millisecond):
		}
	}
	const challenge = " /a HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.66\r\nX-Forwarded-Proto: " +
		"http\r\n" + chromeLines
	e.send(asked("GET", "/a", "203.0.113.5"))
	want(verdict.Human, verdict.EventRequest)
	e.send(asked("GET", "/a", "203.0.113.66"))
	want(verdict.Robot, verdict.EventRequest)
	e.send("GET" + challenge + "\r\n")
	none()
	e.send("GET" + challenge + "X-Requested-With: XMLHttpRequest\r\n\r\n")
	want(verdict.Robot, verdict.EventShown)
	e.send(asked("GET", "/showcaptcha", "203.0.113.66"))
	none()
	e.send("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n") // refused
	none()
}

// TestCheckReload: new rules apply to the next call.
func TestCheckReload(t *testing.T) {
	e := newCheckEnv(t, nil)
	if res := e.send(asked("GET", "/", "203.0.113.5")); res.StatusCode != 200 {
		t.Fatalf("%d", res.StatusCode)
	}
	cfg := DefaultCheckConfig()
	cfg.Allowed, cfg.Headers = []string{"127.0.0.1"}, "original"
	commit, err := e.check.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if res := e.send(asked("GET", "/", "203.0.113.5")); res.StatusCode != 400 {
		t.Errorf("the old set is still believed: %d", res.StatusCode)
	}
}

// TestCheckLogsItsAnswer: the access line has the status and the length of what the balancer was sent, in each style,
// and the event says that the service's answer is unknown.
func TestCheckLogsItsAnswer(t *testing.T) {
	for _, style := range []string{"verdict", "forward"} {
		e := newCheckEnv(t, nil)
		if err := e.cacher.Ban(t.Context(), bans.Ban{
			Subject: identity.AddrSubject(netip.MustParseAddr("203.0.113.5")), Until: time.Now().Add(time.Hour),
			Score: 1, Reason: "test",
		}); err != nil {
			t.Fatal(err)
		}
		res := e.send(strings.Replace(asked("GET", "/api", "203.0.113.5", "X-Requested-With: XMLHttpRequest\r\n"),
			"/check", "/check?style="+style, 1))
		body, err := io.ReadAll(res.Body)
		if err != nil || style == "forward" && len(body) == 0 {
			t.Fatalf("%s: %d with %q, %v", style, res.StatusCode, body, err)
		}
		if line, want := <-e.access, fmt.Sprintf(`"status":%d,"bytes_in":0,"bytes_out":%d,`, res.StatusCode,
			len(body)); !strings.Contains(line, want) {
			t.Errorf("%s: no %s in %s", style, want, line)
		}
		if ev := <-e.events; !ev.Advised || ev.Status != 0 {
			t.Errorf("%s: the event knows of an answer: %+v", style, ev)
		}
	}
}

// TestCheckIsTraced: a check belongs to the trace that the balancer passes on; its line names it, and its decision is a
// span of it.
func TestCheckIsTraced(t *testing.T) {
	told := make(chan []byte, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a part of it would lack what is looked for
		told <- body
	}))
	defer receiver.Close()
	e := newCheckEnv(t, nil)
	cfg := traces.DefaultConfig()
	cfg.Endpoint, cfg.Share, cfg.Every = receiver.URL+"/v1/traces", 1, 10*time.Millisecond
	tracer, err := traces.New(cfg, traces.Deps{Log: zerolog.Nop(), Metrics: e.set})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	e.check.core.deps.Traces = tracer
	const trace = "0af7651916cd43dd8448eb211c80319c"
	if res := e.send(asked("GET", "/goods", "203.0.113.5",
		"Traceparent: 00-"+trace+"-b7ad6b7169203331-01\r\n")); res.StatusCode != 200 {
		t.Fatalf("the check says %d", res.StatusCode)
	}
	if line := <-e.access; !strings.Contains(line, `"trace_id":"`+trace+`"`) {
		t.Errorf("the line does not name the trace: %s", line)
	}
	id, _ := hex.DecodeString(trace)
	if body := <-told; bytes.Count(body, id) != 2 || !bytes.Contains(body, []byte("decision")) ||
		!bytes.Contains(body, []byte("/goods")) {
		t.Errorf("the receiver is told %q", body)
	}
}

// TestCheckAllowedMapped: an IPv4 network that is written as IPv6 is the IPv4 network.
func TestCheckAllowedMapped(t *testing.T) {
	c := DefaultCheckConfig()
	c.Allowed = []string{"::ffff:10.1.2.3", "::ffff:192.168.0.0/112"}
	r, err := NewCheckRules(c)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.1.2.4": false,
		"192.168.7.7": true, "192.169.0.1": false,
	} {
		if r.allows(netip.MustParseAddr(addr)) != want {
			t.Errorf("%s: allowed %v", addr, !want)
		}
	}
}

func TestCheckConfig(t *testing.T) {
	good := DefaultCheckConfig()
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := CheckConfig{
		Listen: []string{"9091", "127.0.0.1:nine"}, Style: "both", Path: "check", Headers: "all",
		Allowed: []string{"10.0.0.0/33"},
		Secret:  "short", SecretFile: "x", AccelLocation: "@a\r\nX: y", OnError: "maybe",
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{
		"listen[0]: ", "listen[1]: ", "style: ", "path: ", "headers: ", "allowed[0]: ", "secret: ", "secret_file: ",
		"accel_location: ", "on_error: ",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+key) {
			t.Errorf("nothing about %s in\n%v", key, err)
		}
	}
	for _, path := range []string{"/", "/check/", "/a?b", "/a b", ""} {
		c := DefaultCheckConfig()
		if c.Path = path; c.Validate() == nil {
			t.Errorf("path %q is accepted", path)
		}
	}
	either := DefaultCheckConfig() // asked by HAProxy over SPOE and by Envoy over gRPC
	either.Listen, either.SPOE, either.GRPC = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}
	whole, bare := either.ForExtAuthz("human", "/bare")
	for name, c := range map[string]CheckConfig{
		"for both": either, "SPOE": either.ForSPOE(), "gRPC with a body": whole,
		"gRPC without": bare,
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nobody := DefaultCheckConfig()
	nobody.Listen, nobody.Allowed = []string{"127.0.0.1:0"}, nil
	if nobody.Validate() == nil {
		t.Error("accepted that nobody may ask")
	}
	all := DefaultCheckConfig()
	all.Listen, all.Allowed, all.OnError = []string{":9091"}, []string{"0.0.0.0/0"}, "open"
	if w := all.Warnings(); len(w) != 2 {
		t.Errorf("warnings %q", w)
	}
	file := filepath.Join(t.TempDir(), "secret")
	for text, ok := range map[string]bool{"0123456789abcdef\n": true, "short\n": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := DefaultCheckConfig()
		c.SecretFile = file
		rules, err := NewCheckRules(c)
		if (err == nil) != ok || ok && string(rules.secret) != "0123456789abcdef" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// BenchmarkCheck measures one check over a kept-alive connection, including the client: the time that a balancer waits.
func BenchmarkCheck(b *testing.B) {
	e := newCheckEnv(b, nil)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request := []byte(asked("GET", "/a?b=1", "203.0.113.5",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n", "Accept: */*\r\n"))
	answer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := c.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200 ")) {
			b.Fatalf("%v %s", err, answer[:n])
		}
	}
}

// banned is a visitor who is banned.
func (e *checkEnv) banned() (addr string) {
	e.t.Helper()
	addr = "203.0.113.66"
	if err := e.cacher.Ban(context.Background(), bans.Ban{
		Subject: identity.AddrSubject(netip.MustParseAddr(addr)), Until: time.Now().Add(time.Hour), Reason: "test",
	}); err != nil {
		e.t.Fatal(err)
	}
	return addr
}

// TestNobodySpeaksForTheBalancer: a visitor who is stopped is not brought here with a path by which the balancer asks;
// others may go to such a path of the service.
func TestNobodySpeaksForTheBalancer(t *testing.T) {
	f := func(edit func(c *CheckConfig), ask string, want map[string]int) {
		t.Helper()
		e := newCheckEnv(t, edit)
		banned := e.banned()
		for path, status := range want {
			question := func(from string) string {
				return strings.Replace(asked("GET", path, from), "GET /check ", "GET "+ask+" ", 1)
			}
			if res := e.send(question(banned)); res.StatusCode != status {
				t.Errorf("%s of who is stopped: %d, wanted %d", path, res.StatusCode, status)
			}
			if res := e.send(question("203.0.113.5")); res.StatusCode != 200 {
				t.Errorf("%s of a human: %d", path, res.StatusCode)
			}
		}
	}
	f(nil, "/check", map[string]int{
		"/check": 400, "/check?style=answer": 400, "/check?": 400, "/check/": 401,
		"/Check": 401, "/%63heck": 401, "/a?/check": 401,
	})
	f(func(c *CheckConfig) { c.Path = "/ask" }, "/ask",
		map[string]int{"/ask": 400, "/ask?style=verdict": 400, "/check": 401})
	f(func(c *CheckConfig) { c.Path = "/ask"; *c = c.ForSPOE() }, "/check", map[string]int{"/ask": 400, "/check": 401})
}

// TestNobodyReportsForTheBalancer: a visitor's query that the balancer hands on with its question makes no report of
// it.
func TestNobodyReportsForTheBalancer(t *testing.T) {
	e := newCheckEnv(t, nil)
	for uri, want := range map[string]int{"/a": 204, "/a?b=1": 204, "/a?style=answer": 400} {
		report := asked("GET", uri, "203.0.113.5", "X-Antirobot-Answer: 200 image/png\r\n")
		if res := e.send(strings.Replace(report, "GET /check ", "GET /check?style=answer ",
			1)); res.StatusCode != want {
			t.Errorf("%s: %d, wanted %d", uri, res.StatusCode, want)
		}
	}
}

// TestReportsTellCredentials: beside a balancer, which credentials a service honours is learnt from the answers that
// are reported.
func TestReportsTellCredentials(t *testing.T) {
	e := newCheckEnv(t, nil)
	const alice = "Authorization: Bearer of-alice\r\n"
	banned := e.banned()
	f := func(why string, want int) {
		t.Helper()
		if res := e.send(asked("GET", "/repo", banned, alice)); res.StatusCode != want {
			t.Errorf("%s: %d, wanted %d", why, res.StatusCode, want)
		}
	}
	report := func(from, answer string, fields ...string) {
		t.Helper()
		call := asked("GET", "/repo", from, append(fields, "X-Antirobot-Answer: "+answer+"\r\n")...)
		if res := e.send(strings.Replace(call, "GET /check ", "GET /check?style=answer ", 1)); res.StatusCode != 204 {
			t.Errorf("%s: %d", answer, res.StatusCode)
		}
	}
	f("nothing was reported", e.send(asked("GET", "/repo", banned)).StatusCode)
	report("203.0.113.5", "401 text/plain")
	report("203.0.113.6", "200 text/plain", alice)
	f("the service honours it", 200)
	if res := e.send(asked("GET", "/repo", banned)); res.StatusCode == 200 {
		t.Error("a stranger passes")
	}
}

// TestCheckAnswersFitSmallBuffers: the head of an answer that a balancer reads into a page of memory, and may take for
// no answer, is small whatever is asked for.
func TestCheckAnswersFitSmallBuffers(t *testing.T) {
	f := func(style, request string, status, least, most int) {
		t.Helper()
		e := newCheckEnv(t, func(c *CheckConfig) {
			if c.Style = style; style == "gRPC" {
				*c, _ = c.ForExtAuthz("@human", "/check")
			}
		})
		banned := e.banned()
		uri := "/a?" + strings.Repeat("%22", 2000)
		call := "GET " + uri + " HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: " + banned +
			"\r\nX-Forwarded-Proto: https\r\n" + chromeLines + "\r\n"
		if request != "" {
			call = strings.Replace(asked("GET", uri, banned), "GET /check ", "GET "+request+" ", 1)
		}
		res := e.send(call)
		if n := len(res.Header.Get("Location")); res.StatusCode != status || n < least || n > most {
			t.Errorf("%s %s: %d with a Location of %d bytes", style, request, res.StatusCode, n)
		}
	}
	f("verdict", "/check", 401, 1, 2<<10)
	f("full", "", 302, 1, 2<<10)
	f("verdict", "/check?style=forward", 302, 8<<10, 12<<10) // whoever relays answers has room for them
	f("verdict", "", 302, 8<<10, 12<<10)
	f("gRPC", "", 302, 8<<10, 12<<10)
}

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

// TestCheckOriginalIsWhatTheBalancerSays: whatever a client sends besides the set, the request is judged by what the
// set says, and lists and rules see none of the balancer's fields.
func TestCheckOriginalIsWhatTheBalancerSays(t *testing.T) {
	sets := []string{"forwarded", "original"}
	noise := []string{
		"X-Forwarded-Port", "X-Original-URL", "X-Original-Remote-Addr", "X-Real-Ip", "Forwarded", "x_forwarded_for",
		"X-Forwarded-Url", "Cookie",
		"X-Forwarded-Uri2", "X-Rewrite-Url", "User-Agent",
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(sets).Draw(t, "set")
		other := headerSetOf(sets[1-slices.Index(sets, name)])
		set := headerSetOf(name)
		path := "/" + rapid.StringMatching(`[a-z/]{0,8}(\?[a-z=&]{0,8})?`).Draw(t, "path")
		addr := rapid.SampledFrom([]string{"203.0.113.5", "2001:db8::5", "[2001:db8::5]:80", "203.0.113.5:1"}).
			Draw(t, "addr")
		fields := []request.Field{
			{Name: []byte("Host"), Value: []byte("antirobot")},
			{Name: []byte(set.method), Value: []byte("PUT")},
			{Name: []byte(strings.ToLower(set.host)), Value: []byte("Shop.Example:8443")},
			{Name: []byte(set.uri), Value: []byte(path)},
			{Name: []byte(strings.ToUpper(set.addr)), Value: []byte(addr)},
			{Name: []byte(set.proto), Value: []byte("https")},
		}
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			n := rapid.SampledFrom(append(noise, other.method, other.host, other.uri, other.addr, other.proto)).
				Draw(t, "name")
			fields = append(fields, request.Field{
				Name:  []byte(n),
				Value: []byte(rapid.SampledFrom([]string{"/evil", "198.51.100.1", "evil.example"}).Draw(t, "value")),
			})
		}
		fields = rapid.Permutation(fields).Draw(t, "order")

		var o original
		var v request.View
		if p := o.collect(fields, set, false); p != "" {
			t.Fatal(p)
		}
		if p := o.whence(&v, set); p != "" {
			t.Fatal(p)
		}
		if _, p := o.what(&v, set, nil); p != "" {
			t.Fatal(p)
		}
		v.Fields = o.fields(nil, fields, set, &v)
		want := netip.MustParseAddr("203.0.113.5")
		if strings.Contains(addr, "2001") {
			want = netip.MustParseAddr("2001:db8::5")
		}
		if string(v.Method) != "PUT" || string(v.Host) != "shop.example" || string(v.HostPort) != "Shop.Example:8443" ||
			string(v.Target) != path ||
			v.Peer != want || !v.TLS {
			t.Fatalf("got %s %s %s %s from %s tls %v", v.Method, v.Host, v.HostPort, v.Target, v.Peer, v.TLS)
		}
		if string(v.Get("Host")) != "Shop.Example:8443" {
			t.Fatalf("Host %s", v.Get("Host"))
		}
		for _, n := range []string{set.method, set.host, set.uri, set.addr, set.proto} {
			if v.Has(n) {
				t.Fatalf("%s is among the fields of the original request", n)
			}
		}
		// and a second one of any of the set is refused
		again := fields[slices.IndexFunc(fields, func(f request.Field) bool { return is(&f, set.uri) })]
		if p := o.collect(append(fields, again), set, false); p == "" {
			t.Fatalf("%s twice is believed", again.Name)
		}
	})
}

// FuzzCheckOriginal: no field makes the reader panic, and whatever it accepts could have been a direct request.
func FuzzCheckOriginal(f *testing.F) {
	f.Add("GET", "shop.example", "/a?b", "192.0.2.1", "https", false)
	f.Add("OPTIONS", "[::1]:80", "*", "1.2.3.4, [::1]:5", "http,wss", true)
	f.Add("GET /", "a@b", "//evil", ",", "", true)
	f.Fuzz(func(t *testing.T, method, host, uri, addr, proto string, last bool) {
		set := headerSetOf("forwarded")
		fields := []request.Field{
			{Name: []byte(set.method), Value: []byte(method)},
			{Name: []byte(set.host), Value: []byte(host)},
			{Name: []byte(set.uri), Value: []byte(uri)},
			{Name: []byte(set.addr), Value: []byte(addr)},
			{Name: []byte(set.proto), Value: []byte(proto)},
		}
		var o original
		var v request.View
		if o.collect(fields, set, last) != "" || o.whence(&v, set) != "" {
			return
		}
		if !v.Peer.IsValid() || v.Peer.Zone() != "" || v.Peer.Is4In6() {
			t.Errorf("accepted the address %v", v.Peer)
		}
		if _, problem := o.what(&v, set, nil); problem != "" {
			return
		}
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, uri, host)
		if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request))); err != nil {
			t.Errorf("accepted %q: %v", request, err)
		}
		if string(v.Path)+string(v.Query) != strings.Replace(uri, "?", "", 1) {
			t.Errorf("%q is read as %q and %q", uri, v.Path, v.Query)
		}
		o.fields(nil, fields, set, &v)
	})
}
