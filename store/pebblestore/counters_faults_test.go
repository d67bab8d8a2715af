package pebblestore

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

func TestCountersOnFullDisk(t *testing.T) {
	s, fs, dir := openFaulty(t)
	c, err := s.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int) (last error) {
		for i := range n {
			var d []store.Delta
			for j := range uint64(500) {
				d = append(d, one(j, 1000, 1)...)
			}
			if err := c.Add(bg, d); err != nil {
				last = err
			}
			_ = i
		}
		return last
	}
	must(t, add(4))
	fs.full.Store(true)
	end := time.Now().Add(20 * time.Second)
	waiting := make(chan error, 1)
	go func() { waiting <- add(1) }() // it waits for the disk, or is refused
	for !errors.Is(c.Healthy(), syscall.ENOSPC) {
		if time.Now().After(end) {
			t.Fatal("no update was refused")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := add(1); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an update on a full disk: %v", err)
	}
	if err := c.Healthy(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Healthy: %v", err)
	}
	if n := countOf(t, c, 7, 1000); n < 4 {
		t.Errorf("reads on a full disk: %d", n)
	}
	fs.full.Store(false)
	if err := <-waiting; err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an update that met the full disk: %v", err)
	}
	for c.Healthy() != nil {
		if time.Now().After(end) {
			t.Fatal("not healthy again")
		}
		time.Sleep(5 * time.Millisecond)
	}
	n := countOf(t, c, 7, 1000)
	must(t, add(1))
	must(t, s.Close())
	if got := countOf(t, openCounters(t, dir), 7, 1000); got != n+1 {
		t.Errorf("%d after reopening; want %d", got, n+1)
	}
}

func TestCountersSurviveFailedSync(t *testing.T) {
	s, fs, _ := openFaulty(t)
	c, err := s.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(c.Add(bg, one(7, 1000, 1)), c.eng.sync()))
	fs.sync.Store(true)
	end := time.Now().Add(20 * time.Second)
	for c.Healthy() == nil {
		_ = c.Add(bg, one(8, 1000, 1)) // either answer is right
		if time.Now().After(end) {
			t.Fatal("nothing was noticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	fs.sync.Store(false)
	for c.Healthy() != nil {
		if time.Now().After(end) {
			t.Fatal("not healthy again")
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, c.Add(bg, one(7, 1000, 1)))
	if n := countOf(t, c, 7, 1000); n != 2 {
		t.Errorf("count = %d; want 2", n)
	}
	if c.revived.Load() == 0 {
		t.Error("the engine was not opened again")
	}
}

// TestDamagedCountersCostNoState shows that damaged counters can be moved away on their own.
func TestDamagedCountersCostNoState(t *testing.T) {
	dir := t.TempDir()
	c := openCounters(t, dir)
	must(t, errors.Join(c.s.Put(bg, []byte("ban"), nil, 0), c.Add(bg, one(1, 1, 1)), c.s.Close()))
	files, err := filepath.Glob(filepath.Join(dir, countsName, "MANIFEST*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, p := range files {
		must(t, os.WriteFile(p, []byte("nonsense"), 0o600))
	}
	s := mustOpen(t, dir, nil)
	if _, err := s.OpenCounters(); !errors.Is(err, errDamaged) {
		t.Fatalf("OpenCounters: %v", err)
	}
	must(t, os.Rename(filepath.Join(dir, countsName), filepath.Join(dir, "counters.damaged")))
	k, err := s.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	if n := countOf(t, k, 1, 1); n != 0 {
		t.Errorf("count = %d", n)
	}
	if _, err := s.Get(bg, nil, []byte("ban")); err != nil {
		t.Error(err)
	}
}

const countEnv = "ANTIROBOT_PEBBLESTORE_COUNT"

// TestCountersSurviveKill counts in a child process that is killed: everything before a Sync is there.
func TestCountersSurviveKill(t *testing.T) {
	if dir := os.Getenv(countEnv); dir != "" {
		countUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCountersSurviveKill$")
	cmd.Env = append(os.Environ(), countEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, errors.Join(err, cmd.Start()))
	var synced uint64
	lines := bufio.NewScanner(out)
	for lines.Scan() && synced < 300 {
		if _, err := fmt.Sscanf(lines.Text(), "synced %d", &synced); err != nil {
			continue
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed: an error is expected
	if synced < 300 {
		t.Fatalf("the child got to %d", synced)
	}
	c := openCounters(t, dir)
	if n := countOf(t, c, 7, 1000); n < synced {
		t.Errorf("%d of %d synced updates are left", n, synced)
	}
}

func countUntilKilled(t *testing.T, dir string) {
	limit := few
	limit.syncCounters = time.Hour
	s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 {
		must(t, c.Add(bg, one(7, 1000, 1)))
		if i%100 != 99 {
			continue
		}
		must(t, c.Sync(bg))
		fmt.Printf("synced %d\n", i+1)
	}
}
