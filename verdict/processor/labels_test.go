package processor

import (
	"context"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
)

// labelling is a processor that does nothing but keep labels and a training log.
type labelling struct {
	*testing.T
	*Processor
	at time.Time
}

func newLabelling(t *testing.T, sample float64) *labelling {
	t.Helper()
	l := &labelling{T: t, at: trainingDay}
	table, err := label.New(label.DefaultConfig(), label.Deps{Store: store.NewMemory(nil), Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	l.Processor = &Processor{labels: table, training: openTraining(t, t.TempDir(), sample, table)}
	return l
}

// see records a row of a subject, in which the factors named have values.
func (l *labelling) see(s identity.Subject, values map[string]float32) {
	x := make([]float32, len(FactorNames()))
	for i, n := range FactorNames() {
		x[i] = values[n]
	}
	l.at = l.at.Add(time.Second)
	l.training.Observe(s, 3, l.at, x, 0.25)
}

// tell tells of an event at a path that is a honeypot or not.
func (l *labelling) tell(s identity.Subject, honeypot bool, edit func(e *verdict.Event)) {
	l.at = l.at.Add(time.Second)
	e := verdict.Event{At: l.at, N: 1}
	e.Subjects[0] = s
	edit(&e)
	l.labelled(&e, &rates{Settings: &verdict.Settings{Honeypot: honeypot}})
}

// sources returns label and source of each subject.
func (l *labelling) sources() func(s identity.Subject, want formula.Label, source string) {
	l.Helper()
	rows := rowsOf(l.T, l.training, l.at.Add(time.Hour))
	return func(s identity.Subject, want formula.Label, source string) {
		l.Helper()
		got := rows[l.training.Who(s)]
		if len(got) == 0 {
			l.Errorf("%v has no rows", s)
		} else if got[0].Label != want || got[0].Source != source {
			l.Errorf("%v: label %v from %q, want %v from %q", s, got[0].Label, got[0].Source, want, source)
		}
	}
}

// TestLabelSources: what services, honeypots and User-Agents say becomes a label, but never where it may be about
// somebody else.
func TestLabelSources(t *testing.T) {
	l := newLabelling(t, 1)
	says := func(m label.Mark) func(e *verdict.Event) { return func(e *verdict.Event) { e.Mark = m } }
	customer, paying, known := says(label.Mark{Label: label.Human, Source: label.Customer}), says(label.Mark{Label: label.Human, Source: label.Paid}), says(label.Mark{Label: label.Robot, Source: label.Service})
	opened := func(*verdict.Event) {}
	who := map[string]identity.Subject{}
	for i, name := range []string{"buyer", "payer", "partner", "torn", "trapped", "shown", "linked"} {
		who[name] = someone(identity.KindI, i)
		l.see(who[name], nil)
	}
	for i, name := range []string{"address", "office", "program", "declared", "hidden", "sometimes"} {
		who[name] = someone(identity.KindIP, 100+i)
	}
	l.see(who["address"], nil)
	l.see(who["office"], map[string]float32{"agents": 5})
	l.see(who["program"], map[string]float32{"agents": 1})
	l.see(who["declared"], map[string]float32{"agents": 1, "agent_robot": 1})
	l.see(who["hidden"], map[string]float32{"agents": 1, "agent_headless": 1})
	l.see(who["sometimes"], map[string]float32{"agents": 2, "agent_robot": 1})
	l.see(who["sometimes"], map[string]float32{"agents": 2})

	l.tell(who["buyer"], false, customer)
	l.tell(who["payer"], false, paying)
	l.tell(who["partner"], false, known)
	l.tell(who["address"], false, customer)
	l.tell(who["torn"], false, customer)
	for _, name := range []string{"torn", "trapped", "office", "program"} {
		l.tell(who[name], true, opened)
	}
	l.tell(who["shown"], true, func(e *verdict.Event) { e.Asked = request.KindPart })
	l.tell(who["linked"], true, func(e *verdict.Event) { e.Site = client.SiteCross })
	l.tell(who["linked"], true, func(e *verdict.Event) { e.Referer = client.RefererForeign })

	f := l.sources()
	f(who["buyer"], formula.Person, "customer")
	f(who["payer"], formula.Person, "paid")
	f(who["partner"], formula.Robot, "service")
	f(who["address"], formula.Unlabelled, "") // perhaps many people's
	f(who["torn"], formula.Unlabelled, "")
	f(who["trapped"], formula.Robot, "honeypot")
	f(who["program"], formula.Robot, "honeypot")
	f(who["office"], formula.Unlabelled, "") // somebody there
	f(who["shown"], formula.Unlabelled, "")  // a picture in another site's page
	f(who["linked"], formula.Unlabelled, "") // a link elsewhere
	f(who["declared"], formula.Robot, "declared")
	f(who["hidden"], formula.Robot, "declared")
	f(who["sometimes"], formula.Unlabelled, "")
	if m := l.labels.Of(who["buyer"]); m.Source != label.Customer {
		t.Errorf("the table has %v", m)
	}
}

// TestIgnoringIsNotEnough: who is shown captchas and leaves is a robot only if it does not load pages as browsers do.
func TestIgnoringIsNotEnough(t *testing.T) {
	l := newLabelling(t, 1)
	shown := func(e *verdict.Event) { e.Kind, e.Mode = verdict.EventShown, verdict.Observe }
	f := func(n int, kind identity.Kind, row map[string]float32, want formula.Label, source string) {
		t.Helper()
		s := someone(kind, n)
		l.see(s, row)
		for range 3 {
			l.tell(s, false, shown)
		}
		l.sources()(s, want, source)
	}
	f(1, identity.KindIP, nil, formula.Robot, "ignored")
	f(2, identity.KindIP, map[string]float32{"cookie_share": 0.9}, formula.Robot, "ignored")
	f(3, identity.KindIP, map[string]float32{"parts_per_page": 4}, formula.Robot, "ignored")
	f(4, identity.KindIP, map[string]float32{"cookie_share": 0.9, "parts_per_page": 4}, formula.Unlabelled, "")
	f(5, identity.KindI, map[string]float32{"parts_per_page": 4}, formula.Unlabelled, "")
	f(6, identity.KindI, nil, formula.Robot, "ignored")
}

// TestOperatorsLabel: an operator's word outweighs the rest, puts its subject into the sample, stands beside the rows in
// every file, and can be taken back.
func TestOperatorsLabel(t *testing.T) {
	l := newLabelling(t, 1e-9)
	ctx := context.Background()
	bad, good, other := someone(identity.KindI, 1), someone(identity.KindIP, 2), someone(identity.KindI, 3)
	set := func(s identity.Subject, is label.Label) {
		t.Helper()
		l.at = l.at.Add(time.Second)
		if err := l.Label(ctx, label.Entry{Subject: s, Mark: label.Mark{Label: is}, At: l.at}); err != nil {
			t.Fatal(err)
		}
	}
	set(bad, label.Robot)
	set(good, label.Robot)
	set(good, label.Human)
	for range 2000 { // far more than one file
		l.see(bad, nil)
		l.see(other, nil)
	}
	l.see(good, map[string]float32{"agent_robot": 1, "agents": 1})
	f := l.sources()
	f(bad, formula.Robot, "operator")
	f(good, formula.Person, "operator")
	if rows := rowsOf(t, l.training, l.at); len(rows) != 2 {
		t.Errorf("%d subjects", len(rows))
	}
	if had, err := l.Unlabel(ctx, good, l.at.Add(time.Second)); !had || err != nil {
		t.Errorf("%v, %v", had, err)
	}
	l.sources()(good, formula.Robot, "declared")
	if n := len(l.Labels()); n != 1 {
		t.Errorf("%d labels", n)
	}
}
