package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

// The addresses in the files of deploy/, which the tests replace by free ones. All else is run as written.
const (
	deployGateway = "127.0.0.1:9091"
	deployService = "127.0.0.1:3000"
)

// deployed returns a file of deploy/ with other addresses. Each replacement must match something.
func deployed(t testing.TB, name string, replace ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i+1 < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s: there is no %q", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// runDaemon starts a balancer that listens on addr, and stops it when the test ends.
func runDaemon(t *testing.T, addr, name string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			b, _ := os.ReadFile(out.Name())
			t.Logf("%s wrote:\n%s", name, tail(string(b), 4000))
		}
		out.Close()
	})
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			b, _ := os.ReadFile(out.Name())
			t.Fatalf("%s ended:\n%s", name, b)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen on %s", name, addr)
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// balanced is a site behind a balancer that asks a gateway.
type balanced struct {
	gateway *checker
	inline  bool   // the gateway stands in the path: it adds no cookie to what caches may keep
	url     string // of the balancer
	hops    string // what stands before the visitor's address in the field that the service gets
	player  string // the program that plays the balancer; empty: it is the real one
}

// runNginx runs nginx with a file of deploy/nginx in front of gateway and service.
func runNginx(t *testing.T, file, gateway, service string, replace ...string) string {
	t.Helper()
	addr := freePort(t)
	serveNginx(t, addr, deployed(t, "nginx/"+file, append([]string{
		deployGateway, gateway, deployService, service, "listen 80;", "listen " + addr + ";",
	}, replace...)...))
	return "http://" + addr
}

// serveNginx runs nginx, which listens on addr, with what stands in its http section.
func serveNginx(t *testing.T, addr, conf string) {
	t.Helper()
	bin := servertest.Need(t, "nginx")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	main := fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log stderr notice;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	client_max_body_size 64m;
%[2]s
}
`, dir, conf)
	runDaemon(t, addr, bin, "-p", dir, "-e", "stderr", "-c", writeFile(t, "nginx.conf", main))
}

// runHAProxy runs HAProxy with the files of deploy/haproxy.
func runHAProxy(t *testing.T, gateway, service string, replace ...string) string {
	t.Helper()
	bin := servertest.Need(t, "haproxy")
	addr := freePort(t)
	lua := writeFile(t, "antirobot.lua", deployed(t, "haproxy/antirobot.lua", deployGateway, gateway))
	conf := deployed(t, "haproxy/haproxy.cfg", append([]string{
		deployGateway, gateway, deployService, service, "bind :80", "bind " + addr, "/etc/haproxy/antirobot.lua", lua,
	}, replace...)...)
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", conf))
	return "http://" + addr
}

// runHAProxySPOE runs HAProxy with the files of deploy/haproxy-spoe; gateway is where the gateway is asked over HTTP and where
// over SPOE.
func runHAProxySPOE(t *testing.T, gateway, spoe, service string, replace ...string) string {
	t.Helper()
	bin := servertest.Need(t, "haproxy")
	addr := freePort(t)
	engine := writeFile(t, "antirobot.spoe", deployed(t, "haproxy-spoe/antirobot.spoe"))
	conf := deployed(t, "haproxy-spoe/haproxy.cfg", append([]string{
		deployGateway, gateway, "127.0.0.1:9092", spoe, deployService, service, "bind :80", "bind " + addr, "/etc/haproxy/antirobot.spoe", engine,
	}, replace...)...)
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", conf))
	return "http://" + addr
}

// envoyPlayer is built from tools/envoy.
const envoyPlayer = "../.bin/envoy"

// outdated reports whether a program of .bin is older than its source.
func outdated(t *testing.T, bin string) bool {
	t.Helper()
	built, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../tools/envoy/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no source: %v", err)
	}
	for _, f := range files {
		if source, err := os.Stat(f); err != nil || source.ModTime().After(built.ModTime()) {
			return true
		}
	}
	return false
}

// runEnvoy runs tools/envoy with the file of deploy/envoy for gRPC; gateway is where the gateway is asked over HTTP and where over
// gRPC.
func runEnvoy(t *testing.T, gateway, grpc, service string, replace ...string) string {
	t.Helper()
	bin := servertest.Tool(t, filepath.Base(envoyPlayer))
	addr := freePort(t)
	place := func(addr string) string {
		host, port, _ := strings.Cut(addr, ":")
		return "{address: " + host + ", port_value: " + port + "}"
	}
	conf := deployed(t, "envoy/envoy-grpc.yaml", append([]string{
		place(deployGateway), place(gateway), place("127.0.0.1:9093"), place(grpc), place(deployService), place(service), place("0.0.0.0:80"), place(addr),
	}, replace...)...)
	runDaemon(t, addr, bin, writeFile(t, "envoy.yaml", conf))
	return "http://" + addr
}

// runApache runs Apache with the file of deploy/apache in front of a gateway that stands in the path.
func runApache(t *testing.T, gateway string) string {
	t.Helper()
	bin := servertest.Need(t, "apache2")
	addr, dir := freePort(t), t.TempDir()
	conf := deployed(t, "apache/antirobot.conf", "127.0.0.1:8080", gateway, "*:80", addr)
	return apache(t, bin, addr, dir, conf, "headers")
}

// apache runs Apache as a proxy with a configuration, and with more modules than that takes.
func apache(t *testing.T, bin, addr, dir, conf string, more ...string) string {
	t.Helper()
	var head strings.Builder
	for _, m := range append([]string{"mpm_event", "authz_core", "proxy", "proxy_http"}, more...) {
		fmt.Fprintf(&head, "LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", m, m)
	}
	fmt.Fprintf(&head, "ServerName localhost\nUser www-data\nGroup www-data\nPidFile %[1]s/pid\nMutex sem\nErrorLog /dev/stderr\nListen %[2]s\n", dir, addr)
	runDaemon(t, addr, bin, "-X", "-d", dir, "-f", writeFile(t, "apache.conf", head.String()+conf))
	return "http://" + addr
}

// runCaddy runs Caddy with the file of deploy/caddy.
func runCaddy(t *testing.T, gateway, service string, replace ...string) string {
	t.Helper()
	bin := servertest.Need(t, "caddy")
	addr := freePort(t)
	conf := deployed(t, "caddy/Caddyfile", append([]string{
		deployGateway, gateway, deployService, service, "\n:80 {", "\nhttp://" + addr + " {",
	}, replace...)...)
	global := "{\n\tadmin off\n}\n"
	runDaemon(t, addr, bin, "run", "--adapter", "caddyfile", "--config", writeFile(t, "Caddyfile", global+conf))
	return "http://" + addr
}

// cookieSite is a service that sets its own cookie and caching headers, and refuses some pages itself.
func cookieSite(t *testing.T) *httptest.Server {
	inner := site(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "own=1; Path=/")
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header()["Marked"] = r.Header.Values("X-Antirobot-Mark")
		for name, values := range r.Header {
			if strings.Contains(strings.ToLower(name), "antirobot") && slices.Contains(values, "forged") {
				t.Errorf("the service gets %s as a visitor has sent it", name)
			}
		}
		if to := r.Header.Values("Upgrade"); len(to) > 0 && !slices.Equal(to, []string{"websocket"}) {
			t.Errorf("the service is asked for a tunnel of %q, in which a visitor could make requests that nobody asks about", to)
		}
		switch r.URL.Path {
		case "/ws":
			c, buf, err := w.(http.Hijacker).Hijack()
			if err != nil || r.Header.Get("Upgrade") != "websocket" {
				t.Errorf("a WebSocket came as %v: %v", r.Header, err)
				return
			}
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
			word := make([]byte, 5)
			_, _ = io.ReadFull(buf, word)
			fmt.Fprintf(c, "heard %s", word)
			c.Close()
			return
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "the service's own 403")
			return
		case "/login":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, "the service's own 401")
			return
		}
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

const ajax = "X-Requested-With"

// TestHandshakeThroughHAProxy: a balancer that can't tell of its clients' handshakes hands them on, and the gateway reads them.
func TestHandshakeThroughHAProxy(t *testing.T) {
	t.Parallel()
	name := servertest.Need(t, "haproxy")
	cert, key := certificate(t, t.TempDir(), 1)
	secure, front := freePort(t), freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, proxy_protocol: true, tls_cert: %q, tls_key: %q}]
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%q]}}
`, secure, cert, key, site(t).URL))
	runDaemon(t, front, name, "-db", "-f", writeFile(t, "haproxy.cfg", fmt.Sprintf(`
defaults
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen tls
    mode tcp
    bind %s
    server gateway %s send-proxy-v2
`, front, secure)))
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	res, err := c.Get("https://" + front + "/handed-on")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	line := g.logs.find(func(s string) bool {
		return strings.Contains(s, `"path":"/handed-on"`) && strings.Contains(s, `"status":`)
	})
	if !strings.Contains(line, `"client":"127.0.0.2"`) || !strings.Contains(line, `"ja4":"t13`) {
		t.Errorf("the gateway's line: %s", line)
	}
}
