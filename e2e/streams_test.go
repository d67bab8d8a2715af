package e2e

import (
	"bufio"
	"bytes"
	"context"
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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
)

// streamSite echoes over a WebSocket at /ws and sends an event at /events for everything received from send. Everything
// else is answered at once.
func streamSite(t *testing.T) (url string, send chan<- string) {
	t.Helper()
	events := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			for {
				kind, b, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, append([]byte("echo "), b...)) != nil {
					return
				}
			}
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for {
				select {
				case text := <-events:
					fmt.Fprintf(w, "data: %s\n\n", text)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		default:
			fmt.Fprint(w, "site got "+r.URL.Path)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, events
}

// socket opens a WebSocket through the gateway.
func (g *gateway) socket(ctx context.Context) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, "ws"+strings.TrimPrefix(g.url, "http")+"/ws", nil)
}

// roundTrip sends a text and waits for it to come back.
func roundTrip(t *testing.T, ctx context.Context, c *websocket.Conn, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	_, b, err := c.Read(ctx)
	if err != nil || string(b) != "echo "+text {
		t.Fatalf("%s came back as %.40q, %v", text, b, err)
	}
}

// TestPitfall20StreamsOutliveABan opens a WebSocket and an event stream, and then bans and stops their reader: open streams go on, new
// requests do not. What a block does to them is in TestBlockEndsStreams.
func TestPitfall20StreamsOutliveABan(t *testing.T) {
	t.Parallel()
	site, send := streamSite(t)
	g := serve(t, site)
	ctx := t.Context()
	ws, _, err := g.socket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	roundTrip(t, ctx, ws, "before")

	res, err := http.Get(g.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)
	event := func(text string) {
		t.Helper()
		send <- text
		for _, want := range []string{"data: " + text + "\n", "\n"} { // each piece arrives before the next is sent
			if line, err := stream.ReadString('\n'); err != nil || line != want {
				t.Fatalf("the stream brought %q, %v; wanted %q", line, err, want)
			}
		}
	}
	event("one")
	g.ban("ip:127.0.0.1", "10m")
	g.list("ban", "127.0.0.1", "10m")
	time.Sleep(3 * time.Second) // a block would be noticed
	roundTrip(t, ctx, ws, "after a ban")
	event("after a ban")
	roundTrip(t, ctx, ws, strings.Repeat("x", 30_000))
	for _, path := range []string{"/ws", "/events"} {
		r := visitor(t).get(g.url+path, "Accept", "text/event-stream", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "cors")
		if !strings.Contains(r.body, "captcha") {
			t.Errorf("a new %s: %d %.40q", path, r.StatusCode, r.body)
		}
	}
	if c, res, err := g.socket(ctx); err == nil || res == nil || res.StatusCode != 403 {
		t.Errorf("a new WebSocket: %v %v", c, err)
	}
	if n := g.metric("antirobot_http_open_tunnels"); n != 1 {
		t.Errorf("%v tunnels are open", n)
	}
}

// TestPitfall27ReloadDropsNothing reloads twenty times, changing services and upstreams each time, while a WebSocket and an
// event stream are open and other clients send requests without pause.
func TestPitfall27ReloadDropsNothing(t *testing.T) {
	t.Parallel()
	one, send := streamSite(t)
	two, _ := streamSite(t)
	text := func(upstream, mode string) string {
		return fmt.Sprintf("services: [{name: site, upstream: {urls: [%q]}, verdict: {mode: %s}}]\n", upstream, mode)
	}
	file := configFile(t, "%s", text(one, "enforce"))
	g := start(t, "serve", "--config", file)
	ws, _, err := g.socket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	res, err := http.Get(g.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)

	var asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // below the limits of pace, with the reloads' time
				}
				r, err := http.Post(g.url+"/load", "text/plain", strings.NewReader("body"))
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				b, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != 200 || string(b) != "site got /load" {
					t.Errorf("a request got %d %q %v", r.StatusCode, b, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	g.api("POST", "/api/lists/white", map[string]string{"entry": "127.0.0.1", "reason": "the test is fast"})
	for n := range 20 {
		upstream, mode := one, "observe"
		if n%2 == 0 {
			upstream, mode = two, "enforce"
		}
		write(t, file, text(upstream, mode))
		g.api("POST", "/api/reload", nil)
		roundTrip(t, t.Context(), ws, fmt.Sprint("reload ", n))
		if n%5 == 0 {
			write(t, file, text(upstream, mode)+"nonsense: 1\n")
			if status, _ := g.tryAPI("POST", "/api/reload", nil); status != 422 {
				t.Errorf("a bad file is taken: %d", status)
			}
		}
	}
	close(stop)
	wg.Wait()
	send <- "still here"
	if line, err := stream.ReadString('\n'); err != nil || line != "data: still here\n" {
		t.Errorf("the stream brought %q, %v", line, err)
	}
	if asked.Load() < 20 {
		t.Errorf("only %d requests were made meanwhile", asked.Load())
	}
}

// TestPitfall26AskWhileItRuns asks why a request was let through while its answer is still being sent.
func TestPitfall26AskWhileItRuns(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan string), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("X-Request-Id")
		<-release
	}))
	t.Cleanup(s.Close)
	g := serve(t, s.URL)
	var wg sync.WaitGroup
	wg.Go(func() { visitor(t).get(g.url + "/long") })
	t.Cleanup(func() { close(release); wg.Wait() })
	if d := g.whyID(<-arrived); d.Verdict != "human" || d.Path != "/long" {
		t.Errorf("got %+v", d)
	}
}

// TestPitfall19PassIsNotCleared: whatever else is requested, only a right answer sets the pass, and nothing clears it.
func TestPitfall19PassIsNotCleared(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	g.earn(v, "/")
	pass := v.pass(t, g.url)
	for what, header := range map[string][]string{
		"image": {"Sec-Fetch-Dest", "image"}, "script": {"X-Requested-With", "XMLHttpRequest"}, "page": {},
		"from before": {"Cookie", "spravka=from-before", "Sec-Fetch-Dest", "style"},
	} {
		for _, path := range []string{"/x", "/showcaptcha", "/captcha/image?key=old", "/checkcaptcha?key=old&rep=1"} {
			if r := v.get(g.url+path, header...); r.setsCookie("spravka") {
				t.Errorf("%s, %s: Set-Cookie %q", what, path, r.Header.Values("Set-Cookie"))
			}
			if r := visitor(t).get(g.url+path, header...); r.setsCookie("spravka") {
				t.Errorf("%s, %s without a pass: Set-Cookie %q", what, path, r.Header.Values("Set-Cookie"))
			}
		}
	}
	if v.pass(t, g.url) != pass {
		t.Error("the pass has changed")
	}
	// a tab with an older pass beside a newer one: several cookies of one name, one of which counts
	v.get(g.url+"/", "Cookie", "spravka=old; spravka=older; spravka=; a=b; spravka="+pass).must(t, 200, "site got")
}

// TestPitfall21FormTooLarge posts more than can be kept: the page says so before anybody types digits, and nothing reaches
// the service.
func TestPitfall21FormTooLarge(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	v := visitor(t)
	fits := v.do("POST", g.url+"/post", "text="+strings.Repeat("x", 60_000), form...).must(t, 200, "is kept")
	if strings.Contains(fits.body, "cannot be kept") {
		t.Error("a form of 60 KB is told to be lost")
	}
	page := visitor(t).do("POST", g.url+"/post", "text="+strings.Repeat("x", 70_000), form...).must(t, 200, "larger than 64 KB and cannot be kept")
	if strings.Contains(page.body, "is kept.") {
		t.Error("the page also says that it is kept")
	}
	answer := formOf(t, page.body)
	answer.Set("rep", testAnswer)
	visitor(t).do("POST", g.url+"/checkcaptcha", answer.Encode(), form...).must(t, 200, "go back in your browser")

	answer = formOf(t, fits.body)
	answer.Set("rep", testAnswer)
	v.do("POST", g.url+"/checkcaptcha", answer.Encode(), form...).must(t, 200, "site got POST /post").must(t, 200, strings.Repeat("x", 60_000))
	again := v.do("POST", g.url+"/checkcaptcha", answer.Encode(), form...)
	if strings.Contains(again.body, "site got") {
		t.Error("the form was sent on twice")
	}

	// a form whose length is not said is kept or told to be lost all the same
	head := "POST /post HTTP/1.1\r\nHost: a\r\n" + browserLines + "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	g.wire(head+"5\r\na=b&c\r\n0\r\n\r\n").must(t, 200, "is kept")
	big := strings.Repeat("y", 70_000)
	g.wire(head+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(big), big)).must(t, 200, "cannot be kept")
}

// dripping sends without end: events at /events, one event and then nothing at /silent, a long file at /file.
func dripping(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := []byte("data: x\n\n")
		switch r.URL.Path {
		case "/file":
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			piece = bytes.Repeat([]byte("x"), 100<<10)
		case "/events", "/silent":
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for ; ; time.Sleep(50 * time.Millisecond) {
			if _, err := w.Write(piece); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			if r.URL.Path == "/silent" {
				<-r.Context().Done()
				return
			}
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// TestBlockEndsStreams: what is open when its reader is banned goes on, and ends within seconds of a block, over each protocol and
// from services of both, whether it moves or not. In mode observe nothing ends.
func TestBlockEndsStreams(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	address, service := freePort(t), dripping(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
services:
  - {name: one, hosts: [one.example], upstream: {urls: [%q]}}
  - {name: two, hosts: [two.example], upstream: {urls: [%q], protocol: h2}}
  - {name: observed, hosts: [observed.example], upstream: {urls: [%q]}, verdict: {mode: observe}}
`, address, cert, key, service, service, service))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trust := &tls.Config{InsecureSkipVerify: true}
	third := &http3.Transport{TLSClientConfig: trust.Clone()}
	defer third.Close()
	var ended, goes sync.WaitGroup
	for protocol, c := range map[string]http.RoundTripper{
		"h1": &http.Transport{TLSClientConfig: trust.Clone()}, "h2": &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true}, "h3": third,
	} {
		for _, host := range []string{"one", "two", "observed"} {
			for _, path := range []string{"/events", "/silent", "/file"} {
				what, wg := protocol+" "+host+path, &ended
				if host == "observed" {
					wg = &goes
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = host + ".example"
				res, err := c.RoundTrip(req)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("%s: %v %v", what, res, err)
				}
				defer res.Body.Close()
				wg.Go(func() {
					if _, err := io.Copy(io.Discard, res.Body); err == nil {
						t.Errorf("%s ended as if it were whole", what)
					}
				})
			}
		}
	}
	wait := func(wg *sync.WaitGroup, long time.Duration) bool {
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
			return true
		case <-time.After(long):
			return false
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	time.Sleep(3 * time.Second)
	if n := g.metric("antirobot_http_revoked_answers_total"); n != 0 {
		t.Errorf("a ban ended %v answers", n)
	}
	g.list("block", "127.0.0.1", "10m")
	if !wait(&ended, patience) {
		t.Error("blocked, and still reading")
	}
	if n := g.metric("antirobot_http_revoked_answers_total"); n != 18 {
		t.Errorf("%v answers were revoked; 18 were open", n)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"answer cut"`) }); !strings.Contains(line, `"reason":"api: 127.0.0.1"`) {
		t.Errorf("the line of one: %s", line)
	}
	if wait(&goes, 100*time.Millisecond) {
		t.Error("mode observe cut what was open")
	}
	cancel()
	goes.Wait()
}

// TestBlockEndsWebSockets: so do WebSockets, over HTTP/1 and HTTP/2.
func TestBlockEndsWebSockets(t *testing.T) {
	t.Parallel()
	site, _ := streamSite(t)
	g, secure, plain := http2Gateway(t, site, "")
	ws, _, err := websocket.Dial(t.Context(), "ws://"+plain+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	sent, say := io.Pipe()
	defer say.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+secure+"/ws", sent)
	if err != nil {
		t.Fatal(err)
	}
	req.Header[":protocol"], req.Header["Sec-Websocket-Version"] = []string{"websocket"}, []string{"13"}
	res, err := (&http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(req) //nolint:staticcheck // net/http has no WebSocket
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("over HTTP/2: %v %v", res, err)
	}
	defer res.Body.Close()
	second := func() error { // a message there and back
		if _, err := say.Write([]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}); err != nil {
			return err
		}
		_, err := io.ReadFull(res.Body, make([]byte, len("??echo x")))
		return err
	}
	g.ban("ip:127.0.0.1", "10m")
	time.Sleep(3 * time.Second)
	roundTrip(t, t.Context(), ws, "after a ban")
	if err := second(); err != nil {
		t.Fatalf("over HTTP/2, after a ban: %v", err)
	}
	g.list("block", "127.0.0.1", "10m")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; ; n++ {
		if err = ws.Write(ctx, websocket.MessageText, []byte("x")); err == nil {
			_, _, err = ws.Read(ctx)
		}
		if err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for ctx.Err() == nil && second() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("blocked, and still speaking")
	}
	if n := g.metric("antirobot_http_open_tunnels"); n != 0 {
		t.Errorf("%v tunnels are open", n)
	}
}

// TestPitfall12BodiesInSum opens many posts that never end, to the captcha's check and to the service: the total memory of
// their bodies is bounded, requests beyond the bound are asked to retry, and when the others leave there is room again.
func TestPitfall12BodiesInSum(t *testing.T) {
	t.Parallel()
	const bound = 512 << 10
	g := configured(t, fmt.Sprintf("http: {max_bodies_bytes: %d}\n", bound)+"defaults: {upstream: {urls: [%q]}}\n", site(t).URL)
	held := func() float64 { return g.metric("http_bodies_bytes") }
	for _, path := range []string{"/checkcaptcha", "/upload"} {
		var conns []net.Conn
		refused := 0
		for range 60 {
			c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conns = append(conns, c)
			before := held()
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\n%s",
				path, strings.Repeat("x", 30_000))
			answers := make(chan *http.Response, 1)
			go func() {
				if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
					answers <- res
				}
			}()
			if res := firstOf(t, answers, func() bool { return held() >= before+30_000 }); res != nil {
				refused++
				if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
					t.Errorf("%s: status %d, Retry-After %q", path, res.StatusCode, res.Header.Get("Retry-After"))
				}
				if refused == 3 {
					break
				}
			}
			if n := held(); n > bound {
				t.Fatalf("%s: %v bytes are held, above the bound", path, n)
			}
		}
		if refused < 3 || g.metric(`http_limits_total{limit="bodies_in_sum"}`) < 3 {
			t.Errorf("%s: %d were refused", path, refused)
		}
		for _, c := range conns {
			c.Close()
		}
		eventually(t, "the bodies of those who left are forgotten", func() bool { return held() == 0 })
	}
	res, err := http.Post(g.url+"/upload", "text/plain", strings.NewReader(strings.Repeat("y", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("afterwards: status %d", res.StatusCode)
	}
}

// firstOf waits for an answer or for ok, whichever comes first.
func firstOf(t *testing.T, answers <-chan *http.Response, ok func() bool) *http.Response {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case res := <-answers:
			return res
		case <-time.After(10 * time.Millisecond):
		}
		if ok() {
			return nil
		}
	}
	t.Fatal("neither an answer nor bytes that are held")
	return nil
}

// typedSite is a service whose answers have the type that their paths name.
func typedSite(t *testing.T) string {
	t.Helper()
	types := map[string]string{"page": "text/html", "script": "text/javascript", "picture": "image/png", "data": "application/json"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("Content-Type", types[kind])
		_, _ = io.WriteString(w, "a "+kind)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// loads requests a subresource as the elements of a page do.
func (c *client) loads(url, dest string) int {
	c.t.Helper()
	return c.get(url, "Sec-Fetch-Dest", dest, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin", "Accept", "*/*").StatusCode
}

// TestTwentyOfANetworkReadTenPages: twenty people of one /24 who solve one after the other can each read ten pages with all their
// scripts, whatever their network has earned before them.
func TestTwentyOfANetworkReadTenPages(t *testing.T) {
	t.Parallel()
	g := serve(t, typedSite(t), "--trusted-proxies", "127.0.0.1")
	for person := range 20 {
		addr := fmt.Sprintf("198.51.100.%d", person+1)
		g.ban("ip:"+addr, "1h")
		v := visitor(t)
		v.header.Set("X-Forwarded-For", addr)
		g.solve(v, "/page/0")
		for page := range 10 {
			where := fmt.Sprintf("%s/%%s/%d-%d", g.url, person, page)
			if s := v.get(fmt.Sprintf(where, "page")).StatusCode; s != 200 {
				t.Fatalf("person %d, page %d: %d", person+1, page+1, s)
			}
			var wg sync.WaitGroup
			for n := range 3 {
				wg.Go(func() {
					if s := v.loads(fmt.Sprintf(where+"-%d", "script", n), "script"); s != 200 {
						t.Errorf("person %d, page %d, script %d: %d", person+1, page+1, n+1, s)
					}
				})
			}
			wg.Wait()
			v.loads(g.url+"/favicon.ico", "image") // that there is none costs nothing
		}
	}
}

// TestBanBetweenAPageAndItsPictures: a client that is banned when it has been served a page still gets the subresources of that
// page, at most sixty of them, but no page and no data, whatever it calls them; another client gets none, and a block entry stops
// them all.
func TestBanBetweenAPageAndItsPictures(t *testing.T) {
	t.Parallel()
	g := serve(t, typedSite(t), "--trusted-proxies", "127.0.0.1")
	const addr = "198.51.100.1"
	v, other := visitor(t), visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	other.header.Set("X-Forwarded-For", addr)
	other.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	v.get(g.url+"/page/1").must(t, 200, "a page")
	g.ban("ip:"+addr, "1h")
	got := 0
	for n := range 57 {
		if v.loads(fmt.Sprintf("%s/picture/%d", g.url, n), "image") == 200 {
			got++
		}
	}
	if got != 57 {
		t.Errorf("of 57 pictures of the page %d come", got)
	}
	for _, path := range []string{"/page/2", "/data/1"} {
		if s := v.loads(g.url+path, "image"); s != 403 {
			t.Errorf("%s comes as a picture: %d", path, s)
		}
	}
	if s := v.loads(g.url+"/script/last", "script"); s != 200 {
		t.Errorf("the sixtieth request for a subresource: %d", s)
	}
	if s := v.loads(g.url+"/script/more", "script"); s != 403 {
		t.Errorf("the sixty-first: %d", s)
	}
	if s := other.loads(g.url+"/picture/other", "image"); s != 403 {
		t.Errorf("another client's picture: %d", s)
	}
	v.get(g.url+"/page/3").must(t, 302, "")

	v.header.Set("X-Forwarded-For", "198.51.100.2")
	v.get(g.url+"/page/1").must(t, 200, "a page")
	g.list("block", "198.51.100.2", "1h")
	if s := v.loads(g.url+"/picture/1", "image"); s != 403 {
		t.Errorf("a blocked client's picture: %d", s)
	}
}

// holdingSite is a service that answers /hold when it is released; each tells of itself in in.
func holdingSite(t *testing.T) (url string, in <-chan struct{}, release func()) {
	t.Helper()
	began, end := make(chan struct{}, 10_000), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			began <- struct{}{}
			<-end
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<title>a page</title>ok")
	}))
	t.Cleanup(s.Close)
	release = sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	return s.URL, began, release
}

// answerOf is the status of an answer; 0: there is none.
func answerOf(t *testing.T, tr *http.Transport, url string) int {
	t.Helper()
	r, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

// plainHTTP2 is a client of HTTP/2 without TLS.
func plainHTTP2(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// TestPitfall12RequestsUnderWay: an address has as many requests of HTTP/2 under way as it may have, and each of its connections a few
// beyond.
func TestPitfall12RequestsUnderWay(t *testing.T) {
	t.Parallel()
	const limit, most = "requests_per_addr", 20
	service, in, release := holdingSite(t)
	addr := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, h2c: true}]\nhttp: {max_%s: %d}\ndefaults: {upstream: {urls: [%q]}}\n", addr, limit, most, service))
	one, two := plainHTTP2(t), plainHTTP2(t)
	for _, tr := range []*http.Transport{one, two} { // requests that come before a connection is there may open another
		if got := answerOf(t, tr, "http://"+addr+"/more"); got != 200 {
			t.Fatalf("the first request of a connection gets %d", got)
		}
	}
	var held sync.WaitGroup
	for n := range most {
		tr := one
		if n%2 == 1 {
			tr = two
		}
		held.Go(func() {
			if got := answerOf(t, tr, "http://"+addr+"/hold"); got != 200 {
				t.Errorf("a request within the limit gets %d", got)
			}
		})
	}
	for range most {
		<-in
	}
	if got := answerOf(t, one, "http://"+addr+"/more"); got != 503 {
		t.Errorf("one more on the same connection gets %d", got)
	}
	if got := answerOf(t, plainHTTP2(t), "http://"+addr+"/more"); got != 200 {
		t.Errorf("one more on a new connection gets %d", got)
	}
	if got := answerOf(t, &http.Transport{DisableKeepAlives: true}, "http://"+addr+"/more"); got != 200 {
		t.Errorf("one more over HTTP/1.1, with a connection of its own, gets %d", got)
	}
	if n := g.metric(`antirobot_http_limits_total{limit="` + limit + `"}`); n == 0 {
		t.Error("none is counted")
	}
	release()
	held.Wait()
	eventually(t, "a request after the others have ended", func() bool { return answerOf(t, one, "http://"+addr+"/more") == 200 })
}

// TestNeighboursOfABusyAddress: while a client has all requests under way that its address may have, a connection that a neighbour
// had before goes on, and browsers that come from the address read pages with many parts, over HTTP/2 and HTTP/3.
func TestNeighboursOfABusyAddress(t *testing.T) {
	t.Parallel()
	const most, streams = 396, 99
	service, in, release := holdingSite(t)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {max_requests_per_addr: %d}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, most, service))
	url := "https://" + address
	secure := func() *http.Transport {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		if got := answerOf(t, tr, url+"/"); got != 200 {
			t.Fatalf("a connection begins with %d", got)
		}
		return tr
	}
	neighbour, quic := secure(), dialQUIC(t, address, "localhost")
	attackers := make([]*http.Transport, most/streams)
	for i := range attackers {
		attackers[i] = secure()
	}
	var held sync.WaitGroup
	defer held.Wait()
	defer release()
	for n := range most {
		held.Go(func() { answerOf(t, attackers[n/streams], url+"/hold") })
	}
	for range most {
		<-in
	}
	if got := answerOf(t, attackers[0], url+"/"); got != 503 {
		t.Errorf("one more of the attacker's gets %d", got)
	}
	if got := answerOf(t, neighbour, url+"/"); got != 200 {
		t.Errorf("a neighbour over HTTP/2 gets %d", got)
	}
	if got, err := quic.get(url + "/"); got != 200 {
		t.Errorf("a neighbour over HTTP/3 gets %d, %v", got, err)
	}
	for protocol, flags := range map[string][]chromedp.ExecAllocatorOption{
		"h2": {chromedp.Flag("ignore-certificate-errors", true)},
		"h3": {chromedp.Flag("disable-quic", false), chromedp.Flag("origin-to-force-quic-on", address), chromedp.Flag("ignore-certificate-errors-spki-list", keyHash(t, cert))},
	} {
		ctx := shell(t, flags...)
		run(t, ctx, "open a page", chromedp.Navigate(url+"/"), chromedp.Poll(`document.title === "a page"`, nil))
		if p := value[string](t, ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); p != protocol {
			t.Errorf("the page came by %s, not %s", p, protocol)
		}
		var parts []int
		run(t, ctx, "load its parts", chromedp.Evaluate(`Promise.all(Array.from({length: 60}, (_, i) => fetch("/part/" + i).then(r => r.status)))`, &parts,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for i, status := range parts {
			if status != 200 {
				t.Errorf("%s: part %d of the page is answered with %d", protocol, i, status)
				break
			}
		}
	}
	if n := g.metric("antirobot_http3_connections_total"); n < 2 {
		t.Errorf("%v connections of HTTP/3", n)
	}
}

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
