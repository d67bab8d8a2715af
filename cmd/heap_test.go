package cmd

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"antirobot/servertest"
)

// TestHeapGrowsFirst: what a start makes is not looked through until there is much of it, and then garbage is collected as ever; or as
// somebody has chosen meanwhile.
func TestHeapGrowsFirst(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usualGOGC))
	percent := func() int {
		is := debug.SetGCPercent(usualGOGC)
		debug.SetGCPercent(is)
		return is
	}
	growFirst()
	if is := percent(); is != startedGOGC {
		t.Fatalf("garbage is collected at %d %% at the start", is)
	}
	servertest.Eventually(t, "garbage is collected as ever after the first time", func() bool {
		runtime.GC()
		return percent() == usualGOGC
	})
	growFirst()
	debug.SetGCPercent(40)
	for range 20 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if is := percent(); is != 40 {
		t.Errorf("garbage is collected at %d %%, where 40 was chosen", is)
	}
	t.Setenv("GOGC", "40")
	growFirst()
	if is := percent(); is != 40 {
		t.Errorf("GOGC in the environment is 40, and garbage is collected at %d %%", is)
	}
}
