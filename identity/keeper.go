package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

// What the keeper does how often. A crash loses the sightings of one interval: their owners wait that much longer.
const (
	fuidEvery  = 5 * time.Minute
	fuidKeep   = 30 * 24 * time.Hour
	fuidPrefix = "fuid/"
)

// FuidKeeper keeps in the store which fuid values this gateway has seen and when, so that a restart does not make
// strangers of everybody.
type FuidKeeper struct {
	Resolver *Resolver
	KV       store.KV
	Shared   bool // a store that is away keeps nobody from starting
	Log      zerolog.Logger
	saved    time.Time
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// Start reads what was kept, and saves what is new from then on.
func (k *FuidKeeper) Start() error {
	now := time.Now()
	err := k.KV.Scan(context.Background(), []byte(fuidPrefix), func(key, val []byte, _ time.Duration) error {
		id := key[len(fuidPrefix):]
		if len(id) != 16 || len(val) != 16 {
			return nil // of another version
		}
		first, last := binary.BigEndian.Uint64(val), binary.BigEndian.Uint64(val[8:])
		k.Resolver.ImportFuid([16]byte(id), time.Unix(int64(first), 0), time.Unix(int64(last), 0), now) //nolint:gosec // times
		return nil
	})
	if err != nil {
		if !k.Shared {
			return err
		}
		k.Log.Warn().Err(err).Msg("the shared store is away: fuids that it knows count as new")
	}
	k.saved = now
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.wg.Go(func() {
		tick := time.NewTicker(fuidEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := k.save(ctx); err != nil {
					k.Log.Warn().Err(err).Msg("keep fuids")
				}
			}
		}
	})
	return nil
}

// save writes what was seen since the last time.
func (k *FuidKeeper) save(ctx context.Context) error {
	now := time.Now()
	var errs []error
	k.Resolver.ExportFuids(k.saved, func(id [16]byte, first, last time.Time) bool {
		val := binary.BigEndian.AppendUint64(nil, uint64(first.Unix())) //nolint:gosec // times
		val = binary.BigEndian.AppendUint64(val, uint64(last.Unix()))   //nolint:gosec // times
		if err := k.KV.Put(ctx, append([]byte(fuidPrefix), id[:]...), val, fuidKeep); err != nil {
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

// Close ends the saving, after a last time.
func (k *FuidKeeper) Close() error {
	if k.cancel == nil {
		return nil
	}
	k.cancel()
	k.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return k.save(ctx)
}
