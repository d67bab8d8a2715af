package cbb

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"antirobot/identity"
)

// overlay holds the run-time entries. Readers take no lock: networks are in a table of which only the changed path is
// copied, subjects in small maps that are copied whole. Unlike in the lists' table, a prefix carries only its own
// entries, because they end one by one; a look-up walks from the longest prefix to the shorter ones around it.
type overlay struct {
	mu    sync.Mutex
	items map[string]*runtimeItem // by key

	nets     atomic.Pointer[bart.Table[*cell]]
	subjects [overlayShards]atomic.Pointer[map[identity.Subject]*cell]
	nsubj    atomic.Int64
	seed     maphash.Seed
}

const overlayShards = 256

// cell holds the entries of one prefix or subject, a service's own first. It is immutable.
type cell struct{ entries []*Entry }

type runtimeItem struct {
	entry *Entry
	what  item
	made  int64 // unix nanoseconds; 0: unknown
}

func newOverlay() *overlay {
	o := &overlay{items: map[string]*runtimeItem{}, seed: maphash.MakeSeed()}
	o.nets.Store(new(bart.Table[*cell]))
	return o
}

func (o *overlay) lookup(m *Match, id *identity.Identity, service string, at time.Time) {
	if o.nsubj.Load() > 0 {
		for i := 0; i < id.N && i < len(id.Subjects); i++ {
			if sh := o.shard(id.Subjects[i]).Load(); sh != nil {
				if c, ok := (*sh)[id.Subjects[i]]; ok {
					c.fill(m, service, at)
				}
			}
		}
	}
	t := o.nets.Load()
	if t.Size() == 0 {
		return
	}
	if _, ok := t.Lookup(id.Addr); !ok {
		return
	}
	for p := netip.PrefixFrom(id.Addr, id.Addr.BitLen()); ; {
		q, c, ok := t.LookupPrefixLPM(p)
		if !ok {
			return
		}
		c.fill(m, service, at)
		if q.Bits() == 0 {
			return
		}
		p = netip.PrefixFrom(q.Addr(), q.Bits()-1)
	}
}

func (o *overlay) has(addr netip.Addr, sub identity.Subject, q *namedQuery) bool {
	if sub.Kind != identity.KindNone && o.nsubj.Load() > 0 {
		if sh := o.shard(sub).Load(); sh != nil {
			if c, ok := (*sh)[sub]; ok && q.any(c) {
				return true
			}
		}
	}
	t := o.nets.Load()
	if !addr.IsValid() || t.Size() == 0 {
		return false
	}
	for p := netip.PrefixFrom(addr, addr.BitLen()); ; {
		around, c, ok := t.LookupPrefixLPM(p)
		if !ok {
			return false
		}
		if q.any(c) {
			return true
		}
		if around.Bits() == 0 {
			return false
		}
		p = netip.PrefixFrom(around.Addr(), around.Bits()-1)
	}
}

func (c *cell) fill(m *Match, service string, at time.Time) {
	for _, e := range c.entries {
		if (e.Service == "" || e.Service == service) && e.live(at) {
			m.fill(e)
		}
	}
}

// replaced returns the cell with one entry removed and one added; nil if it is then empty.
func (c *cell) replaced(gone, come *Entry) *cell {
	d := &cell{}
	if come != nil {
		d.entries = append(d.entries, come)
	}
	if c != nil {
		for _, e := range c.entries {
			if e != gone {
				d.entries = append(d.entries, e)
			}
		}
	}
	if len(d.entries) == 0 {
		return nil
	}
	slices.SortStableFunc(d.entries, func(a, b *Entry) int {
		switch {
		case a.Service != "" && b.Service == "":
			return -1
		case a.Service == "" && b.Service != "":
			return 1
		default:
			return 0
		}
	})
	return d
}

func (o *overlay) shard(s identity.Subject) *atomic.Pointer[map[identity.Subject]*cell] {
	return &o.subjects[maphash.Comparable(o.seed, s)%overlayShards]
}

func (o *overlay) set(key string, it *runtimeItem) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.place(key, it)
}

func (o *overlay) remove(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.items[key]
	o.place(key, nil)
	return ok
}

// place is the only way in which items change: the new entry replaces the old one in a single step for readers.
func (o *overlay) place(key string, it *runtimeItem) {
	old := o.items[key]
	if old == nil && it == nil {
		return
	}
	var gone, come *Entry
	what := item{}
	if old != nil {
		gone, what = old.entry, old.what
	}
	if it != nil {
		come, what = it.entry, it.what
		o.items[key] = it
	} else {
		delete(o.items, key)
	}
	// The same key means the same networks or subject, so one pass serves both.
	if what.subject.Kind != identity.KindNone {
		o.placeSubject(what.subject, gone, come)
		return
	}
	t := o.nets.Load()
	what.prefixes(func(p netip.Prefix) {
		t = t.ModifyPersist(p, func(c *cell, _ bool) (*cell, bool) {
			c = c.replaced(gone, come)
			return c, c == nil
		})
	})
	o.nets.Store(t)
}

func (o *overlay) placeSubject(s identity.Subject, gone, come *Entry) {
	sh := o.shard(s)
	m := map[identity.Subject]*cell{}
	if p := sh.Load(); p != nil {
		m = maps.Clone(*p)
	}
	before := len(m)
	if c := m[s].replaced(gone, come); c != nil {
		m[s] = c
	} else {
		delete(m, s)
	}
	sh.Store(&m)
	o.nsubj.Add(int64(len(m) - before))
}

func (o *overlay) item(key string) *runtimeItem {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.items[key]
}

func (o *overlay) holds(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.items[key]
	return ok
}

func (o *overlay) same(key string, e *Entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	it, ok := o.items[key]
	return ok && e != nil && it.entry.Text == e.Text && it.entry.Reason == e.Reason && it.entry.Until.Equal(e.Until)
}

// keys returns the keys of all items, in any order.
func (o *overlay) keys() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.items))
}

func (o *overlay) keep(live map[string]struct{}, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, it := range o.items {
		if _, ok := live[k]; !ok || !it.entry.live(at) {
			o.place(k, nil)
		}
	}
}

// move converts the times of all entries to a clock that is d ahead of the previous one.
func (o *overlay) move(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, it := range o.items {
		e := *it.entry
		if !e.Until.IsZero() {
			e.Until = e.Until.Add(d)
		}
		made := it.made
		if made != 0 {
			made += int64(d)
		}
		o.place(k, &runtimeItem{entry: &e, what: it.what, made: made})
	}
}

// sweep drops ended entries, which look-ups ignore in any case.
func (o *overlay) sweep(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, it := range o.items {
		if !it.entry.live(at) {
			o.place(k, nil)
		}
	}
}

func (o *overlay) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items)
}

func (o *overlay) list(flag Flag, at time.Time) []Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := []Entry{}
	for _, k := range slices.Sorted(maps.Keys(o.items)) {
		if e := o.items[k].entry; e.Flag == flag && e.live(at) {
			out = append(out, *e)
		}
	}
	return out
}
