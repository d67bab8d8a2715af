package processor

import (
	"bytes"
	"fmt"
	"net/netip"
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

// rowOf is what an export says about one row.
type rowOf struct {
	formula.Row
	values map[string]float32
}

// export returns the rows by subject.
func export(t *testing.T, dir string, o training.ExportOptions, now time.Time) (map[string][]rowOf, training.Exported) {
	t.Helper()
	var out bytes.Buffer
	done, err := training.Export(dir, FactorNames(), &out, o, now)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]rowOf{}
	lacks, extra, err := formula.ReadRows(&out, FactorNames(), func(r *formula.Row) error {
		c := rowOf{Row: *r, values: map[string]float32{}}
		for i, n := range FactorNames() {
			c.values[n] = r.Factors[i]
		}
		rows[r.Subject] = append(rows[r.Subject], c)
		return nil
	})
	if err != nil || len(lacks)+len(extra) > 0 {
		t.Fatalf("%v, lacks %v, extra %v", err, lacks, extra)
	}
	return rows, done
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
	dir := t.TempDir()
	log := openTraining(t, dir, 1, nil)
	g.p.training = log
	crawler := identity.AddrSubject(netip.MustParseAddr("192.0.2.9"))
	for n := range 200 {
		e := verdict.Event{At: trainingDay.Add(time.Duration(n) * 100 * time.Millisecond), Service: g.s.Index, Cause: verdict.CauseWhite, N: 1, Method: 'G', Status: 200}
		e.Target = uint64(n)
		e.Subjects[0] = crawler
		e.Crawler = true
		g.p.Process(&e)
	}
	if n := g.p.groups.live.Load(); n != 0 {
		t.Errorf("it counts in %d groups", n)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	rows, done := export(t, dir, training.ExportOptions{}, trainingDay.Add(time.Hour))
	got := rows[fmt.Sprintf("%016x", log.Who(crawler))]
	if done.Robots < 5 || len(got) != done.Robots || got[0].Source != "crawler" || got[len(got)-1].values["session_pages"] < 100 {
		t.Errorf("%+v, %d rows", done, len(got))
	}
}
