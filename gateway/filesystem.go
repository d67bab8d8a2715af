package gateway

import (
	"os"
	"syscall"
)

// sameFileSystem reports whether two paths lie in one file system, so that a file can be linked from one to the other.
func sameFileSystem(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX != nil || errY != nil {
		return false
	}
	sx, okX := x.Sys().(*syscall.Stat_t)
	sy, okY := y.Sys().(*syscall.Stat_t)
	return okX && okY && sx.Dev == sy.Dev
}
