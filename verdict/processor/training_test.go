package processor

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
)

var trainingDay = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func openTraining(t *testing.T, dir string, sample float64, most int64) *training {
	t.Helper()
	log, err := newTraining(TrainingConfig{Sample: sample, MaxBytes: most}, dir, zerolog.Nop(), metrics.NewSet())
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
func export(t *testing.T, dir string, o ExportOptions, now time.Time) (map[string][]rowOf, Exported) {
	t.Helper()
	var out bytes.Buffer
	done, err := ExportTraining(dir, &out, o, now)
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

// TestTrainingLabels: each subject is labelled by what became known of it, and rows influenced by the gateway itself
// are left out.
func TestTrainingLabels(t *testing.T) {
	dir := t.TempDir()
	log := openTraining(t, dir, 1, 8<<20)
	x := make([]float32, len(FactorNames()))
	x[1] = float32(math.NaN())
	at := trainingDay
	see := func(s identity.Subject) { at = at.Add(time.Second); log.observe(s, 3, at, x, 0.25) }
	tell := func(s identity.Subject, kind verdict.EventKind, cause verdict.Cause, mode verdict.Mode) {
		at = at.Add(time.Second)
		e := verdict.Event{At: at, Kind: kind, Cause: cause, Mode: mode, N: 1}
		e.Subjects[0] = s
		log.outcome(&e)
	}
	shown := func(s identity.Subject) { tell(s, verdict.EventShown, verdict.CauseBan, verdict.Enforce) }

	solver, ignorer, failer, listed, unknown := someone(identity.KindIP, 1), someone(identity.KindIP, 2), someone(identity.KindIP, 3), someone(identity.KindI, 4), someone(identity.KindIP, 5)
	signedIn, hesitant, watched, worker := someone(identity.KindL, 6), someone(identity.KindIP, 7), someone(identity.KindIP, 8), someone(identity.KindIP, 9)
	for _, s := range []identity.Subject{solver, ignorer, failer, listed, unknown, signedIn, hesitant, watched, worker} {
		see(s)
	}
	shown(solver)
	tell(solver, verdict.EventFailed, verdict.CauseBan, verdict.Enforce)
	tell(solver, verdict.EventSolved, verdict.CauseBan, verdict.Enforce)
	see(solver) // late
	for range 3 {
		shown(ignorer)
		shown(failer)
		shown(worker)
		tell(failer, verdict.EventFailed, verdict.CauseBan, verdict.Enforce)
		tell(watched, verdict.EventShown, verdict.CauseBan, verdict.Observe)
	}
	worked := verdict.Event{At: at, Kind: verdict.EventSolved, Cause: verdict.CauseBan, Mode: verdict.Enforce, Work: true, N: 1}
	worked.Subjects[0] = worker
	log.outcome(&worked)
	see(ignorer) // late
	shown(hesitant)
	tell(listed, verdict.EventRequest, verdict.CauseBanList, verdict.Observe)
	see(listed)  // not late: in mode observe the gateway answers nobody
	see(watched) // nor this
	if err := log.close(); err != nil {
		t.Fatal(err)
	}

	rows, done := export(t, dir, ExportOptions{Unlabelled: true}, at.Add(time.Hour))
	f := func(s identity.Subject, n int, label formula.Label, source string) {
		t.Helper()
		got := rows[fmt.Sprintf("%016x", log.who(s))]
		if len(got) != n {
			t.Fatalf("%v: %d rows, want %d", s, len(got), n)
		}
		if r := got[0]; r.Label != label || r.Source != source || r.Kind != s.Kind.String() {
			t.Errorf("%v: label %v from %q, want %v from %q", s, r.Label, r.Source, label, source)
		}
	}
	f(solver, 1, formula.Person, "solved")
	f(ignorer, 1, formula.Robot, "ignored")
	f(failer, 1, formula.Robot, "failed")
	f(listed, 2, formula.Robot, "list")
	f(unknown, 1, formula.Unlabelled, "")
	f(signedIn, 1, formula.Person, "signed-in")
	f(hesitant, 1, formula.Unlabelled, "")
	f(watched, 2, formula.Robot, "ignored")
	f(worker, 1, formula.Unlabelled, "") // a browser's work says nothing about the person
	if done.Late != 2 || done.Robots != 6 || done.People != 2 || done.Unlabelled != 3 || done.Rows != 11 {
		t.Errorf("%+v", done)
	}
	// A visitor who was shown a challenge a moment ago may still answer it.
	if rows, _ := export(t, dir, ExportOptions{}, at.Add(time.Minute)); len(rows[fmt.Sprintf("%016x", log.who(ignorer))]) != 0 {
		t.Error("ignored within a minute")
	}
	if rows, _ := export(t, dir, ExportOptions{Since: at.Add(time.Minute)}, at.Add(time.Hour)); len(rows) != 0 {
		t.Errorf("%d subjects since later", len(rows))
	}
	r := rows[fmt.Sprintf("%016x", log.who(solver))][0]
	if !math.IsNaN(float64(r.Factors[1])) || r.Factors[0] != 0 || r.At != "2026-03-04T10:00:01.000Z" {
		t.Errorf("%+v", r.Row)
	}
}

// TestTrainingNamesNobody: what was given as an identity is nowhere in the files, and nor is anything from which it can
// be found without the salt.
func TestTrainingNamesNobody(t *testing.T) {
	dir := t.TempDir()
	log := openTraining(t, dir, 1, 8<<20)
	sub := identity.AddrSubject(netip.MustParseAddr("203.0.113.77"))
	log.observe(sub, 0, trainingDay, make([]float32, len(FactorNames())), 0)
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	files, err := trainingLogs(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{sub.ID[12:], {203, 0, 113, 77}, []byte("203.0.113.77")} {
		if bytes.Contains(data, secret) {
			t.Errorf("%v is in the file", secret)
		}
	}
	for _, name := range append(files, filepath.Join(dir, saltFile)) {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	other := openTraining(t, t.TempDir(), 1, 8<<20)
	defer other.close()
	if other.who(sub) == log.who(sub) {
		t.Error("two logs call a subject by the same hash")
	}
}

// TestTrainingSamplesSubjects: a subject is in the sample with everything known of it, or not at all; also after a
// restart.
func TestTrainingSamplesSubjects(t *testing.T) {
	dir := t.TempDir()
	x := make([]float32, len(FactorNames()))
	const subjects = 2000
	for range 3 {
		log := openTraining(t, dir, 0.25, 64<<20)
		for n := range subjects {
			log.observe(someone(identity.KindIP, n), 0, trainingDay, x, 0)
		}
		if err := log.close(); err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := export(t, dir, ExportOptions{Unlabelled: true}, trainingDay)
	if len(rows) < subjects/4-100 || len(rows) > subjects/4+100 {
		t.Errorf("%d of %d subjects", len(rows), subjects)
	}
	for who, r := range rows {
		if len(r) != 3 {
			t.Fatalf("%s has %d rows of 3", who, len(r))
		}
	}
	if log, err := newTraining(TrainingConfig{MaxBytes: 1 << 20}, filepath.Join(dir, "none"), zerolog.Nop(), metrics.NewSet()); log != nil || err != nil {
		t.Errorf("without a sample: %v, %v", log, err)
	}
}

// TestTrainingIsBounded: the files never exceed their limit, and the newest rows stay.
func TestTrainingIsBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 1 << 20
	log := openTraining(t, dir, 1, most)
	x := make([]float32, len(FactorNames()))
	rows := 4 * most / (4 * len(x))
	size := func() (sum int64) {
		files, err := trainingLogs(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		}
		return sum
	}
	for n := range rows {
		x[0] = float32(n)
		log.observe(someone(identity.KindIP, n), 0, trainingDay, x, 0)
		if n%100 == 0 && size() > most {
			t.Fatalf("%d bytes after %d rows, more than %d", size(), n, most)
		}
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	if size() < most/2 {
		t.Errorf("only %d bytes are kept", size())
	}
	kept, _ := export(t, dir, ExportOptions{Unlabelled: true}, trainingDay)
	last := kept[fmt.Sprintf("%016x", log.who(someone(identity.KindIP, rows-1)))]
	if len(last) != 1 || last[0].Factors[0] != float32(rows-1) {
		t.Error("the newest row is gone")
	}
	for range 3 * trainingMost {
		if err := openTraining(t, dir, 1, most).close(); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := trainingLogs(dir); len(files) > trainingMost {
		t.Errorf("%d files after many starts", len(files))
	}
}

// TestTrainingAfterACrash: a record that was not written completely is left out; what comes before it is not.
func TestTrainingAfterACrash(t *testing.T) {
	dir := t.TempDir()
	log := openTraining(t, dir, 1, 8<<20)
	for n := range 10 {
		log.observe(someone(identity.KindIP, n), 0, trainingDay, make([]float32, len(FactorNames())), 0)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	files, _ := trainingLogs(dir)
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[0], info.Size()-3); err != nil {
		t.Fatal(err)
	}
	if rows, done := export(t, dir, ExportOptions{Unlabelled: true}, trainingDay); len(rows) != 9 || done.Broken != 1 {
		t.Errorf("%d rows, %d broken files", len(rows), done.Broken)
	}
	if _, err := ExportTraining(t.TempDir(), &bytes.Buffer{}, ExportOptions{}, trainingDay); err == nil || !strings.Contains(err.Error(), "no training log") {
		t.Errorf("of nothing: %v", err)
	}
}

// TestTrainingLearnsOfCrawlers: the factors of a verified crawler are kept, and it is not counted anywhere else.
func TestTrainingLearnsOfCrawlers(t *testing.T) {
	g := newGateway(t, nil)
	g.end() // the test itself processes
	dir := t.TempDir()
	log := openTraining(t, dir, 1, 8<<20)
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
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	rows, done := export(t, dir, ExportOptions{}, trainingDay.Add(time.Hour))
	got := rows[fmt.Sprintf("%016x", log.who(crawler))]
	if done.Robots < 5 || len(got) != done.Robots || got[0].Source != "crawler" || got[len(got)-1].values["session_pages"] < 100 {
		t.Errorf("%+v, %d rows", done, len(got))
	}
}

func FuzzReadTraining(f *testing.F) {
	names := `["a","b"]` + "\n"
	f.Add([]byte(trainingMagic + names + "O" + strings.Repeat("\x00", 17) + "\x01" + "V" + strings.Repeat("\x01", 17+6+8)))
	f.Add([]byte(trainingMagic + "[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := readTrainingRecords(bufio.NewReaderSize(bytes.NewReader(data), 1<<16), func(r *trainingRecord) error {
			_ = r.row(nil, formula.Unlabelled, "", []string{"a", "c"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkTrainingObserve(b *testing.B) {
	log, err := newTraining(TrainingConfig{Sample: 1, MaxBytes: 64 << 20}, b.TempDir(), zerolog.Nop(), metrics.NewSet())
	if err != nil {
		b.Fatal(err)
	}
	defer log.close()
	x := make([]float32, len(FactorNames()))
	b.ReportAllocs()
	for n := range b.N {
		log.observe(identity.Subject{Kind: identity.KindIP, ID: [16]byte{byte(n), byte(n >> 8)}}, 0, trainingDay, x, 0)
	}
}
