package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/rules"
)

func fetch(t testing.TB, s *System, r Range) []Entry {
	t.Helper()
	d, err := s.Domain("default", "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.messageLog("messageLog")
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.fetch(context.Background(), r)
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
	start := c.Now()
	for i := range 8 {
		say(t, s, "", fmt.Sprintf(`{"from":%d}`, i+1))
		c.Advance(5 * time.Second)
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
	c.Advance(time.Hour)
	f(ids(Range{}), nil)
	say(t, s, "", `{"from":9}`)
	f(ids(Range{}), []int64{9})
}

func TestLogBound(t *testing.T) {
	s, _ := newSystem(t, DefaultConfig())
	for _, l := range s.logs {
		l.maxKept = 10
	}
	setRules(t, s, "", "do messageLogPut()")
	for range 30 {
		say(t, s, "", `{"text":"x"}`)
		fetch(t, s, Range{}) // writes a batch
	}
	if e := fetch(t, s, Range{}); len(e) != 10 || e[9].ID != 30 {
		t.Errorf("%d entries are kept", len(e))
	}
}

func TestMarkAndSearch(t *testing.T) {
	ctx := context.Background()
	s, _ := newSystem(t, DefaultConfig())
	setRules(t, s, "", "do hasAttribute(attribute=\"from\") mark nobody do messageLogPut()")
	say(t, s, "", `{"text":"Cheap PILLS here for you","from":1}`)
	say(t, s, "", `{"text":"dear friend"}`)
	say(t, s, "", `{"from":3}`)
	d, _ := s.Domain("default", "")
	l, _ := d.messageLog("messageLog")
	f := func(q Query, want ...int64) {
		t.Helper()
		entries, err := l.search(ctx, q)
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
	if got := marker(t, s, "", "model", "cheap pills here for you"); got != "bad" {
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

// TestUnmark: what a moderator takes back was never learnt: the model's counts and what it finds again are as before, a new start
// reads the same, it can be said again, and what was not said can't be taken back. Another text that is like it stays taught.
func TestUnmark(t *testing.T) {
	s, _ := newSystem(t, DefaultConfig())
	d := root(t, s, "")
	m, err := d.Model("model")
	if err != nil {
		t.Fatal(err)
	}
	setRules(t, s, "", "do messageLogPut() stop as OK")
	const text = "our little shop of nice blue umbrellas opens tomorrow at the corner, come all and see"
	say(t, s, "", `{"text":"`+text+`"}`)
	teach(t, s, "", "model", strings.Replace(text, "umbrellas", "raincoats", 1), false)
	before := m.Classify(text)
	if err := s.Unmark(t.Context(), d, Marking{ID: 1}); !errors.Is(err, ErrOld) {
		t.Errorf("what was not said: %v", err)
	}
	for range 2 { // the second time as the first
		if learnt, err := s.Mark(t.Context(), d, Marking{ID: 1}); err != nil || !learnt {
			t.Fatal(learnt, err)
		}
		if o := m.Classify(text); o.Score <= before.Score {
			t.Errorf("nothing was learnt: %+v, before %+v", o, before)
		}
		if err := s.Unmark(t.Context(), d, Marking{ID: 1}); err != nil {
			t.Fatal(err)
		}
		if o := m.Classify(text); fmt.Sprint(o) != fmt.Sprint(before) {
			t.Errorf("after it was taken back: %+v, before %+v", o, before)
		}
	}
	if err := m.load(t.Context()); err != nil || fmt.Sprint(m.Classify(text)) != fmt.Sprint(before) {
		t.Errorf("read again: %v %+v", err, m.Classify(text))
	}
	if err := s.Unmark(t.Context(), d, Marking{ID: 99}); err == nil {
		t.Error("an entry that there is not")
	}
}
