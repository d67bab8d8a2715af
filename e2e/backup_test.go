package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ran runs the real binary and returns what it wrote; it must end well if ok is set, and badly otherwise.
func ran(t *testing.T, ok bool, args ...string) string {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if (err == nil) != ok {
		t.Fatalf("antirobot %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestBackup copies the state of a running gateway, and starts another from the copy: whoever was banned is, and whoever had
// a pass has it. The second one finds the ports of the first taken, and says which flags choose others.
func TestBackup(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	g := serve(t, upstream)
	admin := strings.TrimPrefix(g.admin, "http://")
	if out := ran(t, true, "health", "--admin", admin); !strings.Contains(out, `"ready":true`) {
		t.Errorf("health says %s", out)
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	solve(t, v, v.get(g.url+"/").must(t, 302, "").Header.Get("Location"))

	remembers := func() bool {
		return strings.Contains(string(g.api("GET", "/api/journal?q=kind:solved", nil)), `"solved"`)
	}
	eventually(t, "the journal has the solved challenge", remembers)
	ran(t, false, "backup", filepath.Join(g.dir, "missing", "copy"), "--admin", admin, "--data-dir", g.dir)
	copied := filepath.Join(g.dir, "copy")
	ran(t, true, "backup", copied, "--admin", admin, "--data-dir", g.dir)
	g.ban("ip:203.0.113.9", "10m") // after it
	ran(t, false, "backup", copied, "--admin", admin, "--data-dir", g.dir)
	again := filepath.Join(g.dir, "again")
	if out := ran(t, true, "backup", again, "--admin", admin, "--data-dir", g.dir, "--json"); strings.TrimSpace(out) != fmt.Sprintf(`{"dir":%q}`, again) {
		t.Errorf("--json: %s", out)
	}
	if _, err := os.Stat(filepath.Join(again, "copy")); err == nil {
		t.Error("a backup holds the one before it")
	}

	next := filepath.Join(t.TempDir(), "next")
	ran(t, true, "restore", copied, "--data-dir", next)
	said := ran(t, false, "serve", "--upstream", upstream, "--listen", strings.TrimPrefix(g.url, "http://"), "--admin", "127.0.0.1:0", "--data-dir", next)
	if !strings.Contains(said, "another program listens on "+strings.TrimPrefix(g.url, "http://")+" already") || !strings.Contains(said, "--listen ADDR, ANTIROBOT_LISTEN") {
		t.Errorf("a taken port is said so: %s", said)
	}
	said = ran(t, false, "demo", "--listen", "127.0.0.1:0", "--admin", admin, "--data-dir", filepath.Join(t.TempDir(), "demo"))
	if !strings.Contains(said, "--admin ADDR, ANTIROBOT_ADMIN_LISTEN") {
		t.Errorf("the demo says of a taken port: %s", said)
	}
	g.kill(syscall.SIGTERM)
	ran(t, false, "health", "--admin", admin)

	g.dir = next
	g.run()
	visitor(t).get(g.url+"/").must(t, 302, "")
	v.get(g.url+"/").must(t, 200, "site got")
	if !remembers() {
		t.Error("the journal of the copy does not have what was solved")
	}
	if bans := string(g.api("GET", "/api/bans", nil)); strings.Contains(bans, "203.0.113.9") {
		t.Errorf("a ban that was made after the backup is in it: %s", bans)
	}
}
