package cbb

import (
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

// Lines calls f with the entries of a list: the run-time ones of block, ban or white, or those of a list from a file, a
// URL or the configuration by its name. It returns false if there is no such list. Names of subjects in fetched lists
// are not kept, and left out. f must not call Lists.
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

// runtimeLines calls f with the live run-time entries of a flag: each is counted since it was made.
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
	for i := range d.v4 {
		one(d.v4[i].label, d.v4[i].prefix())
	}
	for i := range d.v6 {
		one(d.v6[i].label, d.v6[i].prefix())
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
