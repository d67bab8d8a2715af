package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionOfACheckout builds a clone with `go build` alone: the version names the release, the commit and a modified file.
func TestVersionOfACheckout(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "clone")
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := exec.Command("git", "-C", "..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("SKIPPED: this tree is no checkout of git: %v", err)
	}
	run("..", "git", "clone", "-q", "--no-tags", ".", dir)
	head := run(dir, "git", "rev-parse", "--short=12", "HEAD")
	version := func(flag string) string {
		t.Helper()
		run(dir, "go", "build", "-o", "antirobot", "-ldflags=-s -w", flag, ".") // without what debuggers read, which takes the linker half of its time
		return strings.Fields(run(dir, "./antirobot", "version"))[1]
	}
	if v := version("-buildvcs=auto"); v != "1.0.0+"+head {
		t.Errorf("a commit is %q, and its hash begins with %s", v, head)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := version("-buildvcs=auto"); v != "1.0.0+"+head+".dirty" {
		t.Errorf("a changed file makes it %q", v)
	}
	if v := version("-buildvcs=false"); v != "1.0.0" {
		t.Errorf("a build without version control is %q", v)
	}
}
