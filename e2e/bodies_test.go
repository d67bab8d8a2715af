package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

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
