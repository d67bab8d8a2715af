package verdict

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
	ledgerShards = 64
	leaseMost    = 32
	// leaseIdle is how long a lease lies unused before it is given back to the other nodes, and how long "nothing
	// left" is believed before the store is asked again.
	leaseIdle = time.Minute
	// leaseWait is how long a request waits for a lease. Then the store counts as failing.
	leaseWait = 500 * time.Millisecond
	// leaseTries is how often it waits, if other requests spend what has come.
	leaseTries = 4
)

// ledger counts what passes have paid. On a single node the count in memory decides, so it is exact: never one unit
// more than the pass guarantees, however many requests run at once. It is written behind: when Spend returns, the
// change is on its way to the store, and it arrives within one or two of the store's writes. A clean Close writes
// everything; a kill -9 forgets what was spent in that window.
//
// With a shared store every node takes leases of min(32, limit/8) and spends from them, and from nothing else: so all nodes
// together never spend more than the pass has. A lease is requested ahead of need. Only a request that finds none left (the
// first one at another node, or one of many at once) waits for the store, for leaseWait at most. What a killed node had
// leased and not spent is lost to the visitor.
//
// When the store fails, on_store_failure decides: open keeps counting in memory (up to the whole limit on each node;
// debts are settled later), closed lets nobody pay. Both report Degraded.
type ledger struct {
	st     store.Store
	shared bool
	max    int64
	n      atomic.Int64
	full   atomic.Uint64 // payments refused because the table was full
	paid   atomic.Uint64 // units
	back   atomic.Uint64 // units that were given back once the answer was known
	tariff PassConfig
	now    func() time.Time
	seed   maphash.Seed
	behind *behind.Writer[[16]byte]
	shards [ledgerShards]ledgerShard

	mortal  store.Mortal // nil: the store forgets nothing
	losses  *store.Losses
	slow    sync.Mutex // guards whatever goes through all accounts, and the fields below
	life    string     // of the store, as the leases know it; empty: not yet known
	masters uint64     // likewise
}

type ledgerShard struct {
	mu sync.Mutex
	m  map[[16]byte]account
	_  [48]byte
}

// account is what is known of one pass.
type account struct {
	expires int64  // unix seconds, of the pass
	dry     int64  // unix nanoseconds until which the store is known to have nothing left; 0: it may have
	used    int64  // unix nanoseconds of the last payment or lease
	limit   uint32 // sealed in the pass
	spent   uint32 // by this node; with an unshared store: in total
	leased  uint32 // granted to this node by the shared store
	missed  uint32 // cost of a request that the lease did not cover
	parts   uint32 // that were covered by what was spent; of this node and since its start
	calls   uint32
	places  [maxPlaces]uint64 // networks beside its own to which the browser has paid to move
	turn    uint8
	own     uint32 // documents for which the spent pass stood in, and …
	day     uint16
	today   uint16 // … of these on that day
	owed    uint32 // the part of leased that the shared store has lost
}

// debt is the amount spent beyond the leases.
func (a *account) debt() uint32 { return a.spent - min(a.spent, a.leased) }

// spare is the amount leased and not spent.
func (a *account) spare() uint32 { return a.leased - min(a.spent, a.leased) }

func leaseOf(limit uint32) uint32 { return max(1, min(leaseMost, limit/8)) }

// payment is the answer of Spend.
type payment struct {
	OK       bool
	Left     uint32 // what this node believes to be left afterwards
	Degraded bool   // decided without the store
}

func newLedger(st store.Store, most int, now func() time.Time) *ledger {
	l := &ledger{st: st, shared: st.Shared(), max: int64(most), now: now, seed: maphash.MakeSeed(), tariff: DefaultConfig().Pass}
	for i := range l.shards {
		l.shards[i].m = make(map[[16]byte]account)
	}
	if l.shared {
		l.mortal, _ = st.(store.Mortal)
		l.behind = behind.New(l.lease)
	} else {
		l.behind = behind.New(l.flush)
	}
	return l
}

func (l *ledger) shard(id [16]byte) *ledgerShard {
	return &l.shards[maphash.Comparable(l.seed, id)%ledgerShards]
}

// account returns a copy of what is known of a pass.
func (l *ledger) account(id [16]byte) (account, bool) {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, ok := sh.m[id]
	return a, ok && a.limit > 0
}

// decide computes the answer for an account, and says whether a lease should be requested.
func (l *ledger) decide(a *account, cost uint32, at time.Time, failing bool, policy Policy) (pay payment, ask bool) {
	pay.Degraded = failing
	if failing && policy == Closed {
		return pay, false
	}
	within := uint64(a.spent)+uint64(cost) <= uint64(a.limit)
	if !l.shared {
		pay.OK = within
		return pay, false
	}
	lease := leaseOf(a.limit)
	dry := a.dry > at.UnixNano()
	switch {
	case a.spare() >= cost:
		pay.OK = true
		return pay, !dry && a.spare()-cost < (lease+1)/2
	case dry:
		return pay, false
	case failing:
		pay.OK = within
	}
	if !pay.OK {
		a.missed = cost
	}
	return pay, true
}

func (l *ledger) left(a *account) uint32 {
	if l.shared && a.dry != 0 {
		return a.spare()
	}
	return a.limit - min(a.spent, a.limit)
}

// Issued requests the first lease of a new pass, so that it is there when the visitor comes back.
func (l *ledger) Issued(p *spravka.Pass, at time.Time) {
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

func (l *ledger) load(id [16]byte) (a account, ok bool) {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, ok = sh.m[id]
	return a, ok
}

// flush writes the count of a pass to the unshared store: expiry of the pass (8 bytes, unix seconds), spent (4 bytes).
// The count is absolute, so repeating a write does no harm.
func (l *ledger) flush(ctx context.Context, id [16]byte) error {
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
func (l *ledger) Load(ctx context.Context) error {
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
func (l *ledger) lease(ctx context.Context, id [16]byte) error {
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
	return nil
}

// await takes a lease before it returns. Of many callers for one pass each waits for its turn, and most find that another
// one has taken it.
func (l *ledger) await(id [16]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaseWait)
	defer cancel()
	return l.behind.Now(ctx, id)
}

// GiveBack returns the leases that were unused for leaseIdle, or all of them, to the shared store. What can't be
// returned is lost to the visitor: returning it twice would be worse.
func (l *ledger) GiveBack(ctx context.Context, all bool) error {
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
	for _, id := range ids {
		sh := l.shard(id)
		sh.mu.Lock()
		a := sh.m[id]
		units := int64(a.spare())
		if !idle(a) {
			units = 0
		} else {
			a.leased = a.spent
			sh.m[id] = a
		}
		sh.mu.Unlock()
		if units == 0 {
			continue
		}
		if _, err := l.st.Incr(ctx, spentKey(id), -units, time.Unix(a.expires, 0).Sub(at)); err != nil {
			return fmt.Errorf("give a lease back: %w", err)
		}
	}
	return nil
}

// Sweep forgets the accounts of passes that have expired. An account of a live pass is never forgotten: that would
// grant its allowance, or the debt that it may run up, a second time.
func (l *ledger) Sweep(at time.Time) {
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
