package processor

import (
	"testing"
	"time"

	"antirobot/verdict/browsers"
	"antirobot/verdict/client"
)

// TestHelloFalse: browsers whose handshakes something in front of the gateway makes are not blamed.
func TestHelloFalse(t *testing.T) {
	var a browsers.Fields
	for n := range byte(40) {
		e := event(time.Unix(1.8e9, 0), 1)
		e.Subjects[e.N-1].ID = [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: n, 15: 1}
		e.Claim, e.JA4, e.Misfits = client.Claim{Family: client.FamilyChrome, Major: 156}, 5, client.FalseHello
		a.See(e, false)
		if n == 0 {
			continue
		}
		c := evidence{e: e, lost: a.Lost(e.At.Unix())}
		if f := greeted(helloFalse)(&c); f == f {
			t.Fatalf("after %d networks with it alone: %v", n, f)
		}
	}
	e := event(time.Unix(1.8e9, 0), 1)
	e.Claim, e.JA4, e.Misfits = client.Claim{Family: client.FamilyChrome, Major: 156}, 5, client.FalseHello
	if greeted(helloFalse)(&evidence{e: e}) != 1 {
		t.Error("a false handshake is no factor")
	}
}
