package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"antirobot/store"
	"antirobot/store/behind"
)

// The shared store has one sum for each pass: the leases of all nodes. If the store was emptied, each node adds the
// leases that it took itself, once per life of the store, which restores the sum; what was leased in the seconds before
// the loss was noticed counts twice. So a pass may end sooner, but never becomes whole again. If a server may have lost
// its last moments, a sum below a node's own leases is raised to them; what other nodes had leased in that time is not
// known.

// Restore writes back the leases that the shared store has lost. It is called with every scan.
func (l *Ledger) Restore(ctx context.Context) error {
	if l.mortal == nil {
		return nil
	}
	l.slow.Lock()
	defer l.slow.Unlock()
	life, masters := l.mortal.Life()
	switch {
	case life == "":
		return nil
	case l.life != "" && l.life != life:
		l.oweAll()
	case l.masters != masters:
		if err := l.compare(ctx); err != nil {
			return err
		}
	}
	l.life, l.masters = life, masters
	return l.addOwed(ctx)
}

// leases returns the passes that are still valid and for which f is true.
func (l *Ledger) leases(f func(a *account) bool) (ids [][16]byte) {
	at := l.now().Unix()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for id, a := range sh.m {
			if a.expires > at && f(&a) {
				ids = append(ids, id)
			}
		}
		sh.mu.Unlock()
	}
	return ids
}

// change changes an account if there is one.
func (l *Ledger) change(id [16]byte, f func(a *account)) {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a, ok := sh.m[id]; ok {
		f(&a)
		sh.m[id] = a
	}
}

func (l *Ledger) oweAll() {
	for _, id := range l.leases(func(a *account) bool { return a.leased > 0 }) {
		l.change(id, func(a *account) { a.owed = a.leased })
	}
}

// compare records as owed what the sums lack of this node's own leases.
func (l *Ledger) compare(ctx context.Context) error {
	ids := l.leases(func(a *account) bool { return a.leased > 0 && a.owed == 0 })
	_, err := behind.Restore(ctx, ids, func(ctx context.Context, id [16]byte) (bool, error) {
		a, _ := l.load(id) // before the sum, which then includes what is leased in the meantime
		sum, err := l.st.Incr(ctx, spentKey(id), 0, 0)
		if err == nil && sum < int64(a.leased) {
			l.change(id, func(to *account) { to.owed = a.leased - uint32(sum) }) //nolint:gosec // it is less than leased
		}
		return false, err
	})
	return wrapped("compare leases", err)
}

// addOwed adds to what is owed.
func (l *Ledger) addOwed(ctx context.Context) error {
	n, err := behind.Restore(ctx, l.leases(func(a *account) bool { return a.owed > 0 }), func(ctx context.Context, id [16]byte) (bool, error) {
		a, _ := l.load(id)
		ttl := time.Unix(a.expires, 0).Sub(l.now())
		if ttl <= 0 {
			return false, nil
		}
		if _, err := l.st.Incr(ctx, spentKey(id), int64(a.owed), ttl); err != nil {
			return false, err
		}
		l.change(id, func(a *account) { a.owed = 0 })
		return true, nil
	})
	l.losses.Note("spent allowances", int(n))
	return wrapped("write leases back", err)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// lifeKey is the record of the local log that names the life of the store in which the leases were taken.
const lifeKey = "life"

var errLease = errors.New("malformed lease")

// LogTo logs every lease and payment from now on. It is called before the first one.
func (l *Ledger) LogTo(log *store.LocalLog) { l.log = log }

// LogLife logs in which life of the store the leases were taken, once Restore has compared them.
func (l *Ledger) LogLife() {
	l.slow.Lock()
	defer l.slow.Unlock()
	if l.life != "" {
		l.log.Append(store.Logged{Key: []byte(lifeKey), Val: []byte(l.life)})
	}
}

// note logs an account. The caller holds the lock of its shard, so that records of one account keep their order.
func (l *Ledger) note(id [16]byte, a *account) {
	if l.log == nil {
		return
	}
	var key [len(spentPrefix) + 16]byte
	var val [loggedLease]byte
	l.log.Append(a.record(append(append(key[:0], spentPrefix...), id[:]...), val[:0]))
}

// loggedLease is the length of a logged account: expiry (8 bytes, unix seconds), limit, leased, spent (4 bytes each).
const loggedLease = 20

func (a *account) record(key, val []byte) store.Logged {
	val = binary.BigEndian.AppendUint64(val, uint64(a.expires)) //nolint:gosec // read back as it is
	for _, n := range [...]uint32{a.limit, a.leased, a.spent} {
		val = binary.BigEndian.AppendUint32(val, n)
	}
	return store.Logged{Key: key, Val: val, Until: time.Unix(a.expires, 0)}
}

// EachLease calls put with a record for each pass that was leased or paid, and with one for the life of the store.
func (l *Ledger) EachLease(put func(store.Logged) error) error {
	l.slow.Lock()
	life := l.life
	l.slow.Unlock()
	if life != "" {
		if err := put(store.Logged{Key: []byte(lifeKey), Val: []byte(life)}); err != nil {
			return err
		}
	}
	for _, id := range l.leases(func(a *account) bool { return a.leased > 0 || a.spent > 0 }) {
		a, _ := l.load(id)
		if err := put(a.record(spentKey(id), nil)); err != nil {
			return err
		}
	}
	return nil
}

// Recall takes a record of the local log. It is called before the first payment.
func (l *Ledger) Recall(key, val []byte) error {
	if string(key) == lifeKey {
		l.life = string(val)
		return nil
	}
	if len(key) != len(spentPrefix)+16 || string(key[:len(spentPrefix)]) != spentPrefix || len(val) != loggedLease {
		return errLease
	}
	a := account{
		expires: int64(binary.BigEndian.Uint64(val)), //nolint:gosec // as it was written
		limit:   binary.BigEndian.Uint32(val[8:]), leased: binary.BigEndian.Uint32(val[12:]), spent: binary.BigEndian.Uint32(val[16:]),
	}
	id := [16]byte(key[len(spentPrefix):])
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, known := sh.m[id]
	if a.expires <= l.now().Unix() || !known && l.n.Load() >= l.max {
		return nil
	}
	l.put(sh, id, &a, known)
	return nil
}
