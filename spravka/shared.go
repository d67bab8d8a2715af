package spravka

import (
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

// SharedRing is the key ring in a shared store, wrapped by an operator's secret. A copy, wrapped as well, lies in the
// data directory, for a start while the store is away.
type SharedRing struct {
	KV     store.KV
	Secret []byte
	Copy   string
	Seed   string // a ring of the time before the store was shared, if there is one: then its passes stay good
	Log    zerolog.Logger
}

const (
	// SharedRingKey is where the ring is in a shared store.
	SharedRingKey     = "keys/ring"
	sharedRingTimeout = 10 * time.Second
)

// Load reads the ring, or its copy while the store is away. With create the first gateway makes it.
func (k *SharedRing) Load(create bool) (*Ring, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedRingTimeout)
	defer cancel()
	blob, err := k.KV.Get(ctx, nil, []byte(SharedRingKey))
	if errors.Is(err, store.ErrNotFound) && create {
		blob, err = k.create(ctx)
	}
	if err != nil {
		kept, readErr := os.ReadFile(k.Copy)
		if readErr != nil {
			return nil, fmt.Errorf("read the key ring of the shared store: %w", err)
		}
		k.Log.Warn().Err(err).Str("copy", k.Copy).Msg("the shared store does not give the key ring: taking the last copy")
		return Unwrap(kept, k.Secret)
	}
	ring, err := Unwrap(blob, k.Secret)
	if err != nil {
		return nil, err
	}
	if err := keepCopy(k.Copy, blob); err != nil {
		k.Log.Warn().Err(err).Msg("the next start needs the shared store: its key ring could not be copied")
	}
	return ring, nil
}

// create puts a ring into the store, unless another gateway was faster: then that one's is returned.
func (k *SharedRing) create(ctx context.Context) ([]byte, error) {
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
	first, err := k.KV.Swap(ctx, []byte(SharedRingKey), nil, blob, 0)
	if err != nil {
		return nil, err
	}
	if first {
		k.Log.Info().Msg("made the key ring of all gateways, and put it into the shared store")
		return blob, nil
	}
	return k.KV.Get(ctx, nil, []byte(SharedRingKey))
}

// keepCopy writes a file of mode 0600 as a whole.
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
