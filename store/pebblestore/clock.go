package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// lastHorizon reads what watchClock wrote in the previous life of this directory; zero values if there is nothing.
func (s *Store) lastHorizon() (horizon time.Time, doubt time.Duration) {
	err := s.view(func(db *pebble.DB) error {
		val, closer, err := db.Get([]byte{spaceClock})
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer closer.Close()
		if _, payload, err := split(val); err == nil && len(payload) == 16 {
			horizon = time.UnixMilli(int64(binary.BigEndian.Uint64(payload)))              //nolint:gosec // as it was written
			doubt = time.Duration(binary.BigEndian.Uint64(payload[8:])) * time.Millisecond //nolint:gosec // the same
		}
		return nil
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("store: the last time of this directory is not known")
	}
	return horizon, doubt
}

const (
	lookAtClock  = time.Second
	writeHorizon = time.Minute
)

// watchClock watches the clock and writes its horizon to disk, as writeClock has done.
func (s *Store) watchClock() {
	tick := time.NewTicker(lookAtClock)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
		if n%int(writeHorizon/lookAtClock) == 0 {
			s.writeClock()
		} else {
			s.clock.Look()
		}
	}
}

// writeClock writes the clock's horizon to disk. It is there before the store is used: else a process that lives for a moment
// would leave nothing to measure the next one's clock by.
func (s *Store) writeClock() {
	horizon, doubt := s.clock.Look()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.WriteTimeout)
	defer cancel()
	_ = s.keepHorizon(ctx, horizon, doubt) // health reports a disk that accepts no writes
}

func (s *Store) keepHorizon(ctx context.Context, horizon time.Time, doubt time.Duration) error {
	val := binary.BigEndian.AppendUint64(nil, uint64(horizon.UnixMilli())) //nolint:gosec // read back as it is
	val = binary.BigEndian.AppendUint64(val, uint64(doubt.Milliseconds())) //nolint:gosec // the same
	_, err := s.do(ctx, &request{verb: doPut, key: []byte{spaceClock}, val: val})
	return err
}

// Horizon implements store.Keeper.
func (s *Store) Horizon() time.Time { return s.clock.Horizon() }

// Jumps implements store.Keeper.
func (s *Store) Jumps() uint64 { return s.clock.Jumps() }

// WriteMetrics writes the numbers of the clock in the Prometheus text format.
func (s *Store) WriteMetrics(w io.Writer) { s.clock.WriteMetrics(w) }

// horizon is Horizon in Unix milliseconds, but never after at.
func (s *Store) horizon(at int64) int64 { return min(at, s.clock.Horizon().UnixMilli()) }
