package cmd

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	firstHeap   = 256 << 20 // bytes that are in use when garbage is collected for the first time
	leastHeap   = 4 << 20   // the same of a Go program that does not say; it grows with GOGC
	usualGOGC   = 100
	startedGOGC = usualGOGC * firstHeap / leastHeap
)

// growFirst lets the heap grow to firstHeap before garbage is collected, unless GOGC in the environment says otherwise:
// what a start makes is nearly all kept, and looking through it at every doubling from four megabytes on takes a
// quarter of a start's time. After the first collection all is as usual. Go's compiler does the same.
func growFirst() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(startedGOGC)
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		if is := debug.SetGCPercent(usualGOGC); is != startedGOGC { // it was changed meanwhile
			debug.SetGCPercent(is)
		}
	}, struct{}{})
}
