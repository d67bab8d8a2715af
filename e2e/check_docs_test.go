package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckDocs: docs/balancers.md shows the tested files, whole and as they are, and none that is not there.
func TestCheckDocs(t *testing.T) {
	b, err := os.ReadFile("../docs/balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, part := range strings.Split(string(b), "<!-- deploy/")[1:] {
		name, rest, _ := strings.Cut(part, " -->\n```")
		_, rest, _ = strings.Cut(rest, "\n") // the language
		text, _, closed := strings.Cut(rest, "\n```\n")
		if !closed {
			t.Fatalf("deploy/%s: the block does not end", name)
		}
		shown[name] = text + "\n"
	}
	for _, dir := range []string{"nginx", "haproxy", "caddy", "traefik", "envoy"} {
		files, err := filepath.Glob("../deploy/" + dir + "/*")
		if err != nil || len(files) == 0 {
			t.Errorf("deploy/%s is empty: %v", dir, err)
		}
		for _, f := range files {
			name := dir + "/" + filepath.Base(f)
			want, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := shown[name]; !ok || got != string(want) {
				t.Errorf("docs/balancers.md does not show deploy/%s as it is", name)
			}
			delete(shown, name)
		}
	}
	for name := range shown {
		t.Errorf("docs/balancers.md shows deploy/%s, which does not exist", name)
	}
}
