package pebblestore

import (
	"syscall"
	"testing"
)

// mountReadOnly puts a file system that can't be written to at dir, which root could write to otherwise.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("SKIPPED: a read-only file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}
