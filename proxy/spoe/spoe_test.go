package spoe

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/proxy/asktest"
	"antirobot/proxy/h1"
	"antirobot/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checker answers by the path that is asked about, and says what it saw.
type checker struct{ saw string }

func (c *checker) ServeExchange(x *h1.Exchange) {
	fields := []request.Field{{Name: []byte("X-Request-Id"), Value: []byte("ID")}}
	uri := ""
	c.saw = fmt.Sprintf("%s %s", x.View.Method, x.View.Target)
	for _, f := range x.View.Fields {
		c.saw += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		if string(f.Name) == "x-forwarded-uri" {
			uri = string(f.Value)
		}
	}
	status := map[string]int{"/stop": 401, "/block": 403, "/error": 503}[uri]
	if status == 0 {
		status = 200
		fields = append(fields, request.Field{Name: []byte("Set-Cookie"), Value: []byte("i=1")},
			request.Field{Name: []byte("X-Antirobot-Mark"), Value: []byte("a")},
			request.Field{Name: []byte("X-Antirobot-Mark"), Value: []byte("b")})
	}
	if uri == "/panic" {
		panic("a test")
	}
	_ = x.Reply(status, fields, []byte("no balancer reads this"))
}

// serve runs a server and returns where, and what asks.
func serve(t *testing.T, trusted bool) (string, *checker) {
	t.Helper()
	c := new(checker)
	set := metrics.NewSet()
	front := asktest.Front(t, c, set)
	return asktest.Serve(t, New(Deps{
		Front: front, Trusted: asktest.Trusts(trusted), Log: zerolog.Nop(),
		Metrics: set,
	})), c
}

// haproxy is HAProxy's end of a connection.
type haproxy struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *haproxy {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(asktest.Patience))
	return &haproxy{t, nc, bufio.NewReader(nc)}
}

func (h *haproxy) say(kind byte, stream, id uint64, payload []byte) {
	h.t.Helper()
	if _, err := h.Write(appendFrame(nil, kind, stream, id,
		func(dst []byte) []byte { return append(dst, payload...) })); err != nil {
		h.t.Fatal(err)
	}
}

// hear returns the next frame, or nothing at the end.
func (h *haproxy) hear() (frame, bool) {
	f, _, err := readFrame(h.r, nil, maxFrame)
	return f, err == nil
}

func hello(versions string, size uint64, probe bool) []byte {
	p := appendUint32(appendString(nil, "supported-versions", []byte(versions)), "max-frame-size", size)
	p = appendString(p, "capabilities", []byte("pipelining,async"))
	flag := byte(typeBool)
	if probe {
		flag |= trueFlag
	}
	return append(appendText(p, []byte("healthcheck")), flag)
}

// notify is what HAProxy says of a request.
func notify(uri string, headers ...string) []byte {
	p := append(appendText(nil, []byte("check")), 6)
	p = appendString(appendString(appendString(p, "method", []byte("GET")), "uri", []byte(uri)), "host",
		[]byte("shop.example"))
	var h []byte
	for _, s := range headers {
		h = appendText(h, []byte(s))
	}
	h = append(h, 0, 0)
	p = appendText(append(appendText(p, []byte("headers")), typeBinary), h)
	p = append(append(appendText(p, []byte("src")), typeIPv4), 203, 0, 113, 7)
	return append(appendText(p, []byte("ssl")), typeBool|trueFlag)
}

// variables reads an answer.
func variables(t *testing.T, f frame) map[string]string {
	t.Helper()
	vars := map[string]string{}
	d := decoder{p: f.payload}
	for len(d.p) > 0 {
		if d.byte() != 1 || d.byte() != 3 || d.byte() != 2 {
			t.Fatal("an action is not: set a variable of the transaction")
		}
		name, v := d.text(), d.value()
		vars[string(name)] = string(v.text)
	}
	if d.bad {
		t.Fatal("an answer is broken")
	}
	return vars
}

// TestConversation asks about requests as HAProxy does.
func TestConversation(t *testing.T) {
	addr, c := serve(t, true)
	h := dial(t, addr)
	h.say(helloFrame, 0, 0, hello("2.0", 16380, false))
	if f, ok := h.hear(); !ok || f.kind != ourHelloFrame || !bytes.Contains(f.payload, []byte("version")) {
		t.Fatalf("hello is answered with %+v", f)
	}
	ask := func(uri string, headers ...string) string {
		t.Helper()
		h.say(notifyFrame, 300, 1<<20, notify(uri, headers...))
		f, ok := h.hear()
		if !ok || f.kind != ackFrame || f.stream != 300 || f.id != 1<<20 {
			t.Fatalf("%s is answered with %+v", uri, f)
		}
		v := variables(t, f)
		return strings.Join([]string{v["verdict"], v["cookie"], v["mark"], v["id"]}, " ")
	}
	if got := ask("/a?b=1", "User-Agent", "x", "X-Forwarded-For", "192.0.2.1", "x-forwarded-uri", "/evil", "Connection",
		"close", "cookie", " a=b "); got != "human i=1 a, b ID" {
		t.Errorf("a human: %q", got)
	}
	const want = "GET /check host=spoe x-forwarded-method=GET x-forwarded-host=shop.example x-forwarded-uri=/a?b=1 " +
		"x-forwarded-for=203.0.113.7 x-forwarded-proto=https user-agent=x cookie=a=b"
	if c.saw != want {
		t.Errorf("the check saw\n%s, not\n%s", c.saw, want)
	}
	for uri, want := range map[string]string{
		"/stop": "stop   ID", "/block": "stop   ID", "/error": "down   ID",
		"/panic": "down   ", "/bad name": "human i=1 a, b ID",
	} {
		if got := ask(uri); got != want {
			t.Errorf("%s: %q, not %q", uri, got, want)
		}
	}
	if got := ask("/a", "bad name", "x"); got != "down   " {
		t.Errorf("a broken field: %q", got)
	}
	h.say(goodbyeFrame, 0, 0, appendUint32(nil, "status-code", 0))
	if f, ok := h.hear(); !ok || f.kind != ourGoodbyeFrame {
		t.Errorf("goodbye is answered with %+v", f)
	}
	if _, ok := h.hear(); ok {
		t.Error("after goodbye the connection goes on")
	}
}

// TestRefused: what is not HAProxy's protocol ends a connection, and a stranger is not answered.
func TestRefused(t *testing.T) {
	addr, _ := serve(t, true)
	f := func(name string, say func(h *haproxy), last byte) {
		t.Helper()
		h := dial(t, addr)
		say(h)
		kind := byte(0)
		for {
			f, ok := h.hear()
			if !ok {
				break
			}
			kind = f.kind
		}
		if kind != last {
			t.Errorf("%s: the last frame is of kind %d, not %d", name, kind, last)
		}
	}
	greet := func(h *haproxy) { h.say(helloFrame, 0, 0, hello("2.0", 1000, false)) }
	f("a probe", func(h *haproxy) { h.say(helloFrame, 0, 0, hello("2.0", 16380, true)) }, ourHelloFrame)
	f("another version", func(h *haproxy) { h.say(helloFrame, 0, 0, hello("1.0", 16380, false)) }, 0)
	f("HTTP", func(h *haproxy) { fmt.Fprint(h, "GET / HTTP/1.1\r\n\r\n") }, ourGoodbyeFrame)
	f("no hello", func(h *haproxy) { h.say(notifyFrame, 0, 0, notify("/a")) }, ourGoodbyeFrame)
	f("half a message", func(h *haproxy) { greet(h); h.say(notifyFrame, 0, 0, notify("/a")[:20]) }, ourGoodbyeFrame)
	f("longer than agreed", func(h *haproxy) {
		greet(h)
		h.say(notifyFrame, 0, 0,
			notify("/"+strings.Repeat("a", 1000)))
	}, ourGoodbyeFrame)

	stranger, _ := serve(t, false)
	h := dial(t, stranger)
	if f, ok := h.hear(); ok {
		t.Errorf("a stranger got %+v", f)
	}
}

// FuzzFrames: whatever arrives is read without a panic, and what is written is read back.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(nil, notifyFrame, 1, 2, func(dst []byte) []byte {
		return append(dst,
			notify("/a", "a", "b")...)
	})[4:], uint64(239))
	f.Add(appendFrame(nil, helloFrame, 0, 0, func(dst []byte) []byte {
		return append(dst,
			hello("2.0", 16380, true)...)
	})[4:], uint64(1)<<62)
	f.Add([]byte{notifyFrame, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, uint64(2287))
	f.Fuzz(func(t *testing.T, data []byte, n uint64) {
		n &= 1<<62 - 1
		if d := (decoder{p: appendNumber(nil, n)}); d.number() != n || d.bad || len(d.p) > 0 {
			t.Fatalf("%d is not read back", n)
		}
		fr, err := parseFrame(data)
		if err != nil {
			return
		}
		var m message
		m.read(fr.payload)
		k := new(call)
		k.addHeaders(m.headers)
		again := appendFrame(nil, fr.kind, fr.stream, fr.id,
			func(dst []byte) []byte { return append(dst, fr.payload...) })
		back, err := parseFrame(again[4:])
		if err != nil || back.kind != fr.kind || back.stream != fr.stream || back.id != fr.id ||
			!bytes.Equal(back.payload, fr.payload) {
			t.Fatalf("%+v is read back as %+v: %v", fr, back, err)
		}
	})
}
