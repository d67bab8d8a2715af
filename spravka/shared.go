package spravka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

// SharedRing is the key ring in a shared store, wrapped with an operator's secret. A copy, also wrapped, is kept in the
// data directory, for a start while the store is unavailable.
type SharedRing struct {
	KV     store.KV
	Secret []byte
	Copy   string
	Seed   string // a ring from before the store was shared, if there is one: its passes then stay valid
	Log    zerolog.Logger
	Losses *store.Losses // nil: a ring that the store loses is put back without a report

	opened []byte // the ring that was opened or made last, wrapped
	ring   *Ring  // what that is
	told   []byte // the ring that was warned about
	end    context.CancelFunc
	done   chan struct{}
}

const (
	// SharedRingKey is the key of the ring in a shared store.
	SharedRingKey     = "keys/ring"
	sharedRingTimeout = 10 * time.Second // of one call of the store: stretching the secret between two may take a busy machine longer
	// sharedRingEvery is how often a gateway checks whether the store still has the ring.
	sharedRingEvery = 5 * time.Second
)

// Load reads the ring, or its copy while the store is unavailable. With create, the first gateway makes it.
func (k *SharedRing) Load(create bool) (*Ring, error) {
	ctx := context.Background()
	blob, err := k.get(ctx)
	if errors.Is(err, store.ErrNotFound) && create {
		blob, err = k.create(ctx)
	}
	if err != nil {
		kept, readErr := os.ReadFile(k.Copy)
		if readErr != nil {
			return nil, fmt.Errorf("read the key ring of the shared store: %w", err)
		}
		k.Log.Warn().Err(err).Str("copy", k.Copy).Msg("the shared store does not give the key ring: taking the last copy")
		return k.open(kept)
	}
	ring, err := k.open(blob)
	if err != nil {
		return nil, err
	}
	if err := keepCopy(k.Copy, blob); err != nil {
		k.Log.Warn().Err(err).Msg("the next start needs the shared store: its key ring could not be copied")
	}
	return ring, nil
}

// open unwraps a ring. The one that is known already needs no work, which is made to be much.
func (k *SharedRing) open(blob []byte) (*Ring, error) {
	if k.ring != nil && bytes.Equal(blob, k.opened) {
		return k.ring, nil
	}
	ring, err := Unwrap(blob, k.Secret)
	if err == nil {
		k.opened, k.ring = blob, ring
	}
	return ring, err
}

// Start checks until Close whether the store still has the ring, and puts the copy back if it does not.
func (k *SharedRing) Start(ctx context.Context) error {
	ctx, k.end = context.WithCancel(context.WithoutCancel(ctx))
	k.done = make(chan struct{})
	go func() {
		defer close(k.done)
		store.Every(ctx, sharedRingEvery, func() {
			if err := k.check(ctx); err != nil && ctx.Err() == nil {
				k.Log.Debug().Err(err).Msg("the key ring of the shared store was not looked at")
			}
		})
	}()
	return nil
}

// Close ends what Start started.
func (k *SharedRing) Close() error {
	k.end()
	<-k.done
	return nil
}

func (k *SharedRing) check(ctx context.Context) error {
	blob, err := k.get(ctx)
	if errors.Is(err, store.ErrNotFound) {
		_, err = k.putBack(ctx)
		return err
	}
	if err != nil {
		return err
	}
	kept, err := os.ReadFile(k.Copy)
	if err == nil && !bytes.Equal(kept, blob) && !bytes.Equal(k.told, blob) {
		k.told = blob
		k.Log.Warn().Msg("the shared store has another key ring than this gateway read: reload, or what others seal with a new key does not open here")
	}
	return err
}

// putBack puts the copy into a store that has no ring, and returns it, or the ring that another gateway put there. If there
// is no copy that the secret opens, it returns nil, or the reason.
func (k *SharedRing) putBack(ctx context.Context) ([]byte, error) {
	kept, err := os.ReadFile(k.Copy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := k.open(kept); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Copy, err)
	}
	wrote, err := k.putFirst(ctx, kept)
	if err != nil {
		return nil, err
	}
	if wrote {
		k.Losses.Note("key rings", 1)
		return kept, nil
	}
	return k.get(ctx)
}

// create puts a ring into the store, unless another gateway was faster: then it returns that gateway's ring. It prefers
// this gateway's copy of the ring that the store had: without it, other gateways' passes would be invalid here.
func (k *SharedRing) create(ctx context.Context) ([]byte, error) {
	if blob, err := k.putBack(ctx); blob != nil || err != nil {
		return blob, err
	}
	ring, err := LoadRing(k.Seed)
	if errors.Is(err, fs.ErrNotExist) {
		ring, err = NewRing([]Key{MakeKey(time.Now())})
	}
	if err != nil {
		return nil, err
	}
	blob, err := Wrap(ring, k.Secret)
	if err != nil {
		return nil, err
	}
	k.opened, k.ring = blob, ring
	first, err := k.putFirst(ctx, blob)
	if err != nil {
		return nil, err
	}
	if first {
		k.Log.Info().Msg("made the key ring of all gateways, and put it into the shared store")
		return blob, nil
	}
	return k.get(ctx)
}

// get asks the store for the ring.
func (k *SharedRing) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedRingTimeout)
	defer cancel()
	return k.KV.Get(ctx, nil, []byte(SharedRingKey))
}

// putFirst puts a ring into the store, unless it has one.
func (k *SharedRing) putFirst(ctx context.Context, blob []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedRingTimeout)
	defer cancel()
	return k.KV.Swap(ctx, []byte(SharedRingKey), nil, blob, 0)
}

// keepCopy writes a file of mode 0600 atomically.
func keepCopy(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys.*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
