package pebblestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestReadOnlyDirectory: a read-only directory is reported as such, not as held by another process.
func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		dir := filepath.Join(t.TempDir(), "ro")
		must(t, os.Mkdir(dir, 0o700))
		mountReadOnly(t, dir)
		refusesReadOnly(t, dir)
		return
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	refusesReadOnly(t, dir)
}

func refusesReadOnly(t *testing.T, dir string) {
	t.Helper()
	_, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: few})
	if !errors.Is(err, errReadOnly) || errors.Is(err, errHeld) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a read-only directory: %v", err)
	}
}
