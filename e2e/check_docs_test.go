package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckDocs: docs/scaling.md shows the tested files, completely and unchanged, and no files that
// do not exist.
func TestCheckDocs(t *testing.T) {
	t.Parallel()
	showsDeployed(t, "docs/scaling.md", "fleet")
}

func showsDeployed(t *testing.T, doc string, dirs ...string) {
	t.Helper()
	b, err := os.ReadFile("../" + doc)
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
	for _, dir := range dirs {
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
				t.Errorf("%s does not show deploy/%s as it is", doc, name)
			}
			delete(shown, name)
		}
	}
	for name := range shown {
		t.Errorf("%s shows deploy/%s, which does not exist", doc, name)
	}
}
