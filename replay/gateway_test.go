package replay

import (
	"strings"
	"testing"

	"antirobot/verdict"
)

// TestWhyItIsAsked: for what was read, or for what a ban would have been for.
func TestWhyItIsAsked(t *testing.T) {
	s := Served{Stopped: true, Decision: &verdict.Decision{Cause: verdict.CauseBudget}}
	q := &s.Decision.Question
	q.Most, q.Window, q.Prefix.Bits = 180, "1h", 128
	if why := s.Why(); !strings.Contains(why, "more than 180 documents in 1h") {
		t.Errorf("for what was read: %s", why)
	}
	q.Reason = "formula: parts_missing"
	if why := s.Why(); why != q.Reason {
		t.Errorf("in place of a ban: %s", why)
	}
}
