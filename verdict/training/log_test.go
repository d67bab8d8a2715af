package training

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

var day = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// names are those of as many factors as a processor has, and some that say something of a subject.
var names = func() []string {
	n := []string{"agents", "agent_robot", "agent_headless", "cookie_share", "parts_per_page"}
	for len(n) < 200 {
		n = append(n, fmt.Sprintf("factor_%d", len(n)))
	}
	return n
}()

func opened(tb testing.TB, dir string, sample float64, most int64) *Log {
	tb.Helper()
	log, err := Open(Config{Sample: sample, MaxBytes: most}, Deps{Dir: dir, Names: names, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		tb.Fatal(err)
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
	done, err := Export(dir, names, &out, o, now)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]rowOf{}
	lacks, extra, err := formula.ReadRows(&out, names, func(r *formula.Row) error {
		c := rowOf{Row: *r, values: map[string]float32{}}
		for i, n := range names {
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

// TestLabels: each subject is labelled by what became known of it, and rows influenced by the gateway itself
// are left out.
func TestLabels(t *testing.T) {
	dir := t.TempDir()
	log := opened(t, dir, 1, 8<<20)
	x := make([]float32, len(names))
	x[1] = float32(math.NaN())
	at := day
	see := func(s identity.Subject) { at = at.Add(time.Second); log.Observe(s, 3, at, x, 0.25) }
	tell := func(s identity.Subject, kind verdict.EventKind, cause verdict.Cause, mode verdict.Mode) {
		at = at.Add(time.Second)
		e := verdict.Event{At: at, Kind: kind, Cause: cause, Mode: mode, N: 1}
		e.Subjects[0] = s
		log.Event(&e)
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
	log.Event(&worked)
	see(ignorer) // late
	shown(hesitant)
	tell(listed, verdict.EventRequest, verdict.CauseBanList, verdict.Observe)
	see(listed)  // not late: in mode observe the gateway answers nobody
	see(watched) // nor this
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	rows, done := export(t, dir, ExportOptions{Unlabelled: true}, at.Add(time.Hour))
	f := func(s identity.Subject, n int, label formula.Label, source string) {
		t.Helper()
		got := rows[fmt.Sprintf("%016x", log.Who(s))]
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
	if rows, _ := export(t, dir, ExportOptions{}, at.Add(time.Minute)); len(rows[fmt.Sprintf("%016x", log.Who(ignorer))]) != 0 {
		t.Error("ignored within a minute")
	}
	if rows, _ := export(t, dir, ExportOptions{Since: at.Add(time.Minute)}, at.Add(time.Hour)); len(rows) != 0 {
		t.Errorf("%d subjects since later", len(rows))
	}
	r := rows[fmt.Sprintf("%016x", log.Who(solver))][0]
	if !math.IsNaN(float64(r.Factors[1])) || r.Factors[0] != 0 || r.At != "2026-03-04T10:00:01.000Z" {
		t.Errorf("%+v", r.Row)
	}
}

// TestNamesNobody: what was given as an identity is nowhere in the files, and nor is anything from which it can
// be found without the salt.
func TestNamesNobody(t *testing.T) {
	dir := t.TempDir()
	log := opened(t, dir, 1, 8<<20)
	sub := identity.AddrSubject(netip.MustParseAddr("203.0.113.77"))
	log.Observe(sub, 0, day, make([]float32, len(names)), 0)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := logs(dir)
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
	other := opened(t, t.TempDir(), 1, 8<<20)
	defer other.Close()
	if other.Who(sub) == log.Who(sub) {
		t.Error("two logs call a subject by the same hash")
	}
}

// TestSamplesSubjects: a subject is in the sample with everything known of it, or not at all; also after a
// restart.
func TestSamplesSubjects(t *testing.T) {
	dir := t.TempDir()
	x := make([]float32, len(names))
	const subjects = 2000
	for range 3 {
		log := opened(t, dir, 0.25, 64<<20)
		for n := range subjects {
			log.Observe(someone(identity.KindIP, n), 0, day, x, 0)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := export(t, dir, ExportOptions{Unlabelled: true}, day)
	if len(rows) < subjects/4-100 || len(rows) > subjects/4+100 {
		t.Errorf("%d of %d subjects", len(rows), subjects)
	}
	for who, r := range rows {
		if len(r) != 3 {
			t.Fatalf("%s has %d rows of 3", who, len(r))
		}
	}
	if log, err := Open(Config{MaxBytes: 1 << 20}, Deps{Dir: filepath.Join(dir, "none"), Metrics: metrics.NewSet()}); log != nil || err != nil {
		t.Errorf("without a sample: %v, %v", log, err)
	}
}

// TestIsBounded: the files never exceed their limit, and the newest rows stay.
func TestIsBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 1 << 20
	log := opened(t, dir, 1, most)
	x := make([]float32, len(names))
	rows := 4 * most / (4 * len(x))
	size := func() (sum int64) {
		files, err := logs(dir)
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
		log.Observe(someone(identity.KindIP, n), 0, day, x, 0)
		if n%100 == 0 && size() > most {
			t.Fatalf("%d bytes after %d rows, more than %d", size(), n, most)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if size() < most/2 {
		t.Errorf("only %d bytes are kept", size())
	}
	kept, _ := export(t, dir, ExportOptions{Unlabelled: true}, day)
	last := kept[fmt.Sprintf("%016x", log.Who(someone(identity.KindIP, rows-1)))]
	if len(last) != 1 || last[0].Factors[0] != float32(rows-1) {
		t.Error("the newest row is gone")
	}
	for range 3 * mostFiles {
		if err := opened(t, dir, 1, most).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := logs(dir); len(files) > mostFiles {
		t.Errorf("%d files after many starts", len(files))
	}
}

// TestAfterACrash: a record that was not written completely is left out; what comes before it is not.
func TestAfterACrash(t *testing.T) {
	dir := t.TempDir()
	log := opened(t, dir, 1, 8<<20)
	for n := range 10 {
		log.Observe(someone(identity.KindIP, n), 0, day, make([]float32, len(names)), 0)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := logs(dir)
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[0], info.Size()-3); err != nil {
		t.Fatal(err)
	}
	if rows, done := export(t, dir, ExportOptions{Unlabelled: true}, day); len(rows) != 9 || done.Broken != 1 {
		t.Errorf("%d rows, %d broken files", len(rows), done.Broken)
	}
	if _, err := Export(t.TempDir(), names, &bytes.Buffer{}, ExportOptions{}, day); err == nil || !strings.Contains(err.Error(), "no training log") {
		t.Errorf("of nothing: %v", err)
	}
}

func FuzzReadRecords(f *testing.F) {
	names := `["a","b"]` + "\n"
	f.Add([]byte(magic + names + "O" + strings.Repeat("\x00", 17) + "\x01" + "V" + strings.Repeat("\x01", 17+6+8)))
	f.Add([]byte(magic + "[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := readRecords(bufio.NewReaderSize(bytes.NewReader(data), 1<<16), func(r *record) error {
			_ = r.row(nil, formula.Unlabelled, "", []string{"a", "c"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	log := opened(b, b.TempDir(), 1, 64<<20)
	defer log.Close()
	x := make([]float32, len(names))
	b.ReportAllocs()
	for n := range b.N {
		log.Observe(identity.Subject{Kind: identity.KindIP, ID: [16]byte{byte(n), byte(n >> 8)}}, 0, day, x, 0)
	}
}
