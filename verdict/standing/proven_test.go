package standing

import (
	"testing"

	"antirobot/identity"
)

// TestBansMakeNoRoom: of fifty cookies that wait, those that are left count no sooner because twenty of them are banned.
func TestBansMakeNoRoom(t *testing.T) {
	all, home, later := table(nil), ip("192.0.2.1"), day0.Add(oneDay)
	for n := range 50 {
		all.Observe(sub(identity.KindFuid, n), home, day0)
	}
	for n := range 20 {
		all.Ban(sub(identity.KindFuid, n), later)
	}
	if all.Counts(sub(identity.KindFuid, 40), later) || all.ReturnedAt(home, later) != 0 {
		t.Errorf("one of them counts: %v; %d do", all.Counts(sub(identity.KindFuid, 40), later), all.ReturnedAt(home, later))
	}
}
