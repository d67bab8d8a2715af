package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestReadmeWays tries the ways of README to start: the commands of the binary as they stand there but for ports and directories,
// and of the others that each target, file and image is there. make check-packages installs the package and runs the image.
func TestReadmeWays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## Put it in front of a service")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(part, -1)
	if len(blocks) < 4 {
		t.Fatalf("only %d blocks of commands", len(blocks))
	}
	serves := regexp.MustCompile(`(?m)^\./antirobot (serve .*--data-dir .*)$`).FindStringSubmatch(blocks[0][1])
	if serves == nil || !strings.Contains(blocks[0][1], "go build -o antirobot .") {
		t.Fatalf("the first way is no binary: %s", blocks[0][1])
	}
	g := &gateway{t: t, dir: filepath.Join(t.TempDir(), "state"), ownListen: true}
	g.args = strings.Fields(strings.NewReplacer(":80 ", "127.0.0.1:0 ", "http://127.0.0.1:3000", site(t).URL, "--data-dir /var/lib/antirobot", "").Replace(serves[1]))
	g.run()
	t.Cleanup(func() { g.kill(syscall.SIGKILL) })
	visitor(t).get(g.url+"/").must(t, 200, "site got GET /")

	ways := ""
	for _, block := range blocks[1:] {
		ways += block[1]
	}
	for _, m := range regexp.MustCompile(`(?m)^make (\S+)$`).FindAllStringSubmatch(ways, -1) {
		if out, err := exec.Command("make", "-C", "..", "-n", m[1]).CombinedOutput(); err != nil {
			t.Errorf("make %s: %s", m[1], out)
		}
	}
	for _, m := range regexp.MustCompile(`deploy/\S+`).FindAllString(ways, -1) {
		if _, err := os.Stat("../" + m); err != nil {
			t.Error(err)
		}
	}
	if first, _, _ := strings.Cut(string(text), "## Put it"); strings.Count(first, "\nmake ") != 2 {
		t.Error("on a fresh machine there are not exactly two commands")
	}
}
