package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

// browse makes a client send what browsers send with each request.
func (c *client) browse() *client {
	c.header.Set("Accept-Language", "en")
	c.header.Set("Accept-Encoding", "identity")
	return c
}

// TestFrontProxyChangesPaths: behind a proxy that takes a prefix off and changes Host, and says so, a stopped visitor reaches the
// captcha page, its picture and the page that was asked for.
func TestFrontProxyChangesPaths(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.0/8")
	to, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		path, ok := strings.CutPrefix(r.In.URL.Path, "/shop")
		if !ok {
			path = "/nothing-here"
		}
		r.SetURL(to)
		r.Out.URL.Path = path
		r.SetXForwarded()
		r.Out.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.Out.Header.Set("X-Forwarded-Prefix", "/shop")
		r.Out.Host = "10.0.0.5"
	}})
	defer front.Close()
	g.ban("ip:203.0.113.7", "10m")
	v := visitor(t).browse()
	r := v.get(front.URL+"/shop/list?page=2").must(t, 302, "")
	page := v.get(r.Header.Get("Location")).must(t, 200, `name="rep"`)
	picture := page.body[strings.Index(page.body, "/shop/captcha/image?"):]
	picture, _, _ = strings.Cut(picture, `"`)
	if p := v.get(front.URL + htmlUnescape(picture)); p.StatusCode != 200 || !strings.HasPrefix(p.Header.Get("Content-Type"), "image/") {
		t.Errorf("the picture: %d", p.StatusCode)
	}
	if !strings.Contains(page.body, `action="/shop/checkcaptcha"`) {
		t.Error("the form leads elsewhere")
	}
	form := formOf(t, page.body)
	form.Set("rep", testAnswer)
	a := v.do("POST", front.URL+"/shop/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if a.StatusCode != 303 || a.Header.Get("Location") != front.URL+"/shop/list?page=2" {
		t.Fatalf("the answer leads to %s (%d)", a.Header.Get("Location"), a.StatusCode)
	}
	v.get(a.Header.Get("Location")).must(t, 200, "site got GET /list?page=2")
}

// TestPitfall06OutsideIsValidated: X-Forwarded-Host and X-Forwarded-Prefix count from trusted proxies alone, name a host of the same
// service and a plain path, and reach neither the routing nor the service.
func TestPitfall06OutsideIsValidated(t *testing.T) {
	t.Parallel()
	up := site(t).URL
	config := func(trusted string) string {
		return fmt.Sprintf("identity: {trusted_proxies: [%s]}\nservices:\n- {name: shop, hosts: [shop.example, '*.shop.example'], upstream: {urls: [%q]}}\n"+
			"- {name: other, hosts: [other.example], upstream: {urls: [%q]}}\n", trusted, up, up)
	}
	trusting, careful := startConfigured(t, config("127.0.0.0/8")), startConfigured(t, config("10.0.0.0/8"))
	f := func(g *gateway, want string, fields ...string) {
		t.Helper()
		c := visitor(t).browse()
		req, err := http.NewRequest("GET", g.url+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "shop.example"
		for k, v := range c.header {
			req.Header[k] = v
		}
		for i := 0; i+1 < len(fields); i += 2 {
			req.Header.Add(fields[i], fields[i+1])
		}
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if to := r.Header.Get("Location"); r.StatusCode != 302 || !strings.HasPrefix(to, want+"/showcaptcha?cc=1&retpath="+url.QueryEscape(want+"/a")) {
			t.Errorf("%q leads to %s (%d), wanted %s", fields, to, r.StatusCode, want)
		}
	}
	trusting.ban("ip:127.0.0.1", "10m")
	careful.ban("ip:127.0.0.1", "10m")
	const plain = "http://shop.example"
	f(trusting, plain)
	f(trusting, "http://www.shop.example:8443", "X-Forwarded-Host", "www.shop.example:8443")
	f(trusting, "http://www.shop.example", "X-Forwarded-Host", "evil.test, www.shop.example")
	f(trusting, plain+"/app/v1", "X-Forwarded-Prefix", "/app/v1/")
	f(trusting, plain, "X-Forwarded-Prefix", "/")
	for _, host := range []string{
		"evil.test", "other.example", "shop.example.evil.test", "user@shop.example", "shop.example@evil.test", "shop.example/..", "www.shop.example, evil.test",
		"shop.example:99999", "-.shop.example", "a b.shop.example", "%65vil.test", "",
	} {
		f(trusting, plain, "X-Forwarded-Host", host)
	}
	f(trusting, plain, "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Host", "evil.test")
	for _, prefix := range []string{
		"//evil.test", "/\\evil.test", "/..//evil.test", "/a/../b", "/./a", "evil", "@evil.test", ".evil.test", ":8443", "/a b", "/a?b", "/a#b", "/%2e%2e", "/a\"><script>",
		"/" + strings.Repeat("a", 200), "https://evil.test/", "javascript:alert(1)",
	} {
		f(trusting, plain, "X-Forwarded-Prefix", prefix)
	}
	f(careful, plain, "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Prefix", "/app")
	trusting.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	r := visitor(t).do("GET", trusting.url+"/b", "", "Host", "shop.example", "X-Forwarded-Host", "www.shop.example", "X-Forwarded-Prefix", "/app")
	if strings.Contains(r.body, "www.shop.example") || strings.Contains(r.body, "/app") {
		t.Errorf("the service is told: %s", r.body)
	}
}

// TestNobodyMakesBalancersOpen: where a balancer lets everybody through while the gateway is down, no request of somebody who is stopped makes
// it believe so: none with a head whose answer has a large one, none that can't be judged, none with a body that nobody reads. Nor does one that
// the balancer brings to the gateway for its answer pass for the balancer's own.
func TestNobodyMakesBalancersOpen(t *testing.T) {
	t.Parallel()
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	for name, b := range map[string]struct {
		settings string
		run      func(t *testing.T, g *checker, service string) string
	}{
		"nginx auth_request": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "auth_request.conf", address(g.check), service)
		}},
		"nginx auth_request, as it was": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "auth_request.conf", address(g.check), service, "proxy_buffer_size 64k;", "", "proxy_buffers 4 64k;", "", "proxy_busy_buffers_size 128k;", "")
		}},
		"nginx X-Accel-Redirect": {"style: full", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "accel.conf", address(g.check), service)
		}},
		"nginx X-Accel-Redirect, as it was": {"style: full", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "accel.conf", address(g.check), service, "proxy_buffer_size 64k;", "", "proxy_buffers 4 64k;", "", "proxy_busy_buffers_size 128k;", "")
		}},
		"Caddy": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runCaddy(t, address(g.check), service, "\nhttp://127.0.0.1:", "\nhttp://:", "\troute {", "\tbind 127.0.0.1\n\troute {") // any host
		}},
		"HAProxy": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runHAProxy(t, address(g.check), service, "-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot) eq 0 }\n")
		}},
		"HAProxy SPOE": {"style: verdict\nspoe: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
			return runHAProxySPOE(t, address(g.check), g.listening("SPOE"), service, "-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot-spoe) eq 0 }\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
			t.Cleanup(s.Close)
			g := serveCheck(t, s.URL, b.settings, "")
			addr := address(b.run(t, g, address(s.URL)))
			if status := rawly(t, addr, "GET /", ""); status != 200 || got.Load() != 1 {
				t.Fatalf("a newcomer got %d", status)
			}
			g.ban("ip:127.0.0.1", "10m")
			body := strings.Repeat("x", 48<<20)
			for what, ask := range map[string][2]string{
				"a page":                      {"GET /a", ""},
				"a long URL":                  {"GET /a?" + strings.Repeat("x", 6000), ""},
				"a URL of escapes":            {"GET /a?" + strings.Repeat("%22", 1500), ""},
				"a URL of bytes":              {"GET /a?" + strings.Repeat("\xff", 5000), ""},
				"a long address to come back": {"GET /a", "X-Retpath-Y: http://site.example/?" + strings.Repeat("x", 6000) + "\r\n"},
				"a path that may not be":      {"GET /a%00", ""},
				"many fields":                 {"GET /a", strings.Repeat("X-A: b\r\n", 250)},
				"a balancer's question":       {"GET /check", "X-Forwarded-Method: GET\r\nX-Forwarded-Host: site.example\r\nX-Forwarded-Uri: /a\r\n"},
				"a balancer's report":         {"GET /check?style=answer", "X-Forwarded-Method: GET\r\nX-Forwarded-Host: site.example\r\nX-Forwarded-Uri: /a\r\nX-Antirobot-Answer: 200 image/png\r\n"},
				"a report by a query":         {"GET /a?style=answer", "X-Antirobot-Answer: 200 image/png\r\n"},
				"an upload":                   {"POST /a", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)},
				"a form":                      {"POST /a", fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)},
			} {
				status := rawly(t, addr, ask[0], ask[1])
				if n := got.Swap(1); n != 1 || status/100 == 2 && what != "a form" { // which is answered with the page
					t.Errorf("%s: %d, and the service was asked %d times", what, status, n-1)
				}
			}
		})
	}
}

// balancers are real balancers with the files of deploy/, by which a gateway is asked about each request.
var balancers = map[string]struct {
	settings string
	run      func(t *testing.T, g *checker, service string) string
}{
	"nginx": {"", func(t *testing.T, g *checker, service string) string {
		return runNginx(t, "auth_request.conf", strings.TrimPrefix(g.check, "http://"), service)
	}},
	"HAProxy SPOE": {"spoe: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
		return runHAProxySPOE(t, strings.TrimPrefix(g.check, "http://"), g.listening("SPOE"), service)
	}},
	"Envoy": {"grpc: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
		return runEnvoy(t, strings.TrimPrefix(g.check, "http://"), g.listening("ext_authz"), service)
	}},
}

// rawly asks with a request line and fields as they stand, and returns the status of the answer; 0: the connection ended without one.
func rawly(t *testing.T, addr, line, fields string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if !strings.Contains(fields, "User-Agent:") {
		fields += "User-Agent: t\r\n"
	}
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n%s\r\n", line, fields)
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(line)[0]})
	if err != nil {
		return 0
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// TestPitfall08BesideBalancers: what is set for a path holds for every spelling of it beside real balancers, too: the service gets none of them.
func TestPitfall08BesideBalancers(t *testing.T) {
	t.Parallel()
	for name, b := range balancers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := newGuestbook(t)
			g := serveCheck(t, book.URL, "style: verdict\n"+b.settings, "services: [{name: site, paths: [{prefix: /login, rules: {text: \"stop as BLOCK\"}}]}]")
			addr := strings.TrimPrefix(b.run(t, g, strings.TrimPrefix(book.URL, "http://")), "http://")
			for _, path := range []string{"/", "/logins", "/caf%c3%a9"} {
				if got := rawly(t, addr, "POST "+path, "Content-Length: 0\r\n"); got != 200 {
					t.Errorf("%s: %d", path, got)
				}
			}
			book.take()
			for _, way := range append(spellings("login"), "/login", "/login/x", "http://site.example/login", "http://SITE.example:80/%6cogin", "http://site.example/x/../login") {
				if name == "Envoy" && way == `/\\/h\login` {
					continue // Envoy escapes the backslashes: the service gets /%5C%5C/h%5Clogin
				}
				if got := rawly(t, addr, "POST "+way, "Content-Length: 0\r\n"); got == 200 {
					t.Errorf("%s: %d", way, got)
				}
			}
			for _, field := range []string{"X-Original-URL: /login", "X-Rewrite-URL: /x/../%6cogin?a", "X-Rewrite-URL: http://site.example/login"} { // the service may believe it
				if got := rawly(t, addr, "POST /", field+"\r\nContent-Length: 0\r\n"); got == 200 {
					t.Errorf("%s: %d", field, got)
				}
			}
			if bodies, _ := book.take(); len(bodies) > 0 {
				t.Errorf("the service got %d requests", len(bodies))
			}
		})
	}
}

// TestTargetsOfOddForms: a target that is no plain path of this host is refused or judged as what the service gets.
func TestTargetsOfOddForms(t *testing.T) {
	t.Parallel()
	g, _ := askers(t, "defaults: {upstream: {urls: [%q]}}\nservices: [{name: site, hosts: [site.example], paths: [{prefix: /login, rules: {text: \"stop as BLOCK\"}}]}]\n", site(t).URL)
	addr := strings.TrimPrefix(g.url, "http://")
	n := 0
	from := func() string { // nobody whom the judge knows from the requests before
		n++
		return fmt.Sprintf("203.7.%d.1", n)
	}
	for line, want := range map[string]int{"GET /": 200, "GET http://site.example/": 200, "GET http://site.example?/login": 200, "GET /login": 403} {
		if got := rawly(t, addr, line, "X-Forwarded-For: "+from()+"\r\n"); got != want {
			t.Errorf("%s: %d, wanted %d", line, got, want)
		}
	}
	for _, line := range []string{
		"GET http://site.example/login", "GET http://site.example:80/%6cogin?x", "GET http://site.example:/login", "GET HTTP://SITE.EXAMPLE.:80/login", "GET //site.example/login",
		"GET http:/login", "GET http:///login", `GET http:\\site.example\login`, `GET http://site.example\@x/login`, "GET http://u@site.example/login", "GET wss://site.example/login",
		"GET /login#", "GET /x#/../login", "GET /login?#/../x", "GET /login??", "GET *", "GET ?/login", "GET login", "GET /lo\tgin", "GET /login ", "GET  /login", "get /login", "TRACE /login",
		"PROPFIND /login", "HEAD /login", "OPTIONS /login", "GET /login%0d%0a",
	} {
		if got := rawly(t, addr, line, "X-Forwarded-For: "+from()+"\r\n"); got/100 == 2 {
			t.Errorf("%q: %d", line, got)
		}
	}
	over := func(fields ...string) int { return headHTTP2(t, addr, append(fields, "x-forwarded-for", from())...) }
	for _, authority := range []string{"site.example", "SITE.example.:80", "u@site.example", "other.example"} {
		for _, path := range []string{"/login", "login", "", "http://site.example/login", "/login#x", "/lo\tgin", "/x y/../login", "*", "/login?", "//site.example/login", `\login`, " /login", "/login "} {
			if got := over(":method", "GET", ":scheme", "http", ":authority", authority, ":path", path); got/100 == 2 {
				t.Errorf("HTTP/2: %q at %q: %d", path, authority, got)
			}
		}
	}
	for _, fields := range [][]string{
		{":method", "GET", ":scheme", "http", ":path", "/login", "host", "site.example"},
		{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/", "host", "other.example"},
		{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/", ":path", "/login"},
		{":method", "GET", ":scheme", "ftp", ":authority", "site.example", ":path", "/"},
		{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "site.example", ":path", "/login"},
	} {
		if got := over(fields...); got/100 == 2 {
			t.Errorf("HTTP/2: %q: %d", fields, got)
		}
	}
	if got := over(":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/"); got != 200 {
		t.Errorf("HTTP/2: /: %d", got)
	}
}
