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

// lifeKey is the line of the copy that names the life of the store from which it was taken.
const lifeKey = "life"

var errLease = errors.New("malformed lease")

// EachLease calls put with a line for each pass that was leased from: expiry (8 bytes, unix seconds), limit, and units
// (4 bytes each); and with one for the life of the store.
func (l *Ledger) EachLease(put func(store.Copied) error) error {
	l.slow.Lock()
	life := l.life
	l.slow.Unlock()
	if life == "" {
		return nil
	}
	if err := put(store.Copied{Key: []byte(lifeKey), Val: []byte(life)}); err != nil {
		return err
	}
	for _, id := range l.leases(func(a *account) bool { return a.leased > 0 }) {
		a, _ := l.load(id)
		val := binary.BigEndian.AppendUint64(nil, uint64(a.expires)) //nolint:gosec // read back as it is
		val = binary.BigEndian.AppendUint32(val, a.limit)
		val = binary.BigEndian.AppendUint32(val, a.leased)
		if err := put(store.Copied{Key: spentKey(id), Val: val, Until: time.Unix(a.expires, 0)}); err != nil {
			return err
		}
	}
	return nil
}

// Recall takes a line written by EachLease. What was leased then counts as spent.
func (l *Ledger) Recall(key, val []byte) error {
	if string(key) == lifeKey {
		l.life = string(val)
		return nil
	}
	if len(key) != len(spentPrefix)+16 || len(val) != 16 {
		return errLease
	}
	a := account{expires: int64(binary.BigEndian.Uint64(val)), limit: binary.BigEndian.Uint32(val[8:]), leased: binary.BigEndian.Uint32(val[12:])} //nolint:gosec // as it was written
	a.spent = a.leased
	if a.expires <= l.now().Unix() || l.n.Load() >= l.max {
		return nil
	}
	id := [16]byte(key[len(spentPrefix):])
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[id]; !known {
		sh.m[id] = a
		l.n.Add(1)
	}
	return nil
}
