package pebblestore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patientFS stands between Pebble and the disk, because Pebble ends the process, or hangs, when a write to its log or
// manifest fails.
//
//   - Patience: a write that fails for a reason that may pass (a full disk) is retried until it works or the store
//     closes. The store's callers are refused at once.
//   - A fence: after a failure that Pebble cannot survive (a failed sync leaves the disk's contents unknown) the store
//     reopens the directory, and the dead instance can no longer write there.
//
// Safe for concurrent use.
type patientFS struct {
	vfs.FS
	health  *health
	patient atomic.Bool   // set once the engine is open: opening must fail, not wait
	giveUp  chan struct{} // closed: waiting ends
	once    sync.Once
	gate    sync.RWMutex // read-locked during each change to the disk
	fenced  bool         // guarded by gate
}

var errFenced = errors.New("engine was given up")

// stallPause separates two attempts of a write; fencePause slows down a dead engine's loops.
const (
	stallPause = 50 * time.Millisecond
	fencePause = time.Second
)

func (p *patientFS) stopWaiting() { p.once.Do(func() { close(p.giveUp) }) }

// fence ends all changes, and waits for the current one.
func (p *patientFS) fence() {
	p.stopWaiting()
	p.gate.Lock()
	p.fenced = true
	p.gate.Unlock()
}

// mayPass reports whether the cause of err can go away while we wait.
func mayPass(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (p *patientFS) change(f func() error) error {
	p.gate.RLock()
	if p.fenced {
		p.gate.RUnlock()
		time.Sleep(fencePause)
		return errFenced
	}
	defer p.gate.RUnlock()
	return f()
}

// persist runs f until it works, fails permanently, or waiting is ended.
func (p *patientFS) persist(op, name string, f func() error) error {
	err := p.change(f)
	if err == nil || !p.patient.Load() || !mayPass(err) {
		return err
	}
	p.health.stall(op+" "+filepath.Base(name), err)
	defer p.health.flow()
	for {
		select {
		case <-p.giveUp:
			return err
		case <-time.After(stallPause):
		}
		if err = p.change(f); err == nil || !mayPass(err) {
			return err
		}
	}
}

func (p *patientFS) open(op, name string, f func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := p.persist(op, name, func() (err error) { file, err = f(); return err })
	if err != nil {
		return nil, err
	}
	return &patientFile{File: file, fs: p, name: name}, nil
}

func (p *patientFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.open("create", name, func() (vfs.File, error) { return p.FS.Create(name, c) })
}

func (p *patientFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.open("open", name, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, opts...) })
}

func (p *patientFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.open("reuse", name, func() (vfs.File, error) { return p.FS.ReuseForWrite(old, name, c) })
}

func (p *patientFS) OpenDir(name string) (vfs.File, error) {
	f, err := p.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &patientFile{File: f, fs: p, name: name}, nil
}

func (p *patientFS) Link(old, name string) error {
	return p.persist("link", name, func() error { return p.FS.Link(old, name) })
}

func (p *patientFS) Rename(old, name string) error {
	return p.persist("rename", name, func() error { return p.FS.Rename(old, name) })
}

func (p *patientFS) Remove(name string) error {
	return p.change(func() error { return p.FS.Remove(name) })
}

func (p *patientFS) RemoveAll(name string) error {
	return p.change(func() error { return p.FS.RemoveAll(name) })
}

func (p *patientFS) MkdirAll(dir string, perm os.FileMode) error {
	return p.persist("make", dir, func() error { return p.FS.MkdirAll(dir, perm) })
}

// Lock does nothing: the store holds the directory, for longer than one engine.
func (p *patientFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (p *patientFS) Unwrap() vfs.FS { return p.FS }

type patientFile struct {
	vfs.File
	fs   *patientFS
	name string
}

// Write continues after a short write.
func (f *patientFile) Write(b []byte) (n int, err error) {
	err = f.fs.persist("write", f.name, func() error {
		m, err := f.File.Write(b[n:])
		n += m
		if err == nil && n < len(b) {
			return io.ErrShortWrite
		}
		return err
	})
	return n, err
}

func (f *patientFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.fs.persist("write", f.name, func() error { n, err = f.File.WriteAt(b, off); return err })
	return n, err
}

// Sync is not retried: the kernel may have dropped the pages, and a second sync would report a false success.
func (f *patientFile) Sync() error {
	return f.fs.change(f.File.Sync)
}

func (f *patientFile) SyncData() error {
	return f.fs.change(f.File.SyncData)
}

func (f *patientFile) SyncTo(length int64) (full bool, err error) {
	err = f.fs.change(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *patientFile) Preallocate(off, length int64) error {
	return f.fs.change(func() error { return f.File.Preallocate(off, length) })
}
