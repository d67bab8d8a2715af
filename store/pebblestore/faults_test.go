package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// faultyFS is a disk that fills up, or whose syncs fail, when the test says so.
type faultyFS struct {
	vfs.FS
	full atomic.Bool // writes and creations: ENOSPC
	only string      // with full: only files whose name contains this
	sync atomic.Bool // syncs: EIO
	slow atomic.Bool // syncs wait until this is false again

	synced atomic.Int64 // how many syncs have worked
}

func (f *faultyFS) err(op, name string) error {
	if f.full.Load() && strings.Contains(filepath.Base(name), f.only) {
		return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	return nil
}

func (f *faultyFS) wrap(file vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f, name}, nil
}

func (f *faultyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.err("create", name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return f.wrap(file, err, name)
}

func (f *faultyFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.err("reuse", name); err != nil {
		return nil, err
	}
	file, err := f.FS.ReuseForWrite(old, name, c)
	return f.wrap(file, err, name)
}

func (f *faultyFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, err, name)
}

type faultyFile struct {
	vfs.File
	fs   *faultyFS
	name string
}

// Write writes half of its input before the disk is full, as a real disk may.
func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.fs.err("write", f.name); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f *faultyFile) syncErr() error {
	for f.fs.slow.Load() {
		time.Sleep(time.Millisecond)
	}
	if f.fs.sync.Load() {
		return &os.PathError{Op: "sync", Path: f.name, Err: syscall.EIO}
	}
	return nil
}

func (f *faultyFile) Sync() error {
	if err := f.syncErr(); err != nil {
		return err
	}
	defer f.fs.synced.Add(1)
	return f.File.Sync()
}

func (f *faultyFile) SyncData() error {
	if err := f.syncErr(); err != nil {
		return err
	}
	defer f.fs.synced.Add(1)
	return f.File.SyncData()
}

func openFaulty(t *testing.T) (*Store, *faultyFS, string) {
	t.Helper()
	return openFaultyFor(t, 20*time.Second) // so that a busy machine is not taken for a slow disk
}

// openFaultyFor is openFaulty for a store that waits so long for a write.
func openFaultyFor(t *testing.T, wait time.Duration) (*Store, *faultyFS, string) {
	t.Helper()
	dir := t.TempDir()
	fs := &faultyFS{FS: vfs.Default}
	limit := few
	limit.writeTimeout = wait
	s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), fs: fs, limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, fs, dir
}

// writeUntil writes until f is true for the error (or nil) that a write returned.
func writeUntil(t *testing.T, s *Store, what string, f func(error) bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for i := 0; time.Now().Before(end); i++ {
		ctx, cancel := context.WithTimeout(bg, 60*time.Second)
		err := s.Put(ctx, fmt.Append(nil, "until", i), make([]byte, 8192), 0)
		cancel()
		if f(err) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("no write %s within 20 seconds; health: %v", what, s.Healthy())
}

func worked(err error) bool { return err == nil }

func TestDiskFullIsSurvived(t *testing.T) {
	s, fs, dir := openFaulty(t)
	acked := map[string]bool{}
	var mu sync.Mutex
	put := func(key string) error {
		err := s.Put(bg, []byte(key), make([]byte, 2000), 0)
		if err == nil {
			mu.Lock()
			acked[key] = true
			mu.Unlock()
		}
		return err
	}
	for round := range 3 { // each round fills tables, so that flushes and manifest writes meet the full disk too
		for i := range 200 {
			must(t, put(fmt.Sprint("before", round, "/", i)))
		}
		fs.full.Store(true)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() { _ = put(fmt.Sprint("during", round, "/", w)) }) // either answer is right
		}
		writeUntil(t, s, "was refused for the full disk", func(err error) bool { return errors.Is(err, syscall.ENOSPC) })
		wg.Wait() // nobody hangs
		if err := s.Healthy(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "disk refuses writes") {
			t.Fatalf("Healthy on a full disk: %v", err)
		}
		if err := put("refused"); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a write on a full disk: %v; want a refusal, and none that has waited for the disk", err)
		}
		if _, err := s.Get(bg, nil, []byte("before0/0")); err != nil {
			t.Fatalf("reads end with the disk: %v", err)
		}
		fs.full.Store(false)
		writeUntil(t, s, "worked after there was room", worked)
		if err := s.Healthy(); err != nil {
			t.Fatalf("Healthy after there was room: %v", err)
		}
		if err := put(fmt.Sprint("after", round)); err != nil { // in the log this comes after the write that waited
			t.Fatal(err)
		}
	}
	if n := s.revived.Load(); n != 0 {
		t.Errorf("a full disk cost %d engines", n)
	}
	wantAcked(t, s, acked)
	must(t, s.Close())
	wantAcked(t, mustOpen(t, dir, nil), acked)
}

func wantAcked(t *testing.T, s *Store, acked map[string]bool) {
	t.Helper()
	for key := range acked {
		if _, err := s.Get(bg, nil, []byte(key)); err != nil {
			t.Errorf("%s was acknowledged: %v", key, err)
		}
	}
}

func TestCloseOnFullDisk(t *testing.T) {
	s, fs, dir := openFaulty(t)
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	fs.full.Store(true)
	writeUntil(t, s, "was refused", func(err error) bool { return err != nil })
	if err := s.Close(); err != nil && strings.Contains(err.Error(), "did not answer") { // other results depend on what was in progress
		t.Error(err)
	}
	fs.full.Store(false)
	wantAcked(t, mustOpen(t, dir, nil), map[string]bool{"k": true})
}

func TestFailedSyncIsSurvived(t *testing.T) {
	s, fs, dir := openFaulty(t)
	acked := map[string]bool{}
	for round := range 3 {
		for i := range 100 {
			key := fmt.Sprint(round, "/", i)
			must(t, s.Put(bg, []byte(key), make([]byte, 2000), 0))
			acked[key] = true
		}
		must(t, s.Append(bg, "t", []byte("m")))
		fs.sync.Store(true)
		if err := s.Append(bg, "t", []byte("perhaps")); err == nil {
			t.Fatal("acknowledged without a sync")
		}
		writeUntil(t, s, "failed", func(err error) bool { return err != nil })
		if _, err := s.Get(bg, nil, []byte("0/0")); err != nil {
			t.Errorf("reads end with the disk: %v", err)
		}
		time.Sleep(300 * time.Millisecond) // some attempts to reopen fail
		if err := s.Healthy(); err == nil {
			t.Fatal("healthy though no sync works")
		}
		fs.sync.Store(false)
		writeUntil(t, s, "worked again", worked)
		if err := s.Healthy(); err != nil {
			t.Fatalf("Healthy after syncs work: %v", err)
		}
	}
	if n := s.revived.Load(); n < 3 {
		t.Errorf("the engine was opened again %d times; want each time", n)
	}
	wantAcked(t, s, acked)
	wantWholeFeed(t, s, 3)
	must(t, s.Close())
	wantAcked(t, mustOpen(t, dir, nil), acked)
}

// wantWholeFeed checks that the numbers of topic t have no gap, and that the n messages "m" are among them: messages that
// were not acknowledged may be present or not.
func wantWholeFeed(t *testing.T, s *Store, n int) {
	t.Helper()
	must(t, s.Append(bg, "t", []byte("end")))
	got, next := 0, uint64(1)
	err := s.Follow(bg, "t", "0", func(pos string, msg []byte) error {
		switch {
		case pos != store.FormatPosition(next):
			return fmt.Errorf("position %s after %d", pos, next-1)
		case string(msg) == "end":
			return context.Canceled
		case string(msg) == "m":
			got++
		}
		next++
		return nil
	})
	if !errors.Is(err, context.Canceled) || got != n {
		t.Errorf("feed: %d of %d messages, %v", got, n, err)
	}
}

func TestSlowDiskIsToldAndForgotten(t *testing.T) {
	s, fs, _ := openFaultyFor(t, 200*time.Millisecond)
	fs.slow.Store(true)
	defer fs.slow.Store(false)
	err := s.Put(bg, []byte("k"), []byte("v"), 0) // the disk does not come back by itself
	if err == nil || !strings.Contains(err.Error(), "takes longer") {
		t.Fatalf("Put on a disk that hangs: %v", err)
	}
	if err := s.Healthy(); err == nil {
		t.Error("healthy though the disk hangs")
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := s.Put(ctx, []byte("k"), nil, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	fs.slow.Store(false)
	writeUntil(t, s, "worked", worked)
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
}

func TestDamagedBlockIsToldAndServingGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	for i := range 200 {
		must(t, s.Put(bg, fmt.Append(nil, "k", i), make([]byte, 4096), 0))
	}
	must(t, errors.Join(s.eng.db.Flush(), s.Close()))
	breakBlocks(t, dir)
	s = mustOpen(t, dir, nil)
	failed := 0
	for i := range 200 {
		if _, err := s.Get(bg, nil, fmt.Append(nil, "k", i)); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("the damage was not noticed")
	}
	if err := s.Healthy(); !errors.Is(err, errDamaged) {
		t.Errorf("Healthy: %v", err)
	}
	if err := s.Put(bg, []byte("new"), []byte("v"), 0); err != nil {
		t.Errorf("Put: %v", err)
	}
	wantAcked(t, s, map[string]bool{"new": true})
}
