package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/store"
	"antirobot/store/storetest"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(fullDiskEnv) != "" {
		os.Exit(m.Run()) // an engine that failed to open leaves goroutines behind: its process ends
	}
	goleak.VerifyTestMain(m)
}

var bg = context.Background()

var few = limits{memTable: 256 << 10, feedKeep: 256}

func mustOpen(t testing.TB, dir string, now func() time.Time) *Store {
	t.Helper()
	s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), Now: now, limit: few})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t,
		func(t *testing.T) store.Store { return mustOpen(t, t.TempDir(), clock.Now) },
		storetest.Options{
			Clock: clock, FeedKept: 256 + 256/8 + chunkEntries,
			Reopen: func(t *testing.T, s store.Store) store.Store {
				must(t, s.Close())
				return mustOpen(t, s.(*Store).dir, clock.Now)
			},
		})
}

func TestKill(t *testing.T) {
	storetest.Kill(t, func(t *testing.T, dir string) store.Store {
		s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: limits{feedKeep: 50_000}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func TestSweepRemovesExpired(t *testing.T) {
	clock := storetest.NewClock()
	s := mustOpen(t, t.TempDir(), clock.Now)
	for i := range 1000 {
		ttl := time.Duration(i%2) * time.Minute // every other one without expiry
		must(t, s.Put(bg, fmt.Append(nil, i), []byte("v"), ttl))
	}
	if _, err := s.Spend(bg, []byte("s"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr(bg, []byte("q"), 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(bg, "t", []byte("short")); err != nil { // without a header
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	chunks := 0
	var from []byte
	for ok := true; ok; ok = from != nil {
		var err error
		if from, err = s.sweepChunk(bg, from); err != nil {
			t.Fatal(err)
		}
		chunks++
	}
	if got := s.swept.Load(); got != 502 || chunks < 4 {
		t.Errorf("swept %d in %d chunks; want 502 in several", got, chunks)
	}
	list, _, err := s.chunk([]byte{spaceKV}, nil)
	if err != nil || len(list) != 256 {
		t.Errorf("left: %d, %v", len(list), err)
	}
}

// TestSweepSparesRewritten shows that a key that is rewritten between the sweep's look and its removal stays.
func TestSweepSparesRewritten(t *testing.T) {
	clock := storetest.NewClock()
	s := mustOpen(t, t.TempDir(), clock.Now)
	must(t, s.Put(bg, []byte("k"), []byte("old"), time.Minute))
	clock.Advance(time.Minute)
	must(t, s.Put(bg, []byte("k"), []byte("new"), time.Minute))
	if _, err := s.do(bg, &request{verb: doExpire, keys: [][]byte{[]byte("kk")}}); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(bg, nil, []byte("k")); err != nil || string(v) != "new" {
		t.Errorf("Get = %q, %v", v, err)
	}
}

func TestFeedTrimsAndGoesOnAfterReopening(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	add := func(n int) {
		t.Helper()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if err := s.Append(bg, "t", []byte("m")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	add(1000)
	ends, err := s.ends("t")
	if err != nil || ends.last != 1000 || ends.last-ends.first+1 < 256 || ends.last-ends.first+1 > 288 {
		t.Fatalf("ends after 1000: %+v, %v", ends, err)
	}
	must(t, s.Close())
	s = mustOpen(t, dir, nil)
	add(1)
	if pos, err := s.Position(bg, "t"); err != nil || pos != "@1001" {
		t.Fatalf("Position = %q, %v", pos, err)
	}
	// A position beyond the end comes from data that is gone.
	if err := s.Follow(bg, "t", "@2000", func(string, []byte) error { return nil }); !errors.Is(err, store.ErrGap) {
		t.Fatalf("Follow from the future: %v", err)
	}
}

// snapshot lists every file under dir with its content, to show that a refused directory was left unchanged.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v", path, info.Mode(), info.ModTime())
		if !info.IsDir() && info.Name() != holderName && info.Name() != lockName {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestForeignDirectoryIsNotTouched(t *testing.T) {
	write := func(path, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			p := filepath.Join(dir, path)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)))
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		says string
	}{
		{"somebody's files", write("photos/cat.jpg", "meow"), `"photos"`},
		{"a state of another program", write("state/CURRENT", "MANIFEST-000001\n"), "no file FORMAT"},
		{"a later format", write("state/FORMAT", "antirobot store 7\n"), "run the version that wrote it"},
		{"another format", write("state/FORMAT", "hello\n"), "not ours"},
		{"a file", func(t *testing.T, dir string) {
			must(t, errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)))
		}, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.Mkdir(dir, 0o700))
			tt.make(t, dir)
			before := snapshot(t, dir)
			s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: few})
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not say %q and where: %v", tt.says, err)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("the directory was changed:\n%s\n%s", before, after)
			}
		})
	}
}

func TestInterruptedFirstStart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"state.new/FORMAT", "state.new/000002.log", "LOCK", "lost+found/x"} {
		p := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600)))
	}
	s := mustOpen(t, dir, nil)
	must(t, s.Put(bg, []byte("k"), nil, 0))
}

func TestDamagedDirectoryIsNotTouched(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(path string, b []byte) ([]byte, bool)
	}{
		{"manifest of nonsense", func(p string, b []byte) ([]byte, bool) {
			return []byte("nonsense"), strings.HasPrefix(filepath.Base(p), "MANIFEST")
		}},
		{"a table is gone", func(p string, _ []byte) ([]byte, bool) { return nil, strings.HasSuffix(p, ".sst") }},
		{"a table is short", func(p string, b []byte) ([]byte, bool) { return b[:len(b)/2], strings.HasSuffix(p, ".sst") }},
		{"the manifest's marker is gone", func(p string, _ []byte) ([]byte, bool) {
			return nil, strings.HasPrefix(filepath.Base(p), "marker.manifest")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, nil)
			for i := range 200 {
				must(t, s.Put(bg, fmt.Append(nil, i), make([]byte, 4096), 0))
			}
			must(t, errors.Join(s.eng.db.Flush(), s.Close()))
			hit := 0
			files, err := filepath.Glob(filepath.Join(dir, "state", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range files {
				b, err := os.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				if b, ok := tt.damage(p, b); ok && b == nil {
					err = os.Remove(p)
					hit++
				} else if ok {
					err = os.WriteFile(p, b, 0o600)
					hit++
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if hit == 0 {
				t.Fatal("found nothing to damage")
			}
			before := snapshot(t, filepath.Join(dir, stateName))
			s, err = New(Deps{Dir: dir, Log: zerolog.Nop(), limit: few})
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "restore a backup") {
				t.Errorf("error: %v", err)
			}
			if after := snapshot(t, filepath.Join(dir, stateName)); after != before {
				t.Errorf("the directory was changed:\n%.2000s\n%.2000s", before, after)
			}
		})
	}
}

const holdEnv = "ANTIROBOT_PEBBLESTORE_HOLD"

func TestSecondProcessIsRefused(t *testing.T) {
	if dir := os.Getenv(holdEnv); dir != "" {
		s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: few})
		if err == nil {
			_ = s.Close()
		}
		fmt.Printf("child: %v\n", err)
		return
	}
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsRefused$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%s is held by process %d; stop it", dir, os.Getpid()); !strings.Contains(string(out), want) {
		t.Errorf("the second process was told %s; want %q", out, want)
	}
	// The same process, twice: the first store keeps working.
	if _, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: few}); !errors.Is(err, errHeld) || !strings.Contains(err.Error(), "this process") {
		t.Errorf("second Open in this process: %v", err)
	}
	if err := s.Put(bg, []byte("k"), nil, 0); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
	mustOpen(t, dir, nil)
}
