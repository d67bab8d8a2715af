package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"antirobot/servertest"
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
