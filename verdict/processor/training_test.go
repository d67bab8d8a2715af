package processor

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/training"
)

var trainingDay = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func openTraining(t *testing.T, dir string, sample float64, labels *label.Table) *training.Log {
	t.Helper()
	d := training.Deps{Dir: dir, Names: FactorNames(), Labels: labels, Log: zerolog.Nop(), Metrics: metrics.NewSet()}
	log, err := training.Open(training.Config{Sample: sample, MaxBytes: 8 << 20}, d)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// rowsOf returns the rows of a training log by the key of their subject.
func rowsOf(t *testing.T, log *training.Log, now time.Time) map[uint64][]training.Row {
	t.Helper()
	rows := map[uint64][]training.Row{}
	err := log.Rows(time.Time{}, now, func(r *training.Row) error {
		row := *r
		row.Factors = slices.Clone(r.Factors)
		rows[r.Who] = append(rows[r.Who], row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func someone(kind identity.Kind, n int) identity.Subject {
	s := identity.Subject{Kind: kind}
	copy(s.ID[:], fmt.Sprintf("subject-%08d", n))
	return s
}

// TestTrainingLearnsOfCrawlers: the factors of a verified crawler are kept, and it is not counted anywhere else.
func TestTrainingLearnsOfCrawlers(t *testing.T) {
	g := newGateway(t, nil)
	g.end() // the test itself processes
	log := openTraining(t, t.TempDir(), 1, nil)
	t.Cleanup(func() { _ = log.Close() })
	g.p.training = log
	crawler := identity.AddrSubject(netip.MustParseAddr("192.0.2.9"))
	for n := range 200 {
		e := verdict.Event{At: trainingDay.Add(time.Duration(n) * 100 * time.Millisecond), Service: g.s.Index, Cause: verdict.CauseWhite, N: 1, Method: 'G', Status: 200}
		e.Target = uint64(n)
		e.Subjects[0] = crawler
		e.Crawler = true
		g.p.Process(&e)
	}
	rows := rowsOf(t, log, trainingDay.Add(time.Hour))
	got := rows[log.Who(crawler)]
	if len(rows) != 1 || len(got) < 5 {
		t.Fatalf("%d subjects, %d rows of the crawler", len(rows), len(got))
	}
	last, pages := got[len(got)-1], slices.Index(FactorNames(), "session_pages")
	if last.Label != formula.Robot || last.Source != "crawler" || last.Factors[pages] < 100 {
		t.Errorf("%v from %q, %v pages", last.Label, last.Source, last.Factors[pages])
	}
}
