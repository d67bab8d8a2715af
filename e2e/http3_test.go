package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// TestHTTP3Browser: Chromium, which speaks nothing but QUIC with the gateway, opens a page, is asked, answers, and is back on
// its page with a pass; each request's line says how it came.
func TestHTTP3Browser(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, site(t).URL), "--captcha-test-answer", testAnswer)
	ctx := browser(t, chromedp.Flag("disable-quic", false), chromedp.Flag("origin-to-force-quic-on", address),
		chromedp.Flag("ignore-certificate-errors-spki-list", keyHash(t, cert)))
	protocol := func(what string) {
		t.Helper()
		if p := value[string](t, ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); p != "h3" {
			t.Errorf("%s came by %s", what, p)
		}
	}
	run(t, ctx, "open the site", chromedp.Navigate("https://"+address+"/first"), chromedp.WaitVisible(`//pre[contains(.,"GET /first")]`))
	protocol("the page")
	g.ban("ip:127.0.0.1", "10m")
	run(t, ctx, "be asked", chromedp.Navigate("https://"+address+"/second"), chromedp.WaitVisible(`input[name="rep"]`, chromedp.ByQuery))
	protocol("the captcha")
	run(t, ctx, "answer", chromedp.SendKeys(`input[name="rep"]`, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"GET /second")]`))
	protocol("the page after it")
	run(t, ctx, "go on as a human", chromedp.Navigate("https://"+address+"/third"), chromedp.WaitVisible(`//pre[contains(.,"GET /third")]`))
	for _, path := range []string{"/first", "/second", "/third"} {
		line := g.logs.find(func(s string) bool {
			return strings.Contains(s, fmt.Sprintf(`"path":%q`, path)) && strings.Contains(s, `"status":`)
		})
		if !strings.Contains(line, `"protocol":"HTTP/3"`) || !strings.Contains(line, `"ja4":"q13`) {
			t.Errorf("the line of %s: %s", path, line)
		}
	}
	if n := g.metric("antirobot_http3_connections_total"); n < 1 {
		t.Errorf("%v connections", n)
	}
}

// TestHTTP3Certificates: the host that a client of QUIC names chooses the certificate; one replaced on disk is served after a
// reload, and open connections stay; what can't be used changes nothing.
func TestHTTP3Certificates(t *testing.T) {
	t.Parallel()
	dir, shop := t.TempDir(), t.TempDir()
	cert, key := certificate(t, dir, 1)
	shopCert, shopKey := certificateFor(t, shop, 10, "shop.example")
	address := freePort(t)
	file := configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, certificates: [{cert_file: %q, key_file: %q}], http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, shopCert, shopKey, site(t).URL)
	g := startWith(t, "serve", "--config", file)
	open := dialQUIC(t, address, "shop.example")
	expect := func(host, serial string) {
		t.Helper()
		if got := dialQUIC(t, address, host).serial(); got != serial {
			t.Errorf("%s: certificate %s, wanted %s", host, got, serial)
		}
	}
	expect("shop.example", "10")
	expect("localhost", "1")
	expect("unknown.example", "1")
	certificateFor(t, shop, 11, "shop.example")
	expect("shop.example", "10") // nothing is read before a reload
	reload := func(said string) {
		t.Helper()
		_ = g.cmd.Process.Signal(syscall.SIGHUP)
		if g.logs.find(func(s string) bool { return strings.Contains(s, said) }) == "" {
			t.Fatalf("a reload did not say %q:\n%s", said, g.logs)
		}
	}
	reload(`"reloaded"`)
	expect("shop.example", "11")
	expect("localhost", "1")
	if err := os.WriteFile(shopKey, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("reload refused")
	expect("shop.example", "11")
	if status, err := open.get("https://shop.example/"); status != 200 || open.serial() != "10" {
		t.Errorf("the connection that was open: %d, %v, certificate %s", status, err, open.serial())
	}
}

// quicClient is one connection of HTTP/3.
type quicClient struct {
	conn *quic.Conn
	http *http3.ClientConn
}

// dialQUIC connects as a client that names a host. The connection ends with the test.
func dialQUIC(t *testing.T, address, host string) *quicClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own := &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{http3.NextProtoH3}}
	conn, err := quic.DialAddr(ctx, address, own, &quic.Config{MaxIdleTimeout: patience, KeepAlivePeriod: patience / 8})
	if err != nil {
		t.Fatalf("QUIC for %s: %v", host, err)
	}
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	return &quicClient{conn, new(http3.Transport).NewClientConn(conn)}
}

// serial is the number of the certificate that the connection began with.
func (c *quicClient) serial() string {
	return c.conn.ConnectionState().TLS.PeerCertificates[0].SerialNumber.String()
}

func (c *quicClient) get(url string) (status int, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := c.http.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// keyHash is how Chromium names the key of a certificate that it is to accept.
func keyHash(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame3 is a frame of HTTP/3 (RFC 9114 section 7.1).
func frame3(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// head3 is a frame with the head of a request for a path of localhost, or with trailers if there is no method.
func head3(t *testing.T, method, path string, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	if method != "" {
		fields = append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, fields...)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	return frame3(1, b.Bytes())
}

// TestHTTP3EmptyFrames: a DATA frame that is empty, wherever it stands in a body, changes nothing of what a service reads. Sent on as a
// chunk it would end the body, and the service would take the rest for another request, whose answer somebody else gets.
func TestHTTP3EmptyFrames(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, r.Method+" "+string(b)); err != nil {
			seen = append(seen, err.Error())
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer service.Close()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, service.URL))
	c := dialQUIC(t, address, "localhost")
	data := func(text string) []byte { return frame3(0, []byte(text)) }
	f := func(name, want string, head []byte, body ...[]byte) {
		t.Helper()
		s, err := c.conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetDeadline(time.Now().Add(patience))
		for _, b := range append([][]byte{head}, body...) {
			if _, err := s.Write(b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(20 * time.Millisecond) // each by itself
		}
		_ = s.Close()
		if answer, err := io.ReadAll(s); err != nil || !bytes.HasSuffix(answer, data("ok")) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0] != want {
			t.Errorf("%s: the service saw %q, not %q alone", name, seen, want)
		}
		seen = nil
	}
	post := head3(t, "POST", "/")
	f("none", "POST helloworld", post, data("hello"), data("world"))
	f("first", "POST hello", post, data(""), data("hello"))
	f("between", "POST helloworld", post, data("hello"), data(""), data(""), data("world"))
	f("last", "POST hello", post, data("hello"), data(""))
	f("with a length", "POST hello", head3(t, "POST", "/", "content-length", "5"), data(""), data("he"), data(""), data("llo"))
	f("where nothing is expected", "GET ", head3(t, "GET", "/"), data(""))
	f("before something unexpected", "GET hello", head3(t, "GET", "/"), data(""), data("hello"))
	f("before trailers", "POST hello", head3(t, "POST", "/", "trailer", "x-sum"), data("hello"), data(""), head3(t, "", "", "x-sum", "1"))
}

// TestHTTP3UnfinishedHeads: connections that have a request under way, and beside it as many heads as they may, each without its last
// byte, hold little and are cut when a head's time is over; others are served meanwhile.
func TestHTTP3UnfinishedHeads(t *testing.T) {
	t.Parallel()
	const conns, heads, size, most = 50, 98, 59_000, 3 << 20
	in := make(chan struct{}, conns)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			in <- struct{}{}
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer service.Close()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {header_timeout: 10s}
defaults: {upstream: {urls: [%q], response_timeout: 10m}}
`, address, cert, key, service.URL))
	url := "https://" + address
	other := dialQUIC(t, address, "localhost")
	serves := func() {
		t.Helper()
		if status, err := other.get(url + "/"); status != 200 {
			t.Errorf("another visitor gets %d, %v", status, err)
		}
	}
	serves()
	before := g.rss()
	all := make([]*quicClient, conns)
	var rest sync.WaitGroup
	defer func() {
		for _, c := range all {
			_ = c.conn.CloseWithError(0, "")
		}
		rest.Wait()
	}()
	for i := range all {
		all[i] = dialQUIC(t, address, "localhost")
		rest.Go(func() { _, _ = all[i].get(url + "/hold") })
	}
	for range all {
		<-in
	}
	head := frame3(1, make([]byte, size)) // HEADERS
	head = head[:len(head)-1]
	for _, c := range all {
		for range heads {
			s, err := c.conn.OpenStreamSync(t.Context())
			if err != nil {
				break // a busy machine takes longer than a head may
			}
			rest.Go(func() { _, _ = s.Write(head) }) // until the connection ends
		}
	}
	peak := before
	for i, c := range all {
		serves()
		eventually(t, "the end of a connection whose heads don't", func() bool {
			peak = max(peak, g.rss())
			return c.conn.Context().Err() != nil
		})
		var why *quic.ApplicationError
		if err := context.Cause(c.conn.Context()); !errors.As(err, &why) || why.ErrorCode != quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad) {
			t.Errorf("connection %d ended with %v", i, err)
		}
	}
	t.Logf("%d connections with %d unfinished heads of %d bytes: %d MB at most, %d before", conns, heads, size, peak>>20, before>>20)
	if peak-before > conns*most {
		t.Errorf("%d connections made the gateway grow from %d to %d MB", conns, before>>20, peak>>20)
	}
	if n := g.metric(`antirobot_http3_floods_total{of="heads"}`); n != conns {
		t.Errorf("%v connections were cut", n)
	}
	serves()
}

// TestHTTP3WebSocket: a WebSocket over HTTP/3 talks, and outlives the time that its head had.
func TestHTTP3WebSocket(t *testing.T) {
	t.Parallel()
	upstream, _ := streamSite(t)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {header_timeout: 5s}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, upstream))
	c := dialQUIC(t, address, "localhost")
	str, err := c.http.OpenRequestStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = str.SetDeadline(time.Now().Add(patience))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+address+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Proto = "websocket" // RFC 9220
	req.Header.Set("Sec-WebSocket-Version", "13")
	if err := str.SendRequestHeader(req); err != nil {
		t.Fatal(err)
	}
	res, err := str.ReadResponse()
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	talk := func() {
		t.Helper()
		echo := make([]byte, 2+len("echo hello"))
		if _, err := str.Write(append([]byte{0x81, 0x85, 0, 0, 0, 0}, "hello"...)); err != nil { // a text, masked by zeros
			t.Fatal(err)
		}
		if _, err := io.ReadFull(str, echo); err != nil || string(echo[2:]) != "echo hello" {
			t.Fatalf("%q %v", echo, err)
		}
	}
	talk()
	late, err := c.conn.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = late.SetDeadline(time.Now().Add(patience))
	_, _ = late.Write([]byte{1})
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("an unfinished head was answered")
	}
	talk()
}
