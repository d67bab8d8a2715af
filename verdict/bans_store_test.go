package verdict

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
)

func TestBansSurviveARestart(t *testing.T) {
	c := newClock()
	st := newStore(false, c.now)
	full := bans.Ban{
		Subject: sub(identity.KindFuid, 1), Until: c.now().Add(time.Hour), Made: c.now(), Service: "shop",
		Source: bans.SourceProcessor, Score: 0.75, Threshold: 0.5, Reason: "pace", Model: "v7",
		Factors: [bans.MaxFactors]bans.Factor{{Name: "pages", Value: 81, Amount: 1.5}, {Name: "limit", Value: 80, Amount: 0}},
	}
	w := newWorldOver(t, st, c).start()
	if err := w.Ban(ctx, full); err != nil {
		t.Fatal(err)
	}
	w.ban(ip("192.0.2.1"))
	w.ban(ip("192.0.2.2"))
	if _, err := w.Unban(ctx, ip("192.0.2.2"), ""); err != nil {
		t.Fatal(err)
	}
	if err := w.BanSoon(bans.Ban{Subject: ip("192.0.2.3"), Until: c.now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	w = newWorldOver(t, st, c).start()
	defer w.Close()
	if n := len(w.Bans(BanFilter{})); n != 3 {
		t.Fatalf("%d bans after the restart, want 3", n)
	}
	got := w.Bans(BanFilter{Subject: full.Subject})
	got[0].Until, got[0].Made = got[0].Until.UTC(), got[0].Made.UTC()
	if !reflect.DeepEqual(got[0], full) {
		t.Errorf("got  %+v\nwant %+v", got[0], full)
	}
	c.advance(2 * time.Minute)
	if n := len(w.Bans(BanFilter{Subject: ip("192.0.2.3")})); n != 0 {
		t.Error("the short ban is still there")
	}
}

// TestBanWithoutStore: the ban holds at once, the error is reported, and the ban is written when the store is back.
func TestBanWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(false, nil)
		w := newWorldOver(t, st, nil).start()
		defer w.Close()
		st.down.Store(true)
		err := w.Ban(ctx, bans.Ban{Subject: ip("192.0.2.1"), Until: time.Now().Add(time.Hour)})
		if !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		if d := w.ask(service(t), "192.0.2.1"); d.Verdict != Robot {
			t.Error("not in force")
		}
		if w.Health() == nil {
			t.Error("health says nothing")
		}
		time.Sleep(time.Second)
		st.down.Store(false)
		time.Sleep(time.Second)
		n := 0
		_ = st.Memory.Scan(ctx, []byte(bans.Prefix), func(_, _ []byte, _ time.Duration) error { n++; return nil })
		if n != 1 || w.Health() != nil {
			t.Errorf("%d bans in the store, health %v", n, w.Health())
		}
	})
}

// TestScanAndWritesThatOverlap: a scan neither restores a lifted ban whose deletion is still pending, nor drops a ban
// that was written behind the scan's position.
func TestScanAndWritesThatOverlap(t *testing.T) {
	w := newWorld(t)
	w.ban(ip("192.0.2.1"))
	w.st.down.Store(true)
	if n, err := w.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || !errors.Is(err, errDown) {
		t.Fatal(n, err)
	}
	w.st.down.Store(false)
	if err := w.LiveBans.scan(ctx); err != nil {
		t.Fatal(err)
	}
	if len(w.Bans(BanFilter{})) != 0 {
		t.Error("a lifted ban is back")
	}

	b := bans.Ban{Subject: ip("192.0.2.2"), Until: w.now().Add(time.Hour), Made: w.now()}
	if err := w.LiveBans.table.Put(&b, w.now().UnixNano()); err != nil {
		t.Fatal(err)
	}
	w.LiveBans.table.BeginScan()
	w.LiveBans.table.MarkStored(b.Key(), b.Made.UnixNano())
	if lost := w.LiveBans.table.Missing(w.now().UnixNano()); len(lost) != 0 {
		t.Error("a ban that was just written is taken for lost")
	}
	w.LiveBans.table.BeginScan()
	if lost := w.LiveBans.table.Missing(w.now().UnixNano()); len(lost) != 1 || lost[0] != b.Key() {
		t.Errorf("the store has the ban no more: %v are taken for lost", lost)
	}
	if lost := w.LiveBans.table.Missing(b.Until.UnixNano()); len(lost) != 0 {
		t.Error("a ban that has ended is taken for lost")
	}
}

// TestBanOnAnotherNode: bans are visible within 100 ms, and lifted as fast; a node that was away catches up by a scan.
func TestBanOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a, b := newWorldOver(t, st, nil).start(), newWorldOver(t, st, nil).start()
		s := service(t)
		robot := func(name string, w *world, addr string, want bool) {
			t.Helper()
			if got := w.ask(s, addr).Verdict == Robot; got != want {
				t.Errorf("%s: banned %v, want %v", name, got, want)
			}
		}
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		time.Sleep(100 * time.Millisecond)
		robot("after 100 ms", b, "192.0.2.1", true)
		if n, err := b.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(100 * time.Millisecond)
		robot("lifted elsewhere", a, "192.0.2.1", false)

		// More messages than the feed keeps, one of them a lift, while b can't read.
		a.ban(ip("192.0.2.2"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		synctest.Wait()
		robot("before the gap", b, "192.0.2.2", true)
		st.down.Store(true)
		lifted := bans.Ban{Made: time.Now(), Until: time.Now().Add(time.Hour), Lifted: true} // and the message lost
		if err := st.Memory.Put(ctx, bans.Key{Subject: ip("192.0.2.2")}.AppendTo(nil), lifted.AppendValue(nil, 0), time.Hour); err != nil {
			t.Fatal(err)
		}
		st.down.Store(false)
		time.Sleep(afterScan)
		robot("after the rescan", b, "192.0.2.2", false)
		c := newWorldOver(t, st, nil).start()
		a.ban(ip("192.0.2.3"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		d := newWorldOver(t, st, nil).start()
		robot("a node that starts later", d, "192.0.2.3", true)
		closeAll(t, a, b, c, d)
	})
}

// TestSharedStoreAwayAtStart: the node starts, decides, reports Degraded, and catches up.
func TestSharedStoreAwayAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a := newWorldOver(t, st, nil).start()
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		st.down.Store(true)
		b := newWorldOver(t, st, nil).start()
		defer b.Close()
		if d := b.ask(service(t), "192.0.2.1"); d.Verdict != Human || !d.Degraded || b.Health() == nil {
			t.Errorf("%v, degraded %v, health %v", d.Verdict, d.Degraded, b.Health())
		}
		st.down.Store(false)
		time.Sleep(3 * time.Second)
		if d := b.ask(service(t), "192.0.2.1"); d.Verdict != Robot || d.Degraded {
			t.Errorf("after the store came back: %v, degraded %v", d.Verdict, d.Degraded)
		}
	})
}
