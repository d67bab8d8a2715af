package verdict

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/verdict/bans"
)

// wipe empties the store of values and of what passes have spent, as FLUSHALL does, but keeps the feeds.
func (s *sharedStore) wipe(t *testing.T, passes ...[16]byte) {
	t.Helper()
	var keys [][]byte
	err := s.Memory.Scan(ctx, nil, func(k, _ []byte, _ time.Duration) error {
		keys = append(keys, append([]byte(nil), k...))
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, s.Memory.Delete(ctx, k))
	}
	for _, id := range passes {
		_, less := s.Memory.Incr(ctx, spentKey(id), -1<<40, time.Hour)
		err = errors.Join(err, less)
	}
	s.life.Add(1)
	if err != nil {
		t.Fatal(err)
	}
}

// spent is what the store says that a pass has spent.
func (s *sharedStore) spent(t *testing.T, pass [16]byte) int64 {
	t.Helper()
	n, err := s.Memory.Incr(ctx, spentKey(pass), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// newPair is two nodes over a store, and what health knows of its losses.
func newPair(t *testing.T, st *sharedStore) (a, b *world, losses *store.Losses) {
	t.Helper()
	losses = store.NewLosses(zerolog.Nop(), time.Now)
	told := func(o *options) { o.Losses = losses }
	return newWorldOver(t, st, nil, told).start(), newWorldOver(t, st, nil, told).start(), losses
}

// afterScan is when every node has compared the whole store with its memory once more.
const afterScan = 5*time.Minute + time.Second

func (s *sharedStore) has(prefix string) (n int) {
	_ = s.Memory.Scan(ctx, []byte(prefix), func(_, _ []byte, _ time.Duration) error { n++; return nil })
	return n
}

// TestLostBansAreWrittenBack: a store that was emptied gets its bans and revocations back from the nodes that know
// them, health says so for a while, and a node that never knew them gets them, too.
func TestLostBansAreWrittenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a, b, losses := newPair(t, st)
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		a.ban(ip("192.0.2.2"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		if n, err := a.Unban(ctx, ip("192.0.2.2"), ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		pass := [16]byte{7}
		if err := errors.Join(a.RevokePass(ctx, pass, 24*time.Hour), a.RevokePassesBornBefore(ctx, time.Now())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := losses.Err(); err != nil {
			t.Fatalf("before the loss: %v", err)
		}
		st.wipe(t)
		late := newWorldOver(t, st, nil).start() // it finds nothing
		time.Sleep(afterScan)
		s := service(t)
		for name, w := range map[string]*world{"a": a, "b": b, "late": late} {
			if w.ask(s, "192.0.2.1").Verdict != Robot {
				t.Errorf("%s forgot the ban", name)
			}
			if w.ask(s, "192.0.2.2").Verdict != Human {
				t.Errorf("%s has the lifted ban again", name)
			}
		}
		if bans, revoked := st.has(bans.Prefix), st.has(revokedPrefix); bans != 2 || revoked != 2 {
			t.Errorf("the store has %d records of bans and %d revocations; want 2 and 2", bans, revoked)
		}
		if err := losses.Err(); err == nil || !strings.Contains(err.Error(), " bans") || !strings.Contains(err.Error(), " revocations") {
			t.Errorf("health says %v", err)
		}
		time.Sleep(store.LossNotice + time.Second)
		if err := losses.Err(); err != nil {
			t.Errorf("health still says %v", err)
		}
		closeAll(t, a, b, late)
	})
}

// TestOlderBanInTheStore: a store that went back in time receives what memory has newer.
func TestOlderBanInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a := newWorldOver(t, st, nil).start()
		defer a.Close()
		key := bans.Key{Subject: ip("192.0.2.1")}.AppendTo(nil)
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		old, err := st.Memory.Get(ctx, nil, key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n, err := a.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := st.Memory.Put(ctx, key, old, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(afterScan)
		if a.ask(service(t), "192.0.2.1").Verdict != Human {
			t.Error("the lifted ban is back")
		}
		val, err := st.Memory.Get(ctx, nil, key)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := bans.Parse(key, val, 0); err != nil || !b.Lifted {
			t.Errorf("the store has %q, %v; want the lifted ban", val, err)
		}
	})
}

// TestBanOfTheFuture: a node whose clock is ahead makes a ban; the others can lift it, and ban again.
func TestBanOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		ahead := func(o *options) { o.Now = func() time.Time { return time.Now().Add(48 * time.Hour) } }
		a, b := newWorldOver(t, st, nil, ahead).start(), newWorldOver(t, st, nil).start()
		s := service(t)
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(49 * time.Hour) })
		synctest.Wait()
		if b.ask(s, "192.0.2.1").Verdict != Robot {
			t.Fatal("the ban is not heard")
		}
		if n, err := b.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(afterScan)
		if b.ask(s, "192.0.2.1").Verdict != Human || len(a.Bans(BanFilter{})) != 0 {
			t.Error("the ban can't be lifted")
		}
		b.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(50 * time.Hour) })
		time.Sleep(afterScan)
		if b.ask(s, "192.0.2.1").Verdict != Robot || len(a.Bans(BanFilter{})) != 1 {
			t.Error("the subject can't be banned again")
		}
		closeAll(t, a, b)
	})
}

// skewedStore is a store whose clock is ahead of the node's.
type skewedStore struct {
	*sharedStore
	ahead time.Duration
}

func (s *skewedStore) Skew() time.Duration { return s.ahead }

// TestSkewedNode: bans are exchanged in the store's time, so a ban of ten minutes lasts ten minutes on all nodes.
func TestSkewedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		const wrong = 3 * time.Hour
		slow := func(o *options) {
			o.Store = &skewedStore{st, wrong}
			o.Now = func() time.Time { return time.Now().Add(-wrong) }
		}
		a, b := newWorldOver(t, st, nil, slow).start(), newWorldOver(t, st, nil).start()
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(10*time.Minute - wrong) })
		b.ban(ip("192.0.2.2"), func(b *bans.Ban) { b.Until = time.Now().Add(10 * time.Minute) })
		synctest.Wait()
		for name, w := range map[string]*world{"the slow node": a, "the right node": b} {
			for _, ban := range w.Bans(BanFilter{}) {
				if left := ban.Until.Sub(w.Cacher.now()).Round(time.Second); left != 10*time.Minute {
					t.Errorf("%s: %v has %v left", name, ban.Subject, left)
				}
			}
			if n := len(w.Bans(BanFilter{})); n != 2 {
				t.Errorf("%s has %d bans", name, n)
			}
		}
		closeAll(t, a, b)
	})
}

// TestLocalLogOfSharedBans: a node that starts while the store is away has what it knew before; a store that was emptied in
// the meantime gets it back; a log that is too old is not used.
func TestLocalLogOfSharedBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		file := filepath.Join(t.TempDir(), "bans.shared")
		kept := func(o *options) { o.LocalLog = file }
		a := newWorldOver(t, st, nil, kept).start()
		a.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(20 * 24 * time.Hour) })
		pass := [16]byte{7}
		if err := errors.Join(a.RevokePass(ctx, pass, 24*time.Hour), a.Close()); err != nil {
			t.Fatal(err)
		}
		st.wipe(t)
		st.down.Store(true)
		s := service(t)
		b := newWorldOver(t, st, nil, kept).start()
		if d := b.ask(s, "192.0.2.1"); d.Verdict != Robot || !d.Degraded {
			t.Errorf("without the store: %v, degraded %v", d.Verdict, d.Degraded)
		}
		if !b.Revoked(pass, time.Now().Unix()) {
			t.Error("without the store the revocation is forgotten")
		}
		st.down.Store(false)
		time.Sleep(5 * time.Second)
		if bans, revoked := st.has(bans.Prefix), st.has(revokedPrefix); bans != 1 || revoked != 1 {
			t.Errorf("the store has %d bans and %d revocations; want 1 and 1", bans, revoked)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		st.wipe(t)
		time.Sleep(bans.LiftedFor + time.Minute)
		old := newWorldOver(t, st, nil, kept).start()
		defer old.Close()
		if len(old.Bans(BanFilter{})) != 0 {
			t.Error("a log that is older than what is remembered of lifted bans is used")
		}
	})
}
