package cbb

import (
	"context"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"antirobot/store"
)

const (
	tallyShards = 16
	maxHeard    = 1 << 12 // pairs of entry and address that a shard keeps until they are counted
	maxCounted  = 1 << 17 // entries with a count, of all lists
	tallyEvery  = 10 * time.Second
	saveEvery   = 10 * time.Minute
	forgetDays  = 90 // an entry that was silent for so long loses its count
	silentDays  = 30
)

// tally counts how often each entry decided. A decision leaves its entry and, for one without a text, the address in one
// of a few small maps; a goroutine finds the line of the list and adds it up. Reads do the same.
type tally struct {
	owner  *Lists
	seed   maphash.Seed
	shards [tallyShards]tallyShard
	filled chan struct{} // a shard is half full

	mu    sync.Mutex // guards the fields below, and all spare maps
	lines map[lineKey]*counted
	lists map[string]*counted // by name: all entries of a list
	dirty bool
}

type tallyShard struct {
	mu     sync.Mutex
	heard  map[heard]uint32
	missed map[string]uint32 // by list: decisions for whose entry there was no room
	spare  map[heard]uint32
	_      [24]byte
}

type heard struct {
	entry *Entry
	addr  netip.Addr // invalid if the entry has a text
}

// lineKey is one entry of a list, wherever it stands in it.
type lineKey struct {
	list, service, text string
	flag                Flag
}

// counted is a count as it is kept.
type counted struct {
	n     uint64
	day   int64 // of the last decision, in days since 1970; 0: none
	since int64 // of a list: the second from which on no decision of any of its entries was missed
}

func newTally(l *Lists) *tally {
	t := &tally{owner: l, seed: maphash.MakeSeed(), filled: make(chan struct{}, 1), lines: map[lineKey]*counted{}, lists: map[string]*counted{}}
	for i := range t.shards {
		s := &t.shards[i]
		s.heard, s.spare, s.missed = map[heard]uint32{}, map[heard]uint32{}, map[string]uint32{}
	}
	return t
}

// Decided counts a decision by an entry about a request from an address. It does not wait, and takes a lock that one request
// in sixteen shares. Verified crawlers are not counted.
func (l *Lists) Decided(e *Entry, addr netip.Addr) { l.tally.decided(e, addr) }

func (t *tally) decided(e *Entry, addr netip.Addr) {
	if e.List == ListCrawlers {
		return
	}
	k := heard{entry: e}
	if e.Text == "" {
		k.addr = addr
	}
	s := &t.shards[maphash.Comparable(t.seed, addr)%tallyShards]
	s.mu.Lock()
	n, known := s.heard[k]
	if known || len(s.heard) < maxHeard {
		s.heard[k] = n + 1
	} else {
		s.missed[e.List]++
	}
	half := len(s.heard) >= maxHeard/2
	s.mu.Unlock()
	if half {
		select {
		case t.filled <- struct{}{}:
		default:
		}
	}
}

// count adds up what was decided until ctx ends, and keeps it on disk.
func (t *tally) count(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	saved := t.owner.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.filled:
		}
		t.mu.Lock()
		t.settle()
		t.mu.Unlock()
		if now := t.owner.now(); now.Sub(saved) >= saveEvery {
			saved = now
			t.saveCounts()
		}
	}
}

// settle adds up what the shards have, under the tally's lock.
func (t *tally) settle() {
	now := t.owner.now()
	t.settleLists(now)
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		fresh := s.heard
		s.heard, s.spare = s.spare, fresh
		for list, n := range s.missed {
			if whole := t.lists[list]; whole != nil {
				whole.add(n, now)
				whole.since = now.Unix()
			}
		}
		clear(s.missed)
		s.mu.Unlock()
		for k, n := range fresh {
			t.enter(k, n, now)
		}
		clear(fresh)
	}
}

// settleLists begins to count for lists that are new, and forgets what is known of those that are no more.
func (t *tally) settleLists(now time.Time) {
	known := t.counting()
	for name := range known {
		if t.lists[name] == nil {
			t.lists[name] = &counted{since: now.Unix()}
			t.dirty = true
		}
	}
	if len(t.lists) == len(known) {
		return
	}
	for name := range t.lists {
		if !known[name] {
			delete(t.lists, name)
			t.dirty = true
		}
	}
	for k := range t.lines {
		if !known[k.list] {
			delete(t.lines, k)
		}
	}
}

// counting returns the names of the lists whose entries decide.
func (t *tally) counting() map[string]bool {
	p := t.owner.plan.Load()
	names := map[string]bool{listAPI: true}
	if len(p.rules.patterns) > 0 {
		names[listPatterns] = true
	}
	for i := range p.lists {
		if p.lists[i].decides() {
			names[p.lists[i].base.List] = true
		}
	}
	return names
}

func (p *planned) decides() bool { return p.base.Flag != ForRules && p.of == "" }

// enter adds n decisions to the line of a list. A line that the list has no longer counts for the list alone.
func (t *tally) enter(k heard, n uint32, now time.Time) {
	e := k.entry
	whole := t.lists[e.List]
	if whole == nil {
		return
	}
	t.dirty = true
	whole.add(n, now)
	key := lineKey{list: e.List, service: e.Service, text: e.Text, flag: e.Flag}
	if key.text == "" {
		if key.text = t.owner.Describe(e, k.addr); key.text == "" {
			return
		}
	}
	line := t.lines[key]
	if line == nil {
		if len(t.lines) >= maxCounted {
			whole.since = now.Unix()
			return
		}
		line = &counted{}
		t.lines[key] = line
	}
	line.add(n, now)
}

func (c *counted) add(n uint32, now time.Time) {
	c.n += uint64(n)
	c.day = max(c.day, dayOf(now))
}

func dayOf(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

// prune drops the lines that were silent for long, under the tally's lock.
func (t *tally) prune(now time.Time) {
	for k, c := range t.lines {
		if c.day < dayOf(now)-forgetDays {
			delete(t.lines, k)
			t.dirty = true
		}
	}
}

// saveCounts writes the counts to the directory of the lists. What is not written yet is lost if the process is killed.
func (t *tally) saveCounts() {
	if t.owner.disk == nil || t.owner.disk.readOnly {
		return
	}
	now := t.owner.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	t.prune(now)
	if !t.dirty {
		return
	}
	if err := store.WriteLog(t.owner.disk.countsPath(), now, t.write); err != nil {
		t.owner.log.Warn().Err(err).Msg("how often list entries decided is not kept over a restart")
		return
	}
	t.dirty = false
}
