package verdict

import (
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

// TestYoungAreAskedByThemselves: where those of whom little is known have read too much, whoever has read there for longer is spared by name, on
// gateways that hear of it from a processor, too; strangers are asked only if the question is for both.
func TestYoungAreAskedByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		p := newWorldOver(t, st, nil, part(PartProcessor)).start()
		g := newWorldOver(t, st, nil, part(PartGateway)).start()
		const addr = "192.0.2.1"
		at, home := time.Now(), ip(addr).ID
		known, young := sub(identity.KindI, 1), sub(identity.KindI, 2)
		for _, s := range []identity.Subject{known, young} {
			p.standing.Observe(s, home, at.Add(-oneDay))
			p.standing.Observe(s, home, at)
		}
		p.Trust(page(at, addr, known), at.Add(-oneDay), false)
		ask := func(both bool) {
			var of [4]identity.Prefix
			identity.Prefixes(&of, home, groupOf("shop"))
			p.Ask(&Question{Prefix: of[0], Until: at.Add(time.Hour), Young: true, Both: both, Read: 190, Most: 180, Window: "1h"})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		f := func(who string, want bool, presented ...identity.Subject) {
			t.Helper()
			for name, w := range map[string]*world{"processor": p, "gateway": g} {
				if d := w.ask(service(t), addr, presented...); (d.Cause == CauseBudget) != want {
					t.Errorf("%s, at the %s: %v, because of %v", who, name, d.Verdict, d.Cause)
				}
			}
		}
		ask(false)
		f("who has read for longer", false, known)
		f("who was there twice", true, young)
		f("a login", false, sub(identity.KindL, 1), young)
		f("a stranger", false, sub(identity.KindI, 9))
		ask(true)
		f("who has read for longer, beside strangers", false, known)
		f("who was there twice, beside strangers", true, young)
		f("a stranger, with the others", true, sub(identity.KindI, 9))
		closeAll(t, g, p)
	})
}
