package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var day0 = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// clfLine is a combined line at the given second of day0.
func clfLine(second int, addr, path string) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 100 \"-\" \"test\"\n", addr, day0.Add(time.Duration(second)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), path)
}

// text is an input that can be opened again, or only once.
func text(name, s string, again bool) Input {
	return Input{Name: name, Size: int64(len(s)), Again: again, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }}
}

// readAll returns the paths in the order in which the log yields them.
func readAll(t testing.TB, o Options, inputs ...Input) (paths []string, counts Counts, err error) {
	t.Helper()
	l, err := Open(context.Background(), inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var last time.Time
	for {
		r, err := l.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return paths, l.counted(), err
		}
		if r.At.Before(last) {
			t.Fatalf("time goes back from %v to %v", last, r.At)
		}
		last = r.At
		paths = append(paths, string(r.Target))
		l.release(r)
	}
}

func TestOrder(t *testing.T) {
	f := func(what string, o Options, want string, late uint64, inputs ...Input) {
		t.Helper()
		got, c, err := readAll(t, o, inputs...)
		if err != nil || strings.Join(got, "") != want || c.Late != late {
			t.Errorf("%s: %v, %d late, %v; want %s, %d late", what, got, c.Late, err, want, late)
		}
	}
	a := func(second int) string { return clfLine(second, "1.2.3.4", fmt.Sprintf("/%d", second)) }
	minute := Options{Window: time.Minute}
	f("in order", minute, "/1/2/3", 0, text("a", a(1)+a(2)+a(3), true))
	f("same time", minute, "/1/x/y", 0, text("a", a(1)+clfLine(1, "1.2.3.4", "/x")+clfLine(1, "1.2.3.4", "/y"), true))
	f("slightly out of order", minute, "/1/2/30", 0, text("a", a(30)+a(1)+a(2), true))
	f("too late is left out", minute, "/1/2/100/200", 1, text("a", a(1)+a(2)+a(100)+a(200)+a(30), true))
	f("a narrow window", Options{Window: 5 * time.Second}, "/10/20", 1, text("a", a(10)+a(20)+a(1), true))
	// rotated logs, the newest named first; those that overlap are merged
	f("rotated", minute, "/1/2/300/301/900", 0, text("new", a(900), true), text("mid", a(300)+a(301), true), text("old", a(1)+a(2), true))
	f("overlapping", minute, "/1/2/3/4/500/501/502", 0, text("a", a(1)+a(3)+a(500)+a(502), true), text("b", a(2)+a(4)+a(501), true))
	f("a pipe beside a file", minute, "/1/2/3/4", 0, text("-", a(2)+a(4), false), text("b", a(1)+a(3), true))
	f("nothing at all", minute, "", 0, text("a", "", true))
	f("no end of line", minute, "/1/2", 0, text("a", a(1)+strings.TrimSuffix(a(2), "\n"), true))
}

// TestOrderOfMany compares merging and sorting with an obvious reference.
func TestOrderOfMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.IntRange(1, 4).Draw(t, "files")
		var inputs []Input
		var all []int
		for i := range files {
			var b strings.Builder
			second := rapid.IntRange(0, 2000).Draw(t, "begin")
			for range rapid.IntRange(0, 300).Draw(t, "lines") {
				second += rapid.IntRange(0, 20).Draw(t, "gap")
				s := max(0, second-rapid.IntRange(0, 25).Draw(t, "back"))
				b.WriteString(clfLine(s, "1.2.3.4", fmt.Sprintf("/%d", s)))
				all = append(all, s)
			}
			inputs = append(inputs, text(fmt.Sprint(i), b.String(), rapid.Bool().Draw(t, "file")))
		}
		l, err := Open(context.Background(), inputs, Options{Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		slices.Sort(all)
		for i := range all {
			r, err := l.next()
			if err != nil {
				t.Fatalf("record %d of %d: %v", i, len(all), err)
			}
			if want := fmt.Sprintf("/%d", all[i]); string(r.Target) != want {
				t.Fatalf("record %d is %s, want %s", i, r.Target, want)
			}
			l.release(r)
		}
		if _, err := l.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the end: %v", err)
		}
	})
}

func TestBadLines(t *testing.T) {
	good := clfLine(1, "1.2.3.4", "/1")
	long := strings.Repeat("x", maxLine+10) + "\n"
	tls := "1.2.3.4 - - [02/Mar/2026:12:00:01 +0000] \"\\x16\\x03\" 400 0 \"-\" \"-\"\n"
	future := strings.Replace(clfLine(2, "1.2.3.4", "/f"), "/2026:", "/2036:", 1)
	got, c, err := readAll(t, Options{Now: day0}, text("a.log", good+"nonsense\n"+long+"\n"+tls+future+clfLine(3, "1.2.3.4", "/3"), true))
	if err != nil || strings.Join(got, "") != "/1/3" {
		t.Fatalf("%v %v", got, err)
	}
	if c.Lines != 7 || c.Bad != 3 || c.Other != 2 || len(c.Problems) != 3 {
		t.Fatalf("%+v", c)
	}
	for i, want := range []string{"a.log:2 has no time that can be read", "a.log:3 is longer than 1048576 bytes", "a.log:6 has a time in the future"} {
		if got := fmt.Sprintf("%s:%d %s", c.Problems[i].Input, c.Problems[i].Line, c.Problems[i].What); got != want {
			t.Errorf("problem %d: %s, want %s", i, got, want)
		}
	}
	if _, c, err := readAll(t, Options{}, text("a", strings.Repeat("nonsense\n", 50), true)); !errors.Is(err, errAllBad) || len(c.Problems) != maxProblems {
		t.Errorf("all bad: %v, %d problems", err, len(c.Problems))
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "b.log"), filepath.Join(dir, "a.log.gz")
	if err := os.WriteFile(plain, []byte(clfLine(100, "1.2.3.4", "/plain")), 0o600); err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	for _, part := range []string{clfLine(1, "1.2.3.4", "/gz1"), clfLine(2, "1.2.3.4", "/gz2")} { // two members, as cat makes them
		w := gzip.NewWriter(&z)
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	if err := os.WriteFile(packed, z.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string, stdin io.Reader) Input {
		t.Helper()
		in, err := Files(name, stdin)
		if err != nil || len(in) != 1 {
			t.Fatal(in, err)
		}
		return in[0]
	}
	got, _, err := readAll(t, Options{}, open(plain, nil), open(packed, nil), open("-", strings.NewReader(clfLine(50, "1.2.3.4", "/stdin"))))
	if err != nil || strings.Join(got, "") != "/gz1/gz2/stdin/plain" {
		t.Errorf("%v %v", got, err)
	}
	if got, _, err := readAll(t, Options{}, open("-", bytes.NewReader(z.Bytes()))); err != nil || len(got) != 2 {
		t.Errorf("packed standard input: %v %v", got, err)
	}
	cut := open("-", bytes.NewReader(z.Bytes()[:z.Len()-20]))
	if got, _, err := readAll(t, Options{}, cut); err == nil || len(got) != 1 {
		t.Errorf("a packed log that is cut off: %v %v", got, err)
	}
	if _, err := Files(filepath.Join(dir, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestDirectory: all files of a directory and those below it are one log, in the order of time; more of them than are open at once.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := Files(dir, nil); err == nil || !strings.Contains(err.Error(), "no files") {
		t.Errorf("an empty directory: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const files = 3 * maxOpen
	want := "/0"
	for i := range files { // each overlaps with the next, and their names are in the reverse order
		write(fmt.Sprintf("%d/%d.log", i%7, files-i), clfLine(100*i, "1.2.3.4", fmt.Sprintf("/%d", i))+clfLine(100*i+150, "1.2.3.4", fmt.Sprintf("/%d", i)))
		if i > 0 {
			want += fmt.Sprintf("/%d/%d", i, i-1)
		}
	}
	want += fmt.Sprintf("/%d", files-1)
	write(".hidden", "nonsense\n")
	write(".git/config", "nonsense\n")
	inputs, err := Files(dir, nil)
	if err != nil || len(inputs) != files {
		t.Fatalf("%d files, %v", len(inputs), err)
	}
	got, c, err := readAll(t, Options{}, inputs...)
	if all := strings.Join(got, ""); err != nil || c.Bad+c.Late > 0 || all != want {
		t.Errorf("%s\nnot %s: %+v %v", all, want, c, err)
	}
}

// TestTornDirectory: what can't be read in a directory is named, and everything else is read, once: links lead to files that are there anyway.
func TestTornDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, "logs", name) }
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	for i := range 3000 {
		if _, err := io.WriteString(w, clfLine(i/100, fmt.Sprintf("10.%d.%d.1", i%250, i*i%251), fmt.Sprint("/", i*i))); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	err := errors.Join(
		os.MkdirAll(at("closed"), 0o700), os.WriteFile(at("closed/d.log"), []byte(clfLine(1, "1.2.3.4", "/d")), 0o600),
		os.WriteFile(at("a.log"), []byte(clfLine(1, "1.2.3.4", "/a")), 0o600), os.WriteFile(at("cut.gz"), z.Bytes()[:z.Len()/2], 0o600),
		os.WriteFile(at("closed.log"), []byte(clfLine(1, "1.2.3.4", "/c")), 0o600), os.WriteFile(at("head.gz"), z.Bytes()[:5], 0o600),
		os.Symlink("nowhere", at("dangling.log")), os.Symlink("itself.log", at("itself.log")), os.Symlink("a.log", at("z.log")),
		os.Symlink("logs", filepath.Join(dir, "current")), os.Chmod(at("closed.log"), 0), os.Chmod(at("closed"), 0),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at("closed"), 0o700) })
	inputs, err := Files(filepath.Join(dir, "current"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, c, err := readAll(t, Options{}, Distinct(inputs)...)
	if err == nil || c.Bad > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	all := strings.Join(got, "")
	whole := strings.Count(all, "/a") + strings.Count(all, "/c") + strings.Count(all, "/d")
	missing := map[string]bool{}
	for _, u := range c.Unread {
		name := filepath.Base(u.Input)
		missing[name] = true
		if (name == "cut.gz") != (u.Lines > 0) || name == "cut.gz" && u.Lines != len(got)-whole {
			t.Errorf("%+v, and %d lines in all", u, len(got))
		}
	}
	wanted := []string{"cut.gz", "head.gz", "dangling.log", "itself.log"}
	if os.Getuid() != 0 { // who may read everything
		wanted = append(wanted, "closed.log", "closed")
	}
	for _, name := range wanted {
		if !missing[name] || len(missing) != len(wanted) {
			t.Errorf("%v could not be read, wanted %v", missing, wanted)
		}
	}
	if n := strings.Count(all, "/a"); n != 1 {
		t.Errorf("a file with a link to it was read %d times", n)
	}
}

// TestCloseEarly: stopping early leaves no goroutine behind (TestMain checks).
func TestCloseEarly(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(clfLine(i, "1.2.3.4", "/"))
	}
	l, err := Open(context.Background(), []Input{text("a", b.String(), true), text("b", b.String(), false)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.next(); err != nil {
		t.Fatal(err)
	}
	if read, of := l.Progress(); read == 0 || of != int64(2*b.Len()) {
		t.Errorf("progress %d of %d", read, of)
	}
	l.Close()
}
