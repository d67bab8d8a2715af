//go:build !linux

package e2e

import "testing"

func mountSmall(t *testing.T, _, _ string) {
	t.Helper()
	t.Skip("SKIPPED: file systems of a size of their own are mounted on Linux alone")
}
