package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// pushed is what GET /api/push answers.
type pushed struct {
	InForce  uint64 `json:"in_force"`
	Runs     uint64
	Error    string
	Versions []struct {
		Version uint64
		By      string
	}
	Gateways []struct {
		Version uint64
	}
}

func (g *gateway) pushed() (s pushed) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/push", nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// command runs a command of antirobot for this gateway.
func (g *gateway) command(args ...string) (string, error) {
	g.t.Helper()
	bin, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	out, err := exec.Command(bin, append(args, "--admin", g.admin, "--data-dir", g.dir)...).CombinedOutput()
	return string(out), err
}

// TestPush: what is pushed at one gateway runs on all, over restarts too; what is bad changes nothing; and a rollback brings
// back what was.
func TestPush(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 2, "redis://"+r.Addr)
	a, b := all[0], all[1]
	dir := t.TempDir()
	file := filepath.Join(dir, "site.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func(g *gateway) bool { return visitor(t).get(g.url+"/").StatusCode == 403 }
	push := func(want string, args ...string) {
		t.Helper()
		if out, err := a.command(append([]string{"push"}, args...)...); !strings.Contains(out, want) {
			t.Fatalf("antirobot push %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	runs := func(version uint64, blocked bool) {
		t.Helper()
		for _, g := range all {
			eventually(t, "all run what is in force", func() bool {
				s := g.pushed()
				return s.Runs == version && s.InForce == version && s.Error == "" && blocks(g) == blocked
			})
		}
	}
	write("here.txt", "127.0.0.0/8\n::1\n")
	write("site.yaml", "lists: {lists: [{name: here, flag: block, file: here.txt}]}\n")
	push("version 1, with 1 file, is in force", file, "--note", "nobody comes in")
	runs(1, true)

	write("site.yaml", "lists: {lists: [{name: here, flag: nonsense, file: here.txt}]}\nstore: {url: 'memory:'}\n")
	push("store: is of each gateway's own file", file)
	write("site.yaml", "lists: {lists: [{name: here, flag: nonsense, file: here.txt}]}\n")
	push("nonsense", file)
	if status, _ := a.tryAPI("POST", "/api/push", map[string]any{"bundle": []byte("no bundle")}); status != 400 {
		t.Errorf("no bundle: %d", status)
	}
	runs(1, true)

	write("here.txt", "192.0.2.1\n")
	write("site.yaml", "lists: {lists: [{name: here, flag: block, file: here.txt}]}\n")
	push("version 2", file)
	runs(2, false)
	push("version 1 is in force", "--rollback")
	runs(1, true)
	push("version 2 is in force", "--rollback", "--to", "2")
	push("no such version", "--rollback", "--to", "7")
	push("version 1 is in force", "--rollback")
	runs(1, true)
	eventually(t, "both gateways tell what they run", func() bool {
		s := b.pushed()
		return len(s.Gateways) == 2 && s.Gateways[0].Version == 1 && s.Gateways[1].Version == 1
	})
	push("(in force)", "status")
	// Version 2, which was in force in between, may only now be taken where that takes long.
	eventually(t, "the metric tells it, too", func() bool { return b.metric("antirobot_push_version") == 1 })
	if acts := string(a.api("GET", "/api/journal?q=kind:act", nil)); !strings.Contains(acts, `"rollback"`) || !strings.Contains(acts, "nobody comes in") {
		t.Errorf("the journal has\n%s", acts)
	}

	b.kill(syscall.SIGTERM)
	b.run()
	if !blocks(b) || b.metric("antirobot_push_version") != 1 {
		t.Error("a gateway that starts does not begin with what was pushed")
	}
	push("gateways' own files are", "--rollback", "--to", "0")
	runs(0, false)
}
