package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// formatVersion is raised by hand, together with FORMAT if older programs could not read the files.
const formatVersion = pebble.FormatTableFormatV6

// engine is one life of a Pebble instance. When it fails, the store opens another.
type engine struct {
	db     *pebble.DB
	fs     *patientFS
	cache  *pebble.Cache
	once   sync.Once
	failed chan struct{} // closed after err is set
	err    error
}

func (e *engine) fail(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.failed)
	})
}

// died returns the cause, or nil while the engine lives.
func (e *engine) died() error {
	select {
	case <-e.failed:
		return e.err
	default:
		return nil
	}
}

type setup struct {
	base   vfs.FS
	log    zerolog.Logger
	health *health
	tune   func(*pebble.Options)
}

// openEngine opens the Pebble directory at path. With fresh it must not exist; otherwise it must.
func (u setup) openEngine(path string, fresh, readOnly bool) (*engine, error) {
	e := &engine{failed: make(chan struct{})}
	e.fs = &patientFS{FS: u.base, health: u.health, giveUp: make(chan struct{})}
	if readOnly {
		e.fs.fence() // reading must not change anything, whatever Pebble thinks
	}
	log := engineLog{u.log, e}
	opts := &pebble.Options{
		FS:                 e.fs,
		FormatMajorVersion: formatVersion,
		ErrorIfExists:      fresh,
		ErrorIfNotExists:   !fresh,
		ReadOnly:           readOnly,
		Logger:             log,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if e.died() == nil {
					u.log.Error().Err(err).Msg("store: background work of the engine")
				}
			},
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				u.health.set(ailDamaged, fmt.Errorf("%w: %s: %w", errDamaged, i.Path, i.Details))
			},
			DiskSlow: func(i pebble.DiskSlowInfo) { u.log.Warn().Stringer("what", i).Msg("store: slow disk") },
		},
	}
	u.tune(opts)
	e.cache = opts.Cache
	if err := e.open(path, opts); err != nil {
		return nil, err
	}
	e.fs.patient.Store(true)
	return e, nil
}

// open opens the engine, or returns its first failure, from which Pebble would not return but retry forever. The
// abandoned attempt does not touch the disk.
func (e *engine) open(path string, opts *pebble.Options) error {
	type opened struct {
		db  *pebble.DB
		err error
	}
	end := make(chan opened, 1)
	go func() {
		db, err := openSafely(path, opts)
		end <- opened{db, err}
	}()
	var got opened
	select {
	case got = <-end:
	case <-e.failed:
		e.fs.fence()
		go func() {
			if late := <-end; late.err == nil {
				e.db = late.db
				e.bury()
			}
		}()
		return e.err
	}
	if got.err == nil {
		if got.err = e.died(); got.err == nil {
			e.db = got.db
			return nil
		}
		_ = got.db.Close() // the first error is the one to report
	}
	e.cache.Unref()
	return got.err
}

func openSafely(path string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("engine: %v", r)
		}
	}()
	return pebble.Open(path, opts)
}

func (e *engine) sync() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("engine: %v", p)
		}
	}()
	if err := e.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return e.died()
}

// checkpoint links the engine's files into a new directory, completed by its FORMAT.
func (e *engine) checkpoint(path string) error {
	err := e.died()
	if err == nil {
		err = e.db.Checkpoint(path, pebble.WithFlushedWAL())
	}
	if err == nil {
		err = os.Chmod(path, 0o700) //nolint:gosec // a directory of secrets, for its owner alone
	}
	if err == nil {
		err = writeSynced(filepath.Join(path, formatName), format)
	}
	return wrap("checkpoint", err)
}

// close closes the engine. A panic of Pebble becomes an error.
func (e *engine) close() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine: %v", r)
		}
	}()
	e.fs.stopWaiting()
	err = e.db.Close()
	e.cache.Unref()
	return err
}

func (u setup) build(path string) error {
	e, err := u.openEngine(path, true, false)
	if err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	return e.close()
}

// start opens the directory path after examining it without changing anything.
func (u setup) start(path string) (*engine, error) {
	if err := u.room(filepath.Dir(path)); err != nil {
		return nil, err
	}
	look, err := u.openEngine(path, false, true)
	if err == nil {
		err = look.close()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; restore a backup, or move the directory away to start empty (nothing "+
			"was changed)",
			errDamaged, path, err)
	}
	return u.openEngine(path, false, false)
}

// roomBytes is the least that an engine needs to open.
const roomBytes = 256 << 10

func (u setup) room(dir string) (err error) {
	name := filepath.Join(dir, roomName)
	defer func() {
		if err != nil {
			err = fmt.Errorf("the data directory %s does not take %d KiB: %w", dir, roomBytes>>10, err)
		}
	}()
	f, err := u.base.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Repeat([]byte{1}, roomBytes))
	return errors.Join(err, f.Sync(), f.Close(), u.base.Remove(name))
}

const (
	reviveFirst = 100 * time.Millisecond
	reviveLast  = 5 * time.Second
)

// revive reopens the directory of a dead engine until it works, and calls waiting before each attempt. It returns nil
// if closing is closed first. The caller installs the new engine and buries the dead one.
func (u setup) revive(path string, dead *engine, cause error, closing <-chan struct{}, waiting func()) *engine {
	u.health.set(ailEngine, fmt.Errorf("store: the engine failed and is being opened again: %w", cause))
	dead.fs.fence()
	for pause := reviveFirst; ; pause = min(2*pause, reviveLast) {
		select {
		case <-closing:
			return nil
		case <-time.After(pause):
		}
		waiting()
		err := u.room(filepath.Dir(path)) // each failed attempt of Pebble leaks its tables
		var eng *engine
		if err == nil {
			eng, err = u.openEngine(path, false, false)
		}
		if err == nil {
			err = eng.probe()
		}
		if err == nil {
			return eng
		}
		u.health.set(ailEngine, fmt.Errorf("store: the engine failed (%w) and does not open again: %w", cause, err))
	}
}

func (e *engine) probe() error {
	err := e.db.LogData([]byte("probe"), pebble.Sync)
	if err == nil {
		err = e.died()
	}
	if err != nil {
		e.fs.fence()
		go e.bury()
		return fmt.Errorf("write store: %w", err)
	}
	return nil
}

// bury closes a dead engine. It may hang in a lock that Pebble left held, which costs memory only: nothing waits for
// it.
func (e *engine) bury() { _ = e.close() }

// tuneState sets options for few, valuable, mostly small values.
func tuneState(o *pebble.Options, memTable int64) {
	o.Cache = pebble.NewCache(stateCache)
	o.MemTableSize = uint64(memTable) //nolint:gosec // positive
	o.MaxOpenFiles = 256
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
}

// engineLog passes on Pebble's messages. Fatalf, which would end the process, marks the engine as dead; callers of
// Pebble check that.
type engineLog struct {
	log zerolog.Logger
	e   *engine
}

func (l engineLog) Infof(format string, args ...any) { l.log.Debug().Msgf("store: "+format, args...) }

func (l engineLog) Errorf(format string, args ...any) {
	if l.e.died() == nil {
		l.log.Error().Msgf("store: "+format, args...)
	}
}

func (l engineLog) Fatalf(format string, args ...any) {
	if l.e.died() != nil {
		return // it repeats this message again and again
	}
	err := fmt.Errorf("engine: "+format, args...)
	l.log.Error().Err(err).Msg("store: the engine failed")
	l.e.fail(err)
}

func (l engineLog) Eventf(context.Context, string, ...any) {}
func (l engineLog) IsTracingEnabled(context.Context) bool  { return false }
