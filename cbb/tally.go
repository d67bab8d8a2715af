package cbb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"net/netip"
	"path/filepath"
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

// tally counts how often each entry decided. A decision leaves its entry and, for one without a text, the address in
// one of a few small maps; a goroutine finds the line of the list and adds it up. Reads do the same.
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

// lineKey is one entry of a list, wherever its line is.
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
	t := &tally{
		owner: l, seed: maphash.MakeSeed(), filled: make(chan struct{}, 1), lines: map[lineKey]*counted{},
		lists: map[string]*counted{},
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.heard, s.spare, s.missed = map[heard]uint32{}, map[heard]uint32{}, map[string]uint32{}
	}
	return t
}

// Count is how often an entry or a list decided.
type Count struct {
	Times uint64
	Last  time.Time // the day of the last time, in UTC; zero: never
	Since time.Time // when the counting began
}

// Silent reports whether there was no decision in the 30 days before at, of which a count must cover all.
func (c *Count) Silent(at time.Time) bool {
	begin := at.AddDate(0, 0, -silentDays)
	return !c.Since.IsZero() && !c.Since.After(begin) && c.Last.Before(begin.Truncate(24*time.Hour))
}

// ListCount is how often a list decided.
type ListCount struct {
	Count

	Lately int // entries that decided in the last 30 days
}

// Line is one entry of a list and how often it decided.
type Line struct {
	Entry
	Count
}

// Decided counts a decision by an entry about a request from an address. It does not wait, and takes a lock that one
// request in sixteen shares. Verified crawlers are not counted.
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

// settle adds up the shards, under the tally's lock.
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

// settleLists starts counts of new lists, and drops those of removed ones.
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

// enter adds n decisions to a line. A line that is gone counts for its list alone.
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

// Counts returns how often each list decided, by its name.
func (l *Lists) Counts() map[string]ListCount { return l.tally.counts() }

func (t *tally) counts() map[string]ListCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	out := map[string]ListCount{}
	for name, c := range t.lists {
		out[name] = ListCount{Count: c.view(c.since)}
	}
	first := dayOf(t.owner.now()) - silentDays
	for k, c := range t.lines {
		if n, ok := out[k.list]; ok && c.day >= first {
			n.Lately++
			out[k.list] = n
		}
	}
	return out
}

// Lines calls f with the entries of a list: the run-time ones of block, ban or white, or those of a list by its name.
// It returns false if there is no such list. Subjects of fetched lists have no names, and are left out. f must not
// call Lists.
func (l *Lists) Lines(list string, f func(*Line)) bool { return l.tally.linesOf(list, f) }

func (t *tally) linesOf(list string, f func(*Line)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	if flag, err := ParseFlag(list); err == nil {
		t.runtimeLines(flag, f)
		return true
	}
	whole := t.lists[list]
	if whole == nil || list == listAPI {
		return false
	}
	p := t.owner.plan.Load()
	if list == listPatterns {
		for i := range p.rules.patterns {
			f(t.line(p.rules.patterns[i].entry, whole.since))
		}
	}
	for i := range p.lists {
		d := p.lists[i].fixed
		if src := p.lists[i].source; src != nil {
			d = src.data.Load()
		}
		if p.lists[i].base.List == list && p.lists[i].decides() && d != nil {
			d.lines(&p.lists[i].base, func(e *Entry) { f(t.line(e, whole.since)) })
		}
	}
	return true
}

func (t *tally) runtimeLines(flag Flag, f func(*Line)) {
	since := t.lists[listAPI].since
	t.owner.live.over.mu.Lock()
	defer t.owner.live.over.mu.Unlock()
	now := t.owner.now()
	for _, it := range t.owner.live.over.items {
		if it.entry.Flag == flag && it.entry.live(now) {
			f(t.line(it.entry, max(since, time.Unix(0, it.made).Unix())))
		}
	}
}

func (t *tally) line(e *Entry, since int64) *Line {
	c := t.lines[lineKey{list: e.List, service: e.Service, text: e.Text, flag: e.Flag}]
	if c == nil {
		c = new(counted)
	}
	return &Line{Entry: *e, Count: c.view(since)}
}

func (c *counted) view(since int64) Count {
	v := Count{Times: c.n, Since: time.Unix(since, 0).UTC()}
	if c.day != 0 {
		v.Last = time.Unix(c.day*24*60*60, 0).UTC()
	}
	return v
}

// storedCount is a count on disk, of a list if it has no text.
type storedCount struct {
	List    string `json:"list"`
	Flag    Flag   `json:"flag,omitempty"`
	Service string `json:"service,omitempty"`
	Text    string `json:"text,omitempty"`
	Times   uint64 `json:"times"`
	Day     int64  `json:"day,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

func (d *disk) countsPath() string { return filepath.Join(d.dir, "decided") }

// prune drops long silent lines, under the tally's lock.
func (t *tally) prune(now time.Time) {
	for k, c := range t.lines {
		if c.day < dayOf(now)-forgetDays {
			delete(t.lines, k)
			t.dirty = true
		}
	}
}

// saveCounts writes the counts to disk. A killed process loses those since the last time.
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

func (t *tally) write(put func(store.Logged) error) error {
	one := func(s storedCount) error {
		val, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return put(store.Logged{Val: val})
	}
	for name, c := range t.lists {
		if err := one(storedCount{List: name, Times: c.n, Day: c.day, Since: c.since}); err != nil {
			return err
		}
	}
	for k, c := range t.lines {
		s := storedCount{List: k.list, Flag: k.flag, Service: k.service, Text: k.text, Times: c.n, Day: c.day}
		if err := one(s); err != nil {
			return err
		}
	}
	return nil
}

// loadCounts loads the counts of the previous run; without them the counting begins now.
func (t *tally) loadCounts() {
	if t.owner.disk == nil {
		return
	}
	if _, err := store.ReadLog(t.owner.disk.countsPath(), t.read); err != nil && !errors.Is(err, fs.ErrNotExist) {
		clear(t.lines)
		clear(t.lists)
		t.owner.log.Warn().Err(err).Msg("how often list entries decided was not kept: the counting begins anew")
	}
}

// read takes one count from a log.
func (t *tally) read(c store.Logged) error {
	var s storedCount
	if err := json.Unmarshal(c.Val, &s); err != nil {
		return fmt.Errorf("a count of a list entry: %w", err)
	}
	switch kept := (&counted{n: s.Times, day: s.Day, since: s.Since}); {
	case s.Text == "":
		t.lists[s.List] = kept
	case len(t.lines) < maxCounted:
		t.lines[lineKey{list: s.List, service: s.Service, text: s.Text, flag: s.Flag}] = kept
	}
	return nil
}
