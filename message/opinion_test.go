package message

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"antirobot/message/learn"
	"antirobot/store"
	"antirobot/store/storetest"
)

// TestOpinion follows a model from its first day: the start judges, then what was taught as bad is found again disguised,
// then the model itself; the score and its reasons are in the debug output and in the log.
func TestOpinion(t *testing.T) {
	s, _ := newSystem(t, DefaultConfig())
	m, err := root(t, s, "").Model("model")
	if err != nil {
		t.Fatal(err)
	}
	f := func(text, by string, bad bool) {
		t.Helper()
		o := m.Classify(text)
		if o.By != by || o.Bad() != bad || len(o.Reasons) == 0 {
			t.Errorf("%q: %v", text, o)
		}
	}
	f("URGENT! You have WON a £1000 cash prize! Call 09061701461 now to claim", learn.StartName, true)
	f("see you at the library tomorrow at noon", learn.StartName, false)
	const taught = "our little shop of nice blue umbrellas opens tomorrow at the corner, come all and see"
	f(taught, learn.StartName, false)
	teach(t, s, "", "model", taught, false)
	f("our little sh\u200bop of nice blue umbrellas 0pens tomorrow at the corner, come you and see!", byTaught, true)
	teach(t, s, "", "model", taught, true) // it was a mistake
	f(taught, learn.StartName, false)

	setRules(t, s, "", "do modelClassify() mark spam do messageLogPut() if spam stop as SPAM stop as OK")
	o, err := s.Judge(t.Context(), root(t, s, ""), map[string]any{"text": "You have WON a £1000 cash prize! Call 09061701461 now to claim"}, true)
	if err != nil || o.Decision != "SPAM" || !strings.Contains(o.Log, "by "+learn.StartName+": ") {
		t.Errorf("%+v, %v", o, err)
	}
	say(t, s, "", `{"text":"see you at the library tomorrow at noon"}`)
	entries := fetch(t, s, Range{})
	if len(entries) != 2 || entries[0].Opinion == nil || !entries[0].Opinion.Bad() || len(entries[0].Opinion.Reasons) != maxReasons {
		t.Fatalf("%+v", entries)
	}
	if o := entries[1].Opinion; o == nil || o.Bad() || o.By != learn.StartName || len(entries[1].Message.Values()) != 1 {
		t.Errorf("%+v", entries[1])
	}

	for i := range learn.LeastGood {
		teach(t, s, "", "model", fmt.Sprintf("an ordinary letter %d about work and weather", i), true)
	}
	for i := range learn.LeastBad {
		teach(t, s, "", "model", fmt.Sprintf("umbrellas for everybody, lot %d", i), false)
	}
	f("umbrellas for everybody", byModel, true)
	f("a letter about the weather", byModel, false)
}

// TestTaughtExpires checks that what was taught as bad is found again after a restart, for as long as the configuration
// says.
func TestTaughtExpires(t *testing.T) {
	c := storetest.NewClock()
	st := store.NewMemory(c.Now)
	defer func() { _ = st.Close() }()
	const text = "our little shop of nice blue umbrellas opens tomorrow at the corner"
	for day, want := range []string{byTaught, byTaught, learn.StartName} {
		s := openSystem(t, DefaultConfig(), st, c.Now)
		m, err := root(t, s, "").Model("model")
		if err != nil {
			t.Fatal(err)
		}
		if day == 0 {
			teach(t, s, "", "model", text, false)
		}
		if got := m.Classify(text).By; got != want {
			t.Errorf("at the %d. time %s, want %s", day, got, want)
		}
		c.Advance(89 * 24 * time.Hour)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
