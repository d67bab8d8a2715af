package proxy

import (
	"net/netip"
	"testing"
	"time"
)

// TestServedFor: what a client may load of its page ends with its time, and begins anew with the next page.
func TestServedFor(t *testing.T) {
	var s served
	to := servedTo{addr: netip.MustParseAddr("192.0.2.1"), agent: 1}
	at := time.Unix(1<<24*100-3, 0) // the counter of seconds wraps around
	if s.take(to, at) {
		t.Error("without a page there are subresources")
	}
	s.page(to, at)
	if !s.take(to, at.Add(servedFor)) || s.take(to, at.Add(servedFor+time.Second)) {
		t.Error("the subresources don't end with the time")
	}
	s.page(to, at.Add(time.Minute))
	for n := range servedMost {
		if !s.take(to, at.Add(time.Minute)) {
			t.Fatalf("of the next page only %d come", n)
		}
	}
	to.agent = 2
	if s.take(to, at.Add(time.Minute)) {
		t.Error("another client has some")
	}
}
