package processor

import (
	"testing"
	"time"

	"antirobot/identity"
)

// TestForgottenIsInNoTable: of who is forgotten nothing is left that counts or judges it, and nobody else is forgotten.
func TestForgottenIsInNoTable(t *testing.T) {
	p := newProcessorFor(t, &villager{}, nil)
	at := time.Unix(1.8e9, 0)
	for i := range 20 {
		at = at.Add(time.Second)
		for n := range 2 {
			e := reading(at, i, [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(n), 14: 1, 15: 9})
			e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(n), 2
			p.Process(e)
		}
	}
	tables := func(of identity.Subject) (names []string) {
		count := map[string]int{}
		p.sessions.All(func(k identity.Subject, _ *session) {
			if k == of {
				count["sessions"]++
			}
		})
		p.trails.All(func(k identity.Subject, _ *trail) {
			if k == of {
				count["trails"]++
			}
		})
		p.paces.Table.All(func(k paceKey, _ *pace) {
			if k.kind == of.Kind && k.id == of.ID {
				count["paces"]++
			}
		})
		for _, name := range []string{"sessions", "trails", "paces"} {
			if count[name] > 0 {
				names = append(names, name)
			}
		}
		return names
	}
	if was := tables(cookie(0)); len(was) != 3 {
		t.Fatalf("known in %v alone: this test sees too little", was)
	}
	p.Forget(cookie(0))
	if is := tables(cookie(0)); len(is) > 0 {
		t.Errorf("still in %v", is)
	}
	if is := tables(cookie(1)); len(is) != 3 {
		t.Errorf("another is only in %v", is)
	}
}
