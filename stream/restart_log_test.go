package stream

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store/frames"
	"antirobot/verdict"
)

// logWorld is a directory with a clock.
type logWorld struct {
	t   *testing.T
	cfg RestartLogDeps
	dir string
	log bytes.Buffer

	clock sync.Mutex // logs read it in goroutines of their own
	at    time.Time
}

func (w *logWorld) now() time.Time {
	w.clock.Lock()
	defer w.clock.Unlock()
	return w.at
}

// pass lets time pass, and returns the time after it.
func (w *logWorld) pass(d time.Duration) time.Time {
	w.clock.Lock()
	defer w.clock.Unlock()
	w.at = w.at.Add(d)
	return w.at
}

func newLogWorld(t *testing.T) *logWorld {
	return &logWorld{t: t, cfg: RestartLogDeps{Keep: time.Hour, Bytes: logFiles * logBatch}, dir: filepath.Join(t.TempDir(), "log"), at: time.Now()}
}

func (w *logWorld) open() *RestartLog {
	w.t.Helper()
	w.cfg.Dir, w.cfg.Now, w.cfg.Log, w.cfg.Metrics = w.dir, w.now, zerolog.New(&w.log), metrics.NewSet()
	y, err := OpenRestartLog(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	y.Prepare(testServices(w.t))()
	w.t.Cleanup(func() { _ = y.Close() })
	return y
}

// add writes events that are so old, each with its number as its path.
func (w *logWorld) add(y *RestartLog, ages ...time.Duration) {
	w.t.Helper()
	for i, age := range ages {
		e := typical(i)
		e.At, e.Path, e.Service = w.now().Add(-age), uint64(i), 0
		y.Add(&e)
	}
	if err := y.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *logWorld) read(y *RestartLog) (paths []uint64) {
	w.t.Helper()
	n := y.Read(context.Background(), func(e *verdict.Event) {
		if !e.Past || !e.Again || e.N == 0 {
			w.t.Errorf("read %+v", e)
		}
		paths = append(paths, e.Path)
	})
	if n != len(paths) {
		w.t.Errorf("%d read, and %d said", len(paths), n)
	}
	return paths
}

func (w *logWorld) want(got []uint64, want ...uint64) {
	w.t.Helper()
	if len(got) != len(want) {
		w.t.Fatalf("read %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			w.t.Fatalf("read %v, want %v", got, want)
		}
	}
}

// TestRestartLog: what was written before this start is read once, in order; what is too old is not, nor what a clock that was ahead wrote.
func TestRestartLog(t *testing.T) {
	w := newLogWorld(t)
	y := w.open()
	w.want(w.read(y))
	w.add(y, 61*time.Minute, 59*time.Minute, time.Minute, -time.Minute)
	second := w.open()
	w.want(w.read(second), 1, 2)
	w.want(w.read(second))
	w.add(second, time.Second)
	w.want(w.read(w.open()), 1, 2, 0)
}

// TestRestartLogOfDamage: a damaged batch is skipped, and no other.
func TestRestartLogOfDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		left   int // of the first file
	}{
		{"whole", func(b []byte) []byte { return b }, 1},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, 0},
		{"cut in the frame", func(b []byte) []byte { return append(b, 1, 2, 3) }, 1},
		{"a bit", func(b []byte) []byte { b[len(b)-5] ^= 4; return b }, 0},
		{"a length", func(b []byte) []byte { b[5] = 0xff; return b }, 0},
		{"empty", func([]byte) []byte { return nil }, 0},
		{"twice", func(b []byte) []byte { return append(b, b...) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLogWorld(t)
			w.add(w.open(), time.Minute)
			files, err := w.open().files()
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			w.pass(time.Second)
			w.add(w.open(), time.Minute, time.Second)
			path := filepath.Join(w.dir, files[0])
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := w.read(w.open()); len(got) != c.left+2 {
				t.Errorf("read %v, want %d and two", got, c.left)
			}
		})
	}
}

// TestRestartLogIsBounded: the directory never takes more than its bytes, and the newest events are the ones that stay.
func TestRestartLogIsBounded(t *testing.T) {
	w := newLogWorld(t)
	y := w.open()
	const many = 30_000
	for i := range many {
		e := typical(i)
		e.At, e.Path, e.Service = w.pass(time.Millisecond), uint64(i), 0
		y.Add(&e)
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	var size int64
	files, err := y.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(filepath.Join(w.dir, f))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > w.cfg.Bytes+logBatch || size < w.cfg.Bytes*3/4 || y.errors.Get() != 0 {
		t.Errorf("%d bytes in %d files, of %d; %d errors", size, len(files), w.cfg.Bytes, y.errors.Get())
	}
	got := w.read(w.open())
	if n := len(got); n < 2000 || n > many*2/3 || got[n-1] != many-1 || got[0] != uint64(many-n) {
		t.Errorf("%d events, from %d to %d", n, got[0], got[n-1])
	}
	w.cfg.Keep = time.Minute
	w.pass(time.Hour)
	y = w.open()
	if files, err := y.files(); err != nil || len(files) != 0 {
		t.Errorf("files that nobody will read: %v, %v", files, err)
	}
}

// TestRestartLogWithoutDisk: what can't be written is counted and told, and written again once that works.
func TestRestartLogWithoutDisk(t *testing.T) {
	w := newLogWorld(t)
	y := w.open()
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	e := typical(1)
	e.At, e.Service = w.now().Add(-time.Second), 0
	y.Add(&e)
	y.flush()
	if y.errors.Get() == 0 || !bytes.Contains(w.log.Bytes(), []byte("can't be written")) {
		t.Errorf("%d errors, log %s", y.errors.Get(), w.log.Bytes())
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.add(y, time.Second)
	if got := w.read(w.open()); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

// TestRestartLogErases: what names a subject is gone from the files, whether they are finished or not, and the rest is read as before.
func TestRestartLogErases(t *testing.T) {
	w := newLogWorld(t)
	w.add(w.open(), 3*time.Minute, 2*time.Minute)
	w.pass(time.Second)
	y := w.open()
	for i := range 4 {
		e := typical(i)
		e.At, e.Path, e.Service = w.now().Add(-time.Minute), uint64(10+i), 0
		y.Add(&e)
	}
	sub := typical(1).Subjects[1] // of events 1 and 11
	if n, err := y.Erase(sub); err != nil || n != 2 {
		t.Errorf("%d events erased, %v", n, err)
	}
	if n, err := y.Erase(sub); err != nil || n != 0 {
		t.Errorf("%d events erased again, %v", n, err)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("files %v, %v", files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, sub.ID[12:]) {
			t.Errorf("%s still has the address, %v", f, err)
		}
	}
	w.want(w.read(y), 0)
	w.add(y, time.Second)
	w.want(w.read(w.open()), 0, 10, 12, 13, 0)
}

func FuzzRestartLog(f *testing.F) {
	e := typical(1)
	batch := appendEvent(appendHead(nil, head{1, 2, 3}), &e, 1, 3)
	f.Add(frames.Append(nil, batch))
	f.Add(batch)
	f.Fuzz(func(t *testing.T, data []byte) {
		l := new(RestartLog)
		l.Prepare(testServices(t))()
		_ = batches(bytes.NewReader(data), func(batch []byte) error {
			return l.readBatch(batch, func(e *verdict.Event) error {
				if e.N == 0 {
					t.Error("an event without subjects")
				}
				return nil
			})
		})
		_, _, _ = without(data, typical(1).Subjects[0])
		_ = l.readBatch(data, func(*verdict.Event) error { return nil })
	})
}
