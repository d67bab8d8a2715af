package cbb

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"time"

	"antirobot/store"
)

// Count is how often an entry or a list decided.
type Count struct {
	Times uint64
	Last  time.Time // the day of the last time, in UTC; zero: never
	Since time.Time // when the counting began
}

// Silent reports whether there was no decision in the 30 days before at. It takes a count of 30 days to know.
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

// Counts returns how often each list decided, by its name.
func (l *Lists) Counts() map[string]ListCount {
	t := l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	l.settle()
	out := map[string]ListCount{}
	for name, c := range t.lists {
		out[name] = ListCount{Count: c.view(c.since)}
	}
	first := dayOf(l.now()) - silentDays
	for k, c := range t.lines {
		if n, ok := out[k.list]; ok && c.day >= first {
			n.Lately++
			out[k.list] = n
		}
	}
	return out
}

// Lines calls f with the entries of a list: the run-time ones of block, ban or white, or those of a list from a file, a
// URL or the configuration by its name. It returns false if there is no such list. Names of subjects in fetched lists
// are not kept, and left out. f must not call Lists.
func (l *Lists) Lines(list string, f func(*Line)) bool {
	t := l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	l.settle()
	if flag, err := ParseFlag(list); err == nil {
		l.runtimeLines(flag, f)
		return true
	}
	whole := t.lists[list]
	if whole == nil || list == listAPI {
		return false
	}
	p := l.plan.Load()
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

// runtimeLines calls f with the live run-time entries of a flag: each is counted since it was made.
func (l *Lists) runtimeLines(flag Flag, f func(*Line)) {
	since := l.tally.lists[listAPI].since
	l.over.mu.Lock()
	defer l.over.mu.Unlock()
	now := l.now()
	for _, it := range l.over.items {
		if it.entry.Flag == flag && it.entry.live(now) {
			f(l.tally.line(it.entry, max(since, time.Unix(0, it.made).Unix())))
		}
	}
}

// line returns an entry with its count, under the tally's lock.
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

// lines calls f with each entry that has a name: as written where that is kept, otherwise its network.
func (d *parsed) lines(base *Entry, f func(*Entry)) {
	named := make([]bool, len(d.labels)) // a range is many networks with one name
	one := func(n uint16, p netip.Prefix) {
		e := *base
		lab := d.labels[n]
		if lab.reason != "" {
			e.Reason = lab.reason
		}
		switch e.Text = lab.text; {
		case e.Text != "" && named[n]:
			return
		case e.Text != "":
			named[n] = true
		case !p.IsValid():
			return
		default:
			e.Text = textOf(p)
		}
		f(&e)
	}
	for _, n := range d.v4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], n.addr)
		one(n.label, netip.PrefixFrom(netip.AddrFrom4(a), int(n.bits)))
	}
	for _, n := range d.v6 {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:8], n.hi)
		binary.BigEndian.PutUint64(a[8:], n.lo)
		one(n.label, netip.PrefixFrom(netip.AddrFrom16(a), int(n.bits)))
	}
	for _, s := range d.subjects {
		one(s.label, netip.Prefix{})
	}
}

func textOf(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// storedCount is a count on disk. Without a text it is that of a list.
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

// write puts all counts into a log, under the tally's lock.
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
		if err := one(storedCount{List: k.list, Flag: k.flag, Service: k.service, Text: k.text, Times: c.n, Day: c.day}); err != nil {
			return err
		}
	}
	return nil
}

// loadCounts takes up the counts of the previous run; without them the counting begins now.
func (l *Lists) loadCounts() {
	if l.disk == nil {
		return
	}
	if _, err := store.ReadLog(l.disk.countsPath(), l.tally.read); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.tally = newTally()
		l.log.Warn().Err(err).Msg("how often list entries decided was not kept: the counting begins anew")
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
