package pebblestore

import (
	"os"
	"path/filepath"
	"testing"
)

// breakBlocks flips bytes in the first half of every table: in data blocks, not in the footer that is read at opening.
func breakBlocks(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, stateName, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, p := range tables {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(b)/2; i += 97 {
			b[i] ^= 0x55
		}
		must(t, os.WriteFile(p, b, 0o600))
	}
}
