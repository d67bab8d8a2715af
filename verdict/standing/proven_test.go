package standing

import (
	"testing"

	"antirobot/identity"
)

// TestProven: who is established and has read for longer is told apart from who was merely here on two days, with all gateways; a ban takes
// that away.
func TestProven(t *testing.T) {
	var records [][]byte
	all, office, later := table(nil), ip("192.0.2.1"), day0.Add(oneDay)
	all.tell = func(_ identity.Subject, record []byte) { records = append(records, record) }
	for n := range 32 {
		all.Observe(sub(identity.KindI, n), office, day0)
		all.Observe(sub(identity.KindI, n), office, later)
	}
	s, other := sub(identity.KindI, 3), sub(identity.KindI, 4)
	if all.Proven(s) || all.Company(s, later) != 32 || all.ProvenAt(office) != 0 {
		t.Fatalf("before: proven %v, %d like it, %d at the address", all.Proven(s), all.Company(s, later), all.ProvenAt(office))
	}
	gateway := table(nil)
	for n := range 32 {
		gateway.Merge(sub(identity.KindI, n), records[2*n+1])
	}
	all.Trust(s, office, day0, later, false)
	gateway.Merge(s, records[len(records)-1])
	for name, x := range map[string]*Table{"processor": all, "gateway": gateway} {
		if !x.Proven(s) || x.Proven(other) || !x.Established(s) || x.EstablishedAt(office) != 32 || x.ProvenAt(office) != 1 {
			t.Errorf("%s: proven %v, another %v; %d established, %d proven", name, x.Proven(s), x.Proven(other), x.EstablishedAt(office), x.ProvenAt(office))
		}
		if n, one := x.Company(other, later), x.Company(s, later); n != 31 || one != 0 {
			t.Errorf("%s: %d like another, %d like it", name, n, one)
		}
	}
	for n := 10; n < 32; n++ {
		gateway.Trust(sub(identity.KindI, n), office, day0, later, false)
	}
	if n := gateway.Company(other, later); n != 1 {
		t.Errorf("%d like another where most have read for longer", n)
	}
	all.Ban(s, later)
	if all.Proven(s) || all.ProvenAt(office) != 0 || all.Company(other, later) != 32 {
		t.Errorf("after a ban: proven %v, %d at the address, %d like another", all.Proven(s), all.ProvenAt(office), all.Company(other, later))
	}
}

// TestTrustedStayProven: whoever was trusted where there was no place, and finds one, has read for longer still.
func TestTrustedStayProven(t *testing.T) {
	all, home, later := table(nil), ip("192.0.2.1"), day0.Add(oneDay)
	s := sub(identity.KindI, 1)
	all.Observe(s, home, day0)
	all.Trust(s, home, day0, later, true)
	all.Observe(s, home, later.Add(oneDay))
	if !all.Established(s) || !all.Proven(s) || all.ProvenAt(home) != 1 || all.TrustedAt(home) != 0 {
		t.Errorf("established %v, proven %v, %d proven and %d trusted at its address", all.Established(s), all.Proven(s), all.ProvenAt(home), all.TrustedAt(home))
	}
}

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
