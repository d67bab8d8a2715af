//go:build !amd64 && !arm64

package processor

import "unsafe"

func prefetch(unsafe.Pointer, uintptr) {}
