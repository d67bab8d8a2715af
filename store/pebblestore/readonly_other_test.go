//go:build !linux

package pebblestore

import "testing"

func mountReadOnly(t *testing.T, _ string) {
	t.Helper()
	t.Skip("SKIPPED: root can write everywhere, and a read-only file system is mounted on Linux only")
}
