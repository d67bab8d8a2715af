package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

// TestFailuresSayWhatToDo: whatever keeps a request from being served (a service that is away, slow or busy, a body, an address or
// cookies that are too large, an unknown host, a path that can be read in two ways), over each protocol people get a page in their
// language, scripts JSON, users of an XML interface XML, and whoever says nothing plain text.
func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(patience):
		}
	}))
	t.Cleanup(slow.Close)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {max_header_bytes: 8KiB}
defaults: {captcha: {branding: {name: The Shop}}}
services:
  - {name: down, hosts: [down.example], upstream: {urls: ["http://%s"]}, requests: {xml_paths: [/xml], max_body: 100}}
  - {name: slow, hosts: [slow.example], upstream: {urls: [%q]}, requests: {xml_paths: [/xml], response_timeout: 100ms}}
`, address, cert, key, freePort(t), slow.URL))
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	insecure := &tls.Config{InsecureSkipVerify: true}
	protocols := map[string]http.RoundTripper{
		"HTTP/1.1": &http.Transport{DialContext: dial, TLSClientConfig: insecure, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		"HTTP/2.0": &http.Transport{DialContext: dial, TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true},
		"HTTP/3.0": dialQUIC(t, address, "down.example").http,
	}
	cookies := strings.Repeat("c="+strings.Repeat("x", 2900)+"; ", 3) + "d=e"
	for _, c := range []struct {
		name, method, url string
		cookies           string
		status            int
		ru, en, kind      string // the page's heading, and the name in JSON
		wait              string
	}{
		{"away", "GET", "https://down.example/a", "", 502, "Сайт не отвечает", "The site does not answer", "upstream_down", "10"},
		{"away for a form", "POST", "https://down.example/a", "", 502, "Сайт не отвечает", "The site does not answer", "upstream_down", ""},
		{"slow", "GET", "https://slow.example/a", "", 504, "Сайт отвечает слишком долго", "The site takes too long", "upstream_timeout", "30"},
		{"large body", "POST", "https://down.example/a?large", "", 413, "Запрос слишком большой", "The request is too large", "too_large", ""},
		{"long address", "GET", "https://down.example/" + strings.Repeat("a", 3000), "", 414, "Адрес или cookie слишком длинные", "The address or the cookies are too long", "head_too_large", ""},
		{"large cookies", "GET", "https://down.example/", cookies, 431, "Адрес или cookie слишком длинные", "The address or the cookies are too long", "head_too_large", ""},
		{"unknown host", "GET", "https://unknown.example/", "", 421, "Здесь ничего нет", "There is nothing here", "not_found", ""},
		{"two readings", "GET", "https://down.example/a/%2e%2e/%00", "", 400, "Не удалось разобрать запрос", "The request could not be understood", "bad_request", ""},
	} {
		for protocol, via := range protocols {
			ask := func(path string, header ...string) (*http.Response, string) {
				t.Helper()
				body := "a=b"
				if strings.HasSuffix(c.url, "large") {
					body = strings.Repeat("a", 200)
				}
				var from io.Reader
				if c.method == "POST" {
					from = strings.NewReader(body)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, c.method, strings.Replace(c.url, "example/", "example/"+path, 1), from)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				if c.cookies != "" {
					req.Header.Set("Cookie", c.cookies)
				}
				res, err := via.RoundTrip(req)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.name, protocol, err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.name, protocol, err)
				}
				if res.StatusCode != c.status || res.Proto != protocol || res.Header.Get("Retry-After") != c.wait || res.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s, %s: %s %d %v", c.name, protocol, res.Proto, res.StatusCode, res.Header)
				}
				return res, string(b)
			}
			form := []string{"Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language"}
			for lang, heading := range map[string]string{"ru": c.ru, "en": c.en} {
				if res, body := ask("", append(form, lang)...); res.Header.Get("Content-Language") != lang || !strings.Contains(body, heading+"</h1>") {
					t.Errorf("%s, %s, in %s: %v\n%s", c.name, protocol, lang, res.Header, tail(body, 1500))
				}
			}
			var said struct{ Type string }
			if _, body := ask("", "Accept", "application/json"); json.Unmarshal([]byte(body), &said) != nil || said.Type != c.kind {
				t.Errorf("%s, %s, a script: %s", c.name, protocol, body)
			}
			if res, body := ask("xml/", "Accept", "text/xml"); xml.Unmarshal([]byte(body), new(struct{})) != nil || !strings.Contains(body, "<error code=") {
				t.Errorf("%s, %s, XML: %v %s", c.name, protocol, res.Header, body)
			}
			if res, body := ask("p.png", "Accept", "image/png", "Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors"); c.name != "two readings" && strings.Contains(res.Header.Get("Content-Type"), "html") {
				t.Errorf("%s, %s, a picture: %v %s", c.name, protocol, res.Header, body)
			}
		}
	}
	curl := servertest.Need(t, "curl")
	for _, as := range []string{"--http1.1", "--http2"} {
		out, err := exec.Command(curl, "-sk", as, "--resolve", "down.example:"+address[strings.LastIndexByte(address, ':')+1:]+":127.0.0.1",
			"-H", "Accept: application/json", "https://down.example"+address[strings.LastIndexByte(address, ':'):]+"/a").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), `{"type":"upstream_down","request-id":"`) {
			t.Errorf("curl %s: %v %s", as, err, out)
		}
	}
}

// TestCheckFailuresReachVisitors: where a balancer hands on the answer of a call, what can't be judged is told to the visitor: in style
// full, in style forward, and to a stopped request whose host no service has.
func TestCheckFailuresReachVisitors(t *testing.T) {
	t.Parallel()
	for style, path := range map[string]string{"full": "/a", "verdict": "/check?style=forward"} {
		g := start(t, "serve", "--config", configFile(t, `
check: {listen: ["127.0.0.1:0"], on_error: closed, style: %s}
services:
  - {name: shop, hosts: [shop.example], upstream: {urls: ["http://127.0.0.1:1"]}}
`, style))
		at, b := "http://"+g.listening("balancers"), visitor(t)
		b.Jar = nil
		ask := func(path, url string, more ...string) *response {
			host := strings.Split(url, "/")[2]
			return b.get(at+path, append(append([]string{"Host", host}, forwarded("GET", url, goodUser)...), more...)...)
		}
		html := []string{"Accept", "text/html", "Accept-Language", "ru"}
		ask(path, "http://unknown.example/", html...).must(t, 503, "Сейчас").must(t, 503, "</h1>")
		ask(path, "http://unknown.example/", "Accept", "application/json").must(t, 503, `"type":"unavailable"`)
		if style == "verdict" {
			ask("/", "http://unknown.example/", html...).must(t, 421, "Здесь ничего нет</h1>")
		}
	}
}
