package sources

import (
	"context"
	"errors"
	"strconv"
	"time"

	"antirobot/store"
)

// StoreStorage is a Storage in the store: it survives a restart, and several gateways share it.
type StoreStorage struct {
	store  store.Store
	quick  store.Store // the same; counts and tokens need no disk
	prefix []byte
	now    func() time.Time
	empty  *MemoryStorage // until when buckets are known to be empty: a flood does not reach the store
	draws  draws
}

// maxEmpty bounds how many empty buckets are remembered.
const maxEmpty = 1 << 16

// NewStoreStorage returns a storage whose keys in st begin with prefix. Buckets read the time from now (nil: time.Now).
func NewStoreStorage(st store.Store, prefix string, now func() time.Time) *StoreStorage {
	if now == nil {
		now = time.Now
	}
	return &StoreStorage{store: st, quick: store.Hasten(st), prefix: []byte(prefix), now: now, empty: NewMemoryStorage(now, maxEmpty)}
}

// maxSwaps bounds the tries of a change that others disturb.
const maxSwaps = 100

var errBusy = errors.New("the value changes too fast")

func (d *StoreStorage) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(d.prefix)+len(key)), d.prefix...), key...)
}

// Get reads what Set wrote; a counter is read with Incr of 0.
func (d *StoreStorage) Get(ctx context.Context, key []byte) ([]byte, bool, error) {
	v, err := d.store.Get(ctx, nil, d.key(key))
	if err == nil {
		return v, true, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, false, err
	}
	n, err := d.store.Incr(ctx, d.key(key), 0, 0)
	if err != nil || n == 0 {
		return nil, false, err
	}
	return strconv.AppendInt(nil, n, 10), true, nil
}

// Set is Storage.
func (d *StoreStorage) Set(ctx context.Context, key, value []byte, expire time.Duration) error {
	if err := d.zero(ctx, key); err != nil {
		return err
	}
	return d.store.Put(ctx, d.key(key), value, expire)
}

// zero empties the counter of key.
func (d *StoreStorage) zero(ctx context.Context, key []byte) error {
	n, err := d.store.Incr(ctx, d.key(key), 0, 0)
	if err != nil || n == 0 {
		return err
	}
	_, err = d.store.Incr(ctx, d.key(key), -n, 0)
	return err
}

// Add is Storage.
func (d *StoreStorage) Add(ctx context.Context, key, value []byte, expire time.Duration) (bool, error) {
	n, err := d.store.Incr(ctx, d.key(key), 0, 0)
	if err != nil || n != 0 {
		return false, err
	}
	return d.store.Swap(ctx, d.key(key), nil, value, expire)
}

// Append is Storage.
func (d *StoreStorage) Append(ctx context.Context, key, value []byte) (bool, error) {
	for range maxSwaps {
		var old []byte
		var left time.Duration
		found := false
		err := d.store.Scan(ctx, d.key(key), func(k, v []byte, ttl time.Duration) error {
			if len(k) == len(d.prefix)+len(key) {
				old, left, found = append([]byte{}, v...), ttl, true
				return errFound
			}
			return nil
		})
		if err != nil && !errors.Is(err, errFound) {
			return false, err
		}
		if !found {
			return false, nil
		}
		if len(old)+len(value) > maxStored {
			return false, errTooLong
		}
		swapped, err := d.store.Swap(ctx, d.key(key), old, append(old[:len(old):len(old)], value...), left)
		if err != nil || swapped {
			return swapped, err
		}
	}
	return false, errBusy
}

// errFound ends a scan early.
var errFound = errors.New("found")

// Incr counts with the store's quota; it does not see values that were Set, and never falls below zero.
func (d *StoreStorage) Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	return d.quick.Incr(ctx, d.key(key), n, expire)
}

// Delete is Storage.
func (d *StoreStorage) Delete(ctx context.Context, key []byte) error {
	if err := d.zero(ctx, key); err != nil {
		return err
	}
	return d.store.Delete(ctx, d.key(key))
}
