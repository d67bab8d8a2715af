package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
	"antirobot/verdict"
)

// fragile is a Decider that panics over /panic, and remembers what it was asked about.
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
	logs   *bytes.Buffer
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
	e := &checkEnv{t: t, events: make(heard, 64), access: make(written, 64), logs: new(bytes.Buffer), set: metrics.NewSet()}
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	must(err)
	kv := store.NewMemory(time.Now)
	lists, err := cbb.New(cbb.DefaultConfig(), cbb.Deps{KV: kv, Feed: kv, Dir: t.TempDir(), Log: zerolog.Nop()})
	must(err)
	e.cacher, err = verdict.New(verdict.DefaultConfig(), verdict.Deps{Store: kv, Lists: lists, Log: zerolog.Nop(), Metrics: e.set})
	must(err)
	must(e.cacher.Start(context.Background()))
	resolver, err := identity.New(identity.DefaultConfig(), identity.Deps{Keys: spravka.NewKeys(ring)})
	must(err)
	pages, err := templates.New(nil)
	must(err)
	c, err := captcha.New(captcha.DefaultConfig(), captcha.Deps{Keys: spravka.NewKeys(ring), Store: kv, Log: zerolog.Nop()})
	must(err)
	who, err := identity.NewCookieSettings(identity.DefaultServiceConfig())
	must(err)
	own, err := captcha.NewSettings("shop", captcha.DefaultServiceConfig(), who, func(string) bool { return true }, pages)
	must(err)
	vc := verdict.DefaultServiceConfig()
	judged, err := vc.Settings("shop", 0)
	must(err)
	router, err := NewRouter([]*Service{{
		Name: "shop", Hosts: []string{"shop.example"}, Verdict: judged, Identity: who, Captcha: own, Config: DefaultServiceConfig(),
	}})
	must(err)
	var access *zerolog.Logger
	if _, measured := t.(*testing.B); !measured { // the benchmark is of checks, not of lines
		l := zerolog.New(e.access)
		access = &l
	}
	g, err := New(&Snapshot{Router: router, Captcha: c}, Deps{
		Resolver: resolver, Decider: fragile{e.cacher}, Sink: e.events, Log: zerolog.New(e.logs), Access: access, Metrics: e.set,
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
	go func() { _ = server.Serve(ln, h1.ListenerOptions{Trusted: e.check.Trusts}); close(served) }()
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
	return "GET /check HTTP/1.1\r\nHost: antirobot\r\nX-Forwarded-Method: " + method + "\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: " + uri +
		"\r\nX-Forwarded-For: " + addr + "\r\nX-Forwarded-Proto: https\r\n" + strings.Join(more, "") + "\r\n"
}

// TestCheckSurvivesAPanic: a check that fails by a fault of ours gets the policy's answer and the server goes on; the
// requests of others are served as before.
func TestCheckSurvivesAPanic(t *testing.T) {
	for policy, want := range map[string]int{"closed": 503, "open": 200} {
		e := newCheckEnv(t, func(c *CheckConfig) { c.OnError = policy })
		for range 3 {
			res := e.send(asked("GET", "/panic", "203.0.113.5"))
			if res.StatusCode != want || res.Header.Get("X-Antirobot-Reason") != "error" {
				t.Errorf("%s: %d, reason %q", policy, res.StatusCode, res.Header.Get("X-Antirobot-Reason"))
			}
		}
		if res := e.send(asked("GET", "/", "203.0.113.5")); res.StatusCode != 200 || res.Header.Get("X-Antirobot-Reason") != "none" {
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
	res := e.send("GET /panic HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.5\r\nX-Forwarded-Proto: http\r\n\r\n")
	if res.StatusCode != 500 {
		t.Errorf("style full: %d, wanted 500, which nginx can pass on by error_page", res.StatusCode)
	}
}

// TestCheckEvent: a check is an event without facts of an answer that is given elsewhere; a challenge call after it is
// none.
func TestCheckEvent(t *testing.T) {
	e := newCheckEnv(t, nil)
	if err := e.cacher.Ban(context.Background(), verdict.Ban{
		Subject: identity.AddrSubject(netip.MustParseAddr("203.0.113.66")), Until: time.Now().Add(time.Hour), Reason: "test",
	}); err != nil {
		t.Fatal(err)
	}
	want := func(v verdict.Verdict, kind verdict.EventKind) {
		t.Helper()
		select {
		case got := <-e.events:
			if got.Verdict != v || got.Kind != kind || kind == verdict.EventRequest && (got.Status != 0 || got.BytesOut != 0 || got.Took != 0 || got.Document || !got.Advised || !got.Page) {
				t.Errorf("event %+v, wanted %s of kind %d without facts", got, v, kind)
			}
			if addr := got.Subjects[got.N-1]; addr == identity.AddrSubject(netip.MustParseAddr("127.0.0.1")) {
				t.Error("the balancer is charged")
			}
		case <-time.After(5 * time.Second):
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
	const challenge = " /a HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.66\r\nX-Forwarded-Proto: http\r\n"
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

// TestCheckReload: rules that are swapped hold for the next call.
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

// TestCheckLogsItsAnswer: the access line has the status and the length of what the balancer was sent, in each style, and
// the event says that nothing is known of the service's answer.
func TestCheckLogsItsAnswer(t *testing.T) {
	for _, style := range []string{"verdict", "forward"} {
		e := newCheckEnv(t, nil)
		if err := e.cacher.Ban(t.Context(), verdict.Ban{
			Subject: identity.AddrSubject(netip.MustParseAddr("203.0.113.5")), Until: time.Now().Add(time.Hour), Score: 1, Reason: "test",
		}); err != nil {
			t.Fatal(err)
		}
		res := e.send(strings.Replace(asked("GET", "/api", "203.0.113.5", "X-Requested-With: XMLHttpRequest\r\n"), "/check", "/check?style="+style, 1))
		body, err := io.ReadAll(res.Body)
		if err != nil || style == "forward" && len(body) == 0 {
			t.Fatalf("%s: %d with %q, %v", style, res.StatusCode, body, err)
		}
		if line, want := <-e.access, fmt.Sprintf(`"status":%d,"bytes_in":0,"bytes_out":%d,`, res.StatusCode, len(body)); !strings.Contains(line, want) {
			t.Errorf("%s: no %s in %s", style, want, line)
		}
		if ev := <-e.events; !ev.Advised || ev.Status != 0 {
			t.Errorf("%s: the event knows of an answer: %+v", style, ev)
		}
	}
}

// TestCheckOriginalIsWhatTheBalancerSays: whatever a client sends beside the set, what is judged is what the set says,
// and lists and rules see none of the balancer's fields.
func TestCheckOriginalIsWhatTheBalancerSays(t *testing.T) {
	sets := []string{"forwarded", "original"}
	noise := []string{
		"X-Forwarded-Port", "X-Original-URL", "X-Original-Remote-Addr", "X-Real-Ip", "Forwarded", "x_forwarded_for", "X-Forwarded-Url", "Cookie",
		"X-Forwarded-Uri2", "X-Rewrite-Url", "User-Agent",
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(sets).Draw(t, "set")
		other := headerSetOf(sets[1-slices.Index(sets, name)])
		set := headerSetOf(name)
		path := "/" + rapid.StringMatching(`[a-z/]{0,8}(\?[a-z=&]{0,8})?`).Draw(t, "path")
		addr := rapid.SampledFrom([]string{"203.0.113.5", "2001:db8::5", "[2001:db8::5]:80", "203.0.113.5:1"}).Draw(t, "addr")
		fields := []request.Field{
			{Name: []byte("Host"), Value: []byte("antirobot")},
			{Name: []byte(set.method), Value: []byte("PUT")},
			{Name: []byte(strings.ToLower(set.host)), Value: []byte("Shop.Example:8443")},
			{Name: []byte(set.uri), Value: []byte(path)},
			{Name: []byte(strings.ToUpper(set.addr)), Value: []byte(addr)},
			{Name: []byte(set.proto), Value: []byte("https")},
		}
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			n := rapid.SampledFrom(append(noise, other.method, other.host, other.uri, other.addr, other.proto)).Draw(t, "name")
			fields = append(fields, request.Field{Name: []byte(n), Value: []byte(rapid.SampledFrom([]string{"/evil", "198.51.100.1", "evil.example"}).Draw(t, "value"))})
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
		v.Fields = o.fields(nil, fields, set, "X-Antirobot-Secret", &v)
		want := netip.MustParseAddr("203.0.113.5")
		if strings.Contains(addr, "2001") {
			want = netip.MustParseAddr("2001:db8::5")
		}
		if string(v.Method) != "PUT" || string(v.Host) != "shop.example" || string(v.HostPort) != "Shop.Example:8443" || string(v.Target) != path ||
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

func TestCheckHops(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got := ""
		if a, ok := parseHop([]byte(in)); ok {
			got = a.String()
		}
		if got != want {
			t.Errorf("%q: %q, wanted %q", in, got, want)
		}
	}
	f("192.0.2.1", "192.0.2.1")
	f(" 192.0.2.1\t", "192.0.2.1")
	f("192.0.2.1:80", "192.0.2.1")
	f("::ffff:192.0.2.1", "192.0.2.1")
	f("2001:db8::1", "2001:db8::1")
	f("[2001:db8::1]", "2001:db8::1")
	f("[2001:db8::1]:443", "2001:db8::1")
	f("fe80::1%eth0", "")
	f("unknown", "")
	f("unix:", "")
	f("192.0.2.1, 192.0.2.2", "")
	f("", "")
	f("[]", "")
	f(strings.Repeat("1", 100), "")
}

// FuzzCheckOriginal: no field makes the reader panic, and what it accepts is what a request of our own could have been.
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
		o.fields(nil, fields, set, "X", &v)
	})
}

// TestCheckAllowedMapped: an IPv4 network that is written as IPv6 is the IPv4 network.
func TestCheckAllowedMapped(t *testing.T) {
	c := DefaultCheckConfig()
	c.Allowed = []string{"::ffff:10.1.2.3", "::ffff:192.168.0.0/112"}
	r, err := NewCheckRules(c)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.1.2.4": false, "192.168.7.7": true, "192.169.0.1": false} {
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
		Listen: []string{"9091", "127.0.0.1:nine"}, Style: "both", Path: "check", Headers: "all", Allowed: []string{"10.0.0.0/33"}, SecretHeader: "a b",
		Secret: "short", SecretFile: "x", AccelLocation: "@a\r\nX: y", OnError: "maybe",
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{
		"listen[0]: ", "listen[1]: ", "style: ", "path: ", "headers: ", "allowed[0]: ", "secret_header: ", "secret: ", "secret_file: ", "accel_location: ", "on_error: ",
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

// BenchmarkCheck is one check over a kept connection, client included: what a balancer waits for.
func BenchmarkCheck(b *testing.B) {
	e := newCheckEnv(b, nil)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request := []byte(asked("GET", "/a?b=1", "203.0.113.5", "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n", "Accept: */*\r\n"))
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
