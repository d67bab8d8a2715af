package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDiskFull: with no room left for its data a gateway answers everybody rightly and takes bans, says once of each part that the disk is
// full, recovers when there is room, and then keeps what it was told meanwhile. It does not start where it can write nothing.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	g := &gateway{t: t, dir: t.TempDir(), args: []string{"serve", "--upstream", site(t).URL, "--trusted-proxies", "127.0.0.1"}}
	mountSmall(t, g.dir, "48m")
	g.run()
	t.Cleanup(func() { g.kill(syscall.SIGKILL) })
	ask := func(addr string, want int) {
		t.Helper()
		if r := from(t, addr).get(g.url + "/x"); r.StatusCode != want {
			t.Errorf("%s gets %d", addr, r.StatusCode)
		}
	}
	healthy := func() bool {
		_, text := g.tryAPI(http.MethodGet, "/healthz", nil)
		return strings.Contains(string(text), `"status":"ok"`)
	}
	g.ban("ip:203.0.113.1", "1h")
	filler := filepath.Join(g.dir, "filler")
	fill(t, filler)
	n := 0
	everybody := func() {
		n++
		ask("203.0.113.1", http.StatusFound)
		if n%10 == 0 {
			ask(fmt.Sprintf("198.51.%d.7", n/10), http.StatusOK)
		}
	}
	eventually(t, "each part has found that the disk is full", func() bool {
		everybody()
		text := g.logs.String()
		return !healthy() && strings.Contains(text, `"part":"restart_log","error"`) && strings.Contains(text, `"part":"journal","error"`)
	})
	for range 100 {
		everybody()
	}
	g.ban("ip:203.0.113.2", "1h")
	ask("203.0.113.2", http.StatusFound)
	for _, part := range []string{"restart_log", "journal", "store"} {
		lines := 0
		for line := range strings.SplitSeq(g.logs.String(), "\n") {
			if strings.Contains(line, `"part":"`+part+`"`) && strings.Contains(line, "no space left") {
				lines++
			}
		}
		if lines > 3 {
			t.Errorf("the %s says %d times that the disk is full", part, lines)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is well with room on the disk", healthy)
	g.ban("ip:203.0.113.3", "1h")
	g.kill(syscall.SIGTERM)
	g.run()
	for _, addr := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.3"} {
		ask(addr, http.StatusFound)
	}
	g.kill(syscall.SIGTERM)
	fill(t, filler)
	out, err := g.program(append(append([]string{}, g.args...), "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--data-dir", g.dir)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not take") {
		t.Errorf("a start with a full disk: %v, %s", err, out)
	}
}
