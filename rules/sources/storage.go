package sources

import (
	"context"
	"errors"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
)

// Storage keeps values and counters that expire. An expiry of 0 is for ever. Safe for concurrent use.
type Storage interface {
	// Get returns a copy of the value of key, or false.
	Get(ctx context.Context, key []byte) ([]byte, bool, error)
	Set(ctx context.Context, key, value []byte, expire time.Duration) error
	// Add sets key only if it is absent, and reports whether it did.
	Add(ctx context.Context, key, value []byte, expire time.Duration) (bool, error)
	// Append appends to the value of key, up to maxStored bytes, and keeps its expiry; it reports false for an absent key.
	Append(ctx context.Context, key, value []byte) (bool, error)
	// Incr adds n to the number in key and returns it; it is never less than zero. An absent key begins with 0 and lives for expire from now on; the
	// expiry of a present one is kept.
	Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error)
	Delete(ctx context.Context, key []byte) error
}

// maxStored is the greatest length of a value in bytes.
const maxStored = 1 << 20

var (
	errNotNumber = errors.New("the value is not a number")
	errTooLong   = errors.New("the value is too long")
)

// NewMemoryStorage returns a storage of so many entries at most.
func NewMemoryStorage(now func() time.Time, maxEntries int) *MemoryStorage {
	m := &MemoryStorage{now: now, seed: maphash.MakeSeed(), perPart: max(1, maxEntries/storageShards)}
	for i := range m.shards {
		m.shards[i].entries = make(map[string]*storageEntry)
	}
	return m
}

const storageShards = 64

// MemoryStorage is a Storage in the memory of this process. When it is full, expired entries are dropped first, then
// any.
type MemoryStorage struct {
	now     func() time.Time
	seed    maphash.Seed
	perPart int // entries of a shard
	evicted atomic.Uint64
	shards  [storageShards]storageShard
}

type storageShard struct {
	mu      sync.Mutex
	entries map[string]*storageEntry
	_       [40]byte // neighbours don't share a cache line
}

type storageEntry struct {
	value   []byte // nil: number counts
	number  int64
	expires int64 // unix nanoseconds; 0: never
}

// lock returns the locked shard of key and the time.
func (m *MemoryStorage) lock(key []byte) (*storageShard, int64) {
	s := &m.shards[maphash.Bytes(m.seed, key)%storageShards]
	at := m.now().UnixNano()
	s.mu.Lock()
	return s, at
}

// live returns the entry of key if it has not expired.
func (s *storageShard) live(key []byte, at int64) *storageEntry {
	e := s.entries[string(key)]
	if e == nil || e.expires != 0 && at >= e.expires {
		return nil
	}
	return e
}

// put adds an entry that is not there, or has expired.
func (m *MemoryStorage) put(s *storageShard, key []byte, at int64, expire time.Duration) *storageEntry {
	expires := int64(0)
	if expire > 0 {
		expires = at + int64(expire)
	}
	if e := s.entries[string(key)]; e != nil {
		*e = storageEntry{expires: expires}
		return e
	}
	if len(s.entries) >= m.perPart {
		m.makeRoom(s, at)
	}
	e := &storageEntry{expires: expires}
	s.entries[string(key)] = e
	return e
}

// makeRoom looks at a few entries in the map's random order and removes the expired ones, or one that is not.
func (m *MemoryStorage) makeRoom(s *storageShard, at int64) {
	const looks = 16
	seen, freed := 0, 0
	var victim string
	for key, e := range s.entries {
		if e.expires != 0 && at >= e.expires {
			delete(s.entries, key)
			freed++
		} else {
			victim = key
		}
		if seen++; seen == looks {
			break
		}
	}
	if freed == 0 {
		delete(s.entries, victim)
		m.evicted.Add(1)
	}
}

func (e *storageEntry) bytes() []byte {
	if e.value == nil {
		return strconv.AppendInt(nil, e.number, 10)
	}
	return append([]byte(nil), e.value...)
}

// Get is Storage.
func (m *MemoryStorage) Get(_ context.Context, key []byte) ([]byte, bool, error) {
	s, at := m.lock(key)
	defer s.mu.Unlock()
	if e := s.live(key, at); e != nil {
		return e.bytes(), true, nil
	}
	return nil, false, nil
}

// Set is Storage.
func (m *MemoryStorage) Set(_ context.Context, key, value []byte, expire time.Duration) error {
	if expire < 0 {
		return store.ErrTTL
	}
	s, at := m.lock(key)
	defer s.mu.Unlock()
	m.put(s, key, at, expire).value = append([]byte{}, value...)
	return nil
}

// Add is Storage.
func (m *MemoryStorage) Add(_ context.Context, key, value []byte, expire time.Duration) (bool, error) {
	if expire < 0 {
		return false, store.ErrTTL
	}
	s, at := m.lock(key)
	defer s.mu.Unlock()
	if s.live(key, at) != nil {
		return false, nil
	}
	m.put(s, key, at, expire).value = append([]byte{}, value...)
	return true, nil
}

// Append is Storage.
func (m *MemoryStorage) Append(_ context.Context, key, value []byte) (bool, error) {
	s, at := m.lock(key)
	defer s.mu.Unlock()
	e := s.live(key, at)
	if e == nil {
		return false, nil
	}
	old := e.bytes()
	if len(old)+len(value) > maxStored {
		return false, errTooLong
	}
	e.value = append(old, value...)
	return true, nil
}

// Incr is Storage.
func (m *MemoryStorage) Incr(_ context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	if expire < 0 {
		return 0, store.ErrTTL
	}
	s, at := m.lock(key)
	defer s.mu.Unlock()
	e := s.live(key, at)
	if e == nil {
		e = m.put(s, key, at, expire)
	}
	if e.value != nil {
		number, err := strconv.ParseInt(string(e.value), 10, 64)
		if err != nil {
			return 0, errNotNumber
		}
		e.value, e.number = nil, number
	}
	e.number = store.SaturatingAdd(e.number, n)
	return e.number, nil
}

// Delete is Storage.
func (m *MemoryStorage) Delete(_ context.Context, key []byte) error {
	s, _ := m.lock(key)
	defer s.mu.Unlock()
	delete(s.entries, string(key))
	return nil
}
