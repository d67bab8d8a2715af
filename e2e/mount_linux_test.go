package e2e

import (
	"syscall"
	"testing"

	"antirobot/servertest"
)

// mountSmall puts a file system of a size of its own at dir.
func mountSmall(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		servertest.Lack(t, "the right to mount a file system ("+err.Error()+")", "run the tests as root")
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // the gateway has been killed
}
