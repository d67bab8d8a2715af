package replay

import (
	"runtime"
	"testing"
)

// TestGatewayIsSmall: what a replay begins with is little beside what it learns of visitors, since a log has no cookies to open.
func TestGatewayIsSmall(t *testing.T) {
	inUse := func() int64 {
		var m runtime.MemStats
		for range 3 { // what pools hold, and what finalizers free, outlives one collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below
	}
	before := inUse()
	g := newGateway(t, "small", 20)
	if mb := float64(inUse()-before) / 1e6; mb > 80 {
		t.Errorf("a gateway for recorded traffic begins with %.0f MB", mb)
	} else {
		t.Logf("%.0f MB", mb)
	}
	runtime.KeepAlive(g)
}
