package e2e

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rss returns the resident memory of the gateway in bytes.
func (g *gateway) rss() int64 {
	g.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.cmd.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// zeros yields n zero bytes without holding them in memory.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(z.left, int64(len(p))))
	clear(p[:n])
	z.left -= int64(n)
	return n, nil
}

// TestPitfall25Gigabyte moves 1 GB up and 1 GB down: the gateway grows by less than 32 MB.
func TestPitfall25Gigabyte(t *testing.T) {
	const size = 1 << 30
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "got %d bytes", n)
			return
		}
		if r.URL.Path == "/warm-up" {
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = io.Copy(w, &zeros{size})
	}))
	t.Cleanup(s.Close)
	g := serve(t, s.URL)
	visitor(t).get(g.url+"/warm-up").must(t, 200, "")
	before := g.rss()
	peak := before
	watch := func(r io.Reader) int64 {
		n, buf := int64(0), make([]byte, 1<<20)
		for i := 0; ; i++ {
			k, err := r.Read(buf)
			n += int64(k)
			if i%64 == 0 {
				peak = max(peak, g.rss())
			}
			if err != nil {
				return n
			}
		}
	}
	req, err := http.NewRequest("PUT", g.url+"/upload", &zeros{size})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = size
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if want := fmt.Sprintf("got %d bytes", size); string(answer) != want {
		t.Errorf("upload: %q, wanted %q", answer, want)
	}
	peak = max(peak, g.rss())
	res, err = http.Get(g.url + "/download")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n := watch(res.Body); n != size {
		t.Errorf("download: %d bytes", n)
	}
	t.Logf("resident: %d MB before, %d MB at most", before>>20, peak>>20)
	if peak-before > 32<<20 {
		t.Errorf("the gateway grew by %d MB", (peak-before)>>20)
	}
}

// TestDrain stops the gateway while a request is in progress: it is answered, and new connections are refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		fmt.Fprint(w, "finished")
	}))
	t.Cleanup(s.Close)
	g := serve(t, s.URL)
	got := make(chan string, 1)
	go func() {
		res, err := http.Get(g.url + "/slow")
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		got <- string(b)
	}()
	<-arrived
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	if g.logs.find(func(s string) bool { return strings.Contains(s, "draining") }) == "" {
		t.Error("nothing says that it drains")
	}
	close(release)
	if body := <-got; body != "finished" {
		t.Errorf("the request under way got %q", body)
	}
	select {
	case <-g.done:
	case <-time.After(patience):
		t.Fatal("does not stop")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// certificate writes a self-signed certificate for 127.0.0.1 with that serial number.
func certificate(t testing.TB, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	return certificateFor(t, dir, serial, "localhost")
}

// certificateFor is certificate for a host.
func certificateFor(t testing.TB, dir string, serial int64, host string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestTLSReload serves TLS on one address and plain HTTP with PROXY protocol on another, and loads a new certificate on
// reload while a connection stays open.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	secure, balanced := freePort(t), freePort(t)
	file := filepath.Join(dir, "antirobot.yaml")
	text := fmt.Sprintf(`
listen:
  - {address: %q, tls_cert: %q, tls_key: %q}
  - {address: %q, proxy_protocol: true}
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%q]}}
`, secure, cert, key, balanced, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, "serve", "--config", file)

	serial := func(c *tls.Conn) int64 { return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64() }
	open, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	r := bufio.NewReader(open)
	ask := func() string {
		fmt.Fprintf(open, "GET /tls HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	if got := ask(); !strings.Contains(got, "X-Forwarded-Proto: https") {
		t.Errorf("over TLS the service got %s", got)
	}
	certificate(t, dir, 2)
	g.api("POST", "/api/reload", nil)
	if got := ask(); !strings.Contains(got, "GET /tls") {
		t.Errorf("the open connection got %s", got)
	}
	next, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if serial(open) != 1 || serial(next) != 2 {
		t.Errorf("certificates %d and %d, wanted 1 and then 2", serial(open), serial(next))
	}

	for _, header := range [][]byte{
		[]byte("PROXY TCP4 203.0.113.9 127.0.0.1 5555 80\r\n"),
		append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), 203, 0, 113, 9, 127, 0, 0, 1, 0x15, 0xb3, 0, 80),
	} {
		c, err := net.Dial("tcp", balanced)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(header)
		fmt.Fprintf(c, "GET /proxied HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(c)
		c.Close()
		if !bytes.Contains(b, []byte("X-Real-Ip: 203.0.113.9")) {
			t.Errorf("PROXY protocol %q: %s", header[:6], b)
		}
	}
}
