package cbb

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// counts returns the entries of a list that decided, or that are silent, as "entry times day".
func counts(t *testing.T, l *Lists, list string) (spoke, silent []string) {
	t.Helper()
	if !l.Lines(list, func(n *Line) {
		if n.Times > 0 {
			spoke = append(spoke, fmt.Sprintf("%s %d %s", n.Text, n.Times, n.Last.Format(time.DateOnly)))
		}
		if n.Silent(l.now()) {
			silent = append(silent, n.Text)
		}
	}) {
		t.Errorf("there is no list %s", list)
	}
	slices.Sort(spoke)
	slices.Sort(silent)
	return spoke, silent
}

// decide looks an address up and counts the entry that blocks it, times over.
func decide(t *testing.T, l *Lists, addr string, times int) {
	t.Helper()
	v, id := newRequest(addr, "/")
	var m Match
	l.Lookup(&m, v, id, "shop")
	e := m.OwnBlock
	if e == nil {
		e = m.Block
	}
	if e == nil {
		t.Fatalf("%s is on no list", addr)
	}
	for range times {
		l.Decided(e, id.Addr)
	}
}

// Which entry decided how often is known for each way in which a list is written, over a restart, and an entry is
// silent only once it has been watched for 30 days.
func TestEntriesThatDecide(t *testing.T) {
	dir, begun := t.TempDir(), time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	var later atomic.Int64 // days
	now := func() time.Time { return begun.AddDate(0, 0, int(later.Load())) }
	file := filepath.Join(dir, "abuse.txt")
	if err := os.WriteFile(file, []byte("192.0.2.0/25\n192.0.2.7\n2001:db8::/32\n198.51.100.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := newFakeStore()
	begin := func() *Lists {
		l := open(t, config(func(c *Config) {
			c.Block = []string{"203.0.113.1-203.0.113.6", "203.0.113.128/25"}
			c.Lists = []ListConfig{{Name: "abuse", Flag: "block", File: file}}
		}), func(d *Deps) {
			d.KV, d.Feed, d.Dir, d.Now = fs, fs, filepath.Join(dir, "lists"), now
		})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	check := func(l *Lists, list string, spoke, silent []string) {
		t.Helper()
		if a, b := counts(t, l, list); !slices.Equal(a, spoke) || !slices.Equal(b, silent) {
			t.Errorf("%s: spoke %q, silent %q; want %q, %q", list, a, b, spoke, silent)
		}
	}
	l := begin()
	if err := l.Add(t.Context(), Block, "10.1.0.0/16", 0, "x", ""); err != nil {
		t.Fatal(err)
	}
	decide(t, l, "192.0.2.7", 2)
	decide(t, l, "192.0.2.8", 3)
	decide(t, l, "192.0.2.9", 1)
	decide(t, l, "2001:db8::1", 1)
	decide(t, l, "203.0.113.2", 1)
	decide(t, l, "203.0.113.4", 1)
	decide(t, l, "10.1.2.3", 4)
	abuse := []string{"192.0.2.0/25 4 2026-01-02", "192.0.2.7 2 2026-01-02", "2001:db8::/32 1 2026-01-02"}
	inline := []string{"203.0.113.1-203.0.113.6 2 2026-01-02"}
	check(l, "abuse", abuse, nil)
	check(l, "inline", inline, nil)
	check(l, "block", []string{"10.1.0.0/16 4 2026-01-02"}, nil)
	if c := l.Counts()["abuse"]; c.Times != 7 || c.Lately != 3 || !c.Since.Equal(begun) {
		t.Errorf("the list as a whole: %+v", c)
	}
	if l.Lines("none", func(*Line) {}) || l.Lines(listAPI, func(*Line) {}) {
		t.Error("there are lists that nobody made")
	}
	closeLists(t, l)

	later.Store(29)
	l = begin()
	if err := l.Add(t.Context(), Block, "10.2.0.0/16", 0, "x", ""); err != nil {
		t.Fatal(err)
	}
	decide(t, l, "192.0.2.7", 1)
	abuse[1] = "192.0.2.7 3 2026-01-31"
	check(l, "abuse", abuse, nil)
	later.Store(31)
	check(l, "abuse", abuse, []string{"192.0.2.0/25", "198.51.100.1", "2001:db8::/32"})
	check(l, "inline", inline, []string{"203.0.113.1-203.0.113.6", "203.0.113.128/25"})
	check(l, "block", []string{"10.1.0.0/16 4 2026-01-02"}, []string{"10.1.0.0/16"}) // the other is two days old
}

// A list that is not used is not watched: its counting begins anew with its next use. So does everything if what is on
// disk is no whole copy.
func TestCountingBeginsAnew(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	with, without := config(func(c *Config) { c.Block = []string{"203.0.113.1"} }), config(nil)
	begin := func() *Lists {
		return open(t, with, func(d *Deps) { d.Dir, d.Now = dir, func() time.Time { return now } })
	}
	l := begin()
	decide(t, l, "203.0.113.1", 1)
	l.Counts()
	for _, cfg := range []Config{without, with} {
		commit, err := l.Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		commit()
		now = now.AddDate(0, 0, 1)
		l.Counts()
	}
	if c := l.Counts()["inline"]; c.Times != 0 || !c.Since.Equal(now) {
		t.Errorf("a list that came back: %+v", c)
	}
	decide(t, l, "203.0.113.1", 1)
	l.tally.saveCounts()
	if c := begin().Counts()["inline"]; c.Times != 1 {
		t.Errorf("after a restart: %+v", c)
	}
	if err := os.WriteFile(l.disk.countsPath(), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.AddDate(0, 0, 1)
	if c := begin().Counts()["inline"]; c.Times != 0 || !c.Since.Equal(now) {
		t.Errorf("after garbage: %+v", c)
	}
}
