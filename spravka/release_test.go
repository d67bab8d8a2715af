package spravka

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPassesOfReleases opens a pass of each earlier release with the key ring of that release, on the day after it was made.
func TestPassesOfReleases(t *testing.T) {
	dirs, err := filepath.Glob("testdata/release-*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no pass of an earlier release: %v", err)
	}
	for _, dir := range dirs {
		file := filepath.Join(t.TempDir(), "ring.json")
		text, err := os.ReadFile(filepath.Join(dir, "ring.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		ring, err := LoadRing(file)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		token, err := os.ReadFile(filepath.Join(dir, "pass"))
		if err != nil {
			t.Fatal(err)
		}
		day := ring.Keys()[0].Born.Add(24 * time.Hour)
		p, err := ring.OpenPass(token, day)
		if err != nil || p.Allowance == 0 || !p.Earned {
			t.Errorf("%s: %+v, %v", dir, p, err)
		}
		if _, err := ring.OpenPass(token, day.Add(500*24*time.Hour)); err == nil {
			t.Errorf("%s: a pass is valid for ever", dir)
		}
	}
}
