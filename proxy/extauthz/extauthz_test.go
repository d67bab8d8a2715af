package extauthz

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"antirobot/proxy/asktest"
	"antirobot/proxy/h1"
	"antirobot/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checker answers by the path that is asked about, and says what it saw in the answer's body.
type checker struct{ name string }

func (c checker) ServeExchange(x *h1.Exchange) {
	body, err := x.ReadBody(1 << 20)
	saw := fmt.Sprintf("%s %s %s %q %v", c.name, x.View.Method, x.View.Target, body, err)
	for _, f := range x.View.Fields {
		saw += fmt.Sprintf(" %s=%s", f.Name, f.Value)
	}
	field := func(name, value string) request.Field {
		return request.Field{Name: []byte(name), Value: []byte(value)}
	}
	switch path := strings.TrimPrefix(string(x.View.Path), BarePath); path {
	case "/down":
		_ = x.Reply(503, nil, nil)
	case "/panic":
		panic("a test")
	case "/picture":
		_ = x.Reply(200, nil, []byte("\x89PNG"))
	case "/human":
		_ = x.Reply(200, []request.Field{
			field("X-Accel-Redirect", Human), field("Set-Cookie", "i=1"),
			field("X-Antirobot-Mark", "a"), field("X-Antirobot-Mark", "b"),
		}, nil)
	case "/plain":
		_ = x.Reply(200, []request.Field{field("X-Accel-Redirect", Human)}, nil)
	default:
		_ = x.Reply(403, []request.Field{
			field("Set-Cookie", "a=1"), field("Set-Cookie", "b=2"),
			field("Content-Type", "text/plain"),
		}, []byte(saw))
	}
}

// serve runs a server and returns what asks it.
func serve(t testing.TB, trusted bool) *caller {
	t.Helper()
	set := metrics.NewSet()
	s := New(Deps{
		Whole: asktest.Front(t, checker{"whole"}, set), Bare: asktest.Front(t, checker{"bare"}, set),
		Trusted: asktest.Trusts(trusted), SecretField: "X-Secret", Log: zerolog.Nop(), Metrics: set,
	})
	c := &caller{t: t, base: "http://" + asktest.Serve(t, s), s: s}
	c.Transport = &http.Transport{Protocols: new(http.Protocols)}
	c.Transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// caller calls as a gRPC client does. (tools/envoy is a real one, which e2e/TestCheckBalancers runs.)
type caller struct {
	*http.Transport
	t    testing.TB
	base string
	s    *Server
}

// framed is a message as it stands in a call.
func framed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// call returns the code of a call, and the answer's message.
func (c *caller) call(path string, body []byte, header ...string) (code string, message []byte) {
	c.t.Helper()
	req, err := http.NewRequest("POST", c.base+path, strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc+proto")
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := c.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	message, err = io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if code = res.Trailer.Get("Grpc-Status"); code == "" {
		code = res.Header.Get("Grpc-Status")
	}
	if len(message) >= prefix {
		message = message[prefix:]
	}
	return code, message
}

// asking makes a CheckRequest; header is names and values.
func asking(method, path, body string, size int64, mapped bool, header ...string) []byte {
	var h []byte
	h = appendMessage(h, httpMethod, []byte(method))
	h = appendMessage(h, httpPath, []byte(path))
	h = appendMessage(h, httpHost, []byte("example.com"))
	h = appendNumber(h, httpSize, uint64(size))
	var fields []byte
	for i := 0; i < len(header); i += 2 {
		pair := appendMessage(nil, headerKey, []byte(header[i]))
		if mapped {
			fields = appendMessage(fields, mapHeaders, appendMessage(pair, headerRaw, []byte(header[i+1])))
		} else {
			h = appendMessage(h, httpHeaders, appendMessage(pair, headerValue, []byte(header[i+1])))
		}
	}
	if mapped {
		h = appendMessage(h, httpHeaderMap, fields)
	}
	if body != "" {
		h = appendMessage(h, httpRawBody, []byte(body))
	}
	return appendMessage(nil, checkAttributes, appendMessage(nil, attributesRequest,
		appendMessage(nil, requestHTTP, h)))
}

// TestQuestions: what the check is asked, and what Envoy is answered.
func TestQuestions(t *testing.T) {
	c := serve(t, true)
	f := func(question []byte, want ...string) {
		t.Helper()
		code, m := c.call(method, framed(question))
		for _, w := range want {
			if code != "0" || !strings.Contains(string(m), w) {
				t.Errorf("code %s, %q, wanted %q", code, m, w)
			}
		}
	}
	const whole = "x-envoy-auth-partial-body"
	f(asking("GET", "/a?b=1", "", -1, true, ":path", "/a", "cookie", "c=1", "x-envoy-external-address", "1.2.3.4",
		"connection", "close", "x-request-id", "1"),
		`whole GET /a?b=1 "" <nil> host=example.com cookie=c=1`)
	f(asking("GET", "/a", "", -1, false, "user-agent", "x"), `whole GET /a "" <nil> host=example.com user-agent=x`)
	f(asking("POST", "/a", "x=y", 3, true, whole, "false", "content-length", "3"),
		`whole POST /a "x=y" <nil> host=example.com content-length=3`)
	f(asking("POST", "/a", "x=y", 30, true, whole, "true", "content-length", "30"),
		`bare POST /check/a "" <nil> host=example.com`)
	// a length that is a visitor's
	f(asking("POST", "/a", "x=y", 3, true, whole, "false", "content-length", "30"), `bare POST /check/a`)
	// Envoy was not told to send bodies
	f(asking("POST", "/a", "", -1, true), `bare POST /check/a`)
	f(asking("GET", "/a b", "", -1, true), string(appendNumber(nil, statusCode, 400)))
	f(asking("GET", "/picture", "", -1, true), "must send it to the gateway",
		string(appendNumber(nil, statusCode, 421)))
	f(asking("GET", "/human", "", -1, true), string(appendOption(nil, okResponse, []byte("set-cookie"), []byte("i=1"),
		true)),
		string(appendOption(nil, okHeaders, []byte("x-antirobot-mark"), []byte("a"), false)),
		string(appendOption(nil, okHeaders, []byte("x-antirobot-mark"), []byte("b"), true)))
	f(asking("GET", "/plain", "", -1, true), string(appendMessage(nil, okRemove, []byte(nameMark))),
		string(appendMessage(nil, okRemove, []byte("x-antirobot-passed"))))
	// 200 of a bare check is a yes
	f(asking("PUT", "/picture", "", 5, true), string(appendMessage(nil, okRemove, []byte(nameMark))))
	f(asking("GET", "/a", "", -1, true), string(appendOption(nil, deniedHeaders, []byte("set-cookie"), []byte("b=2"),
		true)),
		string(appendOption(nil, deniedHeaders, []byte("content-type"), []byte("text/plain"), false)))
}

// TestRefused: what is no question of somebody who may ask ends with an error, and leaves nothing behind.
func TestRefused(t *testing.T) {
	c := serve(t, true)
	good := asking("GET", "/human", "", -1, true)
	f := func(c *caller, want, path string, body []byte, header ...string) {
		t.Helper()
		if code, m := c.call(path, body, header...); code != want || want != "0" && len(m) > 0 {
			t.Errorf("code %s with %q, wanted %s", code, m, want)
		}
	}
	f(c, "12", "/envoy.service.auth.v2.Authorization/Check", framed(good))
	f(c, "12", method, append([]byte{1}, framed(good)[1:]...))
	f(c, "3", method, nil)
	f(c, "3", method, framed(good)[:20])
	f(c, "3", method, framed([]byte("no message")))
	f(c, "8", method, binary.BigEndian.AppendUint32([]byte{0}, maxMessage+1))
	f(c, "14", method, framed(asking("GET", "/down", "", -1, true)))
	f(c, "14", method, framed(asking("GET", "/panic", "", -1, true)))
	many := make([]string, 0, 2000)
	for range 1000 {
		many = append(many, "a", "b")
	}
	// so many fields are a visitor's doing, and no error of the call, which Envoy may be told to let pass
	for _, mapped := range []bool{false, true} {
		code, m := c.call(method, framed(asking("GET", "/human", "", -1, mapped, many...)))
		if denied := string(appendMessage(nil, deniedStatus, appendNumber(nil, statusCode, 431))); code != "0" ||
			!strings.Contains(string(m), denied) {
			t.Errorf("many fields: code %s, %q", code, m)
		}
	}
	f(c, "0", method, framed(good))
	if n := c.s.held.Load(); n != 0 {
		t.Errorf("%d bytes are held for good", n)
	}

	stranger := serve(t, false)
	f(stranger, "7", method, framed(good))
	f(stranger, "7", method, framed(good), "X-Secret", "a", "X-Secret", "b")
	f(stranger, "0", method, framed(good), "X-Secret", "the check compares it")
	_, m := stranger.call(method, framed(asking("GET", "/a", "", -1, true, "x-secret", "the visitor's")), "X-Secret",
		"envoy's")
	if s := string(m); !strings.Contains(s, "x-secret=envoy's") || strings.Contains(s, "visitor") {
		t.Errorf("the check is told %q", s)
	}
}

// FuzzQuestion: whatever comes, the answer is one that Envoy can read, and a human is only who the check says is one.
func FuzzQuestion(f *testing.F) {
	f.Add(asking("GET", "/human", "", -1, true, "cookie", "a=b"))
	f.Add(asking("POST", "/a", "x=y", 3, false, "x-envoy-auth-partial-body", "false", "content-length", "3"))
	c := serve(f, true)
	k := newCall(&c.s.deps)
	f.Fuzz(func(t *testing.T, p []byte) {
		if !k.q.read(p, 100) {
			return
		}
		status := k.ask(netip.MustParseAddr("127.0.0.1"), request.Field{})
		answer := k.appendAnswer(nil, status)
		var ok, denied bool
		if !each(answer, func(num protowire.Number, text []byte, _ uint64) bool {
			ok, denied = ok || num == answerOK, denied || num == answerDenied
			return text != nil
		}) || ok == denied {
			t.Fatalf("%q is answered %q", p, answer)
		}
		if path := string(k.q.path); ok && k.status != 200 {
			t.Errorf("%q is let through after %d", path, k.status)
		}
	})
}
