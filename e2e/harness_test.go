package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
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

var ports = servertest.NewPorts(31000, 900) // the next ones are for package blackbox

// freePort returns an address on loopback where nobody listens.
func freePort(t testing.TB) string {
	t.Helper()
	return ports.Addr(t)
}
