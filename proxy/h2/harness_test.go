package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// front is a gateway's transport with a handler: by default one that forwards everything.
type front struct {
	addr string
	set  *metrics.Set
	h1   *h1.Server
	h2   *Server
}

type handlerFunc func(x *h1.Exchange)

func (f handlerFunc) ServeExchange(x *h1.Exchange) { f(x) }

type setup struct {
	h1      func(*h1.Config)
	h2      func(*Config)
	tls     *tls.Config
	service func(*upstream.Config)
	handler func(x *h1.Exchange, forward func())
}

// service is net/http's server, an HTTP implementation independent of h1's scripted test services.
func service(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func newFront(t *testing.T, serviceURL string, o setup) *front {
	t.Helper()
	cfg, cfg2 := h1.DefaultConfig(), DefaultConfig()
	if o.h1 != nil {
		o.h1(&cfg)
	}
	if o.h2 != nil {
		o.h2(&cfg2)
	}
	f := &front{set: metrics.NewSet()}
	ucfg := upstream.DefaultConfig()
	ucfg.URLs = []string{serviceURL}
	if o.service != nil {
		o.service(&ucfg)
	}
	g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: f.set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	handler := handlerFunc(func(x *h1.Exchange) {
		forward := func() {
			_, err := x.Forward(g, &h1.ForwardOptions{SetFields: []request.Field{{
				Name:  []byte("X-Real-IP"),
				Value: x.View.Peer.AppendTo(nil),
			}}})
			if status := h1.Status(err); err != nil && status != 0 && !x.Answered() {
				_ = x.Reply(status, nil, nil)
			}
		}
		if o.handler != nil {
			o.handler(x, forward)
			return
		}
		forward()
	})
	if f.h1, err = h1.NewServer(cfg, h1.Deps{Handler: handler, Log: zerolog.Nop(), Metrics: f.set}); err != nil {
		t.Fatal(err)
	}
	if f.h2, err = New(cfg2, Deps{Front: f.h1, Metrics: f.set}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- f.h1.Serve(l, h1.ListenerOptions{TLS: o.tls, HTTP2: f.h2, H2C: o.tls == nil}) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = f.h1.Shutdown(ctx)
		if err := <-ended; !errors.Is(err, h1.ErrServerClosed) {
			t.Error(err)
		}
		_ = g.Close()
	})
	return f
}

func (f *front) metric(name string) string {
	var b bytes.Buffer
	f.set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// metricOf is the value of the first metric of a name, whatever its labels.
func (f *front) metricOf(name string) string {
	var b bytes.Buffer
	f.set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, name+"{") {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		}
	}
	return ""
}

// awaitMetric waits for a state, however long it takes.
func (f *front) awaitMetric(t *testing.T, name, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); f.metric(name) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %s, not %s", name, f.metric(name), want)
		}
	}
}

// client is net/http's, on one connection.
func client(t *testing.T, f *front) *http.Client {
	t.Helper()
	tr := &http.Transport{
		DisableCompression: true, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, f.addr)
		},
	}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

func fetch(t *testing.T, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func newRequest(t *testing.T, method, path string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, "http://site.example"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// raw speaks frames.
type raw struct {
	t *testing.T
	net.Conn
	*http2.Framer
	enc  *hpack.Encoder
	buf  bytes.Buffer
	next uint32
}

func dialRaw(t *testing.T, f *front, settings ...http2.Setting) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	r := &raw{t: t, Conn: nc, Framer: http2.NewFramer(nc, nc), next: 1}
	r.enc = hpack.NewEncoder(&r.buf)
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.AllowIllegalWrites = true
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return r
}

// get is the fields of a plain request.
var get = []string{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/"}

// block encodes fields, which are names and values in turn.
func (r *raw) block(fields ...string) []byte {
	r.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(r.buf.Bytes())
}

// open begins a stream and returns its number.
func (r *raw) open(ended bool, fields ...string) uint32 {
	id := r.next
	r.next += 2
	_ = r.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: r.block(fields...), EndStream: ended,
		EndHeaders: true,
	})
	return id
}

// outcome reads until a stream has its answer or ends: it returns the status, the code of its reset, or that the
// connection has ended.
func (r *raw) outcome(id uint32) (status string, code http2.ErrCode, gone bool) {
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return "", 0, true
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				return f.PseudoValue("status"), 0, false
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return "", f.ErrCode, false
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = r.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "", f.ErrCode, true
			}
		}
	}
}

// calmed reads until the gateway ends the connection because it costs too much.
func (r *raw) calmed() bool {
	for {
		f, err := r.ReadFrame()
		if away, ok := f.(*http2.GoAwayFrame); ok && err == nil {
			return away.ErrCode == http2.ErrCodeEnhanceYourCalm
		}
		if err != nil {
			return false
		}
	}
}

// ends reads until the connection ends.
func (r *raw) ends() bool {
	for {
		if _, err := r.ReadFrame(); err != nil {
			var ne net.Error
			return !errors.As(err, &ne) || !ne.Timeout()
		}
	}
}
