package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint writes a consistent copy of the store and of its counters, as of now, into dir, which is made and must not
// exist. Writes go on meanwhile. Tables are linked, so dir must be in the file system of the store, and costs little room.
// What opens a store opens the copy.
func (s *Store) Checkpoint(dir string) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.eng == nil {
		return errors.New("checkpoint: the store is closed")
	}
	if err := s.eng.checkpoint(filepath.Join(dir, stateName)); err != nil {
		return err
	}
	s.countersMu.Lock()
	c := s.counters
	s.countersMu.Unlock()
	if c != nil {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if c.eng == nil {
			return errors.New("checkpoint: the counters are closed")
		}
		if err := c.eng.checkpoint(filepath.Join(dir, countsName)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// Checkpoint writes a consistent copy of the log, as of now, into dir, as that of a Store does.
func (l *Log) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return l.with(func(e *engine) error {
		if err := e.checkpoint(filepath.Join(dir, stateName)); err != nil {
			return err
		}
		return syncDir(dir)
	})
}

// checkpoint links the engine's files into a new directory, which becomes complete with its FORMAT.
func (e *engine) checkpoint(path string) error {
	if err := e.died(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := e.db.Checkpoint(path, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory of secrets, for its owner alone
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := writeSynced(filepath.Join(path, formatName), format); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
