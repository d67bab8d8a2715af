package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRestartForgetsNothing: a robot's pages count on over a restart, and over a crash, as if there had been none; and a ban that somebody has
// lifted is not made again.
func TestRestartForgetsNothing(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: shop
    upstream: {urls: [%q]}
    verdict: {limits: [{window: 1h, requests: 30, ban: 1h}]}
`, site(t).URL)
	page := 0
	next := func() int {
		page++
		return from(t, "198.51.100.7").get(fmt.Sprintf("%s/product/%d", g.url, page)).StatusCode
	}
	read := func(n int) {
		t.Helper()
		for range n {
			if status := next(); status != 200 {
				t.Fatalf("page %d: %d", page, status)
			}
		}
	}
	read(12)
	g.kill(syscall.SIGTERM)
	g.run()
	eventually(t, "the past is known", func() bool { return g.metric("antirobot_restart_log_read_total") >= 12 })
	before := logSize(t, g.dir)
	read(12)
	eventually(t, "they are judged", func() bool { return g.metric("antirobot_restart_log_events_total") >= 12 })
	eventually(t, "and written down", func() bool { return logSize(t, g.dir) > before+12*80 })
	g.kill(syscall.SIGKILL)
	g.run()
	eventually(t, "the robot is stopped", func() bool { return next() != 200 || page > 40 })
	if page < 30 || page > 34 { // the judgement follows the answer
		t.Errorf("stopped at page %d, want 31 or a little later", page)
	}
	g.api("DELETE", "/api/bans?subject=ip:198.51.100.7&service=*", nil)
	g.kill(syscall.SIGTERM)
	g.run()
	eventually(t, "the past is known", func() bool { return g.metric("antirobot_restart_log_read_total") > 30 })
	if status := next(); status != 200 {
		t.Errorf("%d after the ban was lifted and a restart", status)
	}
	g.api("DELETE", "/api/subjects/ip:198.51.100.7", nil)
	for _, f := range logFiles(t, g.dir) {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, []byte{198, 51, 100, 7}) {
			t.Errorf("%s names who was erased; %v", f, err)
		}
	}
}

func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "restart-log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// logSize returns how many bytes are written down in a data directory.
func logSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, f := range logFiles(t, dir) {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}
