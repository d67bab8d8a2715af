package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	brotli "github.com/molecule-man/go-brrr"

	"antirobot/servertest"
)

// http2Gateway serves TLS on one address and HTTP/2 without TLS on another.
func http2Gateway(t *testing.T, upstream, settings string) (g *gateway, secure, plain string) {
	t.Helper()
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	secure, plain = freePort(t), freePort(t)
	file := configFile(t, `
listen:
  - {address: %q, tls_cert: %q, tls_key: %q}
  - {address: %q, h2c: true}
defaults: {upstream: {urls: [%q]}}
%s`, secure, cert, key, plain, upstream, settings)
	return startWith(t, "serve", "--config", file, "--captcha-test-answer", testAnswer), secure, plain
}

// TestHTTP2Clients: curl and Go's client speak HTTP/2 with the gateway; a banned client is challenged, and passes with the
// answer; the access log and the metrics know of it.
func TestHTTP2Clients(t *testing.T) {
	t.Parallel()
	g, secure, plain := http2Gateway(t, site(t).URL, "")
	curl := servertest.Need(t, "curl")
	for _, args := range [][]string{
		{"--http2", "-k", "https://" + secure + "/a?b=c"},
		{"--http2-prior-knowledge", "http://" + plain + "/a?b=c"},
		{"--http1.1", "http://" + plain + "/a?b=c"},
	} {
		out, err := exec.Command(curl, append([]string{"-s", "-w", " version=%{http_version} status=%{http_code}", "-d", "x=y"}, args...)...).CombinedOutput()
		want := "version=2 status=200"
		if args[0] == "--http1.1" {
			want = "version=1.1 status=200"
		}
		if text := string(out); err != nil || !strings.Contains(text, "POST /a?b=c") || !strings.Contains(text, want) {
			t.Errorf("curl %v: %v\n%s", args, err, out)
		}
	}
	c := &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	get := func(path string, header ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest("GET", "https://"+secure+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		asBrowser(req)
		req.Header.Set("Referer", "https://"+secure+"/page")
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.ProtoMajor != 2 {
			t.Errorf("%s: %s, %v", path, res.Proto, err)
		}
		return res, string(b)
	}
	g.ban("ip:127.0.0.1", "10m")
	if res, _ := get("/", "Accept", "text/html"); res.StatusCode != 302 || !strings.Contains(res.Header.Get("Location"), "/showcaptcha?") {
		t.Errorf("a robot's page: %d, %s", res.StatusCode, res.Header.Get("Location"))
	}
	res, body := get("/", "X-Requested-With", "XMLHttpRequest")
	var asked struct {
		Captcha struct{ Key string }
	}
	if err := json.Unmarshal([]byte(body), &asked); err != nil || asked.Captcha.Key == "" || res.Header.Get("X-Antirobot-Verdict") != "captcha" {
		t.Fatalf("%v: %s", err, body)
	}
	res, body = get("/checkcaptcha?format=json&rep="+testAnswer+"&key="+asked.Captcha.Key, "Accept", "application/json")
	pass := ""
	for _, cookie := range res.Cookies() {
		if cookie.Name == "spravka" {
			pass = "spravka=" + cookie.Value
		}
	}
	if pass == "" {
		t.Fatalf("no pass: %d %s", res.StatusCode, body)
	}
	if res, _ := get("/", "Cookie", "a=b", "Cookie", pass, "Accept", "text/html"); res.StatusCode != 200 {
		t.Errorf("with the pass in a crumb of its own: %d", res.StatusCode)
	}
	if g.metric("http2_connections_total") < 3 {
		t.Error("the connections are not counted")
	}
	if line := g.logs.find(func(s string) bool {
		return strings.Contains(s, `"message":"request"`) && strings.Contains(s, `"path":"/checkcaptcha"`)
	}); !strings.Contains(line, `"status":200`) {
		t.Errorf("the access log has %q", line)
	}
}

// strictSite is a service whose pages are compressed by brotli, permit scripts by a nonce alone, and have a base elsewhere.
func strictSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "br") || strings.Contains(r.Header.Get("Accept-Encoding"), "zstd") {
			t.Errorf("the service is asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", "br")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'strict-dynamic' 'nonce-bm9uY2U='; connect-src 'self'")
		page, err := brotli.Compress([]byte(`<!doctype html><html><head><title>strict</title><base href="https://elsewhere.invalid/"></head><body>`+strings.Repeat("text ", 1000)), 5)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(page)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestHTTP2Browser: Chromium chooses HTTP/2, is not considered odd for it, opens a WebSocket within it, solves the captcha
// and sees the page. A compressed page with a strict policy and a base elsewhere has the evidence script put into it, which
// runs and tells what it found.
func TestHTTP2Browser(t *testing.T) {
	t.Parallel()
	upstream, _ := streamSite(t)
	g, secure, _ := http2Gateway(t, upstream, fmt.Sprintf(`
services:
  - {name: site}
  - {name: strict, prefixes: [/strict, /captcha/evidence, /captcha/evidence.js], upstream: {urls: [%q]}, captcha: {evidence: true, evidence_insert: true}}
`, strictSite(t)))
	ctx := browser(t, chromedp.Flag("ignore-certificate-errors", true))
	protocol := func() string {
		return value[string](t, ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`)
	}
	run(t, ctx, "open the site", chromedp.Navigate("https://"+secure+"/first"), chromedp.WaitReady("body"))
	if p := protocol(); p != "h2" {
		t.Errorf("Chromium spoke %s", p)
	}
	const talk = `new Promise((yes, no) => {
		const ws = new WebSocket("wss://" + location.host + "/ws");
		ws.onopen = () => ws.send("hello");
		ws.onmessage = e => { ws.close(); yes(e.data) };
		ws.onerror = () => no("error");
	})`
	var got string
	run(t, ctx, "talk over a WebSocket", chromedp.Evaluate(talk, &got, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if got != "echo hello" {
		t.Errorf("the WebSocket brought %q", got)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"path":"/ws"`) }); !strings.Contains(line, `|m,a,s,p"`) ||
		!strings.Contains(line, `"status":101`) || !strings.Contains(line, `"method":"GET"`) {
		t.Errorf("the WebSocket came otherwise than within HTTP/2: %s", line)
	}
	complaints := complaints(ctx)
	run(t, ctx, "open a page that has the script put into it", chromedp.Navigate("https://"+secure+"/strict"), chromedp.Poll(`window.antirobotSeal && document.title === "strict"`, nil))
	run(t, ctx, "leave it", chromedp.Navigate("https://"+secure+"/first"))
	eventually(t, "the evidence of a driven browser", func() bool {
		return strings.Contains(string(g.api("GET", "/api/subjects/ip:127.0.0.1", nil)), `"page_automation"`)
	})
	if said := complaints(); len(said) > 0 || g.metric("antirobot_evidence_pages_total", `service="strict"`, `result="inserted"`) != 1 {
		t.Errorf("the page with the script: %q", said)
	}
	g.ban("ip:127.0.0.1", "10m")
	run(t, ctx, "be asked", chromedp.Navigate("https://"+secure+"/second"), chromedp.WaitVisible(`input[name="rep"]`, chromedp.ByQuery))
	if p := protocol(); p != "h2" {
		t.Errorf("the captcha came by %s", p)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"path":"/first"`) }); !strings.Contains(line, `"ja4":"t13`) ||
		!strings.Contains(line, `|m,a,s,p"`) || !strings.Contains(line, `"behind_ms":`) {
		t.Errorf("the fingerprints of Chromium: %s", line)
	}
	run(t, ctx, "answer", chromedp.SendKeys(`input[name="rep"]`, testAnswer+"\r", chromedp.ByQuery))
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(value[string](t, ctx, `document.body ? document.body.innerText : ""`), "site got /second") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not back on the page: %s", value[string](t, ctx, `location.href`))
		}
	}
}

// TestH2Spec checks the front against RFC 9113 and RFC 7541 with an independent implementation's test suite.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	spec := servertest.Tool(t, "h2spec")
	g, secure, _ := http2Gateway(t, site(t).URL, "")
	host, port, _ := strings.Cut(secure, ":")
	out, _ := exec.Command(spec, "-h", host, "-p", port, "-t", "-k", "--timeout", "10").CombinedOutput()
	text := string(out)
	_, failures, _ := strings.Cut(text, "Failures:")
	// What fails harms nobody. Settings that are said twice in a frame end the connection; fields of a connection are
	// answered 400, which RFC 9113 section 8.1.1 allows before a reset.
	known := []string{
		"Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE",
		"Sends a HEADERS frame that contains the connection-specific header field",
		`Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`,
	}
	for line := range strings.Lines(failures) {
		_, name, failed := strings.Cut(line, "× ")
		if !failed {
			continue
		}
		_, name, _ = strings.Cut(strings.TrimSpace(name), ": ")
		ok := false
		for _, k := range known {
			ok = ok || name == k
		}
		if !ok {
			t.Errorf("fails: %s", name)
		}
	}
	if !strings.Contains(text, "145 tests, ") {
		t.Errorf("h2spec did not run to its end:\n%s", tail(text, 2000))
	}
	if n := g.metric("panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// TestHandshakeClients: programs are recognised by how they begin their connections, with their first request; one that
// claims to be a browser contradicts itself, and `why` says so.
func TestHandshakeClients(t *testing.T) {
	t.Parallel()
	g, secure, _ := http2Gateway(t, site(t).URL, "")
	url := "https://" + secure + "/"
	why := func(path string) string {
		t.Helper()
		var line struct {
			RequestID string `json:"request_id"`
		}
		found := g.logs.find(func(s string) bool { return strings.Contains(s, `"path":"/`+path+`"`) })
		if err := json.Unmarshal([]byte(found), &line); err != nil {
			t.Fatalf("no access line of /%s: %v", path, err)
		}
		_, out := command(t, "why", line.RequestID, "--admin", g.admin, "--data-dir", g.dir)
		return out
	}
	python := "import ssl,urllib.request as u; u.urlopen('" + url + "python',context=ssl._create_unverified_context())"
	for want, args := range map[string][]string{
		": of OpenSSL\n": {"curl", "-sk", url + "curl"}, ": of (Python|OpenSSL)\n": {"python3", "-c", python}, // Debian's Python offers what OpenSSL does
		": of Node\\.js\n": {"node", "-e", "fetch('" + url + "node')"},
	} {
		cmd := exec.Command(servertest.Need(t, args[0]), args[1:]...)
		cmd.Env = append(cmd.Environ(), "NODE_TLS_REJECT_UNAUTHORIZED=0")
		path, _, _ := strings.Cut(args[0], "3")
		if out, err := cmd.CombinedOutput(); err != nil || !regexp.MustCompile(want).MatchString(why(path)) {
			t.Errorf("%s: %v\n%s%s", args[0], err, out, why(path))
		}
	}
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequest("GET", url+"go", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if out := why("go"); !strings.Contains(out, ": of Go, which contradicts the browser") || !strings.Contains(out, "|a,m,p,s") {
		t.Errorf("a Go client as Chrome:\n%s", out)
	}
}

// TestGRPC: grpc-go's own interoperability tests between its client and its server, with the gateway in the path: calls, streams in
// either direction and in both at once, metadata, status codes and messages in trailers, deadlines and cancelled calls, which
// leave nothing behind. Client and service speak TLS, or neither does.
func TestGRPC(t *testing.T) {
	t.Parallel()
	bin := servertest.Tool(t, "interop")
	service, secureService, secure, plain := freePort(t), freePort(t), freePort(t), freePort(t)
	cert, key := certificate(t, t.TempDir(), 1)
	runDaemon(t, service, bin, "serve", service)
	runDaemon(t, secureService, bin, "serve", secureService, cert, key)
	g := startWith(t, "serve", "--config", configFile(t, `
listen:
  - {address: %q, tls_cert: %q, tls_key: %q}
  - {address: %q, h2c: true}
defaults: {upstream: {urls: ["http://%s"], protocol: h2}, verdict: {mode: observe}}
services:
  - {name: plain}
  - {name: secure, hosts: [localhost], upstream: {urls: ["https://%s"], tls: {ca_file: %[2]q, server_name: localhost}}}
`, secure, cert, key, plain, service, secureService))
	for _, args := range [][]string{{"ask", plain}, {"ask", "localhost:" + portOf(secure), "tls"}} {
		out, err := exec.Command(bin, args...).CombinedOutput()
		if n := strings.Count(string(out), "\n"); err != nil || n != 13 {
			t.Errorf("%v: %v, %d of 13 pass; the one after the last that is named fails:\n%s", args, err, n, out)
		}
	}
	for _, of := range []string{"plain", "secure"} {
		eventually(t, "calls that were cut end at the service, too", func() bool {
			return g.metric("upstream_connections", `service="`+of+`"`, `"active"`) == 0
		})
		if n := g.metric("upstream_dials_total", `service="`+of+`"`); n < 1 {
			t.Errorf("%v connections to the %s service", n, of)
		}
	}
	if n := g.metric("panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}
