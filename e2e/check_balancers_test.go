package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"antirobot/servertest"
)

// marking are rules that mark the path /marked.
const marking = `  rules:
    text: |
      do regexpCheck(regexp="/marked$", attribute="path") mark other
      if other stop as OK
      stop as MARK
`

// TestCheckBalancers runs real balancers with the files of deploy/ and checks what a visitor gets.
func TestCheckBalancers(t *testing.T) {
	t.Parallel()
	spoe, grpc := "", ""                                                            // where HAProxy asks over its own protocol, and Envoy over gRPC
	const both = "style: verdict\nspoe: [\"127.0.0.1:0\"]\ngrpc: [\"127.0.0.1:0\"]" // one gateway may be asked by either
	for _, b := range []struct {
		name     string
		settings string
		run      func(t *testing.T, gateway, service string, replace ...string) string
		// what to replace in the file to fail open, and to fail closed; what a visitor gets then
		open, closed []string
		closedStatus int
	}{
		{
			name: "nginx auth_request", settings: "style: verdict", closedStatus: 500,
			run: func(t *testing.T, gateway, service string, replace ...string) string {
				return runNginx(t, "auth_request.conf", gateway, service, replace...)
			},
			closed: []string{"return 204;", "return 503;"},
		},
		{
			name: "nginx X-Accel-Redirect", settings: "style: full", closedStatus: 502,
			run: func(t *testing.T, gateway, service string, replace ...string) string {
				return runNginx(t, "accel.conf", gateway, service, replace...)
			},
			closed: []string{"error_page 502 504 = @backend;", ""},
		},
		{
			name: "HAProxy", settings: "style: verdict", closedStatus: 503, run: runHAProxy,
			open: []string{"-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot) eq 0 }\n"},
		},
		{
			name: "HAProxy SPOE", settings: both, closedStatus: 503,
			run: func(t *testing.T, gateway, service string, replace ...string) string {
				return runHAProxySPOE(t, gateway, spoe, service, replace...)
			},
			open: []string{"-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot-spoe) eq 0 }\n"},
		},
		{
			// there is no Envoy in Debian: tools/envoy asks with grpc-go and Envoy's own message types
			name: "Envoy over gRPC", settings: both, closedStatus: 403,
			run: func(t *testing.T, gateway, service string, replace ...string) string {
				return runEnvoy(t, gateway, grpc, service, replace...)
			},
			open: []string{"failure_mode_allow: false", "failure_mode_allow: true"},
		},
		{
			name: "Caddy", settings: "style: verdict", closedStatus: 502, run: runCaddy,
			closed: []string{"\thandle_errors {\n\t\treverse_proxy 127.0.0.1:3000 {\n\t\t\theader_up -*Antirobot*\n\t\t}\n\t}\n", ""},
		},
	} {
		t.Run(b.name, func(t *testing.T) {
			s := cookieSite(t)
			service := strings.TrimPrefix(s.URL, "http://")
			g := serveCheck(t, s.URL, b.settings, marking+"identity: {ja4_header: X-Forwarded-JA4}")
			if b.settings == both {
				spoe, grpc = g.listening("SPOE"), g.listening("ext_authz")
			}
			url := b.run(t, strings.TrimPrefix(g.check, "http://"), service)
			hops, player := "\nX-Forwarded-For: ", ""
			if b.name == "Envoy over gRPC" {
				hops += "192.0.2.1," // Envoy appends
				player = envoyPlayer
			}
			visit(t, &balanced{g, false, url, hops, player})

			g.kill(9)
			gone := strings.TrimPrefix(g.check, "http://")
			t.Run("the gateway is down, open", func(t *testing.T) {
				if b.open != nil {
					url = b.run(t, gone, service, b.open...)
				}
				for until := time.Now().Add(patience); visitor(t).get(url+"/").StatusCode != 200 && time.Now().Before(until); {
					time.Sleep(50 * time.Millisecond) // until the balancer has noticed
				}
				began := time.Now()
				visitor(t).get(url+"/a").must(t, 200, "site got GET /a")
				visitor(t).do("POST", url+"/a", "x=y").must(t, 200, "body: x=y")
				t.Logf("two requests took %v", time.Since(began))
			})
			t.Run("the gateway is down, closed", func(t *testing.T) {
				if b.closed != nil {
					c := append([]string{}, b.closed...)
					c[0] = strings.ReplaceAll(c[0], deployService, service)
					url = b.run(t, gone, service, c...)
				} else {
					url = b.run(t, gone, service)
				}
				if r := visitor(t).get(url + "/a"); r.StatusCode != b.closedStatus || strings.Contains(r.body, "site got") {
					t.Errorf("%d %s", r.StatusCode, r.body)
				}
			})
		})
	}
}

// TestApache runs Apache before a gateway that stands in the path: Debian's Apache has no module that asks about a request.
func TestApache(t *testing.T) {
	t.Parallel()
	s := cookieSite(t)
	g := serveCheck(t, s.URL, "", marking+"identity: {trusted_proxies: [127.0.0.1], ja4_header: X-Forwarded-JA4}")
	visit(t, &balanced{g, true, runApache(t, strings.TrimPrefix(g.url, "http://")), "\nX-Forwarded-For: ", ""})
}

// visit checks what all kinds of visitors of a site behind a balancer should get.
func visit(t *testing.T, b *balanced) {
	g, v := b.gateway, visitor(t)
	t.Run("human", func(t *testing.T) {
		r := v.get(b.url+"/a?b=1&c=%2F", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Uri", "/x", "X-Original-URI", "/x", "X-Accel-Redirect", "@x",
			"X-Antirobot-Verdict", "forged", "X-Antirobot-Mark", "forged", "X-Antirobot-Client", "forged", "X-Antirobot-Passed", "forged", "X-Antirobot-Delivery", "forged")
		if b.player == "" {
			v.get(b.url+"/a", "X_Antirobot_Passed", "forged", "X-Antirobot_Client", "forged") // as CGI reads them
		}
		r.must(t, 200, "site got GET /a?b=1&c=%2F\n").must(t, 200, b.hops+"127.0.0.1\n")
		names := ""
		for _, c := range r.Cookies() {
			names += c.Name + " "
		}
		if !strings.Contains(names, "own ") || strings.Contains(names, "i ") == b.inline {
			t.Errorf("cookies %q, wanted the service's and the gateway's: %q", names, r.Header.Values("Set-Cookie"))
		}
		if cc, ct := r.Header.Values("Cache-Control"), r.Header.Values("Content-Type"); len(cc) != 1 || cc[0] != "max-age=60" || len(ct) != 1 {
			t.Errorf("Cache-Control %q and Content-Type %q are not the service's", cc, ct)
		}
		upload := strings.Repeat("x", 3<<20)
		if r := v.do("POST", b.url+"/a", upload).must(t, 200, "site got POST /a"); !strings.Contains(r.body, "body: "+upload+"\n") {
			t.Errorf("of an upload of %d bytes not all arrived: %d", len(upload), len(r.body))
		}
		v.do("PUT", b.url+"/a", "y=z").must(t, 200, "body: y=z")
		webSocket(t, b.url)
		otherTunnels(t, b.url)
		for _, set := range v.get(b.url+"/b").must(t, 200, "site got GET /b").Header.Values("Set-Cookie") {
			if !strings.HasPrefix(set, "own=") {
				t.Errorf("a browser with its cookie gets %q", set)
			}
		}
		for path, want := range map[string]string{"/marked": "MARK", "/unmarked": ""} {
			r := v.get(b.url+path, "X-Antirobot-Mark", "forged").must(t, 200, "")
			if got := r.Header.Values("Marked"); want != "" && (len(got) != 1 || got[0] != want) || want == "" && len(got) > 0 {
				t.Errorf("%s: the service is told the mark %q", path, got)
			}
		}
		v.get(b.url+"/forbidden").must(t, 403, "the service's own 403")
		v.get(b.url+"/login").must(t, 401, "the service's own 401")
	})
	t.Run("a handshake that the visitor made up", func(t *testing.T) {
		if b.player != "" && outdated(t, b.player) {
			servertest.Lack(t, "an Envoy that is played as tools/envoy says: "+b.player+" is older", "make tools")
		}
		tellsNoHandshake(t, g, b.url)
	})
	g.ban("ip:127.0.0.1", "10m")
	t.Run("a preflight passes", func(t *testing.T) {
		body := "site got OPTIONS /a"
		if b.inline {
			body = "" // a robot gets the head
		}
		r := visitor(t).do("OPTIONS", b.url+"/a", "", "Origin", "https://other.example", "Access-Control-Request-Method", "POST").must(t, 200, body)
		if r.Header.Get("X-Served-By") != "site" {
			t.Errorf("a preflight got %v", r.Header)
		}
	})
	t.Run("captcha page", func(t *testing.T) {
		v := visitor(t)
		r := v.get(b.url+"/a?b=1&c=2", "X-Forwarded-For", "192.0.2.1").must(t, 302, "")
		to := r.Header.Get("Location")
		if !strings.HasPrefix(to, b.url+"/showcaptcha?cc=1&retpath=") {
			t.Fatalf("Location %s, wanted the protected host", to)
		}
		page := v.get(to).must(t, 200, `name="rep"`)
		done := v.do("POST", b.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
		names := ""
		for _, c := range done.Cookies() {
			names += c.Name + " "
		}
		if !strings.Contains(names, "spravka ") || !strings.Contains(names, "antirobot_probe ") {
			t.Errorf("cookies %q, wanted both", names)
		}
		if back := done.Header.Get("Location"); back != b.url+"/a?b=1&c=2" {
			t.Errorf("back to %s", back)
		}
		v.get(b.url+"/a?b=1&c=2").must(t, 200, "site got GET /a?b=1&c=2")
	})
	t.Run("AJAX", func(t *testing.T) {
		v := visitor(t)
		c := v.get(b.url+"/api/list", ajax, "XMLHttpRequest").must(t, 200, `"type":"captcha"`).challenge(t)
		if !strings.HasPrefix(c.Captcha.Img, b.url+"/captcha/image?key=") {
			t.Errorf("img-url %s", c.Captcha.Img)
		}
		if img := v.get(c.Captcha.Img); img.StatusCode != 200 || img.Header.Get("Content-Type") != "image/png" {
			t.Errorf("picture: %d %s", img.StatusCode, img.Header)
		}
		v.get(b.url+"/checkcaptcha?key="+c.Captcha.Key+"&rep="+testAnswer+"&format=json").must(t, 200, `"status":"success"`)
		v.get(b.url+"/api/list", ajax, "XMLHttpRequest").must(t, 200, "site got GET /api/list")
		visitor(t).do("POST", b.url+"/api/list", `{"a":1}`, ajax, "XMLHttpRequest", "Content-Type", "application/json").must(t, 200, `"type":"captcha"`)
	})
	t.Run("work in place of digits", func(t *testing.T) {
		v := visitor(t)
		c := v.get(b.url+"/api/list", ajax, "XMLHttpRequest").must(t, 200, `"type":"captcha"`).challenge(t)
		if script := v.get(c.Captcha.WorkURL); script.StatusCode != 200 || !strings.HasPrefix(script.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %v", c.Captcha.WorkURL, script.StatusCode, script.Header)
		}
		const form = "application/x-www-form-urlencoded"
		o := v.do("POST", b.url+"/checkcaptcha", "format=json&new=1&kind=work", "Content-Type", form).must(t, 200, `"work":{`).challenge(t)
		v.do("POST", b.url+"/checkcaptcha", "format=json&key="+o.Captcha.Key+"&rep="+o.Captcha.Work.do(t), "Content-Type", form).must(t, 200, `"status":"success"`)
		v.get(b.url+"/api/list", ajax, "XMLHttpRequest").must(t, 200, "site got GET /api/list")
	})
	t.Run("XML", func(t *testing.T) {
		g.ban("ip:"+badUser, "10m")
		partner := visitor(t)
		partner.Jar = nil
		r := partner.get(b.url+"/xmlsearch?query=go&key=partner-key-0123456789", "X-Real-Ip", badUser)
		r.must(t, 200, `<error code="100">Robot request</error>`)
		right := partner.get(b.url + "/xcheckcaptcha?key=" + keyOf(t, r.body) + "&rep=" + testAnswer)
		right.must(t, 200, "")
		pass := ""
		for _, c := range right.Cookies() {
			if c.Name == "spravka" {
				pass = c.Value
			}
		}
		partner.get(b.url+"/xmlsearch?query=go&key=partner-key-0123456789", "X-Real-Ip", badUser, "Cookie", "spravka="+pass).
			must(t, 200, "site got GET /xmlsearch")
	})
	t.Run("a form is kept", func(t *testing.T) {
		err := keepForm(t, b)
		// Go's transport, which Caddy has, reads on behind a body of known length, and now and then finds it closed by its own
		// server, because the answer has begun: then it cuts the answer.
		for try := 0; errors.Is(err, io.ErrUnexpectedEOF) && try < 5; try++ {
			t.Logf("once more, because the balancer cut an answer: %v", err)
			err = keepForm(t, b)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("403", func(t *testing.T) {
		visitor(t).speaks("fr").get(b.url+"/x", "Sec-Fetch-Dest", "image").must(t, 403, "")
		g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
		r := visitor(t).get(b.url+"/a").must(t, 403, "")
		if !strings.Contains(r.body, r.Header.Get("X-Request-Id")) || r.Header.Get("X-Antirobot-Verdict") != "blocked" {
			t.Errorf("no page with the request's number: %v %s", r.Header, r.body)
		}
		visitor(t).get(b.url+"/a", ajax, "XMLHttpRequest").must(t, 403, `"type":"blocked"`)
		visitor(t).get(b.url+"/showcaptcha").must(t, 403, "")
	})
}

// tellsNoHandshake checks that what a visitor says of its own handshake does not reach the gateway, neither with a page of the site nor
// with one of the gateway's own.
func tellsNoHandshake(t *testing.T, g *checker, base string) {
	t.Helper()
	const forged = "t13d1517h2_8daaf6152771_cb7bf5808d99"
	v := visitor(t)
	v.get(base+"/forged", "X-Forwarded-JA4", forged).must(t, 200, "site got GET /forged")
	v.get(base+"/captcha/forged", "X-Forwarded-JA4", forged)
	for _, path := range []string{"/forged", "/captcha/forged"} {
		line := g.logs.find(func(s string) bool {
			return strings.Contains(s, fmt.Sprintf(`"path":%q`, path)) && strings.Contains(s, `"status":`)
		})
		if line == "" || strings.Contains(line, forged) {
			t.Errorf("the gateway's line: %s", line)
		}
	}
}

// webSocket opens a WebSocket at /ws, sends hello and expects an echo.
func webSocket(t *testing.T, base string) {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host)
	r := bufio.NewReader(c)
	for line := 0; ; line++ {
		s, err := r.ReadString('\n')
		if err != nil || line == 0 && !strings.HasPrefix(s, "HTTP/1.1 101 ") {
			t.Errorf("WebSocket: %q %v", s, err)
			return
		}
		if s == "\r\n" {
			break
		}
	}
	fmt.Fprint(c, "hello")
	if heard, _ := io.ReadAll(r); string(heard) != "heard hello" {
		t.Errorf("WebSocket: %q", heard)
	}
}

// otherTunnels asks for tunnels of other protocols than WebSocket. What the service must not get it says itself.
func otherTunnels(t *testing.T, base string) {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	for _, to := range []string{"h2c", "H2C, websocket", "websocket, h2c", "websocket\r\nUpgrade: h2c", "h2c\r\nUpgrade: websocket", "x"} {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "GET /h2c HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host, to)
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Errorf("Upgrade: %s: %v", to, err)
		}
		c.Close()
	}
}

// keepForm sends a form, answers the captcha wrongly and rightly, and looks for the form at the service.
func keepForm(t *testing.T, b *balanced) error {
	v := visitor(t).speaks("de")
	const form = "name=Anna&text=%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"
	post := func(path, body, want string) (*response, error) {
		req, err := http.NewRequest("POST", b.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header = v.header.Clone()
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := v.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != 200 || !strings.Contains(string(got), want)) {
			err = fmt.Errorf("POST %s: %d %s, wanted %q", path, res.StatusCode, tail(string(got), 1000), want)
		}
		return &response{res, string(got)}, err
	}
	page, err := post("/guestbook?x=1", form, `name="rep"`)
	if err != nil {
		return err
	}
	wrong, err := post("/checkcaptcha", answered(t, page.body, "000000"), `name="rep"`)
	if err != nil {
		return err
	}
	sent, err := post("/checkcaptcha", answered(t, wrong.body, testAnswer), "site got POST /guestbook?x=1")
	if err != nil {
		return err
	}
	names := ""
	for _, c := range sent.Cookies() {
		names += c.Name + " "
	}
	if !strings.Contains(sent.body, "body: "+form) || !strings.Contains(names, "spravka ") || !strings.Contains(names, "own ") {
		return fmt.Errorf("the service's answer %s with cookies %s", sent.body, names)
	}
	return nil
}

// Traefik and Envoy are not in Debian. Their side of the contract is written here after their documentation, and takes
// its settings from the files of deploy/.

// at walks a document by keys and list indexes.
func at(t *testing.T, doc any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, ok := doc.(map[string]any)
			if !ok || m[k] == nil {
				t.Fatalf("no %v in the file", path)
			}
			doc = m[k]
		case int:
			l, ok := doc.([]any)
			if !ok || k >= len(l) {
				t.Fatalf("no %v in the file", path)
			}
			doc = l[k]
		}
	}
	return doc
}

func document(t *testing.T, text string) any {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// to is a plain proxy that forwards requests with their Host; add changes answers.
func to(t *testing.T, base string, add func(*http.Response)) http.Handler {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			host := r.In.Host
			r.SetURL(u)
			r.Out.Host = host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.Out.Header["X-Forwarded-Proto"] = r.In.Header["X-Forwarded-Proto"]
		},
		ModifyResponse: func(r *http.Response) error {
			if add != nil {
				add(r)
			}
			return nil
		},
	}
}

// copyAnswer copies a check's answer to the visitor.
func copyAnswer(w http.ResponseWriter, r *http.Response) {
	for k, v := range r.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(r.StatusCode)
	_, _ = io.Copy(w, r.Body)
}

func ask(req *http.Request) (*http.Response, error) { return http.DefaultTransport.RoundTrip(req) }

// traefik is Traefik with deploy/traefik/antirobot.yml: https://doc.traefik.io/traefik/middlewares/http/forwardauth/
func traefik(t *testing.T, gateway, service string) *httptest.Server {
	doc := document(t, deployed(t, "traefik/antirobot.yml", deployGateway, gateway, deployService, service))
	auth := at(t, doc, "http", "middlewares", "antirobot", "forwardAuth")
	address := at(t, auth, "address").(string)
	cookies := at(t, auth, "addAuthCookiesToResponse").([]any)
	own := pathsOf(t, at(t, doc, "http", "routers", "antirobot", "rule").(string))
	pages := to(t, at(t, doc, "http", "services", "antirobot", "loadBalancer", "servers", 0, "url").(string), nil)
	site := at(t, doc, "http", "services", "backend", "loadBalancer", "servers", 0, "url").(string)

	ownMiddlewares, siteMiddlewares := at(t, doc, "http", "routers", "antirobot", "middlewares"), at(t, doc, "http", "routers", "site", "middlewares")
	changed := func(h http.Header, middlewares any) {
		for _, name := range middlewares.([]any) {
			if name != "antirobot" {
				for field, value := range at(t, doc, "http", "middlewares", name.(string), "headers", "customRequestHeaders").(map[string]any) {
					h.Del(field)
					if value != "" {
						h.Set(field, value.(string))
					}
				}
			}
		}
	}

	return listen(t, func(w http.ResponseWriter, r *http.Request) {
		addr, _, _ := net.SplitHostPort(r.RemoteAddr)
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"} {
			r.Header.Del(name) // the entry point trusts nobody
		}
		r.Header.Set("X-Forwarded-For", addr)
		r.Header.Set("X-Forwarded-Proto", "http")
		if own(r.URL.Path) {
			changed(r.Header, ownMiddlewares)
			pages.ServeHTTP(w, r)
			return
		}
		changed(r.Header, siteMiddlewares)
		check, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Error(err)
		}
		check.Header = r.Header.Clone()
		for _, hop := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailers", "Transfer-Encoding", "Upgrade"} {
			check.Header.Del(hop)
		}
		check.Header.Set("X-Forwarded-Method", r.Method)
		check.Header.Set("X-Forwarded-Host", r.Host)
		check.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
		res, err := ask(check)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			copyAnswer(w, res)
			return
		}
		to(t, site, func(answer *http.Response) {
			for _, c := range res.Cookies() {
				if slices.Contains(cookies, any(c.Name)) {
					answer.Header.Add("Set-Cookie", c.String())
				}
			}
		}).ServeHTTP(w, r)
	})
}

var pathRule = regexp.MustCompile("(Path|PathPrefix)\\(`([^`]+)`\\)")

// pathsOf reads the paths of a Traefik rule.
func pathsOf(t *testing.T, rule string) func(path string) bool {
	t.Helper()
	rules := pathRule.FindAllStringSubmatch(rule, -1)
	if len(rules) < 4 {
		t.Fatalf("the rule %s names too few paths", rule)
	}
	return func(path string) bool {
		for _, r := range rules {
			if path == r[2] || r[1] == "PathPrefix" && strings.HasPrefix(path, r[2]) {
				return true
			}
		}
		return false
	}
}

// envoy is Envoy with deploy/envoy/envoy.yaml: ext_authz.v3.ExtAuthz with http_service.
func envoy(t *testing.T, gateway, service string, replace ...string) *httptest.Server {
	text := deployed(t, "envoy/envoy.yaml", append([]string{deployGateway, gateway}, replace...)...)
	hcm := at(t, document(t, text), "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
	authz := at(t, hcm, "http_filters", 0, "typed_config")
	prefix := at(t, authz, "http_service", "path_prefix").(string)
	patterns := at(t, authz, "allowed_headers", "patterns").([]any)
	open := at(t, authz, "failure_mode_allow").(bool)
	onSuccess := at(t, authz, "http_service", "authorization_response", "allowed_client_headers_on_success", "patterns", 0, "exact").(string)
	routes := at(t, hcm, "route_config", "virtual_hosts", 0, "routes")
	own := regexp.MustCompile("^(?:" + at(t, routes, 0, "match", "safe_regex", "regex").(string) + ")$")
	if !at(t, routes, 0, "typed_per_filter_config", "envoy.filters.http.ext_authz", "disabled").(bool) {
		t.Fatal("own pages are asked about")
	}
	removed := at(t, hcm, "route_config", "request_headers_to_remove").([]any)
	allowed := func(name string) bool {
		name = strings.ToLower(name)
		for _, p := range patterns {
			m := p.(map[string]any)
			exact, _ := m["exact"].(string)
			start, _ := m["prefix"].(string)
			if exact == name || start != "" && strings.HasPrefix(name, start) {
				return true
			}
		}
		return false
	}
	return listen(t, func(w http.ResponseWriter, r *http.Request) {
		addr, _, _ := net.SplitHostPort(r.RemoteAddr)
		if f := r.Header.Get("X-Forwarded-For"); f != "" {
			addr = f + "," + addr
		}
		r.Header.Set("X-Forwarded-For", addr)
		r.Header.Set("X-Forwarded-Proto", "http")
		sent := r.Clone(r.Context()) // by the router, which is behind the filters
		for _, name := range removed {
			sent.Header.Del(name.(string))
		}
		if own.MatchString(r.URL.Path) {
			to(t, "http://"+gateway, nil).ServeHTTP(w, sent)
			return
		}
		check, err := http.NewRequest(r.Method, "http://"+gateway+prefix+r.URL.RequestURI(), nil)
		if err != nil {
			t.Error(err)
		}
		for k, v := range r.Header {
			if allowed(k) || k == "Authorization" {
				check.Header[k] = v
			}
		}
		check.Host = r.Host
		res, err := ask(check)
		if err == nil {
			defer res.Body.Close()
		}
		switch {
		case err != nil || res.StatusCode >= 500:
			if !open {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			to(t, "http://"+service, nil).ServeHTTP(w, sent)
		case res.StatusCode != http.StatusOK:
			copyAnswer(w, res)
		default:
			to(t, "http://"+service, func(answer *http.Response) {
				for _, v := range res.Header.Values(onSuccess) {
					answer.Header.Add(onSuccess, v)
				}
			}).ServeHTTP(w, sent)
		}
	})
}

func listen(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// TestCheckContracts checks what visitors get behind a balancer that copies the answer of a stopped check to them.
func TestCheckContracts(t *testing.T) {
	t.Parallel()
	for _, b := range []struct {
		name, settings string
		run            func(t *testing.T, gateway, service string) *httptest.Server
		closed         int
	}{
		{"Traefik", "", traefik, 500},
		{"Envoy", "headers: envoy", func(t *testing.T, gateway, service string) *httptest.Server { return envoy(t, gateway, service) }, 403},
	} {
		t.Run(b.name, func(t *testing.T) {
			s := cookieSite(t)
			g := serveCheck(t, s.URL, b.settings, "identity: {ja4_header: X-Forwarded-JA4}")
			gateway, service := strings.TrimPrefix(g.check, "http://"), strings.TrimPrefix(s.URL, "http://")
			base := b.run(t, gateway, service).URL
			v := visitor(t)
			tellsNoHandshake(t, g, base)

			r := v.get(base+"/a?b=1&c=%2F", "X-Forwarded-For", badUser, "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "OPTIONS").
				must(t, 200, "site got GET /a?b=1&c=%2F\n")
			if names := fmt.Sprint(r.Cookies()); !strings.Contains(names, "own=") || !strings.Contains(names, "i=") {
				t.Errorf("cookies %s", names)
			}
			v.do("POST", base+"/a", "x=y").must(t, 200, "body: x=y")

			g.ban("ip:127.0.0.1", "10m")
			v = visitor(t)
			page := v.get(base+"/a?b=1&c=2", "X-Forwarded-For", goodUser).must(t, 302, "").Header.Get("Location")
			if !strings.HasPrefix(page, base+"/showcaptcha?cc=1&retpath=") {
				t.Fatalf("Location %s", page)
			}
			v.get(base+"/api", ajax, "XMLHttpRequest").must(t, 403, `"type":"captcha"`)
			v.get(base+"/x", "Sec-Fetch-Dest", "image").must(t, 403, "")
			done := v.do("POST", base+"/checkcaptcha", answered(t, v.get(page).must(t, 200, "<form").body, testAnswer),
				"Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
			if to := done.Header.Get("Location"); to != base+"/a?b=1&c=2" {
				t.Errorf("back to %s", to)
			}
			v.get(base+"/a?b=1&c=2").must(t, 200, "site got GET /a?b=1&c=2")

			g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
			if r := v.get(base+"/a").must(t, 403, ""); !strings.Contains(r.body, r.Header.Get("X-Request-Id")) {
				t.Error("the page does not show the request's number")
			}
			g.kill(9)
			if r := v.get(base + "/a"); r.StatusCode != b.closed || strings.Contains(r.body, "site got") {
				t.Errorf("the gateway is down: %d %s", r.StatusCode, r.body)
			}
			if b.name == "Envoy" {
				v.get(envoy(t, gateway, service, "failure_mode_allow: false", "failure_mode_allow: true").URL+"/a").must(t, 200, "site got")
			}
		})
	}
}
