package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// authority runs pebble, Let's Encrypt's own test server: it asks httpPort and tlsPort of every host, whose address is
// this machine's.
func authority(t *testing.T, httpPort, tlsPort string) (directory, root string) {
	t.Helper()
	return authorityWith(t, httpPort, tlsPort, nil)
}

// authorityWith is authority with more settings of pebble.
func authorityWith(t *testing.T, httpPort, tlsPort string, more map[string]any) (directory, root string) {
	t.Helper()
	bin := servertest.Tool(t, "pebble")
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	address := freePort(t)
	settings := map[string]any{
		"listenAddress": address, "certificate": cert, "privateKey": key, "httpPort": json.Number(httpPort), "tlsPort": json.Number(tlsPort),
		"keyAlgorithm": "ecdsa", "retryAfter": map[string]int{"authz": 1, "order": 1},
	}
	maps.Copy(settings, more)
	cfg, err := json.Marshal(map[string]any{"pebble": settings})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(file, cfg, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-config", file, "-dnsserver", loopbackNames(t))
	cmd.Env = append(cmd.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	awaitPort(t, address)
	return "https://" + address + "/dir", cert
}

func awaitPort(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return
		}
	}
	t.Fatalf("nothing listens on %s", address)
}

// loopbackNames is a DNS server, over TCP, for which every name is this machine.
func loopbackNames(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answerNames(c)
		}
	}()
	return ln.Addr().String()
}

func answerNames(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		buf := make([]byte, int(size[0])<<8|int(size[1]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(c, buf); err != nil || m.Unpack(buf) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		b, err := m.AppendPack(make([]byte, 2))
		if err != nil {
			return
		}
		b[0], b[1] = byte((len(b)-2)>>8), byte(len(b)-2)
		_, _ = c.Write(b)
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func handshake(address, name string) (*tls.Conn, error) {
	return tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
}

// obtained waits until a gateway serves a certificate of pebble's for host, other than old, and returns its serial number.
func obtained(t *testing.T, g *gateway, address, host, old string) string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		c, err := handshake(address, host)
		if err != nil {
			continue
		}
		leaf := c.ConnectionState().PeerCertificates[0]
		_ = c.Close()
		if leaf.VerifyHostname(host) != nil || !strings.Contains(leaf.Issuer.CommonName, "Pebble") {
			t.Errorf("the certificate is %v of %v", leaf.DNSNames, leaf.Issuer)
		}
		if serial := leaf.SerialNumber.String(); serial != old {
			return serial
		}
	}
	t.Fatalf("no certificate:\n%s", tail(g.logs.String(), 4000))
	return ""
}

// TestACME: a gateway obtains a certificate by itself, and has it after a restart without asking again; plain HTTP leads to https. Without an authority it serves its other hosts, and says what is wrong.
func TestACME(t *testing.T) {
	t.Parallel()
	const host = "www.shop.example"
	begin := func(directory, root, challenge, listen string) *gateway {
		return startWith(t, "serve", "--config", configFile(t, `
listen: [%s]
tls: {acme: {hosts: [%s], directory: %q, root_ca: %q, email: "ops@shop.example", challenges: [%s]}}
defaults: {upstream: {urls: [%q]}, requests: {hsts: "max-age=600"}}`, listen, host, directory, root, challenge, site(t).URL))
	}

	secure, plain := freePort(t), freePort(t)
	directory, root := authority(t, portOf(plain), portOf(freePort(t)))
	g := begin(directory, root, "http-01", fmt.Sprintf("{address: %q, acme: true, http3: true}, {address: %q, redirect_https: true}", secure, plain))
	serial := obtained(t, g, secure, host, "")
	if got := dialQUIC(t, secure, host).serial(); got != serial {
		t.Errorf("over QUIC the certificate is %s, over TCP %s", got, serial)
	}
	returning := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		ServerName: host, InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}}}
	resumes := func() bool {
		t.Helper()
		res, err := returning.Get("https://" + secure + "/")
		if err != nil {
			t.Fatal(err)
		}
		if hsts := res.Header.Values("Strict-Transport-Security"); len(hsts) != 1 || hsts[0] != "max-age=600" {
			t.Errorf("Strict-Transport-Security %q", hsts)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.TLS.DidResume
	}
	resumes()
	g.kill(syscall.SIGTERM)
	g.run()
	if !resumes() {
		t.Error("a session of another process with the same ring was not resumed")
	}
	if again := obtained(t, g, secure, host, ""); again != serial || g.metric("acme_obtained_total") != 0 {
		t.Errorf("after a restart the certificate is %s, before it was %s", again, serial)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequest("GET", "http://"+plain+"/a?b=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if to := res.Header.Get("Location"); res.Header.Get("Strict-Transport-Security") != "" || res.StatusCode != 301 || to != "https://"+host+":"+portOf(secure)+"/a?b=c" {
		t.Errorf("plain HTTP: %d to %s", res.StatusCode, to)
	}

	dir := t.TempDir()
	cert, key := certificate(t, dir, 7)
	secure = freePort(t)
	g = begin("https://"+freePort(t)+"/dir", cert, "tls-alpn-01", fmt.Sprintf("{address: %q, acme: true, tls_cert: %q, tls_key: %q}", secure, cert, key))
	g.logs.find(func(s string) bool { return strings.Contains(s, "no certificate could be obtained") })
	conn, err := handshake(secure, host)
	if err != nil {
		t.Fatalf("without an authority: %v", err)
	}
	_ = conn.Close()
	if g.metric("acme_failures_total") < 1 || g.metric("acme_hosts_without_certificate") != 1 {
		t.Error("failures are not counted")
	}
	if health := string(g.api("GET", "/healthz", nil)); !strings.Contains(health, `"degraded"`) || !strings.Contains(health, host) {
		t.Errorf("health says %s", health)
	}
}

// watchedAuthority stands before pebble: it counts orders, can be away, holds requests until it is opened, and advises when
// to renew.
type watchedAuthority struct {
	directory, root string
	orders          atomic.Int32
	away, due       atomic.Bool
	opened          atomic.Pointer[chan struct{}]
}

func watchAuthority(t *testing.T, directory string) *watchedAuthority {
	t.Helper()
	to, err := url.Parse(directory)
	if err != nil {
		t.Fatal(err)
	}
	w := new(watchedAuthority)
	w.hold()
	pebble := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host },
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.away.Load() {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		select {
		case <-*w.opened.Load():
		case <-r.Context().Done():
			return
		}
		if strings.Contains(strings.ToLower(r.URL.Path), "renewalinfo") {
			w.advise(out)
			return
		}
		if strings.Contains(r.URL.Path, "/order-plz") {
			w.orders.Add(1)
		}
		pebble.ServeHTTP(out, r)
	}))
	t.Cleanup(s.Close)
	w.directory = s.URL + to.Path
	w.root = writeFile(t, "root.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return w
}

// hold makes requests wait until open.
func (w *watchedAuthority) hold() {
	c := make(chan struct{})
	w.opened.Store(&c)
}

func (w *watchedAuthority) open() { close(*w.opened.Load()) }

// advise says when a certificate should be renewed (RFC 9773).
func (w *watchedAuthority) advise(out http.ResponseWriter) {
	from := time.Now().Add(24 * time.Hour)
	if w.due.Load() {
		from = time.Now().Add(-24 * time.Hour)
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("Retry-After", "21600")
	_ = json.NewEncoder(out).Encode(map[string]any{"suggestedWindow": map[string]time.Time{"start": from.UTC(), "end": from.Add(time.Hour).UTC()}})
}

// turns hands connections to gateways in turn, as a balancer before them does.
type turns struct {
	port string

	mu   sync.Mutex
	to   []string
	next int
	got  map[string]int
}

func takeTurns(t *testing.T, to ...string) *turns {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	b := &turns{to: to, got: map[string]int{}, port: portOf(ln.Addr().String())}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go b.pass(c)
		}
	}()
	return b
}

func (b *turns) pass(c net.Conn) {
	defer c.Close()
	b.mu.Lock()
	to := b.to[b.next%len(b.to)]
	b.next++
	b.got[to]++
	b.mu.Unlock()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { _, _ = io.Copy(up, c) }()
	_, _ = io.Copy(c, up)
}

// all fails the test unless every gateway had a connection.
func (b *turns) all(t *testing.T, what string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range b.to {
		if b.got[to] == 0 {
			t.Errorf("%s: %s was not asked: %v", what, to, b.got)
		}
	}
}

// TestACMEShared: gateways that share a Redis need one certificate between them, and one renewal, whichever of them the
// authority asks for the answer to a challenge, over TCP and over QUIC. While the authority is away the last good certificate stays in use.
func TestACMEShared(t *testing.T) {
	t.Parallel()
	const host = "www.shop.example"
	secure, plain := []string{freePort(t), freePort(t)}, []string{freePort(t), freePort(t)}
	byHTTP, byTLS := takeTurns(t, plain...), takeTurns(t, secure...)
	directory, _ := authority(t, byHTTP.port, byTLS.port)
	ca := watchAuthority(t, directory)
	ca.due.Store(true)
	store, secret, upstream := "redis://"+redistest.Start(t).Addr, secretFile(t), site(t).URL
	var files []string
	configure := func(i int, challenge string) string {
		return fmt.Sprintf(`
listen: [{address: %q, acme: true, http3: true}, {address: %q, redirect_https: true}]
tls: {acme: {hosts: [%s], directory: %q, root_ca: %q, challenges: [%s]}}
defaults: {upstream: {urls: [%q]}}`, secure[i], plain[i], host, ca.directory, ca.root, challenge, upstream)
	}
	var all []*gateway
	for i := range secure {
		files = append(files, configFile(t, "%s", configure(i, "http-01")))
		all = append(all, startWith(t, "serve", "--config", files[i], "--store", store, "--secret-file", secret))
	}
	sum := func(metric string) float64 { return all[0].metric(metric) + all[1].metric(metric) }
	serve := func(what, old string, orders int32) string {
		t.Helper()
		serial := obtained(t, all[0], secure[0], host, old)
		if other := obtained(t, all[1], secure[1], host, old); other != serial || ca.orders.Load() != orders {
			t.Errorf("%s: certificates %s and %s, %d orders, want one certificate and %d", what, serial, other, ca.orders.Load(), orders)
		}
		for _, address := range secure {
			if quic := dialQUIC(t, address, host).serial(); quic != serial {
				t.Errorf("%s: over QUIC the certificate is %s, over TCP %s", what, quic, serial)
			}
		}
		return serial
	}
	ca.open()
	first := serve("at first", "", 1)
	byHTTP.all(t, "http-01")
	if n, bad := sum("acme_obtained_total"), sum("acme_failures_total"); n != 1 || bad != 0 {
		t.Errorf("%v obtained, %v failures", n, bad)
	}

	ca.away.Store(true) // when the certificate is to be renewed
	all[0].kill(syscall.SIGKILL)
	all[0].run()
	all[0].logs.find(func(s string) bool { return strings.Contains(s, "no certificate could be obtained") })
	if kept := serve("without the authority", "", 1); kept != first {
		t.Errorf("without the authority the certificate is %s, before it was %s", kept, first)
	}
	if health := string(all[0].api("GET", "/healthz", nil)); all[0].metric("acme_failures_total") < 1 || !strings.Contains(health, host) {
		t.Errorf("a renewal that failed: health says %s", health)
	}

	ca.hold()
	ca.away.Store(false)
	ca.due.Store(false)
	all[0].kill(syscall.SIGTERM) // it was about to renew: whoever comes next may
	all[1].kill(syscall.SIGKILL)
	for i, g := range all {
		write(t, files[i], configure(i, "tls-alpn-01"))
		g.run()
	}
	ca.open()
	serve("after the renewal", first, 2)
	byTLS.all(t, "tls-alpn-01")
}

// TestCertificatesOfAllListeners: certificates replaced on disk are served after a reload, without a restart, by the
// private and the public listener alike, and open connections stay; files that don't belong together are refused, and
// nothing changes.
func TestCertificatesOfAllListeners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	file := filepath.Join(dir, "antirobot.yaml")
	text := fmt.Sprintf(`
listen: [{address: "127.0.0.1:0", tls_cert: %[1]q, tls_key: %[2]q}]
admin: {tls_cert: %[1]q, tls_key: %[2]q}
defaults: {upstream: {urls: [%[3]q]}}
`, cert, key, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, "serve", "--config", file)
	listeners := map[string]string{"visitors": strings.TrimPrefix(g.url, "http://"), "the operator": strings.TrimPrefix(g.admin, "http://")}

	clients := map[string]*http.Client{} // each with a connection that stays open
	for of := range listeners {
		clients[of] = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	serial := func(of string, c *http.Client) int64 {
		t.Helper()
		path := map[string]string{"visitors": "/", "the operator": "/readyz"}[of]
		req, _ := http.NewRequest("GET", "https://"+listeners[of]+path, nil)
		req.Header.Set("Authorization", "Bearer "+g.token)
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // else the connection is not used again
		_ = res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s", of, res.Status)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	expect := func(old, fresh int64) {
		t.Helper()
		for of, kept := range clients {
			if got := serial(of, kept); got != old {
				t.Errorf("%s, open connection: certificate %d, wanted %d", of, got, old)
			}
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			if got := serial(of, c); got != fresh {
				t.Errorf("%s: certificate %d, wanted %d", of, got, fresh)
			}
		}
	}
	reload := func(said string) {
		t.Helper()
		_ = g.cmd.Process.Signal(syscall.SIGHUP)
		if g.logs.find(func(s string) bool { return strings.Contains(s, said) }) == "" {
			t.Fatalf("a reload did not say %q:\n%s", said, g.logs)
		}
	}
	expect(1, 1)
	certificate(t, dir, 2)
	expect(1, 1) // nothing is read before a reload
	reload(`"reloaded"`)
	expect(1, 2)
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("reload refused")
	expect(1, 2)
}

// TestPartnersByCertificate: a partner is known by its certificate to the service and to rules; nobody else can say so.
func TestPartnersByCertificate(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: "127.0.0.1:0", tls_cert: %[1]q, tls_key: %[2]q, client_ca: %[1]q}]
defaults:
  upstream: {urls: [%[3]q]}
  rules:
    text: |
      do regexpCheck(regexp="^/partners", attribute="path") mark elsewhere
      if elsewhere stop as OK
      do hasAttribute(attribute="client_cert") mark unknown
      if unknown stop as BLOCK
      do attributeCheck(attribute="client_cert", value="localhost") mark other
      if other stop as BLOCK
      stop as OK
`, cert, key, site(t).URL))
	partner, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string][]tls.Certificate{"localhost": {partner}, "": nil} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: own}, DisableKeepAlives: true}}
		ask := func(path string) (int, string) {
			t.Helper()
			req, _ := http.NewRequest("GET", strings.Replace(g.url, "http:", "https:", 1)+path, nil)
			req.Header.Set("X-Antirobot-Client", "forged")
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(b)
		}
		if _, got := ask("/"); strings.Contains(got, "X-Antirobot-Client: localhost\n") != (name != "") || strings.Contains(got, "forged") {
			t.Errorf("of the partner %q the service got %s", name, got)
		}
		if status, _ := ask("/partners"); (status == 200) != (name != "") {
			t.Errorf("by the rule, the partner %q got %d", name, status)
		}
	}
}
