package replay

import (
	"runtime"
	"testing"
)

// TestGatewayIsSmall: what a replay begins with is little beside what it learns of visitors, since a log has no cookies to open.
func TestGatewayIsSmall(t *testing.T) {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
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
