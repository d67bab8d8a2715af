package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/rules"
	"antirobot/store"
	"antirobot/store/pebblestore"
)

func TestExampleRules(t *testing.T) {
	s, c := newSystem(t, DefaultConfig())
	setRules(t, s, "", exampleRules)
	for _, text := range []string{"win a prize now", "claim your prize", "prize money waits"} {
		jsonCall(t, s, "sf.model.train", fmt.Sprintf(`{"partner":null,"model":"model","message":{"text":%q},"marker":"bad"}`, text))
	}
	jsonCall(t, s, "sf.model.train", `{"partner":null,"model":"model","message":{"text":"see you at the library tomorrow"},"marker":"good"}`)
	f := func(message, want string) {
		t.Helper()
		if got := say(t, s, "", message); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
	f(`{"text":"  ","from":1}`, "INVALID")
	f(`{"text":"`+strings.Repeat("ж", 1001)+`","from":1}`, "INVALID")
	f(`{"text":"`+strings.Repeat("ж", 1000)+`","from":1}`, "OK")
	f(`{"text":"see you tomorrow","from":2}`, "OK")
	f(`{"text":"a prize for you","from":3}`, "SPAM")
	f(`{"text":"hi","from":2}`, "OK")
	f(`{"text":"hi","from":2}`, "OK")
	f(`{"text":"hi","from":2}`, "FREQUENT") // the fourth of user 2
	f(`{"text":"the same words again","from":4}`, "OK")
	f(`{"text":"THE SAME words again","from":5}`, "OK")
	f(`{"text":"the same words  again ","from":6}`, "OK")
	f(`{"text":"the same words again","from":7}`, "FREQUENT")
	c.advance(299999 * time.Millisecond)
	f(`{"text":"the same words again","from":8}`, "FREQUENT") // the window was not extended, and is not over
	c.advance(time.Millisecond)
	f(`{"text":"the same words again","from":8}`, "OK")
	f(`{"from":9}`, "2006")
	f(`{"text":"no sender here"}`, "2006")

	var r struct {
		Entries []struct {
			ID   int64
			Tags []string
		}
	}
	if err := json.Unmarshal([]byte(jsonCall(t, s, "sf.message.log.fetch", `{"partner":null,"log":"messageLog"}`)), &r); err != nil {
		t.Fatal(err)
	}
	for i, e := range r.Entries {
		if e.ID != int64(i+1) {
			t.Errorf("id %d at %d", e.ID, i)
		}
	}
	if got := r.Entries[7].Tags; !slices.Equal(got, []string{"userfrequent", "frequent"}) {
		t.Errorf("tags %q", got)
	}
}

// TestInheritance checks who shares counters, models and rules with whom.
func TestInheritance(t *testing.T) {
	s, _ := newSystem(t, family())
	const src = "do userFrequencyCheck(count=1, attribute=\"text\") mark f if f stop as F stop as OK"
	setRules(t, s, "", src)
	setRules(t, s, "blog", src)
	setRules(t, s, "forum", src)
	f := func(domain, text, want string) {
		t.Helper()
		if got := say(t, s, domain, fmt.Sprintf(`{"text":%q}`, text)); got != want {
			t.Errorf("%s %s: %s, want %s", domain, text, got, want)
		}
	}
	f("blog/comments", "a", "OK")
	f("blog", "a", "F") // inherits the root's storage
	f("", "a", "F")
	f("forum", "a", "OK") // has its own
	f("forum", "a", "F")

	jsonCall(t, s, "sf.model.train", `{"partner":null,"domain":"blog/comments","model":"model","message":{"text":"pills"},"marker":"bad"}`)
	if got := jsonCall(t, s, "sf.model.classify", `{"partner":null,"domain":"forum","model":"model","message":{"text":"pills"}}`); got != `{"marker":"bad"}` {
		t.Errorf("the model of the root is not shared: %s", got)
	}

	d, err := s.Domain("default", "forum")
	if err != nil {
		t.Fatal(err)
	}
	d.Set("x", int64(5))
	root, _ := s.Domain("default", "")
	root.Set("x", int64(6))
	value := func() any { v, _ := d.Get("x"); return v }
	if value() != int64(5) || !d.Has("x") {
		t.Error("own property", value())
	}
	if d.Delete("x"); value() != int64(6) || d.Has("x") || slices.Contains(d.List(), "x") {
		t.Error("delete does not show the inherited property", value())
	}
}

// TestDefaultDomain checks that nobody changes the ancestor of all: setting rules where it alone has a firewall gives the
// addressed domain its own.
func TestDefaultDomain(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Partners[0].Domain = DomainConfig{Domains: []DomainConfig{{Name: "a"}, {Name: "b"}}}
	st := store.NewMemory(nil)
	defer st.Close()
	s := openSystem(t, cfg, st, nil)
	if got := say(t, s, "a", `{"text":"x","from":1,"ip":"::1"}`); got != "UNKNOWN" {
		t.Error(got)
	}
	setRules(t, s, "a", "stop as A")
	check := func() {
		t.Helper()
		if a, b, root := say(t, s, "a", `{}`), say(t, s, "b", `{}`), say(t, s, "", `{}`); a != "A" || b != "UNKNOWN" || root != "UNKNOWN" {
			t.Errorf("%s %s %s", a, b, root)
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openSystem(t, cfg, st, nil)
	defer s.Close()
	check()
}

func TestFlaws(t *testing.T) {
	s, _ := newSystem(t, family())
	f := func(src, message, want string) {
		t.Helper()
		setRules(t, s, "", src)
		if got := say(t, s, "", message); got != want {
			t.Errorf("%s %s: %s, want %s", src, message, got, want)
		}
	}
	f(`do regexpCheck(regexp="привет \w+", attribute="text") mark n if n stop as NO stop as YES`, `{"text":"привет мир"}`, "YES")
	f(`do modelTrain(attribute="text", marker="bad") do modelClassify(attribute="text") mark n if n stop as BAD stop as GOOD`, `{"text":"casino"}`, "BAD")
	f(`if nota stop as YES stop as NO`, `{}`, "NO")
	f(`do messageFloodCheck(minMean=1.25, maxVariance=0.5) mark n if n stop as FLOOD stop as OK`, `{"text":"aaaaaaaaaaaaaaaaaaaaaa"}`, "FLOOD")
	f(`do attributeCheck(attribute="text", value="x") mark n if n stop as NO stop as YES`, `{"text":" \n x \t"}`, "YES")
	f(`do regexpCheck(regexp="x", attribute="from") stop as YES`, `{"from":5}`, "1005")
	f(`do modelClassify(model="storage") stop as YES`, `{"text":"x"}`, "2005")
	f(`do messageLogPut(log="model") stop as YES`, `{"text":"x"}`, "2009")
	f(`do userFrequencyCheck(storage="model") stop as YES`, `{"from":1}`, "1005")
	f(`do userFrequencyCheck(storage="no") stop as YES`, `{"from":1}`, "2003")
	f(`skip to 7`, `{}`, "2004")
	f(`do userFrequencyCheck(storage="disk", count=1) mark n if n stop as NO stop as YES`, `{"from":1}`, "YES")
	f(`do userFrequencyCheck(storage="disk", count=1) mark n if n stop as NO stop as YES`, `{"from":1}`, "NO")
}

// backends opens stores that survive, for what must survive.
func backends(t *testing.T, run func(t *testing.T, reopen func() store.Store)) {
	t.Run("memory", func(t *testing.T) {
		st := store.NewMemory(nil)
		t.Cleanup(func() { _ = st.Close() })
		run(t, func() store.Store { return st })
	})
	t.Run("pebble", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		var st store.Store
		t.Cleanup(func() { _ = st.Close() })
		run(t, func() store.Store {
			if st != nil {
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if st, err = pebblestore.Open(dir, pebblestore.DefaultConfig(), zerolog.Nop(), time.Now); err != nil {
				t.Fatal(err)
			}
			return st
		})
	})
}

func TestRestart(t *testing.T) {
	backends(t, func(t *testing.T, reopen func() store.Store) {
		s := openSystem(t, family(), reopen(), nil)
		setRules(t, s, "", "do messageLogPut() do userFrequencyCheck(storage=\"disk\", count=2) mark f if f stop as F stop as OK")
		for _, model := range []string{"model", "old"} {
			jsonCall(t, s, "sf.model.train", `{"partner":null,"model":"`+model+`","message":{"text":"cheap pills"},"marker":"bad"}`)
			jsonCall(t, s, "sf.model.train", `{"partner":null,"model":"`+model+`","message":{"text":"dear friend"},"marker":"good"}`)
		}
		for range 2 {
			if got := say(t, s, "", `{"text":"cheap things","from":7}`); got != "OK" {
				t.Fatal(got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = openSystem(t, family(), reopen(), nil)
		if got := say(t, s, "", `{"text":"cheap things","from":7}`); got != "F" {
			t.Errorf("rules or durable counters did not survive: %s", got)
		}
		for _, model := range []string{"model", "old"} {
			if got := jsonCall(t, s, "sf.model.classify", `{"partner":null,"model":"`+model+`","message":{"text":"cheap"}}`); got != `{"marker":"bad"}` {
				t.Errorf("%s did not survive: %s", model, got)
			}
		}
		var ids []int64
		for _, e := range fetch(t, s, Range{}) {
			ids = append(ids, e.ID)
		}
		if !slices.Equal(ids, []int64{1, 2, 3}) {
			t.Errorf("ids %v", ids)
		}
		// Without Close, as after a crash: ids are not used again.
		s.cancel()
		s.work.Wait()
		for _, l := range s.logs {
			if err := l.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		s = openSystem(t, family(), reopen(), nil)
		defer s.Close()
		say(t, s, "", `{"text":"cheap things","from":7}`)
		if e := fetch(t, s, Range{}); len(e) != 4 || e[3].ID <= 3 {
			t.Errorf("after a crash: %v", e)
		}
	})
}

func fetch(t testing.TB, s *System, r Range) []Entry {
	t.Helper()
	d, err := s.Domain("default", "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.log("messageLog")
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Fetch(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLogRing(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Partners[0].Domain.Properties[3].TimeChunk, cfg.Partners[0].Domain.Properties[3].NumChunks = 10*time.Second, 4
	s, c := newSystem(t, cfg)
	setRules(t, s, "", "do messageLogPut()")
	start := c.now()
	for i := range 8 {
		say(t, s, "", fmt.Sprintf(`{"from":%d}`, i+1))
		c.advance(5 * time.Second)
	}
	ids := func(r Range) (out []int64) {
		for _, e := range fetch(t, s, r) {
			out = append(out, e.ID)
		}
		return out
	}
	f := func(got, want []int64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	// It is 40 s after the first; 30 s are kept at least, and less than 40.
	all := ids(Range{})
	if all[0] > 3 || all[len(all)-1] != 8 {
		t.Errorf("kept %v", all)
	}
	f(ids(Range{FirstID: 6}), []int64{6, 7, 8})
	f(ids(Range{First: start.Add(30 * time.Second)}), []int64{7, 8})
	f(ids(Range{First: start.Add(25 * time.Second), Last: start.Add(30 * time.Second)}), []int64{6, 7})
	f(ids(Range{FirstID: 5, Limit: 2}), []int64{5, 6})
	f(ids(Range{FirstID: 9}), nil)
	when := start.Add(30 * time.Second).Unix()
	got := jsonCall(t, s, "sf.message.log.fetch", fmt.Sprintf(`{"partner":null,"log":"messageLog","first":%d,"last":%d}`, when, when))
	if want := fmt.Sprintf(`{"entries":[{"id":7,"message":{"from":7},"tags":[],"when":%d}]}`, when); got != want {
		t.Errorf("by whole seconds: %s, want %s", got, want)
	}
	c.advance(time.Hour)
	f(ids(Range{}), nil)
	say(t, s, "", `{"from":9}`)
	f(ids(Range{}), []int64{9})
}

func TestLogBound(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxLogEntries = 10
	s, _ := newSystem(t, cfg)
	setRules(t, s, "", "do messageLogPut()")
	for range 30 {
		say(t, s, "", `{"text":"x"}`)
		fetch(t, s, Range{}) // writes a batch
	}
	if e := fetch(t, s, Range{}); len(e) != 10 || e[9].ID != 30 {
		t.Errorf("%d entries are kept", len(e))
	}
}

func TestModelSnapshot(t *testing.T) {
	backends(t, func(t *testing.T, reopen func() store.Store) {
		ctx := context.Background()
		s := openSystem(t, DefaultConfig(), reopen(), nil)
		d, _ := s.Domain("default", "")
		m, err := d.model("model")
		if err != nil {
			t.Fatal(err)
		}
		train := func(from, to int) {
			for i := from; i < to; i++ {
				if err := s.train(ctx, m, fmt.Sprintf("text number %d about things%d", i, i%7), i%3 != 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		train(0, 30)
		before := m.Size()
		probe := m.Score("things3 number 5")
		s.compact(ctx, 10)
		if m.since.Load() != 0 || m.Size() != before {
			t.Fatalf("after the snapshot: %d, %+v", m.since.Load(), m.Size())
		}
		train(30, 40)
		// A crash between the new head and the removal of the old texts: they are still there.
		kept := map[string][]byte{}
		if err := s.deps.Store.Scan(ctx, []byte(m.prefix+"text/"), func(k, v []byte, _ time.Duration) error {
			kept[string(k)] = slices.Clone(v)
			return nil
		}); err != nil || len(kept) != 10 {
			t.Fatal(err, len(kept))
		}
		s.compact(ctx, 10)
		for k, v := range kept {
			if err := s.deps.Store.Put(ctx, []byte(k), v, 0); err != nil {
				t.Fatal(err)
			}
		}
		want := m.Size()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openSystem(t, DefaultConfig(), reopen(), nil)
		defer s.Close()
		d, _ = s.Domain("default", "")
		if m, err = d.model("model"); err != nil {
			t.Fatal(err)
		}
		if m.Size() != want {
			t.Errorf("after the crash %+v, want %+v: texts count twice", m.Size(), want)
		}
		s.compact(ctx, 0)
		n := 0
		_ = s.deps.Store.Scan(ctx, []byte(m.prefix+"text/"), func(_, _ []byte, _ time.Duration) error { n++; return nil })
		if n != 0 {
			t.Errorf("%d texts are left", n)
		}
		_ = probe
	})
}

func TestMarkAndSearch(t *testing.T) {
	ctx := context.Background()
	s, _ := newSystem(t, DefaultConfig())
	setRules(t, s, "", "do hasAttribute(attribute=\"from\") mark nobody do messageLogPut()")
	say(t, s, "", `{"text":"Cheap PILLS here","from":1}`)
	say(t, s, "", `{"text":"dear friend"}`)
	say(t, s, "", `{"from":3}`)
	d, _ := s.Domain("default", "")
	l, _ := d.log("messageLog")
	f := func(q Query, want ...int64) {
		t.Helper()
		entries, err := l.Search(ctx, q)
		var ids []int64
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("%+v: %v, %v, want %v", q, ids, err, want)
		}
	}
	f(Query{Text: "pills"}, 1)
	f(Query{Tag: "nobody"}, 2)
	f(Query{Tag: "nobody", Text: "pills"})
	f(Query{Range: Range{FirstID: 2, Limit: 1}}, 2)
	if learnt, err := s.Mark(ctx, d, Marking{ID: 1}); err != nil || !learnt {
		t.Error(err)
	}
	if got := jsonCall(t, s, "sf.model.classify", `{"partner":null,"model":"model","message":{"text":"pills"}}`); got != `{"marker":"bad"}` {
		t.Error(got)
	}
	if learnt, err := s.Mark(ctx, d, Marking{ID: 1}); err != nil || learnt {
		t.Errorf("learnt the same a second time: %v, %v", learnt, err)
	}
	for _, k := range []Marking{{ID: 9}, {ID: 3}, {ID: 1, Log: "model"}, {ID: 1, Model: "storage"}} {
		_, err := s.Mark(ctx, d, k)
		var fault *rules.Fault
		if !errors.As(err, &fault) {
			t.Errorf("not refused: %v", err)
		}
	}
}

// sharedStore is a Memory that says it is shared, as Redis is.
type sharedStore struct{ *store.Memory }

func (sharedStore) Shared() bool { return true }

// TestTwoGateways checks that what one learns and sets reaches the other, and that ids are unique over both.
func TestTwoGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := sharedStore{store.NewMemory(time.Now)}
		a, b := openSystem(t, family(), st, time.Now), openSystem(t, family(), st, time.Now)
		synctest.Wait()
		jsonCall(t, a, "sf.model.train", `{"partner":null,"model":"model","message":{"text":"pills"},"marker":"bad"}`)
		setRules(t, a, "", "do messageLogPut() do modelClassify() mark bad if bad stop as BAD stop as GOOD")
		synctest.Wait()
		if got := say(t, b, "", `{"text":"pills"}`); got != "BAD" {
			t.Errorf("the other gateway says %s", got)
		}
		d, _ := a.Domain("default", "")
		m, _ := d.model("model")
		if n := m.Size(); n.Bad != 1 {
			t.Errorf("a text that came back counts twice: %+v", n)
		}
		for range 3 {
			say(t, a, "", `{"text":"x"}`)
			say(t, b, "", `{"text":"x"}`)
		}
		time.Sleep(time.Second)
		var ids []int64
		for _, e := range fetch(t, a, Range{}) {
			ids = append(ids, e.ID)
		}
		if !slices.Equal(ids, []int64{1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("ids %v", ids)
		}
		// A gap: everything is loaded again.
		jsonCall(t, a, "sf.model.train", `{"partner":null,"model":"old","message":{"text":"casino"},"marker":"bad"}`)
		if _, err := b.reload(context.Background()); err != nil {
			t.Error(err)
		}
		if got := jsonCall(t, b, "sf.model.classify", `{"partner":null,"model":"old","message":{"text":"casino"}}`); got != `{"marker":"bad"}` {
			t.Error(got)
		}
		if err := errors.Join(a.Close(), b.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestStorages runs the same calls over both kinds.
func TestStorages(t *testing.T) {
	c := newClock()
	st := store.NewMemory(c.now)
	defer st.Close()
	for name, s := range map[string]Storage{
		"memory": newMemoryStorage(c.now, 1000),
		"store":  &storeStorage{st, []byte("p/")},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			get := func(key, want string) {
				t.Helper()
				v, ok, err := s.Get(ctx, []byte(key))
				if got := string(v); err != nil || ok != (want != "") || got != want {
					t.Errorf("get %s: %q %v %v, want %q", key, got, ok, err, want)
				}
			}
			yes := func(ok bool, err error, want bool) {
				t.Helper()
				if err != nil || ok != want {
					t.Errorf("%v, %v, want %v", ok, err, want)
				}
			}
			incr := func(key string, n, want int64, expire time.Duration) {
				t.Helper()
				if got, err := s.Incr(ctx, []byte(key), n, expire); got != want || err != nil {
					t.Errorf("incr %s: %d, %v, want %d", key, got, err, want)
				}
			}
			get("a", "")
			_ = s.Set(ctx, []byte("a"), []byte("1"), 0)
			get("a", "1")
			ok, err := s.Add(ctx, []byte("a"), []byte("2"), 0)
			yes(ok, err, false)
			ok, err = s.Append(ctx, []byte("a"), []byte("x"))
			yes(ok, err, true)
			get("a", "1x")
			ok, err = s.Append(ctx, []byte("no"), []byte("x"))
			yes(ok, err, false)
			_ = s.Delete(ctx, []byte("a"))
			get("a", "")
			ok, err = s.Add(ctx, []byte("b"), []byte("2"), time.Minute)
			yes(ok, err, true)
			ok, err = s.Append(ctx, []byte("b"), []byte("3"))
			yes(ok, err, true)
			incr("n", 1, 1, time.Minute)
			incr("n", 2, 3, time.Hour) // the expiry stays
			get("n", "3")
			c.advance(time.Minute - time.Millisecond)
			get("b", "23")
			incr("n", 0, 3, 0)
			c.advance(time.Millisecond)
			get("b", "") // gone at t ≥ start + timeout
			incr("n", 5, 5, time.Minute)
			incr("n", -9, 0, 0)
			incr("ever", 1, 1, 0)
			c.advance(10000 * time.Hour)
			incr("ever", 1, 2, 0)
			if _, err := s.Incr(ctx, []byte("ever"), 1, -1); err == nil {
				t.Error("a negative expiry")
			}
			_ = s.Delete(ctx, []byte("ever"))
			get("ever", "")
		})
	}
}

func TestStorageBound(t *testing.T) {
	c := newClock()
	s := newMemoryStorage(c.now, 640)
	for i := range 100_000 {
		if _, err := s.Incr(context.Background(), fmt.Appendf(nil, "k%d", i), 1, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for i := range s.shards {
		n += len(s.shards[i].entries)
	}
	if n > 640 || s.evicted.Load() == 0 {
		t.Errorf("%d entries, %d evicted", n, s.evicted.Load())
	}
}

// TestTableBound checks that a model forgets the rarest and keeps what is frequent.
func TestTableBound(t *testing.T) {
	m := newBayes(2000)
	for i := range 3000 {
		m.train(fmt.Sprintf("casino bonus w%dx%d", i, i*7919), false)
		m.train(fmt.Sprintf("library book w%dy%d", i, i*104729), true)
	}
	if n, bytes := m.counts.size(); n > 2000 || bytes > 1<<17 {
		t.Errorf("%d features, %d bytes", n, bytes)
	}
	if m.score("casino bonus") < 0.9 || m.score("a library book") > 0.1 {
		t.Errorf("forgot the frequent: %f, %f", m.score("casino bonus"), m.score("a library book"))
	}
}

// TestFewTexts checks that a model of a handful of texts, of one kind or very unequal in number, is sensible.
func TestFewTexts(t *testing.T) {
	for _, kind := range []string{ModelDefault, ModelRobinson} {
		m := newLearner(kind, 1<<16)
		f := func(text string, bad bool) {
			t.Helper()
			if got := m.score(text); (got > 0.5) != bad {
				t.Errorf("%s: %q scores %.3f", kind, text, got)
			}
		}
		f("anything", false)
		m.train("cheap viagra pills", false)
		f("viagra", true)
		f("hello there", false) // unknown words
		f("vikings", false)
		m.train("hello my dear friend", true)
		f("hello", false)
		f("cheap pills for a friend", true)
		for i := range 200 {
			m.train(fmt.Sprintf("an ordinary letter %d about work and weather", i), true)
		}
		f("pills", true)
		f("dear", false)
		f("ordinary weather", false)
		f("completely different", false)
		f("", false)
		f("12345", false)
		f("!!! $$$", false)
	}
}

func TestLookAlikes(t *testing.T) {
	m := newBayes(1 << 16)
	for range 3 {
		m.train("лучшее казино, casino бонус сегодня", false)
		m.train("лучшее время для прогулки сегодня", true)
	}
	for _, text := range []string{"казино", "кaзинo", "КАЗИНО", "ка\u200bзи\u00adно", "c4sino", "сasinо", "ｃａｓｉｎｏ", "𝐜𝐚𝐬𝐢𝐧𝐨", "казинo!!!", "бонусы", "бонусов"} {
		if got := m.score(text); got <= 0.5 {
			t.Errorf("%q scores %.3f", text, got)
		}
	}
	for _, text := range []string{"прогулка", "прогулками", "время"} {
		if got := m.score(text); got > 0.5 {
			t.Errorf("%q scores %.3f", text, got)
		}
	}
	spoke := m.explain("казино для прогулки")
	if len(spoke) == 0 || !slices.ContainsFunc(spoke, func(s Spoke) bool { return s.Token == "word казино" && s.Weight > 0 && s.Bad == 3 }) {
		t.Errorf("explained %v", spoke)
	}
}

func TestLinks(t *testing.T) {
	x := newExtractor(newStemCache(64))
	x.explain = true
	x.of("See HTTPS://WWW.Evil.example/path?x=1 and evil.ru, t.me/+abc www.shop.com; a.b is no host, 3.14 neither")
	var hosts []string
	for _, n := range x.names {
		if h, ok := strings.CutPrefix(n, "host "); ok {
			hosts = append(hosts, h)
		}
	}
	want := []string{"evil.example", ".example", "evil.ru", ".ru", "t.me", ".me", "shop.com", ".com"}
	if !slices.Equal(hosts, want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
}

// TestConcurrent lets readers and writers meet, for the race detector.
func TestConcurrent(t *testing.T) {
	s, _ := newSystem(t, family())
	setRules(t, s, "", exampleRules)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				say(t, s, "blog/comments", fmt.Sprintf(`{"text":"hello %d"}`, i))
				say(t, s, "", fmt.Sprintf(`{"text":"hello world %d","from":%d}`, i, g*1000+i))
				if i%10 == 0 {
					setRules(t, s, "", exampleRules+fmt.Sprintf("\n# %d", i))
					fetch(t, s, Range{})
				}
				jsonCall(t, s, "sf.model.train", fmt.Sprintf(`{"partner":null,"model":"model","message":{"text":"word%d of %d"},"marker":"bad"}`, i, g))
			}
		})
	}
	wg.Wait()
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := family().Validate(); err != nil {
		t.Error(err)
	}
	c := family()
	c.Authorisation = "hope"
	c.MaxText = 0
	root := &c.Partners[0].Domain
	root.Name = "x"
	root.Properties[0].Class = "Nothing"
	root.Properties[1].Attributes = []AttributeConfig{{"text", "String"}, {"text", "Text"}}
	root.Properties[2].Rules = "stop SPAM"
	root.Properties[3].NumChunks = 1
	root.Properties[4].Model = "magic"
	root.Domains[0].Name = "a/b"
	c.Partners = append(c.Partners, c.Partners[0])
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`authorisation: "hope"`, `max_text: must`, `partners[0].domain.name: the root`, `partners[0].domain.properties[0].class: "Nothing"`,
		`partners[0].domain.properties[1].attributes[0].type: "String"`, `partners[0].domain.properties[1].attributes[1].name: "text" stands twice`,
		`partners[0].domain.properties[2].rules: line 1, column 6`, `partners[0].domain.properties[3].num_chunks`, `partners[0].domain.properties[4].model: "magic"`,
		`partners[0].domain.domains[0].name: "a/b"`, `partners[1].name: "default" stands twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	c = DefaultConfig()
	c.Authorisation, c.Partners[0].Secret = "keys", "short"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "partners[0].secret: needs at least 16") {
		t.Error(err)
	}
}
