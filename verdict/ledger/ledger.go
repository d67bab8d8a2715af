// Package ledger counts what passes have paid, exactly on one node and in leases over a shared store, and what a request
// costs them.
package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/spravka"
	"antirobot/store"
	"antirobot/store/behind"
)

const (
	shards    = 64
	leaseMost = 32
	// leaseIdle is how long a lease lies unused before it is given back to the other nodes, and how long "nothing
	// left" is believed before the store is asked again.
	leaseIdle = time.Minute
	// leaseWait is how long a request waits for a lease. Then the store counts as failing.
	leaseWait = 500 * time.Millisecond
	// leaseTries is how often it waits, if other requests spend what has come.
	leaseTries = 4
)

// Ledger counts what passes have paid. On a single node the count in memory decides, so it is exact: never one unit
// more than the pass guarantees, however many requests run at once. It is written behind: when Settle returns, the
// change is on its way to the store, and it arrives within one or two of the store's writes. A clean Close writes
// everything; a kill -9 forgets what was spent in that window.
//
// With a shared store every node takes leases of min(32, limit/8) and spends from them, and from nothing else: so all nodes
// together never spend more than the pass has. A lease is requested ahead of need. Only a request that finds none left (the
// first one at another node, or one of many at once) waits for the store, for leaseWait at most. With a local log a killed
// node knows again what it had leased and spent, but for the payments of its last moment; without one, what it had leased
// and not spent is lost to the visitor.
//
// When the store fails, on_store_failure decides: open keeps counting in memory (up to the whole limit on each node;
// debts are settled later), closed lets nobody pay. Both report Degraded.
type Ledger struct {
	st     store.Store
	shared bool
	max    int64
	n      atomic.Int64
	full   atomic.Uint64 // payments refused because the table was full
	paid   atomic.Uint64 // units
	back   atomic.Uint64 // units that were given back once the answer was known
	tariff Tariff
	now    func() time.Time
	seed   maphash.Seed
	behind *behind.Writer[[16]byte]
	shards [shards]shard

	log     *store.LocalLog // nil: none is kept
	mortal  store.Mortal    // nil: the store forgets nothing
	losses  *store.Losses
	slow    sync.Mutex // guards whatever goes through all accounts, and the fields below
	life    string     // of the store, as the leases know it; empty: not yet known
	masters uint64     // likewise
}

type shard struct {
	mu sync.Mutex
	m  map[[16]byte]account
	_  [48]byte
}

func leaseOf(limit uint32) uint32 { return max(1, min(leaseMost, limit/8)) }

// Options are what a Ledger is made with.
type Options struct {
	Store  store.Store
	Tariff Tariff
	Most   int              // passes that may pay
	Losses *store.Losses    // is told of what the store has lost and got back; may be nil
	Now    func() time.Time // by the clock that all nodes share, as are all times that a Ledger is given: passes go by it
}

// New makes a Ledger that knows nothing of what is in the store: Load reads it. Its writes run in Writes.
func New(o Options) *Ledger {
	l := &Ledger{
		st: o.Store, shared: o.Store.Shared(), max: int64(o.Most), now: o.Now, seed: maphash.MakeSeed(), tariff: o.Tariff, losses: o.Losses,
	}
	for i := range l.shards {
		l.shards[i].m = make(map[[16]byte]account)
	}
	if l.shared {
		l.mortal, _ = o.Store.(store.Mortal)
		l.behind = behind.New(l.lease)
	} else {
		l.behind = behind.New(l.flush)
	}
	return l
}

// Writes is what writes to the store, after the requests that pay.
func (l *Ledger) Writes() *behind.Writer[[16]byte] { return l.behind }

// Totals are the figures of a ledger.
type Totals struct {
	Passes   int64  // that have paid
	Spent    uint64 // units
	Returned uint64 // units that were given back once the answer was known
	Refused  uint64 // payments, because the table was full
}

// Totals returns the figures since the start.
func (l *Ledger) Totals() Totals {
	return Totals{Passes: l.n.Load(), Spent: l.paid.Load(), Returned: l.back.Load(), Refused: l.full.Load()}
}

// Allowance is what a pass that has paid still may pay for, as far as this node knows.
type Allowance struct {
	Limit, Spent uint32 // units; with a shared store Spent is what this node spent
	Left         uint32
	Expires      time.Time
}

// Allowance returns what is known of a pass; false if it has paid nothing on this node.
func (l *Ledger) Allowance(id [16]byte) (Allowance, bool) {
	a, ok := l.load(id)
	if !ok || a.limit == 0 {
		return Allowance{}, false
	}
	return Allowance{Limit: a.limit, Spent: a.spent, Left: l.left(&a), Expires: time.Unix(a.expires, 0).UTC()}, true
}

func (l *Ledger) shard(id [16]byte) *shard {
	return &l.shards[maphash.Comparable(l.seed, id)%shards]
}

// Issued requests the first lease of a new pass, so that it is there when the visitor comes back.
func (l *Ledger) Issued(p *spravka.Pass, at time.Time) {
	if !l.shared || !p.Earned || p.Allowance == 0 {
		return
	}
	sh := l.shard(p.ID)
	sh.mu.Lock()
	_, known := sh.m[p.ID]
	add := !known && l.n.Load() < l.max
	if add {
		sh.m[p.ID] = account{expires: p.Expires, limit: p.Allowance, used: at.UnixNano()}
		l.n.Add(1)
	}
	sh.mu.Unlock()
	if add {
		l.behind.Add(p.ID)
	}
}

const spentPrefix = "spent/"

func spentKey(id [16]byte) []byte { return append([]byte(spentPrefix), id[:]...) }

func (l *Ledger) load(id [16]byte) (a account, ok bool) {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, ok = sh.m[id]
	return a, ok
}

// flush writes the count of a pass to the unshared store: expiry of the pass (8 bytes, unix seconds), spent (4 bytes).
// The count is absolute, so repeating a write does no harm.
func (l *Ledger) flush(ctx context.Context, id [16]byte) error {
	a, ok := l.load(id)
	ttl := time.Unix(a.expires, 0).Sub(l.now())
	if !ok || ttl <= 0 {
		return nil
	}
	val := binary.BigEndian.AppendUint64(nil, uint64(a.expires))
	val = binary.BigEndian.AppendUint32(val, a.spent)
	if err := l.st.Put(ctx, spentKey(id), val, ttl); err != nil {
		return fmt.Errorf("write spent allowance: %w", err)
	}
	return nil
}

// Load reads every live count of the unshared store.
func (l *Ledger) Load(ctx context.Context) error {
	if l.shared {
		return nil
	}
	err := store.ScanKept(ctx, l.st, []byte(spentPrefix), func(k, v []byte, _ time.Duration) error {
		if len(k) != len(spentPrefix)+16 || len(v) != 12 {
			return fmt.Errorf("malformed count of %d bytes", len(v))
		}
		var id [16]byte
		copy(id[:], k[len(spentPrefix):])
		sh := l.shard(id)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if _, known := sh.m[id]; known {
			return nil
		}
		sh.m[id] = account{expires: int64(binary.BigEndian.Uint64(v)), spent: binary.BigEndian.Uint32(v[8:])}
		l.n.Add(1) // even past the bound: forgetting a count would grant the allowance twice
		return nil
	})
	if err != nil {
		return fmt.Errorf("read spent allowances: %w", err)
	}
	return nil
}

// lease takes a lease from the shared store, plus what settles the debt.
func (l *Ledger) lease(ctx context.Context, id [16]byte) error {
	a, ok := l.load(id)
	ttl := time.Unix(a.expires, 0).Sub(l.now())
	if !ok || ttl <= 0 {
		return nil
	}
	if a.spare() >= leaseOf(a.limit) && a.spare() >= a.missed {
		return nil // of many requests that waited, another one took it
	}
	want := max(leaseOf(a.limit), a.missed) + a.debt() - min(a.spare(), leaseOf(a.limit)/2)
	var granted int64
	if most := a.limit - min(a.leased, a.limit); most > 0 { // granting more than the limit is never right, whatever the store has lost
		var err error
		if granted, err = l.st.Take(ctx, spentKey(id), int64(min(want, most)), int64(a.limit), ttl); err != nil {
			return fmt.Errorf("take a lease: %w", err)
		}
	}
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a = sh.m[id]
	a.leased += uint32(granted)
	a.missed, a.dry = 0, 0
	at := l.now().UnixNano()
	a.used = at
	if granted < int64(want) {
		a.dry = at + int64(leaseIdle)
	}
	sh.m[id] = a
	l.note(id, &a)
	return nil
}

// await takes a lease before it returns. Of many callers for one pass each waits for its turn, and most find that another
// one has taken it.
func (l *Ledger) await(id [16]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaseWait)
	defer cancel()
	return l.behind.Now(ctx, id)
}

// GiveBack returns the leases that were unused for leaseIdle, or all of them, to the shared store. What can't be
// returned is lost to the visitor: returning it twice would be worse.
func (l *Ledger) GiveBack(ctx context.Context, all bool) error {
	if !l.shared {
		return nil
	}
	l.slow.Lock()
	defer l.slow.Unlock()
	var ids [][16]byte
	at := l.now()
	idle := func(a account) bool {
		return a.spare() > 0 && a.expires > at.Unix() && (all || at.UnixNano()-a.used >= int64(leaseIdle))
	}
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for id, a := range sh.m {
			if idle(a) {
				ids = append(ids, id)
			}
		}
		sh.mu.Unlock()
	}
	type lease struct {
		id    [16]byte
		units uint32
		ttl   time.Duration
	}
	var back []lease
	for _, id := range ids {
		l.change(id, func(a *account) {
			if idle(*a) {
				back = append(back, lease{id, a.spare(), time.Unix(a.expires, 0).Sub(at)})
				a.leased = a.spent
				l.note(id, a)
			}
		})
	}
	l.log.Flush() // before others may spend it: a node that is killed must not believe that it still has it
	for _, b := range back {
		if _, err := l.st.Incr(ctx, spentKey(b.id), -int64(b.units), b.ttl); err != nil {
			return fmt.Errorf("give a lease back: %w", err)
		}
	}
	return nil
}

// Sweep forgets the accounts of passes that have expired. An account of a live pass is never forgotten: that would
// grant its allowance, or the debt that it may run up, a second time.
func (l *Ledger) Sweep(at time.Time) {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for id, a := range sh.m {
			if a.expires <= at.Unix() {
				delete(sh.m, id)
				l.n.Add(-1)
			}
		}
		sh.mu.Unlock()
	}
}
