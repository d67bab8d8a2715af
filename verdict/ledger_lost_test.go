package verdict

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/spravka"
	"antirobot/verdict/ledger"
)

// spendAll makes a node pay with a pass for as long as it can, and returns how much it paid.
func spendAll(w *world, p *spravka.Pass, most int) (n int) {
	for range most {
		if w.spend(p, ledger.Open).OK {
			n++
		}
		time.Sleep(10 * time.Millisecond) // for the lease
	}
	return n
}

// TestSpentAllowancesAreWrittenBack: a pass that two nodes have spent is not whole again after the store was emptied,
// neither for them nor for a node that never saw it; what was left is still there, and health reports the loss.
func TestSpentAllowancesAreWrittenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a, b, losses := newPair(t, st)
		empty, half := pass(time.Now(), 1, 100, "192.0.2.1"), pass(time.Now(), 2, 100, "192.0.2.1")
		paid := spendAll(a, &empty, 60) + spendAll(b, &empty, 60) + spendAll(a, &empty, 60)
		if n := spendAll(a, &half, 20) + spendAll(b, &half, 20); n != 40 {
			t.Fatalf("the other pass paid for %d", n)
		}
		if n := st.spent(t, empty.ID); n != 100 || paid != 100 {
			t.Fatalf("the store says that %d of 100 are spent, %d were", n, paid)
		}
		before := st.spent(t, half.ID)
		st.wipe(t, empty.ID, half.ID)
		time.Sleep(afterScan)
		if n := st.spent(t, empty.ID); n != 100 {
			t.Errorf("the store says that %d of 100 are spent", n)
		}
		if n := st.spent(t, half.ID); n > before || n < 40 {
			t.Errorf("of the other pass %d are spent; before the loss, with leases, %d", n, before)
		}
		if err := losses.Err(); err == nil || !strings.Contains(err.Error(), "spent allowances") {
			t.Errorf("health says %v", err)
		}
		late := newWorldOver(t, st, nil).start()
		if paid += spendAll(a, &empty, 120) + spendAll(b, &empty, 120); paid > 100 {
			t.Errorf("the spent pass paid for %d", paid)
		}
		// A node that never saw the pass lets it pay for one lease before it knows better: that is the price of leases.
		if n := spendAll(late, &empty, 100); n > 100/8 {
			t.Errorf("the spent pass pays for %d on a node that never saw it", n)
		}
		if n := spendAll(late, &half, 100); n < 30 || n > 60 {
			t.Errorf("the other pass pays for %d more; 60 are left, less what others have leased", n)
		}
		st.wipe(t) // the name changes, but no lease was lost: that may only cost the visitor
		time.Sleep(afterScan)
		if n := st.spent(t, empty.ID); n < 100 {
			t.Errorf("the store says that %d of 100 are spent", n)
		}
		closeAll(t, a, b, late)
	})
}

// TestSpentAllowancesSurviveARestart: a node that was down while the store was emptied restores what it had leased.
func TestSpentAllowancesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		file := filepath.Join(t.TempDir(), "bans.shared")
		kept := func(o *options) { o.LocalLog = file }
		p := pass(time.Now(), 1, 100, "192.0.2.1")
		a := newWorldOver(t, st, nil, kept).start()
		if n := spendAll(a, &p, 120); n != 100 {
			t.Fatalf("the pass paid for %d", n)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		st.wipe(t, p.ID)
		b := newWorldOver(t, st, nil, kept).start()
		defer b.Close()
		synctest.Wait()
		if n := st.spent(t, p.ID); n != 100 {
			t.Errorf("the store says that %d of 100 are spent", n)
		}
		if n := spendAll(b, &p, 20); n != 0 {
			t.Errorf("the spent pass pays for %d after a restart", n)
		}
	})
}

// TestStaleReplicaLosesNoLease: a master that lacks a node's last leases gets them back.
func TestStaleReplicaLosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a := newWorldOver(t, st, nil).start()
		p := pass(time.Now(), 1, 100, "192.0.2.1")
		if n := spendAll(a, &p, 120); n != 100 {
			t.Fatalf("the pass paid for %d", n)
		}
		_, err := st.Incr(ctx, spentKey(p.ID), -70, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		st.masters.Add(1)
		time.Sleep(afterScan)
		if n := st.spent(t, p.ID); n != 100 {
			t.Errorf("the store says that %d of 100 are spent", n)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}
