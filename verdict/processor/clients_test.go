package processor

import (
	"testing"
	"time"
)

// TestCallsShowNobody: a browser that begins anew with each page brings the cookie that it has just been given with the calls of that page.
// Only who comes back for another page with one is somebody.
func TestCallsShowNobody(t *testing.T) {
	clients := func(back bool) float32 {
		var s session
		for i := range 10 {
			e := event(time.Unix(1.8e9+int64(60*i), 0), 1)
			s.turn(e, true, false)
			e.Browser = uint32(1 + i)
			s.turn(e, back, false)
		}
		return s.clients()
	}
	if got := clients(false); got != 1 {
		t.Errorf("the calls of ten pages show %.1f clients", got)
	}
	if got := clients(true); got < 8 {
		t.Errorf("ten people who go on to a second page are %.1f clients", got)
	}
}
