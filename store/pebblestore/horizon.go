package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"

	"antirobot/store"
)

// horizon watches the clock and writes its horizon to disk.
type horizon struct {
	committer *committer
	clock     *store.Clock
	log       zerolog.Logger
}

const (
	// clockHold is how long the clock must have stayed after a jump ahead before entries that expired by it are
	// removed.
	clockHold    = 24 * time.Hour
	lookAtClock  = time.Second
	writeHorizon = time.Minute
)

// lastHorizon reads the horizon of this directory's previous life; zero without one.
func (s *horizon) lastHorizon() (at time.Time, doubt time.Duration) {
	err := s.committer.with(func(e *engine) error {
		val, closer, err := e.db.Get([]byte{spaceClock})
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer closer.Close()
		if _, payload, err := split(val); err == nil && len(payload) == 16 {
			ms, ahead := binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:])
			at, doubt = time.UnixMilli(int64(ms)), time.Duration(ahead)*time.Millisecond //nolint:gosec // as written
		}
		return nil
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("store: the last time of this directory is not known")
	}
	return at, doubt
}

func (s *horizon) watchClock() {
	tick := time.NewTicker(lookAtClock)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-s.committer.closing:
			return
		}
		if n%int(writeHorizon/lookAtClock) == 0 {
			s.writeClock()
		} else {
			s.clock.Look()
		}
	}
}

// writeClock writes the horizon to disk. New does so first: even a short-lived process must leave its time for the
// next.
func (s *horizon) writeClock() {
	ctx, cancel := context.WithTimeout(context.Background(), s.committer.limit.writeTimeout)
	defer cancel()
	_ = s.keepHorizon(ctx) // health reports a disk that accepts no writes
}

func (s *horizon) keepHorizon(ctx context.Context) error {
	at, doubt := s.clock.Look()
	val := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))      //nolint:gosec // read back as it is
	val = binary.BigEndian.AppendUint64(val, uint64(doubt.Milliseconds())) //nolint:gosec // the same
	_, err := s.committer.do(ctx, &request{verb: doPut, key: []byte{spaceClock}, val: val})
	return err
}

func (s *horizon) Horizon() time.Time { return s.clock.Horizon() }

func (s *horizon) Jumps() uint64 { return s.clock.Jumps() }

func (s *horizon) WriteMetrics(w io.Writer) { s.clock.WriteMetrics(w) }

// before is the horizon in Unix milliseconds, but never after at.
func (s *horizon) before(at int64) int64 { return min(at, s.clock.Horizon().UnixMilli()) }
