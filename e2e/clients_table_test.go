package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"antirobot/servertest"
)

// fronts are a service and the ways that lead to it through a gateway.
type fronts struct {
	t       *testing.T
	service *watched
	gates   []*gateway
	plain   []string // the URLs of the gateways themselves
	all     []front
	lacking []string // programs that stand in no front because they are not installed
}

// front is a way to the service.
type front struct {
	name string
	base string // its URL
	do   func(from string, r *http.Request) (*http.Response, error)
}

// cause is why the gateway stops the clients of an address of this machine.
type cause struct {
	name   string
	from   string
	status int // for a program
}

var (
	byHand     = cause{"a ban by hand", "127.0.41.1", 403}
	byLimit    = cause{"a limit of pages", "127.0.42.1", 429}
	byBlock    = cause{"a block list", "127.0.43.1", 403}
	byList     = cause{"a ban list", "127.0.44.1", 403}
	byRule     = cause{"a blocking rule", "127.0.45.1", 403}
	byThrottle = cause{"a throttling rule", "127.0.46.1", 429}
	byAsking   = cause{"a rule that asks", "127.0.47.1", 429}
	byAttack   = cause{"an attack", "127.0.40.1", 429}
)

const tableConfig = `
listen:
  - {address: %[1]q}
  - {address: %[2]q, tls_cert: %[3]q, tls_key: %[4]q, http3: true}
check: {listen: ["127.0.0.1:0"], style: %[5]s, spoe: %[6]s, grpc: %[7]s}
identity: {trusted_proxies: [127.0.0.1]}
processor: {exempt: []}
lists: {crawlers: {provisional_requests: 0}}
verdict: {attack: {ease: 0s}}
defaults:
  upstream: {urls: [%[8]q]}
  requests: {ajax_paths: [/ajax]}
  rules:
    text: |
      do networkCheck(networks="127.0.45.0/24") mark ruled
      if ruled stop as BLOCK
      do networkCheck(networks="127.0.46.0/24") mark slowed
      if slowed stop as THROTTLE
      do networkCheck(networks="127.0.47.0/24") mark asked
      if asked stop as SPAM
      stop as OK
services:
  - name: site
    paths: [{prefix: /limited, verdict: {limits: [{window: 1h, requests: 3, ban: 1h}]}}]
`

// serveFronts runs the gateways and balancers.
func serveFronts(t *testing.T) *fronts {
	t.Helper()
	f := &fronts{t: t, service: watchService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Served-By", "site")
		fmt.Fprintf(w, "site got %s %s\n", r.Method, r.URL.Path)
	}))}
	cert, key := certificate(t, t.TempDir(), 1)
	run := func(style, spoe, grpc string) (g *checker, plain, secure string) {
		plain, secure = freePort(t), freePort(t)
		file := configFile(t, tableConfig, plain, secure, cert, key, style, spoe, grpc, f.service.URL)
		started := startWith(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
		f.gates, f.plain = append(f.gates, started), append(f.plain, "http://"+plain)
		return &checker{started, "http://" + started.listening("balancers")}, plain, secure
	}
	const any = `["127.0.0.1:0"]`
	g, plain, secure := run("verdict", any, any)
	full, _, _ := run("full", "[]", "[]")
	check, service := strings.TrimPrefix(g.check, "http://"), strings.TrimPrefix(f.service.URL, "http://")
	f.all = []front{
		overTCP(t, "HTTP/1.1", "http://"+plain, false), overTCP(t, "HTTP/2", "https://"+secure, true), overQUIC(t, secure),
		overForward(t, g.check),
	}
	f.balancer("Apache", "apache2", func() string { return runApache(t, plain) })
	f.balancer("nginx auth_request", "nginx", func() string { return runNginx(t, "auth_request.conf", check, service) })
	f.balancer("nginx X-Accel-Redirect", "nginx", func() string {
		return runNginx(t, "accel.conf", strings.TrimPrefix(full.check, "http://"), service)
	})
	f.balancer("HAProxy", "haproxy", func() string { return runHAProxy(t, check, service) })
	f.balancer("HAProxy SPOE", "haproxy", func() string { return runHAProxySPOE(t, check, g.listening("SPOE"), service) })
	f.balancer("Caddy", "caddy", func() string { return runCaddy(t, check, service) })
	f.balancer("Envoy", envoyPlayer, func() string { return runEnvoy(t, check, g.listening("ext_authz"), service) })
	for _, g := range f.gates {
		g.ban("ip:"+byHand.from, "1h")
		g.list("block", byBlock.from, "1h")
		g.list("ban", byList.from, "1h")
	}
	return f
}

// balancer adds a front, if its program is installed.
func (f *fronts) balancer(name, bin string, run func() string) {
	_, err := exec.LookPath(bin)
	if _, other := exec.LookPath("/usr/sbin/" + bin); err != nil && other != nil {
		f.lacking = append(f.lacking, bin)
		return
	}
	f.all = append(f.all, overTCP(f.t, name, run(), false))
}

// overTCP is a front at a URL.
func overTCP(t *testing.T, name, base string, second bool) front {
	var mu sync.Mutex
	clients := map[string]*http.Client{}
	return front{name, base, func(from string, r *http.Request) (*http.Response, error) {
		mu.Lock()
		c := clients[from]
		if c == nil {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			tr := &http.Transport{
				DialContext: dialer.DialContext, ForceAttemptHTTP2: second, DisableCompression: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			}
			t.Cleanup(tr.CloseIdleConnections)
			c = &http.Client{Timeout: patience, Transport: tr}
			c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			clients[from] = c
		}
		mu.Unlock()
		return c.Do(toBase(r, base))
	}}
}

func toBase(r *http.Request, base string) *http.Request {
	scheme, host, _ := strings.Cut(base, "://")
	r.URL.Scheme, r.URL.Host, r.Host = scheme, host, host
	return r
}

// overQUIC is HTTP/3.
func overQUIC(t *testing.T, addr string) front {
	var mu sync.Mutex
	clients := map[string]*http3.Transport{}
	return front{"HTTP/3", "https://" + addr, func(from string, r *http.Request) (*http.Response, error) {
		mu.Lock()
		tr := clients[from]
		if tr == nil {
			conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)})
			if err != nil {
				mu.Unlock()
				return nil, err
			}
			over := &quic.Transport{Conn: conn}
			tr = &http3.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true,
				Dial: func(ctx context.Context, addr string, own *tls.Config, how *quic.Config) (*quic.Conn, error) {
					to, err := net.ResolveUDPAddr("udp", addr)
					if err != nil {
						return nil, err
					}
					return over.Dial(ctx, to, own, how)
				},
			}
			t.Cleanup(func() { tr.Close(); over.Close(); conn.Close() })
			clients[from] = tr
		}
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		res, err := tr.RoundTrip(toBase(r, "https://"+addr).WithContext(ctx))
		if err != nil {
			cancel()
			return nil, err
		}
		res.Body = &closing{res.Body, cancel}
		return res, nil
	}}
}

// closing is a body whose end is the end of something else.
type closing struct {
	io.ReadCloser
	end func()
}

func (c *closing) Close() error { defer c.end(); return c.ReadCloser.Close() }

// overForward asks as Traefik does: it hands on the answer of a check that is not 2xx. Debian has no Traefik.
func overForward(t *testing.T, check string) front {
	ask := overTCP(t, "", check, false)
	return front{"forward", host, func(_ string, r *http.Request) (*http.Response, error) {
		return ask.do("127.0.0.1", r)
	}}
}

// host is what a check says of the site's.
const host = "http://site.example"

// newRequest makes a request for a path; header is names and values.
func newRequest(t *testing.T, method, path, body string, header ...string) *http.Request {
	t.Helper()
	var in io.Reader = http.NoBody
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, host+path, in)
	r.RequestURI = ""
	r.Header = http.Header{"User-Agent": nil}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// send sends a request through a front and reads the answer.
func (f *fronts) send(at *front, from string, r *http.Request) (*response, error) {
	if at.name == "forward" {
		asks := forwarded(r.Method, host+r.URL.RequestURI(), from)
		inner := newRequest(f.t, "GET", "/check?style=forward", "")
		inner.Header = r.Header
		for i := 0; i < len(asks); i += 2 {
			inner.Header.Set(asks[i], asks[i+1])
		}
		r = inner
	}
	res, err := at.do(from, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &response{res, string(b)}, err
}

// wrongs gathers what is wrong, so that one fault of many requests is one line.
type wrongs struct {
	mu    sync.Mutex
	what  []string
	where map[string][]string
}

func (f *wrongs) add(where, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	if f.where == nil {
		f.where = map[string][]string{}
	}
	if f.where[what] == nil {
		f.what = append(f.what, what)
	}
	f.where[what] = append(f.where[what], where)
}

func (f *wrongs) report(t *testing.T) {
	t.Helper()
	for _, what := range f.what {
		where := f.where[what]
		t.Errorf("%s: %d times, such as %s", what, len(where), strings.Join(where[:min(len(where), 3)], "; "))
	}
}

// sent is a kind of body.
type sent struct{ kind, body string }

// bodies are what programs send.
var bodies = []sent{
	{"", ""},
	{"application/json", `{"a":1}`},
	{"application/x-www-form-urlencoded", "a=1&b=2"},
	{"multipart/form-data; boundary=xyz", "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--xyz--\r\n"},
	{"application/octet-stream", "\x00\x01\x02"},
	{"text/xml", `<?xml version="1.0"?><a/>`},
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "OPTIONS"}

// chromeAgent is how Chrome calls itself.
const chromeAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
	"Chrome/131.0.0.0 Safari/537.36"

// compatible begins the names of robots.
const compatible = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; "

// acceptPage begins the Accept of browsers and robots that read pages.
const acceptPage = "text/html,application/xhtml+xml,application/xml;q=0.9"

// declared are the fields of robots that name themselves. The gateway can't verify any of them here.
var declared = map[string][]string{
	"GPTBot": {
		"User-Agent", compatible + "GPTBot/1.2; +https://openai.com/gptbot)",
		"Accept", acceptPage + ",*/*;q=0.8", "Accept-Encoding", "gzip, br, deflate", "From", "gptbot(at)openai.com",
	},
	"ClaudeBot": {
		"User-Agent", compatible + "ClaudeBot/1.0; +claudebot@anthropic.com)",
		"Accept", "*/*", "Accept-Encoding", "gzip, deflate, br, zstd",
	},
	"Googlebot": {
		"User-Agent", "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) " +
			"Chrome/131.0.6778.85 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Accept", acceptPage + ",*/*;q=0.8", "Accept-Encoding", "gzip, deflate, br", "Accept-Language", "en",
		"From", "googlebot(at)googlebot.com",
	},
}

// checkStopped checks the answer to a stopped program that sent an Accept.
func checkStopped(where string, bad *wrongs, r *response, accept string, status int) {
	head := r.Request.Method == http.MethodHead
	for _, fault := range faultsOf(r.Response, status) {
		bad.add(where, "%s", fault)
	}
	if len(r.body) > 2000 || strings.Contains(strings.ToLower(r.body), "<html") {
		bad.add(where, "a body that is long, or HTML: %.15q", r.body)
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case accept == "application/json" || accept == "application/problem+json":
		var problem struct {
			Status int
			Title  string
		}
		if kind != "application/problem+json" {
			bad.add(where, "%s for a program that accepts JSON", kind)
			break
		}
		err := json.Unmarshal([]byte(r.body), &problem)
		if !head && (err != nil || problem.Status != status || problem.Title == "") {
			bad.add(where, "problem details without status and title: %v", err)
		}
	case strings.HasSuffix(accept, "/xml"):
		if kind != "text/plain" && xml.Unmarshal([]byte(r.body), new(struct{ XMLName xml.Name })) != nil {
			bad.add(where, "%s that is no XML", kind)
		}
	case kind != "text/plain":
		bad.add(where, "%s for a program that accepts %q", kind, accept)
	}
	if !head && !strings.Contains(r.body, r.Header.Get("X-Request-Id")) {
		bad.add(where, "a body without the request's number")
	}
}

// programs sends the requests of all kinds of programs from an address through a front. The gateway must stop them.
func (f *fronts) programs(bad *wrongs, at *front, why cause) {
	try := func(what, accept string, r *http.Request) {
		where := strings.Join([]string{at.name, why.name, what}, ", ")
		got, err := f.send(at, why.from, r)
		if err != nil {
			bad.add(where, "%v", err)
			return
		}
		status := why.status
		if strings.HasPrefix(what, "Googlebot") && got.StatusCode == 403 { // DNS has refuted its name by now
			status = 403
		}
		checkStopped(where, bad, got, accept, status)
	}
	program := func(method, path, body string, header ...string) *http.Request {
		return newRequest(f.t, method, path, body, append([]string{"User-Agent", "acme-sync/2.1"}, header...)...)
	}
	for _, method := range methods {
		for _, body := range bodies {
			var header []string
			if body.kind != "" {
				header = []string{"Content-Type", body.kind}
			}
			text := body.body
			if method == "GET" || method == "HEAD" || method == "OPTIONS" {
				text = ""
			}
			try(method+" "+body.kind, "", program(method, "/thing", text, header...))
		}
	}
	for _, accept := range []string{
		"*/*", "text/html", "application/json", "application/problem+json", "application/xml", "text/xml", "text/plain",
	} {
		try("Accept "+accept, accept, program("GET", "/thing", "", "Accept", accept))
		post := program("POST", "/thing", "a=1", "Accept", accept, "Content-Type", form)
		try("POST Accept "+accept, accept, post)
	}
	for name, fields := range declared {
		for _, method := range []string{"GET", "HEAD"} {
			for _, path := range []string{"/", "/ajax", "/feed.xml"} {
				try(name+" "+method+" "+path, "", newRequest(f.t, method, path, "", fields...))
			}
		}
	}
	formType := []string{"Content-Type", form}
	library := []string{"User-Agent", chromeAgent, "Accept", "*/*", "Accept-Encoding", "gzip, deflate"}
	for what, r := range map[string]*http.Request{
		"a library with Chrome's name":         newRequest(f.t, "GET", "/thing", "", library...),
		"its call of a script's path":          newRequest(f.t, "GET", "/ajax", "", library...),
		"its form":                             newRequest(f.t, "POST", "/thing", "a=1", append(library, formType...)...),
		"a path that scripts call":             program("POST", "/ajax", "a=1", "Content-Type", form),
		"no User-Agent":                        newRequest(f.t, "POST", "/ajax", "{}", "Content-Type", "application/json"),
		"an app that sends another's Origin":   program("POST", "/thing", "{}", "Origin", "http://elsewhere.example"),
		"an app that sends the site's Referer": program("GET", "/thing", "", "Referer", at.base+"/"),
	} {
		try(what, "", r)
	}
}

// navigations are the fields of browsers that open a page.
var navigations = map[string][]string{
	"Chrome": {
		"User-Agent", chromeAgent,
		"Accept", acceptPage + ",image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
		"Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "en-US,en;q=0.9",
		"Sec-Ch-Ua", `"Google Chrome";v="131", "Chromium";v="131", "Not_A Brand";v="24"`, "Sec-Ch-Ua-Mobile", "?0",
		"Sec-Ch-Ua-Platform", `"Windows"`, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-Site", "none", "Sec-Fetch-User", "?1", "Upgrade-Insecure-Requests", "1",
	},
	"Firefox": {
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
		"Accept", acceptPage + ",*/*;q=0.8",
		"Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "de,en-US;q=0.7,en;q=0.3",
		"Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site",
		"Upgrade-Insecure-Requests", "1",
	},
	"Safari without Sec-Fetch": {
		"User-Agent", "Mozilla/5.0 (iPhone; CPU iPhone OS 15_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/15.6 Mobile/15E148 Safari/604.1", "Accept", acceptPage + ",*/*;q=0.8",
		"Accept-Encoding", "gzip, deflate", "Accept-Language", "fr-FR,fr;q=0.9",
	},
}

// inPage are the fields of Chrome when a page of the site asks for something.
func inPage(mode, dest, accept string, more ...string) []string {
	return append([]string{
		"User-Agent", chromeAgent, "Accept", accept, "Accept-Encoding", "gzip, deflate, br, zstd",
		"Accept-Language", "en-US,en;q=0.9", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", dest,
	}, more...)
}

// browsers checks that a stopped browser gets a challenge that it can show.
func (f *fronts) browsers(bad *wrongs, at *front, why cause) {
	try := func(want, what, method, path, body string, header ...string) {
		where := strings.Join([]string{at.name, why.name, what}, ", ")
		got, err := f.send(at, why.from, newRequest(f.t, method, path, body, header...))
		if err != nil {
			bad.add(where, "%v", err)
			return
		}
		kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
		is := fmt.Sprintf("%d %s", got.StatusCode, kind)
		switch {
		case got.StatusCode == 302 && strings.Contains(got.Header.Get("Location"), "/showcaptcha?"):
			is = "302 to the captcha"
		case got.StatusCode == 403 && got.body == "":
			is = "403 empty"
		}
		if is != want {
			bad.add(where, "got %s, wanted %s", is, want)
		}
		if strings.HasSuffix(want, "/json") && !strings.Contains(got.body, `"type":"captcha"`) {
			bad.add(where, "JSON without a captcha")
		}
	}
	json, page := "200 application/json", "200 text/html"
	if at.name == "forward" { // a check must not answer a stopped request with 2xx
		json, page = "403 application/json", "302 to the captcha"
	}
	fromForm := append(slices.Clone(navigations["Chrome"]), "Content-Type", form, "Origin", at.base)
	ofPage := inPage("cors", "empty", "*/*", "Referer", at.base+"/page")
	posts := inPage("cors", "empty", "application/json", "Origin", at.base, "Content-Type", "application/json")
	picture := inPage("no-cors", "image", "image/avif,image/webp,*/*;q=0.8", "Referer", at.base+"/page")
	old := []string{"User-Agent", "old/1", "X-Requested-With", "XMLHttpRequest", "Content-Type", form}
	for name, fields := range navigations {
		try("302 to the captcha", name+" opens a page", "GET", "/thing", "", fields...)
	}
	try(page, "a form", "POST", "/thing", "a=1", fromForm...)
	try(json, "a script's GET", "GET", "/thing", "", ofPage...)
	try(json, "a script's POST", "POST", "/thing", "{}", posts...)
	try(json, "a script's DELETE", "DELETE", "/thing", "", ofPage...)
	try(json, "a path that scripts call", "GET", "/ajax", "", inPage("cors", "empty", "*/*")...)
	try("403 empty", "a picture", "GET", "/thing", "", picture...)
	try(json, "an old client's GET", "GET", "/thing", "", old...)
	try("403 application/json", "an old client's POST", "POST", "/thing", "a=1", old...)
}

// knownFiles are the well-known files, the most important ones first.
var knownFiles = []string{
	"/robots.txt", "/.well-known/acme-challenge/token", "/favicon.ico", "/.well-known/security.txt",
	"/.well-known/webfinger?resource=acct:a@site.example", "/sitemap.xml", "/ads.txt", "/app-ads.txt", "/security.txt",
	"/llms.txt",
}

// likeKnown are requests that only look like those for well-known files.
var likeKnown = []string{
	"GET /.well-known/../thing", "GET /.well-known/..%2fthing", "GET /.well-known",
	"GET /.well-known/acme-challenge/../../thing", "GET /.well-known/acme-challenge/%2e%2e/%2e%2e/thing",
	"GET /robots.txt/thing", "GET /robots.txt%2f..%2fthing", "GET /robots.txt.html", "GET /a/robots.txt",
	"POST /robots.txt", "PUT /sitemap.xml", "DELETE /.well-known/acme-challenge/token",
}

// known asks for well-known files. They pass, except that the operator's block list and blocking rules stop all but the
// challenges of ACME.
func (f *fronts) known(bad *wrongs, at *front, why cause) {
	files, readers := knownFiles[:3], [][]string{{"User-Agent", "acme-sync/2.1"}}
	if at.name == "HTTP/1.1" {
		files, readers = knownFiles, append(readers, declared["GPTBot"], declared["Googlebot"], navigations["Chrome"])
	}
	for _, path := range files {
		want := 200
		if (why == byBlock || why == byRule) && !strings.Contains(path, "acme-challenge") {
			want = 403
		}
		for i, reader := range readers {
			if i > 0 && !slices.Contains(knownFiles[:3], path) {
				break // an address gets only so many of them in a minute
			}
			for _, method := range []string{"GET", "HEAD"} {
				where := strings.Join([]string{at.name, why.name, method, path, fmt.Sprint("reader ", i)}, ", ")
				got, err := f.send(at, why.from, newRequest(f.t, method, path, "", reader...))
				switch {
				case err != nil:
					bad.add(where, "%v", err)
				case got.StatusCode != want:
					bad.add(where, "a well-known file: status %d, wanted %d", got.StatusCode, want)
				case at.name != "forward" && (got.Header.Get("X-Served-By") == "site") != (want == 200):
					bad.add(where, "a well-known file, served by %q", got.Header.Get("X-Served-By"))
				}
			}
		}
	}
	if at.name != "HTTP/1.1" {
		return
	}
	for _, like := range likeKnown {
		method, path, _ := strings.Cut(like, " ")
		got, err := f.send(at, why.from, newRequest(f.t, method, path, "", "User-Agent", "acme-sync/2.1"))
		if err != nil || got.StatusCode/100 == 2 || got.Header.Get("X-Served-By") == "site" {
			bad.add(at.name+", "+why.name+", "+like, "no well-known file, but it passes: %v", err)
		}
	}
}

// each runs a part of the table in all fronts at once.
func (f *fronts) each(t *testing.T, name string, part func(bad *wrongs, at *front)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		var bad wrongs
		var all sync.WaitGroup
		for i := range f.all {
			all.Go(func() { part(&bad, &f.all[i]) })
		}
		all.Wait()
		bad.report(t)
	})
}

// TestClientsTable sends programs' requests of all methods and kinds of bodies through all fronts while the gateway
// stops them for one of many causes. No program ever reads a success or a redirect, and the service sees none of the
// requests. Browsers get challenges that they can show. Well-known files pass.
func TestClientsTable(t *testing.T) {
	t.Parallel()
	f := serveFronts(t)
	for i, g := range f.gates {
		direct := overTCP(t, "", f.plain[i], false)
		eventually(t, "a client is over the limit", func() bool {
			r, err := f.send(&direct, byLimit.from, newRequest(t, "GET", "/limited", "", navigations["Chrome"]...))
			return err == nil && r.StatusCode == 302
		})
		if b := g.api("GET", "/api/bans", nil); !strings.Contains(string(b), byLimit.from) {
			t.Fatalf("no ban: %s", b)
		}
	}
	f.service.take()
	nothing := func() {
		t.Helper()
		if got := f.service.take(); len(got) > 0 {
			t.Errorf("the service got %d requests of stopped clients: %.10q", len(got), got)
		}
	}
	f.each(t, "programs", func(bad *wrongs, at *front) {
		for _, why := range []cause{byHand, byLimit, byBlock, byList, byRule, byThrottle, byAsking} {
			f.programs(bad, at, why)
		}
	})
	nothing()
	f.each(t, "browsers", func(bad *wrongs, at *front) {
		for _, why := range []cause{byHand, byLimit, byList, byAsking} {
			f.browsers(bad, at, why)
		}
	})
	nothing()
	f.each(t, "well-known files", func(bad *wrongs, at *front) {
		for _, why := range []cause{byHand, byLimit, byBlock, byList, byRule, byAsking} {
			f.known(bad, at, why)
		}
	})
	f.service.take()
	for _, g := range f.gates {
		g.api("POST", "/api/attack", map[string]string{"for": "10m"})
	}
	f.each(t, "programs under attack", func(bad *wrongs, at *front) { f.programs(bad, at, byAttack) })
	nothing()
	f.each(t, "browsers under attack", func(bad *wrongs, at *front) { f.browsers(bad, at, byAttack) })
	nothing()
	f.each(t, "well-known files under attack", func(bad *wrongs, at *front) { f.known(bad, at, byAttack) })
	for _, bin := range slices.Compact(f.lacking) {
		t.Run(bin, func(t *testing.T) { servertest.Lack(t, bin, "make deps") })
	}
}

// TestClientsSitemaps: a sitemap that robots.txt names is a well-known file.
func TestClientsSitemaps(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/robots.txt" {
			fmt.Fprintf(w, "User-agent: *\nAllow: /\nSitemap: http://%s/maps/of-news.xml\n", r.Host)
			return
		}
		fmt.Fprint(w, "<urlset/>")
	}))
	t.Cleanup(service.Close)
	g := guarded(t, service.URL)
	g.ban("ip:127.0.0.1", "10m")
	c := visitor(t)
	c.header = http.Header{"User-Agent": {"acme-sync/2.1"}}
	c.get(g.url+"/maps/of-news.xml").must(t, 403, "")
	c.get(g.url+"/robots.txt").must(t, 200, "Sitemap: ")
	c.get(g.url+"/maps/of-news.xml").must(t, 200, "urlset")
	c.get(g.url+"/maps/of-other.xml").must(t, 403, "")
}

// TestClientsMessageRoute: a message route answers a program that it stops with 403.
func TestClientsMessageRoute(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	at := overTCP(t, "HTTP/1.1", g.url, false)
	f := &fronts{t: t}
	var bad wrongs
	n := 0
	for _, path := range []string{"/comments", "/strict/x"} {
		for _, body := range []sent{
			{form, "words=casino+%d"},
			{"application/json", `{"comment":{"body":"casino %d"}}`},
			{
				"multipart/form-data; boundary=xyz",
				"--xyz\r\nContent-Disposition: form-data; name=\"words\"\r\n\r\ncasino %d\r\n--xyz--\r\n",
			},
		} {
			if path != "/comments" && body.kind != form {
				continue
			}
			n++ // what is said twice is quarantined
			r := newRequest(t, "POST", path, fmt.Sprintf(body.body, n), "User-Agent", "acme-sync/2.1", "Content-Type", body.kind)
			got, err := f.send(&at, byAttack.from, r)
			if err != nil {
				t.Fatal(err)
			}
			checkStopped(path+" "+body.kind, &bad, got, "", 403)
		}
	}
	bad.report(t)
	if got, _ := book.take(); len(got) > 0 {
		t.Errorf("the service got %q", got)
	}
}

// TestClientsPace: a program that posts more than any tool does is slowed down by 429 and never banned. Well-known files
// have a limit of their own.
func TestClientsPace(t *testing.T) {
	t.Parallel()
	s := site(t)
	g := guarded(t, s.URL)
	at := overTCP(t, "HTTP/1.1", g.url, false)
	f := &fronts{t: t}
	const most, workers = 50_000, 8
	var bad wrongs
	var passed, slowed atomic.Int64
	var posting sync.WaitGroup
	for range workers {
		posting.Go(func() {
			for slowed.Load() < 100 && passed.Load() < most {
				got, err := f.send(&at, byAttack.from, newRequest(t, "POST", "/hook", "{}", "User-Agent", "acme-sync/2.1"))
				switch {
				case err != nil:
					bad.add("a post", "%v", err)
				case got.StatusCode == 200:
					passed.Add(1)
				default:
					slowed.Add(1)
					checkStopped("a post", &bad, got, "", 429)
				}
			}
		})
	}
	posting.Wait()
	bad.report(t)
	if passed.Load() < 1000 || passed.Load() >= most {
		t.Errorf("%d posts passed, and %d were slowed down", passed.Load(), slowed.Load())
	}
	if b := g.api("GET", "/api/bans", nil); strings.Contains(string(b), `"subject"`) {
		t.Errorf("banned: %s", b)
	}
	g.ban("ip:"+byHand.from, "10m")
	files := 0
	for range 1000 {
		got, err := f.send(&at, byHand.from, newRequest(t, "GET", "/robots.txt", "", "User-Agent", "acme-sync/2.1"))
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode == 200 {
			files++
		}
	}
	if files < 20 || files == 1000 {
		t.Errorf("of 1000 well-known files a banned program got %d", files)
	}
}

// TestClientsRequired: when the service asks for a proof, a program gets the service's own refusal and no challenge.
func TestClientsRequired(t *testing.T) {
	t.Parallel()
	upstream, _ := asking(t)
	g := guarded(t, upstream)
	at := overTCP(t, "HTTP/1.1", g.url, false)
	f := &fronts{t: t}
	for _, r := range []*http.Request{
		newRequest(t, "GET", "/signup", "", "User-Agent", "acme-sync/2.1"),
		newRequest(t, "POST", "/signup", "a=1", "User-Agent", "acme-sync/2.1", "Content-Type", form),
		newRequest(t, "POST", "/signup", "{}", "User-Agent", "acme-sync/2.1", "Content-Type", "application/json"),
		newRequest(t, "GET", "/signup", "", declared["GPTBot"]...),
	} {
		got, err := f.send(&at, byAttack.from, r)
		if err != nil || got.StatusCode != 403 || got.body != "not yet" {
			t.Errorf("%s: %v %d %s", r.Method, err, got.StatusCode, tail(got.body, 200))
		}
	}
}
