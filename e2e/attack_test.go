package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestUnderAttack: the switch by signal, command line and API asks whom the site does not know, says why, and is over at once
// where nothing eases it; a service with a condition asks only while it is slow.
func TestUnderAttack(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if slow.Load() {
			time.Sleep(300 * time.Millisecond)
		}
		fmt.Fprint(w, "site got it")
	}))
	t.Cleanup(service.Close)
	g := start(t, "serve", "--config", configFile(t, `
verdict: {attack: {ease: 0s, then: captcha}}
processor: {exempt: []}
defaults: {upstream: {urls: [%q]}}
services:
  - name: shop
    verdict: {limits: [{window: 1h, requests: 3, ban: 1h}], when: {load: {slow: 200ms}}}
`, service.URL), "--trusted-proxies", "127.0.0.1", "--captcha-test-answer", testAnswer)
	v := visitor(t)
	asked := func(address string) bool {
		return v.get(g.url+"/", "X-Forwarded-For", address).StatusCode == 302
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := g.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	attack := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(g.cmd.Path, append([]string{"attack", "--admin", g.admin, "--data-dir", g.dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := attack(); out != "not under attack\n" || asked("203.0.113.1") {
		t.Errorf("at first: %s", out)
	}
	signal(syscall.SIGUSR1)
	eventually(t, "a newcomer is asked", func() bool { return asked("203.0.113.1") })
	page := v.get(v.get(g.url+"/", "X-Forwarded-For", "203.0.113.1").Header.Get("Location"), "X-Forwarded-For", "203.0.113.1")
	page.must(t, 200, "lets people in before programs")
	if n := g.metric("antirobot_under_attack"); n != 1 || g.metric("antirobot_requests_total", `cause="attack"`) == 0 {
		t.Errorf("the share is %v", n)
	}
	signal(syscall.SIGUSR2)
	eventually(t, "nobody is asked", func() bool { return !asked("203.0.113.1") })
	if out := attack("on", "--for", "10m"); !strings.HasPrefix(out, "under attack until ") || !asked("203.0.113.1") {
		t.Errorf("by the command line: %s", out)
	}
	if out := attack("off"); !strings.HasPrefix(out, "switched off") || asked("203.0.113.1") {
		t.Errorf("over: %s", out)
	}

	// Too many pages earn a ban, which matters while the service is slow.
	const robot = "203.0.113.9"
	eventually(t, "a ban", func() bool {
		if asked(robot) {
			t.Fatal("a robot is asked while the service is quick")
		}
		return strings.Contains(string(g.api("GET", "/api/bans", nil)), robot)
	})
	slow.Store(true)
	eventually(t, "the robot is asked", func() bool { return asked(robot) })
}
