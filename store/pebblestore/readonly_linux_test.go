package pebblestore

import (
	"syscall"
	"testing"
)

// mountReadOnly mounts a read-only file system at dir, since root could write to an ordinary one.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("SKIPPED: a read-only file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}
