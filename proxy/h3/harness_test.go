package h3

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must come.
const patience = 60 * time.Second

type handlerFunc func(x *h1.Exchange)

func (f handlerFunc) ServeExchange(x *h1.Exchange) { f(x) }

// front is a server with a handler of the test's.
type front struct {
	addr  *net.UDPAddr
	set   *metrics.Set
	h3    *Server
	ended chan error // what Serve returned
}

type setup struct {
	h1      func(*h1.Config)
	h3      func(*Config)
	clients *h1.ClientCAs
	handler handlerFunc
}

// certificate makes one for a host; it is its own authority.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}, IsCA: true,
		BasicConstraintsValid: true,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newFront(t *testing.T, o setup) *front {
	t.Helper()
	cfg, cfg3 := h1.DefaultConfig(), DefaultConfig()
	if o.h1 != nil {
		o.h1(&cfg)
	}
	if o.h3 != nil {
		o.h3(&cfg3)
	}
	f := &front{set: metrics.NewSet(), ended: make(chan error, 1)}
	h, err := h1.NewServer(cfg, h1.Deps{Handler: o.handler, Log: zerolog.Nop(), Metrics: f.set})
	if err != nil {
		t.Fatal(err)
	}
	if f.h3, err = New(cfg3, Deps{Front: h, Metrics: f.set}); err != nil {
		t.Fatal(err)
	}
	own := new(hello.Certificates).WithOthers(func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := certificate(t, "site.example")
		return &c, nil
	}).Config()
	if o.clients != nil {
		o.clients.Apply(own, "")
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = pc.LocalAddr().(*net.UDPAddr)
	go func() { f.ended <- f.h3.Serve(pc, Options{TLS: TLS(own), AltSvc: []byte(`h3=":443"`)}) }()
	t.Cleanup(func() {
		_ = f.h3.Close()
		if err := <-f.ended; !errors.Is(err, h1.ErrServerClosed) {
			t.Error(err)
		}
		f.await(t, "antirobot_http_open_connections", "0")
		f.await(t, "antirobot_http3_open_handshakes", "0")
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

// await waits for a state, however long it takes.
func (f *front) await(t *testing.T, name, want string) {
	t.Helper()
	for end := time.Now().Add(patience); f.metric(name) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %s, not %s", name, f.metric(name), want)
		}
	}
}

// client is one connection.
type client struct {
	*quic.Conn
	http *http3.ClientConn
}

// trusting is what clients are configured with.
func trusting() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "site.example", NextProtos: []string{http3.NextProtoH3}}
}

// dial opens a connection; cfg nil: trusting.
func (f *front) dial(t *testing.T, cfg *tls.Config) (*client, error) {
	t.Helper()
	qc, err := f.dialQUIC(t, cfg)
	if err != nil {
		return nil, err
	}
	return &client{qc, (&http3.Transport{DisableCompression: true}).NewClientConn(qc)}, nil
}

// dialQUIC opens one on which nobody speaks HTTP/3.
func (f *front) dialQUIC(t *testing.T, cfg *tls.Config) (*quic.Conn, error) {
	t.Helper()
	if cfg == nil {
		cfg = trusting()
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: pc}
	t.Cleanup(func() { _, _ = tr.Close(), pc.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	qc, err := tr.Dial(ctx, f.addr, cfg, &quic.Config{MaxIdleTimeout: patience})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = qc.CloseWithError(0, "") })
	return qc, nil
}

func (f *front) mustDial(t *testing.T) *client {
	t.Helper()
	c, err := f.dial(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// do sends a request and reads the whole answer.
func (c *client) do(t *testing.T, method, path string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://site.example"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// begin sends the head of a request that has no end; nil: the connection has ended.
func (c *client) begin(t *testing.T, path string) *http3.RequestStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.http.OpenRequestStream(ctx)
	if err == nil {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://site.example"+path, nil)
		err = s.SendRequestHeader(req)
	}
	if err != nil { // the library says so before the context ends
		select {
		case <-c.Context().Done():
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
	if c.Context().Err() != nil {
		return nil
	}
	return s
}

// ended waits until the server has ended a connection, or its client because the server asked for it, and returns the
// code.
func ended(t *testing.T, qc *quic.Conn) http3.ErrCode {
	t.Helper()
	select {
	case <-qc.Context().Done():
	case <-time.After(patience):
		t.Fatal("the connection does not end")
	}
	why, ok := errors.AsType[*quic.ApplicationError](context.Cause(qc.Context()))
	if !ok {
		t.Fatal(context.Cause(qc.Context()))
	}
	return http3.ErrCode(why.ErrorCode)
}

// reply answers with a text.
func reply(x *h1.Exchange, text string) {
	_ = x.Reply(200, []request.Field{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}, []byte(text))
}
