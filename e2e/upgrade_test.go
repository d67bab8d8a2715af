package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What earlier releases wrote stands in testdata/state-N.tgz, a backup with the configuration of that time, and goes on to
// work; a pass of each is in spravka/testdata. To keep what this release writes, when a format has changed: KEEP_STATE=N go test -run TestUpgrade ./e2e
const stateConfig = `admin: {max_ttl: 36000d}
lists: {white: [192.0.2.0/24]}
services:
  - name: shop
    hosts: ["*"]
    upstream: {urls: ["http://127.0.0.1:1"]}
`

// TestUpgrade starts the gateway on the state of each earlier release: bans and list entries are in force.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if n := os.Getenv("KEEP_STATE"); n != "" {
		keepState(t, n)
	}
	archives, err := filepath.Glob("testdata/state-*.tgz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no state of an earlier release: %v", err)
	}
	upstream := site(t).URL
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("tar", "-C", dir, "-xzf", archive).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			next := filepath.Join(dir, "next")
			ran(t, true, "restore", filepath.Join(dir, "backup"), "--data-dir", next)
			g := &gateway{t: t, dir: next, args: []string{"serve", "--config", filepath.Join(dir, "antirobot.yaml"), "--upstream", upstream}}
			g.run()
			t.Cleanup(func() { g.kill(syscall.SIGKILL) })
			for path, wants := range kept {
				said := string(g.api("GET", path, nil))
				for _, want := range wants {
					if !strings.Contains(said, want) {
						t.Errorf("%s has no %s: %s", path, want, said)
					}
				}
			}
			visitor(t).get(g.url+"/").must(t, 302, "")
		})
	}
}

// kept is what the answers of the API have, by path.
var kept = map[string][]string{
	"/api/bans": {"ip:127.0.0.1", "ip:203.0.113.9", "kept for an upgrade"}, "/api/lists/block": {"198.51.100.0/24", "a list that was kept"},
}

// keepState writes the state of this release.
func keepState(t *testing.T, n string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "antirobot.yaml")
	if err := os.WriteFile(file, []byte(stateConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", file, "--upstream", site(t).URL, "--captcha-test-answer", testAnswer)
	for _, subject := range []string{"ip:127.0.0.1", "ip:203.0.113.9"} {
		g.api("POST", "/api/bans", map[string]string{"subject": subject, "ttl": "30000d", "reason": "kept for an upgrade"})
	}
	g.api("POST", "/api/lists/block", map[string]string{"entry": "198.51.100.0/24", "ttl": "30000d", "reason": "a list that was kept"})
	eventually(t, "the bans are in the journal", func() bool {
		return strings.Contains(string(g.api("GET", "/api/journal?q=kind:ban", nil)), "203.0.113.9")
	})
	ran(t, true, "backup", filepath.Join(g.dir, "backup"), "--admin", strings.TrimPrefix(g.admin, "http://"), "--data-dir", g.dir)
	if err := os.MkdirAll("testdata", 0o750); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tar", "-czf", "testdata/state-"+n+".tgz", "-C", dir, "antirobot.yaml", "-C", g.dir, "backup").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
