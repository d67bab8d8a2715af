package cbb

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

func node(t testing.TB, fs *fakeStore, f func(*Config), tune ...func(*bounds)) *Lists {
	return open(t, config(f), func(d *Deps) {
		d.KV, d.Feed = fs, fs
		for _, f := range tune {
			f(d.bounds)
		}
	})
}

func TestAddTakesEffectAtOnceAndEndsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := node(t, newFakeStore(), nil)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer closeLists(t, l)
		add := func(f Flag, entry string, ttl time.Duration, service string) {
			t.Helper()
			if err := l.Add(t.Context(), f, entry, ttl, "because", service); err != nil {
				t.Fatal(err)
			}
		}
		add(Block, "10.1.0.0/16", time.Hour, "")
		add(Block, "10.1.2.0/24", 2*time.Hour, "")
		add(White, "10.1.2.3", 0, "")
		add(Ban, "10.1.2.3-10.1.2.9", time.Minute, "shop")
		add(Ban, "ip:192.0.2.7", time.Minute, "")
		add(Ban, "2001:db8::/48", time.Minute, "")

		f := func(addr, service, want string) {
			t.Helper()
			if got := said(l, addr, service); got != want {
				t.Errorf("%v: %s for %q: %s, want %s", time.Now(), addr, service, got, want)
			}
		}
		f("10.1.2.3", "", "api api - -")
		f("10.1.2.3", "shop", "api api - api")
		f("10.1.2.10", "shop", "api - - -")
		f("10.1.9.9", "", "api - - -")
		f("10.2.0.0", "", "- - - -")
		f("192.0.2.7", "", "- - - api")
		f("2001:db8:0:7::1", "", "- - - api")

		time.Sleep(time.Minute - time.Nanosecond)
		f("192.0.2.7", "", "- - - api")
		f("2001:db8:0:7::1", "", "- - - api")
		time.Sleep(time.Nanosecond)
		f("192.0.2.7", "", "- - - -")
		f("2001:db8:0:7::1", "", "- - - -")
		f("10.1.2.3", "shop", "api api - -")
		if got := l.List(Ban); len(got) != 0 {
			t.Errorf("ended entries are listed: %v", got)
		}

		time.Sleep(time.Hour - time.Minute - time.Nanosecond)
		f("10.1.9.9", "", "api - - -")
		time.Sleep(time.Nanosecond)
		f("10.1.9.9", "", "- - - -")
		f("10.1.2.10", "", "api - - -") // the longer prefix stays in force
		time.Sleep(time.Hour)
		f("10.1.2.10", "", "- - - -")
		f("10.1.2.3", "", "- api - -")
		time.Sleep(sweepEvery)
		synctest.Wait()
		if n := l.live.over.size(); n != 1 {
			t.Errorf("%d entries in memory", n)
		}
	})
}

// The shorter prefix must apply when the longer one has ended, before any sweep.
func TestEndedEntryUncoversTheOneAround(t *testing.T) {
	l := node(t, newFakeStore(), nil)
	for entry, ttl := range map[string]time.Duration{"10.1.0.0/16": time.Hour, "10.1.2.0/24": time.Second} {
		if err := l.Add(t.Context(), Block, entry, ttl, entry, ""); err != nil {
			t.Fatal(err)
		}
	}
	v, id := newRequest("10.1.2.3", "/")
	var m Match
	for d, want := range map[time.Duration]string{0: "10.1.2.0/24", 2 * time.Second: "10.1.0.0/16"} {
		v.At = time.Now().Add(d)
		if l.Lookup(&m, v, id, ""); m.OwnBlock == nil || m.OwnBlock.Reason != want {
			t.Errorf("after %v: %+v, want %s", d, m.OwnBlock, want)
		}
	}
}

func TestRemove(t *testing.T) {
	fs := newFakeStore()
	l := node(t, fs, func(c *Config) { c.Block = []string{"192.0.2.1"} })
	add := func(f Flag, entry, service string) {
		t.Helper()
		if err := l.Add(t.Context(), f, entry, 0, "", service); err != nil {
			t.Fatal(err)
		}
	}
	add(Block, "10.0.0.9/24", "")
	add(Block, "10.0.0.0/24", "shop")
	add(Ban, "10.0.0.0/24", "")
	add(Block, "2001:DB8::/64", "")
	add(Block, "L:alice", "")
	if err := l.Remove(t.Context(), Block, "10.0.0.77/24", ""); err != nil { // another spelling
		t.Fatal(err)
	}
	if got := said(l, "10.0.0.1", "") + "," + said(l, "10.0.0.1", "shop"); got != "- - - api,api - - api" {
		t.Errorf("%s", got)
	}
	for _, e := range []string{"2001:db8:0::/64", "L:alice"} {
		if err := l.Remove(t.Context(), Block, e, ""); err != nil {
			t.Error(err)
		}
	}
	if got := said(l, "2001:db8::1", ""); got != "- - - -" {
		t.Errorf("%s", got)
	}
	for _, e := range []string{"10.0.0.0/24", "192.0.2.1", "192.0.2.2"} {
		if err := l.Remove(t.Context(), Block, e, ""); !errors.Is(err, ErrNoEntry) {
			t.Errorf("%s: %v", e, err)
		}
	}
	if got := said(l, "192.0.2.1", ""); got != "inline - - -" {
		t.Errorf("%s", got)
	}
	if len(fs.vals) != 2 {
		t.Errorf("the store keeps %v", fs.vals)
	}
}

func TestAddRefuses(t *testing.T) {
	fs := newFakeStore()
	l := node(t, fs, nil, func(b *bounds) { b.runtime = 2 })
	f := func(flag Flag, entry string, ttl time.Duration, service string, want error) {
		t.Helper()
		if err := l.Add(t.Context(), flag, entry, ttl, "", service); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", entry, err, want)
		}
	}
	f(Block, "nonsense", 0, "", ErrBadEntry)
	f(Block, "", 0, "", ErrBadEntry)
	f(Block, "10.0.0.0/24 and more", 0, "", ErrBadEntry)
	f(Block, "10.0.0.1", -1, "", ErrBadEntry)
	f(Flag(9), "10.0.0.1", 0, "", ErrBadEntry)
	f(Block, "10.0.0.1", 0, "a/b", ErrBadEntry)
	f(Block, strings.Repeat("1", 10_000), 0, "", ErrBadEntry)
	f(Block, "0.0.0.0/0", 0, "", ErrTooWide)
	f(Ban, "::-ffff::", 0, "", ErrTooWide)
	f(Block, "10.0.0.1", time.Nanosecond, "", nil)
	f(Block, "10.0.0.2", 0, "", nil)
	f(Block, "10.0.0.2", time.Hour, "", nil) // replaced, not added
	time.Sleep(time.Millisecond)
	f(Block, "10.0.0.3", 0, "", nil) // the one that has ended makes room
	f(Block, "10.0.0.4", 0, "", ErrFull)
	f(White, "10.0.0.3", 0, "", ErrFull)

	broken := errors.New("disk on fire")
	fs.broken(broken)
	f(Block, "10.0.0.3", time.Hour, "", broken)
	if err := l.Remove(t.Context(), Block, "10.0.0.3", ""); !errors.Is(err, broken) ||
		said(l, "10.0.0.3", "") != "api - - -" {
		t.Errorf("removed though the store kept it: %v", err)
	}
}

func TestReplacedEntryHasItsNewEnd(t *testing.T) {
	l := node(t, newFakeStore(), nil)
	for _, ttl := range []time.Duration{time.Second, time.Hour} {
		if err := l.Add(t.Context(), Ban, "10.0.0.1", ttl, ttl.String(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.List(Ban); len(got) != 1 || got[0].Reason != "1h0m0s" || got[0].Text != "10.0.0.1" {
		t.Errorf("%+v", got)
	}
	v, id := newRequest("10.0.0.1", "/")
	v.At = v.At.Add(time.Minute)
	var m Match
	if l.Lookup(&m, v, id, ""); m.Ban == nil {
		t.Error("the older end counts")
	}
}

func TestEntriesSurviveRestart(t *testing.T) {
	fs := newFakeStore()
	l := node(t, fs, nil)
	for _, e := range []string{"10.0.0.0/24", "ip:192.0.2.7", "198.51.100.3-198.51.100.9", "fuid:5f1e2d3c4b5a6978"} {
		if err := l.Add(t.Context(), Ban, e, time.Hour, "why", "shop"); err != nil {
			t.Fatal(err)
		}
	}
	fs.vals[runtimePrefix+"block//10.0.0.1"] = fakeVal{val: []byte("{garbage")}
	fs.vals[runtimePrefix+"block//10.0.0.2"] = fakeVal{
		val: []byte(`{"flag":"block","text":"10.0.0.0/8"}`),
	} // under another's key
	l2 := node(t, fs, nil)
	if err := l2.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"10.0.0.5", "192.0.2.7", "198.51.100.8"} {
		if got := said(l2, a, "shop"); got != "- - - api" {
			t.Errorf("%s: %s", a, got)
		}
	}
	a, b := l.List(Ban), l2.List(Ban)
	if len(a) != 4 || len(b) != 4 {
		t.Fatalf("%d and %d", len(a), len(b))
	}
	for i := range a {
		if a[i].Text != b[i].Text || a[i].Reason != b[i].Reason || a[i].Service != b[i].Service ||
			!a[i].Until.Equal(b[i].Until) {
			t.Errorf("%+v became %+v", a[i], b[i])
		}
	}
}

func TestOtherNodesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStore()
		a, b := node(t, fs, nil), node(t, fs, nil)
		for _, l := range []*Lists{a, b} {
			if err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer closeLists(t, l)
		}
		synctest.Wait()
		if err := a.Add(t.Context(), Block, "10.0.0.1", 0, "", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := said(b, "10.0.0.1", ""); got != "api - - -" {
			t.Errorf("added there: %s", got)
		}
		if err := b.Remove(t.Context(), Block, "10.0.0.1", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := said(a, "10.0.0.1", ""); got != "- - - -" {
			t.Errorf("removed there: %s", got)
		}

		// Written without a feed message: seen at the next scan.
		fs.mu.Lock()
		fs.vals[runtimePrefix+"ban//10.0.0.2"] = fakeVal{val: []byte(`{"flag":"ban","text":"10.0.0.2"}`)}
		fs.mu.Unlock()
		time.Sleep(rescanEvery + time.Second)
		synctest.Wait()
		if got := said(b, "10.0.0.2", ""); got != "- - - api" {
			t.Errorf("after five minutes: %s", got)
		}

		// A gap: rescanned soon.
		fs.mu.Lock()
		fs.gap = true
		delete(fs.vals, runtimePrefix+"ban//10.0.0.2")
		fs.mu.Unlock()
		if err := a.live.feed.Append(t.Context(), feedTopic, []byte("something else")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := said(a, "10.0.0.2", "") + said(b, "10.0.0.2", ""); !strings.Contains(got, "- - - -") {
			t.Errorf("after a gap: %s", got)
		}
	})
}

func TestStoreThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStore()
		fs.vals[runtimePrefix+"ban//10.0.0.2"] = fakeVal{val: []byte(`{"flag":"ban","text":"10.0.0.2"}`)}
		fs.broken(errors.New("connection refused"))
		l := node(t, fs, nil)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer closeLists(t, l)
		time.Sleep(10 * time.Second)
		if st := l.Stats(); !strings.Contains(st.StoreError, "refused") {
			t.Errorf("nobody is told: %q", st.StoreError)
		}
		fs.broken(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := said(l, "10.0.0.2", ""); got != "- - - api" || l.Stats().StoreError != "" {
			t.Errorf("%s, %q", got, l.Stats().StoreError)
		}
	})
}

// TestNaming: the entries that name a subject or a network around it are told, each once, for all services and for
// those that are asked about, until they end.
func TestNaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := node(t, newFakeStore(), func(c *Config) { c.Block = []string{"10.0.0.0/8 the whole net"} })
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer closeLists(t, l)
		for _, add := range []struct {
			f              Flag
			entry, service string
		}{{White, "10.1.2.3", ""}, {Ban, "10.1.2.0/24", "shop"}, {Ban, "i:00112233445566778899aabbccddeeff", ""}} {
			if err := l.Add(t.Context(), add.f, add.entry, time.Minute, "because", add.service); err != nil {
				t.Fatal(err)
			}
		}
		names := func(subject, want string, services ...string) {
			t.Helper()
			sub, err := identity.ParseSubject(subject)
			if err != nil {
				t.Fatal(err)
			}
			addr, _ := sub.Addr()
			var got []string
			for _, e := range l.Naming(sub, services, time.Now()) {
				got = append(got, e.Flag.String()+" "+l.Describe(e, addr)+" "+e.List)
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: %q, want %q", subject, got, want)
			}
		}
		names("ip:10.1.2.3", "block 10.0.0.0/8 inline, white 10.1.2.3 api, ban 10.1.2.0/24 api", "shop", "forum")
		names("ip:10.1.2.3", "block 10.0.0.0/8 inline, white 10.1.2.3 api", "forum")
		names("ip:10.9.9.9", "block 10.0.0.0/8 inline", "shop")
		names("ip:192.0.2.1", "", "shop")
		names("i:00112233445566778899aabbccddeeff", "ban i:00112233445566778899aabbccddeeff api", "shop")
		time.Sleep(time.Minute)
		names("ip:10.1.2.3", "block 10.0.0.0/8 inline", "shop")
	})
}
