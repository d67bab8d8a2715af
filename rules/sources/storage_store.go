package sources

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

const (
	maxDraws = 64 // while other gateways take tokens
	drawTime = time.Second
	maxEmpty = 1 << 16 // empty buckets that are remembered
)

// StoreStorage is a Storage in the store, which survives a restart and may be shared. Nothing waits for a disk.
type StoreStorage struct {
	store  store.Store
	prefix []byte
	now    func() time.Time
	empty  *MemoryStorage // when empty buckets get a token: a flood does not reach the store

	mu    sync.Mutex
	lines map[string][]*drawer // by bucket; present while a goroutine draws
}

type drawer struct {
	bucket rules.Bucket
	wait   time.Duration
	err    error
	done   chan struct{}
}

// NewStoreStorage returns a storage with keys under prefix. now may be nil.
func NewStoreStorage(st store.Store, prefix string, now func() time.Time) *StoreStorage {
	if now == nil {
		now = time.Now
	}
	return &StoreStorage{
		store: store.Hasten(st), prefix: []byte(prefix), now: now,
		empty: NewMemoryStorage(now, maxEmpty), lines: make(map[string][]*drawer),
	}
}

func (d *StoreStorage) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(d.prefix)+len(key)), d.prefix...), key...)
}

// Incr implements Storage.
func (d *StoreStorage) Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	return d.store.Incr(ctx, d.key(key), n, expire)
}

func (d *StoreStorage) clock() int64 { return store.Time(d.store, d.now()).UnixNano() }

// Draw implements Storage. Concurrent callers share one change of the value; otherwise all but one would retry.
func (d *StoreStorage) Draw(ctx context.Context, key []byte, b rules.Bucket, take bool) (time.Duration, error) {
	at := d.clock()
	if until, err := d.empty.Incr(ctx, key, 0, 0); err == nil && until > at {
		return time.Duration(until - at), nil
	}
	if !take {
		full, _, err := d.full(ctx, d.key(key))
		_, wait := drawn(full, at, b)
		return wait, err
	}
	one := &drawer{bucket: b, done: make(chan struct{})}
	d.mu.Lock()
	line, drawing := d.lines[string(key)]
	d.lines[string(key)] = append(line, one)
	d.mu.Unlock()
	if !drawing {
		go d.serve(string(key))
	}
	select {
	case <-one.done:
		return one.wait, one.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (d *StoreStorage) serve(key string) {
	for {
		d.mu.Lock()
		line := d.lines[key]
		if len(line) == 0 {
			delete(d.lines, key)
			d.mu.Unlock()
			return
		}
		d.lines[key] = nil
		d.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), drawTime)
		err := d.draw(ctx, []byte(key), line)
		cancel()
		for _, x := range line {
			if err != nil {
				x.wait, x.err = 0, err
			}
			close(x.done)
		}
	}
}

func (d *StoreStorage) full(ctx context.Context, key []byte) (int64, []byte, error) {
	old, err := d.store.Get(ctx, nil, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil, nil
	}
	if err != nil || len(old) != 8 {
		return 0, old, err
	}
	return int64(binary.BigEndian.Uint64(old)), old, nil
}

func (d *StoreStorage) draw(ctx context.Context, key []byte, line []*drawer) error {
	stored := d.key(key)
	for try := range maxDraws {
		if try > 0 {
			time.Sleep(rand.N(time.Duration(try) * 50 * time.Microsecond)) //nolint:gosec // jitter
		}
		at := d.clock()
		full, old, err := d.full(ctx, stored)
		if err != nil {
			return err
		}
		got, last := false, time.Duration(0)
		for _, x := range line {
			var next int64
			if next, x.wait = drawn(full, at, x.bucket); x.wait == 0 {
				full, got = next, true
			}
			last = max(last, x.wait)
		}
		if got {
			value := binary.BigEndian.AppendUint64(nil, uint64(full))
			swapped, err := d.store.Swap(ctx, stored, old, value, time.Duration(full-at)+time.Second)
			if err != nil {
				return err
			}
			if !swapped {
				continue
			}
		}
		if last > 0 {
			d.empty.set(key, at+int64(last))
		}
		return nil
	}
	for _, x := range line {
		x.wait = x.bucket.Every // under this contention the bucket counts as empty
	}
	return nil
}
