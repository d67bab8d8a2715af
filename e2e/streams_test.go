package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
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
