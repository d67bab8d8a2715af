package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/message/learn/corpus"
	"antirobot/store"
)

func TestExampleRules(t *testing.T) {
	s, c := newSystem(t, DefaultConfig())
	setRules(t, s, "", corpus.ExampleRules)
	for _, text := range []string{"a prize for you is waiting here", "claim your prize money today, friend"} {
		teach(t, s, "", "model", text, false)
	}
	teach(t, s, "", "model", "see you at the library tomorrow", true)
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
	f(`{"text":"a PRIZE for you is wa1ting here!","from":3}`, "SPAM")
	f(`{"text":"hi","from":2}`, "OK")
	f(`{"text":"hi","from":2}`, "OK")
	f(`{"text":"hi","from":2}`, "FREQUENT") // the fourth of user 2
	f(`{"text":"the same words again","from":4}`, "OK")
	f(`{"text":"THE SAME words again","from":5}`, "OK")
	f(`{"text":"the same words  again ","from":6}`, "OK")
	f(`{"text":"the same words again","from":7}`, "FREQUENT")
	c.Advance(299999 * time.Millisecond)
	f(`{"text":"the same words again","from":8}`, "FREQUENT") // the window was not extended, and is not over
	c.Advance(time.Millisecond)
	f(`{"text":"the same words again","from":8}`, "OK")
	f(`{"from":9}`, "2006")
	f(`{"text":"no sender here"}`, "2006")

	entries := fetch(t, s, Range{})
	for i, e := range entries {
		if e.ID != int64(i+1) {
			t.Errorf("id %d at %d", e.ID, i)
		}
	}
	if got := entries[7].Tags; !slices.Equal(got, []string{"userfrequent", "frequent"}) {
		t.Errorf("tags %q", got)
	}
}

// TestInheritance checks which domains share counters, models and rules.
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

	teach(t, s, "blog/comments", "model", "cheap pills for all of us", false)
	if got := marker(t, s, "forum", "model", "cheap pills for all"); got != "bad" {
		t.Errorf("the model of the root is not shared: %s", got)
	}

	d, err := s.Domain("default", "forum")
	if err != nil {
		t.Fatal(err)
	}
	d.put("x", int64(5))
	root, _ := s.Domain("default", "")
	root.put("x", int64(6))
	value := func() any { v, _ := d.Get("x"); return v }
	if value() != int64(5) || !d.has("x") {
		t.Error("own property", value())
	}
	root.put("y", int64(7))
	if y, _ := d.Get("y"); y != int64(7) || d.has("y") || slices.Contains(d.List(), "y") {
		t.Error("inherited property", y)
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
	f(`do modelTrain(attribute="text", marker="bad") do modelClassify(attribute="text") mark n if n stop as BAD stop as GOOD`, `{"text":"the best casino of the town"}`, "BAD")
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

// sharedStore is a Memory that says it is shared, as Redis is.
type sharedStore struct{ *store.Memory }

func (sharedStore) Shared() bool { return true }

// TestTwoGateways checks that what one learns and sets reaches the other, and that ids are unique over both.
func TestTwoGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := sharedStore{store.NewMemory(time.Now)}
		a, b := openSystem(t, family(), st, time.Now), openSystem(t, family(), st, time.Now)
		synctest.Wait()
		teach(t, a, "", "model", "cheap pills for all of us", false)
		setRules(t, a, "", "do messageLogPut() do modelClassify() mark bad if bad stop as BAD stop as GOOD")
		synctest.Wait()
		if got := say(t, b, "", `{"text":"cheap pills for all of us"}`); got != "BAD" {
			t.Errorf("the other gateway says %s", got)
		}
		m, _ := root(t, a, "").Model("model")
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
		teach(t, a, "", "old", "casino", false)
		if _, err := b.reload(context.Background()); err != nil {
			t.Error(err)
		}
		if got := marker(t, b, "", "old", "casino"); got != "bad" {
			t.Error(got)
		}
		if err := errors.Join(a.Close(), b.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestConcurrent lets readers and writers meet, for the race detector.
func TestConcurrent(t *testing.T) {
	s, _ := newSystem(t, family())
	setRules(t, s, "", corpus.ExampleRules)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				say(t, s, "blog/comments", fmt.Sprintf(`{"text":"hello %d"}`, i))
				say(t, s, "", fmt.Sprintf(`{"text":"hello world %d","from":%d}`, i, g*1000+i))
				if i%10 == 0 {
					setRules(t, s, "", corpus.ExampleRules+fmt.Sprintf("\n# %d", i))
					fetch(t, s, Range{})
				}
				teach(t, s, "", "model", fmt.Sprintf("word%d of %d", i, g), false)
			}
		})
	}
	wg.Wait()
}
