package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testAnswer is what every challenge asks for in these tests.
const testAnswer = "314159"

// patience is how long anything that must happen may take: a program's first start from a cold disk beside other work takes
// half a minute. A test that fails waits this long, one that passes never does.
const patience = 90 * time.Second

// eventually waits for something that should come soon, and returns how long it took.
func eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	return settled(t, what, func() (bool, error) { return ok(), nil })
}

// settled is eventually where ok can have an error, which is said only if it is the last.
func settled(t *testing.T, what string, ok func() (bool, error)) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(untilNextLook(time.Since(began))) {
		is, err := ok()
		if is {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatal(errors.Join(fmt.Errorf("%s: not within %v", what, patience), err))
		}
	}
}

// untilNextLook is the pause of who has waited so long: never a pace that would be stopped, and later less often, as looks cost time.
func untilNextLook(waited time.Duration) time.Duration {
	return min(20*time.Millisecond+waited/50, 100*time.Millisecond)
}

// binary builds the real binary once, or takes the one that ANTIROBOT_BIN names.
var binary = sync.OnceValues(func() (string, error) {
	if b := os.Getenv("ANTIROBOT_BIN"); b != "" {
		return b, nil
	}
	dir, err := os.MkdirTemp("", "antirobot-e2e-")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "antirobot")
	cmd := exec.Command("go", "build", "-o", out, "antirobot")
	cmd.Dir = ".."
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, b)
	}
	return out, nil
})

// missing skips a test because a program is missing, with a message; in CI that is a failure.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing, and in CI nothing may be skipped: run make deps", what)
	}
	t.Skipf("SKIPPED for want of %s: run make deps", what)
}

// gateway is a running antirobot.
type gateway struct {
	t     *testing.T
	args  []string
	cmd   *exec.Cmd
	dir   string
	url   string // http://127.0.0.1:port
	admin string
	token string
	logs  *logBuffer
	done  chan struct{}

	ownListen bool   // the configuration names the visitors' addresses
	clock     string // a file that says how far its clock is ahead; see anotherClock
}

// logBuffer keeps what the process wrote, and wakes tests that wait for a line.
type logBuffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []string
	end  bool
}

func newLogBuffer() *logBuffer {
	l := new(logBuffer)
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *logBuffer) follow(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		l.mu.Lock()
		l.all = append(l.all, s.Text())
		l.cond.Broadcast()
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.end = true
	l.cond.Broadcast()
	l.mu.Unlock()
}

// find waits until a line satisfies ok and returns it; "" after the time is over or the process has ended.
func (l *logBuffer) find(ok func(string) bool) string {
	timer := time.AfterFunc(patience, func() { l.mu.Lock(); l.cond.Broadcast(); l.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; ; {
		for ; i < len(l.all); i++ {
			if ok(l.all[i]) {
				return l.all[i]
			}
		}
		if l.end || !time.Now().Before(deadline) {
			return ""
		}
		l.cond.Wait()
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// start runs `antirobot args…` with free ports and its own data directory, and waits until it listens.
func start(t *testing.T, args ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), args: args}
	g.run()
	t.Cleanup(func() {
		g.kill(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("antirobot wrote:\n%s", tail(g.logs.String(), 3000))
		}
	})
	return g
}

// serve runs the gateway in front of upstream.
func serve(t *testing.T, upstream string, args ...string) *gateway {
	t.Helper()
	return start(t, append([]string{"serve", "--upstream", upstream, "--captcha-test-answer", testAnswer}, args...)...)
}

// startWith runs `antirobot args…` with a configuration that says where visitors are served.
func startWith(t *testing.T, args ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), args: args, ownListen: true}
	g.run()
	t.Cleanup(func() { g.kill(syscall.SIGKILL) })
	return g
}

func (g *gateway) run() {
	g.t.Helper()
	listen, admin := "127.0.0.1:0", "127.0.0.1:0"
	if g.url != "" { // a restart keeps its ports
		listen, admin = strings.TrimPrefix(g.url, "http://"), strings.TrimPrefix(g.admin, "http://")
	}
	args := append([]string{}, g.args...)
	args = append(args, "--admin", admin, "--data-dir", g.dir)
	if !g.ownListen {
		args = append(args, "--listen", listen)
	}
	g.cmd = g.program(args)
	g.logs = newLogBuffer()
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	g.cmd.Stderr = g.cmd.Stdout
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.done = make(chan struct{})
	go func() {
		g.logs.follow(out)
		_ = g.cmd.Wait()
		close(g.done)
	}()
	g.url = g.visitors()
	g.admin = "http://" + g.listening("admin")
	token, err := os.ReadFile(filepath.Join(g.dir, "admin.token"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.token = strings.TrimSpace(string(token))
}

// listening waits for the log line that says where g serves whom.
func (g *gateway) listening(whom string) string {
	g.t.Helper()
	line := g.logs.find(func(s string) bool {
		return strings.Contains(s, `"message":"listening"`) && strings.Contains(s, `"for":"`+whom+`"`)
	})
	var l struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Address == "" {
		g.t.Fatalf("antirobot %s does not listen for %s:\n%s", strings.Join(g.args, " "), whom, g.logs)
	}
	return l.Address
}

func (g *gateway) kill(sig syscall.Signal) {
	_ = g.cmd.Process.Signal(sig)
	<-g.done
}

// api calls the private listener and fails the test on an answer that is not 2xx.
func (g *gateway) api(method, path string, body any) []byte {
	g.t.Helper()
	status, b := g.tryAPI(method, path, body)
	if status/100 != 2 {
		g.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	return b
}

func (g *gateway) tryAPI(method, path string, body any) (int, []byte) {
	g.t.Helper()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			g.t.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, g.admin+path, r)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, b
}

func (g *gateway) ban(subject, ttl string) {
	g.t.Helper()
	g.api("POST", "/api/bans", map[string]string{"subject": subject, "ttl": ttl, "reason": "test"})
}

// metric returns the sum of all samples whose name and labels contain every part.
func (g *gateway) metric(parts ...string) float64 {
	g.t.Helper()
	sum := 0.0
	all := string(g.api("GET", "/metrics", nil))
	if strings.Contains(all, " Not described.\n") {
		g.t.Errorf("a metric is not in admin/metrics.txt:\n%s", all)
	}
lines:
	for _, line := range strings.Split(all, "\n") {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		var v float64
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			if _, err := fmt.Sscan(line[i+1:], &v); err == nil {
				sum += v
			}
		}
	}
	return sum
}

// site is a service behind the gateway that says what it got.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if strings.HasPrefix(r.URL.Path, "/pictures/") { // a part of a page is what the answer proves to be one
			w.Header().Set("Content-Type", "image/png")
		}
		w.Header().Set("X-Served-By", "site")
		fmt.Fprintf(w, "site got %s %s\n", r.Method, r.URL.RequestURI())
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Request-Id", "X-Forwarded-Proto", "X-Forwarded-Host", "Content-Type", "Origin", "Cookie", "X-Antirobot-Client"} {
			if v := r.Header.Values(name); len(v) > 0 {
				fmt.Fprintf(w, "%s: %s\n", name, strings.Join(v, " | "))
			}
		}
		fmt.Fprintf(w, "body: %s\n", body)
	}))
	t.Cleanup(s.Close)
	return s
}

// client is a visitor with a cookie jar that does not follow redirects.
type client struct {
	t *testing.T
	http.Client
	header http.Header
}

func visitor(t *testing.T) *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, header: http.Header{}}
	c.Jar = jar
	c.Timeout = patience
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	c.header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	return c
}

// response is an answer whose body was read.
type response struct {
	*http.Response
	body string
}

func (c *client) do(method, url, body string, header ...string) *response {
	c.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &response{res, string(b)}
}

func (c *client) get(url string, header ...string) *response {
	c.t.Helper()
	return c.do("GET", url, "", header...)
}

// must fails the test unless the answer has that status and its body contains the text.
func (r *response) must(t *testing.T, status int, contains string) *response {
	t.Helper()
	if r.StatusCode != status || !strings.Contains(r.body, contains) {
		t.Fatalf("%s %s: got %d %v\n%s\nwanted %d with %q", r.Request.Method, r.Request.URL, r.StatusCode, r.Header, tail(r.body, 2000), status, contains)
	}
	return r
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
