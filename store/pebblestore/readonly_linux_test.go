package pebblestore

import (
	"syscall"
	"testing"

	"antirobot/servertest"
)

// mountReadOnly mounts a read-only file system at dir, since root could write to an ordinary one.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=64k"); err != nil {
		servertest.Lack(t, "the right to mount a file system ("+err.Error()+")", "run the tests as root")
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}
