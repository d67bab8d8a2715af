package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// solve goes through the captcha page as a browser without JavaScript does, and returns the response to the right digits.
func (g *gateway) solve(v *client, path string) *response { return g.solveAt(v, path, g) }

// solveAt challenges a visitor, who sends the right answer to a gateway.
func (g *gateway) solveAt(v *client, path string, answered *gateway) *response {
	g.t.Helper()
	r := v.get(g.url + path)
	if r.StatusCode != http.StatusFound {
		g.t.Fatalf("%s is not challenged: %d %s", path, r.StatusCode, r.body)
	}
	page := v.get(r.Header.Get("Location")).must(g.t, 200, `name="rep"`)
	form := formOf(g.t, page.body)
	form.Set("rep", testAnswer)
	return v.do("POST", answered.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

var (
	hiddenField = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)
	attribute   = regexp.MustCompile(`(name|value)="([^"]*)"`)
)

func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, in := range hiddenField.FindAllString(page, -1) {
		a := map[string]string{}
		for _, m := range attribute.FindAllStringSubmatch(in, -1) {
			a[m[1]] = htmlUnescape(m[2])
		}
		form.Set(a["name"], a["value"])
	}
	if len(form) == 0 {
		t.Fatalf("no hidden fields in %s", page)
	}
	return form
}

func htmlUnescape(s string) string {
	return strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+").Replace(s)
}

func (c *client) pass(t *testing.T, site string) string {
	t.Helper()
	u, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.Jar.Cookies(u) {
		if k.Name == "spravka" {
			return k.Value
		}
	}
	t.Fatal("no spravka in the jar")
	return ""
}

// settle waits until all write-behind data is in the store.
func (g *gateway) settle() {
	g.t.Helper()
	for range 500 {
		if g.metric("antirobot_writes_waiting") == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	g.t.Fatal("writes still wait for the store")
}

// TestStateSurvivesKill9 kills the gateway and looks for everything that must last.
func TestStateSurvivesKill9(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	as := func(addr string) []string { return []string{"X-Forwarded-For", addr} }
	v := visitor(t)
	for k, h := 0, as("203.0.113.1"); k < len(h); k += 2 {
		v.header.Set(h[k], h[k+1])
	}
	g.ban("ip:203.0.113.1", "10m")
	g.ban("ip:203.0.113.2", "10m")
	g.api("POST", "/api/lists/block", map[string]string{"entry": "198.51.100.0/24", "ttl": "1h", "reason": "test"})
	g.api("POST", "/api/lists/white", map[string]string{"entry": "192.0.2.7", "ttl": "1h", "reason": "test"})

	solved := g.solve(v, "/first")
	if solved.StatusCode != http.StatusSeeOther {
		t.Fatalf("solve: %d %s", solved.StatusCode, solved.body)
	}
	spend := func(n int) (passed int) {
		for range n {
			if v.get(g.url+"/spend").StatusCode == 200 {
				passed++
			}
		}
		return passed
	}
	if got := spend(30); got != 30 {
		t.Fatalf("%d of the first 30 requests passed", got)
	}
	other := visitor(t)
	other.header.Set("X-Forwarded-For", "203.0.113.2")
	g.solve(other, "/")
	revoked := other.get(g.url+"/").must(t, 200, "site got")
	_ = revoked
	next := time.Now().UTC().Truncate(time.Second).Add(time.Second) // births are kept in whole seconds
	<-time.After(time.Until(next))
	g.api("POST", "/api/revoke", map[string]string{"before": next.Format(time.RFC3339)})
	other.get(g.url+"/").must(t, 302, "")

	g.settle()
	g.kill(syscall.SIGKILL)
	g.run()

	plain := visitor(t)
	plain.get(g.url+"/", as("203.0.113.2")...).must(t, 302, "")
	plain.get(g.url+"/", as("198.51.100.9")...).must(t, 403, "")
	other.get(g.url+"/").must(t, 302, "")
}

// TestAllowanceIsExact spends a pass from many connections at once, across a restart: exactly the configured number.
func TestAllowanceIsExact(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	g.solve(v, "/")
	pass := v.pass(t, g.url)

	spend := func(n, workers int) int64 {
		var passed, left atomic.Int64
		left.Store(int64(n))
		var wg sync.WaitGroup
		for range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c := visitor(t)
				for left.Add(-1) >= 0 {
					if c.get(g.url+"/x", "Cookie", "spravka="+pass).StatusCode == 200 {
						passed.Add(1)
					}
				}
			}()
		}
		wg.Wait()
		return passed.Load()
	}
	first := spend(40, 8)
	g.settle()
	g.kill(syscall.SIGKILL)
	g.run()
	if rest := spend(200, 8); first != 40 || first+rest != 100 {
		t.Errorf("the pass paid for %d + %d requests, wanted 40 + 60", first, rest)
	}
}

// TestReload changes the configuration under load: no request fails, a bad file changes nothing and says why.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write := func(mode string) {
		text := fmt.Sprintf("defaults:\n  upstream: {urls: [%q]}\n  verdict: {mode: %s}\n", site(t).URL, mode)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("enforce")
	g := start(t, "serve", "--config", file)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	v.get(g.url+"/").must(t, 302, "")

	var failed, asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := &http.Client{Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := c.Get(g.url + "/load")
				asked.Add(1)
				if err != nil || r.StatusCode >= 500 {
					failed.Add(1)
					continue
				}
				r.Body.Close()
			}
		}()
	}
	write("observe")
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 200, "site got")

	if err := os.WriteFile(file, []byte("defaults: {upstream: {urls: [http://127.0.0.1:1]}, verdict: {mode: perhaps}, colour: blue}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, body := g.tryAPI("POST", "/api/reload", nil)
	if status != 422 || !strings.Contains(string(body), "verdict.mode") || !strings.Contains(string(body), "colour") {
		t.Errorf("bad file: %d %s", status, body)
	}
	v.get(g.url+"/").must(t, 200, "site got")

	write("enforce")
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	g.logs.find(func(s string) bool { return strings.Contains(s, `"reloaded"`) && strings.Contains(s, "SIGHUP") })
	v.get(g.url+"/").must(t, 302, "")
	close(stop)
	wg.Wait()
	if failed.Load() > 0 || asked.Load() < 10 {
		t.Errorf("%d of %d requests failed during reloads", failed.Load(), asked.Load())
	}
}

// TestFirstRequestsPass checks the invariant: a new subject's requests 1 and 2 pass.
func TestFirstRequestsPass(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	for i := range 50 {
		v := visitor(t)
		for range 2 {
			v.get(g.url+"/", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)).must(t, 200, "site got")
		}
	}
}

// TestFastScraperIsStopped exceeds the default limits.
func TestFastScraperIsStopped(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	robot := visitor(t)
	robot.header.Set("X-Forwarded-For", "203.0.113.66")
	for n := 1; ; n++ {
		if robot.get(fmt.Sprintf("%s/page/%d", g.url, n)).StatusCode == 302 {
			if n <= 2 {
				t.Fatalf("stopped at request %d", n)
			}
			t.Logf("stopped at request %d", n)
			break
		}
		if n > 3000 {
			t.Fatal("3000 requests in a row and nobody minds")
		}
	}
	eventually(t, "a metric counts the robot", func() bool { // a moment after the answer
		return g.metric("antirobot_requests_total", `verdict="robot"`) > 0
	})
}

// TestServiceDown starts without a running service: visitors get a clear page.
func TestServiceDown(t *testing.T) {
	t.Parallel()
	g := serve(t, "http://"+freePort(t))
	r := visitor(t).get(g.url + "/")
	r.must(t, 502, r.Header.Get("X-Request-Id"))
	if !strings.Contains(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
	}
}
