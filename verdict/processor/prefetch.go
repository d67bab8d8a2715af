//go:build amd64 || arm64

package processor

import "unsafe"

// prefetch tells the processor to fetch n bytes into its cache, and does not wait for them.
//
//go:noescape
func prefetch(p unsafe.Pointer, n uintptr)
