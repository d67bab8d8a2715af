package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

// How often the keeper does what. A crash loses the sightings of one interval: their owners wait that much longer.
const (
	fuidEvery  = 5 * time.Minute
	fuidKeep   = 30 * 24 * time.Hour
	fuidPrefix = "fuid/"
)

// fuidKeeper keeps in the store which fuid values this gateway has seen and when, so that a restart does not turn
// everybody into a stranger.
type fuidKeeper struct {
	r      *Resolver
	store  store.Store
	now    func() time.Time
	log    zerolog.Logger
	saved  time.Time
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newFuidKeeper(r *Resolver, d Deps) *fuidKeeper {
	k := &fuidKeeper{r: r, store: d.Store, now: d.Now, log: d.Log}
	if k.now == nil {
		k.now = time.Now
	}
	return k
}

// start reads what was kept, and from then on saves what is new.
func (k *fuidKeeper) start(ctx context.Context) error {
	now := k.now()
	err := k.store.Scan(ctx, []byte(fuidPrefix), func(key, val []byte, _ time.Duration) error {
		id := key[len(fuidPrefix):]
		if len(id) != 16 || len(val) != 16 {
			return nil // written by another version
		}
		first, last := binary.BigEndian.Uint64(val), binary.BigEndian.Uint64(val[8:])
		k.r.importFuid([16]byte(id), time.Unix(int64(first), 0), time.Unix(int64(last), 0), now) //nolint:gosec // times
		return nil
	})
	if err != nil {
		if !k.store.Shared() {
			return fmt.Errorf("read fuids: %w", err)
		}
		k.log.Warn().Err(err).Msg("the shared store is away: fuids that it knows count as new")
	}
	k.saved = now
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	k.wg.Go(func() {
		store.Every(run, fuidEvery, func() {
			if err := k.save(run); err != nil {
				k.log.Warn().Err(err).Msg("keep fuids")
			}
		})
	})
	return nil
}

// save writes what was seen since the last time.
func (k *fuidKeeper) save(ctx context.Context) error {
	now := k.now()
	var errs []error
	k.r.exportFuids(k.saved, func(id [16]byte, first, last time.Time) bool {
		val := binary.BigEndian.AppendUint64(nil, uint64(first.Unix())) //nolint:gosec // times
		val = binary.BigEndian.AppendUint64(val, uint64(last.Unix()))   //nolint:gosec // times
		if err := k.store.Put(ctx, append([]byte(fuidPrefix), id[:]...), val, fuidKeep); err != nil {
			errs = append(errs, err)
			return false
		}
		return true
	})
	if len(errs) == 0 {
		k.saved = now
	}
	return errors.Join(errs...)
}

// close stops the saving, after saving one last time.
func (k *fuidKeeper) close() error {
	if k.cancel == nil {
		return nil
	}
	k.cancel()
	k.wg.Wait()
	k.cancel = nil
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return k.save(ctx)
}
