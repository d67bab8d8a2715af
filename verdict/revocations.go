package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
)

const (
	revocationShards = 64
	revokedPrefix    = "revoked/"
	revocationTopic  = "revocations"
)

var errRevocation = errors.New("malformed revocation")

// revokedKey names one revocation; the zero value means "all that were created before a time".
type revokedKey [16]byte

// revocations knows which passes are no longer valid, by ID and by creation time. Revoked takes no lock: the maps are
// replaced, never changed. Safe for concurrent use.
type revocations struct {
	st     store.Store
	max    int
	now    func() time.Time
	losses *store.Losses
	mu     sync.Mutex // of writers
	n      int
	// campaigns says that there are campaigns among the IDs.
	campaigns atomic.Bool
	before    atomic.Int64 // unix seconds: whatever was created earlier is revoked
	ids       [revocationShards]atomic.Pointer[map[revokedKey]int64]
	behind    *behind.Writer[revokedKey]
	log       func(id revokedKey, val int64) // is told of every change
}

func newRevocations(st store.Store, most int, now func() time.Time, losses *store.Losses, log func(revokedKey, int64)) *revocations {
	r := &revocations{st: st, max: most, now: now, losses: losses, log: log}
	r.behind = behind.New(r.write)
	return r
}

// Revoked reports whether the pass is no longer valid.
func (r *revocations) Revoked(id [16]byte, born int64) bool {
	if born < r.before.Load() {
		return true
	}
	// The IDs are random, so any of their bits spread them evenly.
	m := r.ids[id[15]%revocationShards].Load()
	if m == nil {
		return false
	}
	until, ok := (*m)[id]
	return ok && r.now().UnixNano() < until
}

// put revokes an ID in memory until a time (unix nanoseconds).
func (r *revocations) put(id revokedKey, until int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := store.Horizon(r.st, r.now()).UnixNano()
	p := &r.ids[id[15]%revocationShards]
	next := make(map[revokedKey]int64)
	old := p.Load()
	if old != nil {
		if was, known := (*old)[id]; known && was >= until {
			return nil
		}
		next = maps.Clone(*old)
		maps.DeleteFunc(next, func(_ revokedKey, until int64) bool { return until <= at })
		r.n -= len(*old) - len(next)
	}
	if _, known := next[id]; !known {
		if r.n >= r.max {
			return bans.ErrFull
		}
		r.n++
	}
	next[id] = until
	p.Store(&next)
	r.log(id, until)
	return nil
}

// raise revokes whatever was created before a time.
func (r *revocations) raise(before int64) {
	for {
		old := r.before.Load()
		if before <= old {
			return
		}
		if r.before.CompareAndSwap(old, before) {
			r.log(revokedKey{}, before)
			return
		}
	}
}

// value returns what the store keeps for an ID, and for how long; false: nothing that still matters.
func (r *revocations) value(id revokedKey) (val []byte, ttl time.Duration, ok bool) {
	if id == (revokedKey{}) {
		before := r.before.Load()
		return binary.BigEndian.AppendUint64(nil, uint64(before)), 0, before > 0
	}
	m := r.ids[id[15]%revocationShards].Load()
	if m == nil {
		return nil, 0, false
	}
	until := (*m)[id]
	ttl = time.Unix(0, until).Sub(r.now())
	return binary.BigEndian.AppendUint64(nil, uint64(until)), ttl, ttl > 0
}

// write writes one revocation to the store as memory has it, and tells the other nodes.
func (r *revocations) write(ctx context.Context, id revokedKey) error {
	val, ttl, ok := r.value(id)
	if !ok {
		return nil
	}
	if err := r.st.Put(ctx, append([]byte(revokedPrefix), id[:]...), val, ttl); err != nil {
		return fmt.Errorf("write revocation: %w", err)
	}
	if !r.st.Shared() {
		return nil
	}
	if err := r.st.Append(ctx, revocationTopic, append(id[:], val...)); err != nil {
		return fmt.Errorf("announce revocation: %w", err)
	}
	return nil
}

// apply takes a revocation from the store or the feed: 16 bytes of ID, 8 of time.
func (r *revocations) apply(id, val []byte) error {
	if len(id) != 16 || len(val) != 8 {
		return errRevocation
	}
	k, n := revokedKey(id), int64(binary.BigEndian.Uint64(val))
	if k == (revokedKey{}) {
		r.raise(n)
		return nil
	}
	if string(k[:len(campaignMark)]) == campaignMark {
		r.campaigns.Store(true)
	}
	return r.put(k, n)
}

// Scan reads all revocations from the store, and writes back those that it has lost: a revocation is never undone.
func (r *revocations) Scan(ctx context.Context) error {
	met := map[revokedKey]int64{}
	err := store.ScanKept(ctx, r.st, []byte(revokedPrefix), func(k, v []byte, _ time.Duration) error {
		if err := r.apply(k[len(revokedPrefix):], v); err != nil {
			return err
		}
		met[revokedKey(k[len(revokedPrefix):])] = int64(binary.BigEndian.Uint64(v))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read revocations: %w", err)
	}
	if !r.st.Shared() {
		return nil
	}
	return r.restore(ctx, met)
}

// restore writes back what a scan has not found.
func (r *revocations) restore(ctx context.Context, met map[revokedKey]int64) error {
	var lost []revokedKey
	soon := r.now().Add(endsSoon).UnixNano()
	_ = r.each(func(id revokedKey, val int64) error { // this func returns no error
		got, ok := met[id]
		all := id == revokedKey{}
		if (all && got < val || !all && !ok && val > soon) && !r.behind.Pending(id) {
			lost = append(lost, id)
		}
		return nil
	})
	n, err := behind.Restore(ctx, lost, func(ctx context.Context, id revokedKey) (bool, error) {
		return true, r.write(ctx, id)
	})
	r.losses.Note("revocations", int(n))
	return err
}

// each calls f with each revocation: its end in unix nanoseconds, or for the zero key the creation time in unix
// seconds.
func (r *revocations) each(f func(id revokedKey, val int64) error) error {
	if before := r.before.Load(); before > 0 {
		if err := f(revokedKey{}, before); err != nil {
			return err
		}
	}
	at := r.now().UnixNano()
	for i := range r.ids {
		m := r.ids[i].Load()
		if m == nil {
			continue
		}
		for id, until := range *m {
			if until > at {
				if err := f(id, until); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Heard handles one message of the feed.
func (r *revocations) Heard(msg []byte) error {
	if len(msg) != 24 {
		return errRevocation
	}
	return r.apply(msg[:16], msg[16:])
}

// RevokePass makes the pass invalid from now on and for ttl, which should be at least what is left of its life. The
// revocation is in force when RevokePass returns, even if the store fails; the error then says so, and the write is
// retried.
func (c *Cacher) RevokePass(ctx context.Context, id [16]byte, ttl time.Duration) error {
	if id == (revokedKey{}) || ttl <= 0 {
		return errors.New("revoke a pass: no ID, or no time to live")
	}
	if err := c.revoked.put(id, c.now().Add(ttl).UnixNano()); err != nil {
		return fmt.Errorf("revoke a pass: %w", err)
	}
	return c.revoked.behind.Now(ctx, id)
}

// RevokePassesBornBefore makes all passes created before a time invalid. It can't be undone. As for RevokePass, an
// error concerns the store only.
func (c *Cacher) RevokePassesBornBefore(ctx context.Context, at time.Time) error {
	if at.After(c.now()) {
		return errors.New("revoke passes: the time is in the future")
	}
	c.revoked.raise(at.Unix())
	return c.revoked.behind.Now(ctx, revokedKey{})
}

// Revoked reports whether a pass with this ID and creation time (unix seconds) is no longer valid. It is the func that
// identity calls; it takes no lock and allocates nothing.
func (c *Cacher) Revoked(id [16]byte, born int64) bool { return c.revoked.Revoked(id, born) }
