package sources

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

const (
	storageShards = 64
	// sweepEvery is how long an expired entry takes up memory at most, give or take.
	sweepEvery = 15 * time.Second
	// shrinkFrom is how many entries a shard must have had before its memory is given back.
	shrinkFrom = 256
)

// MemoryStorage is a Storage in the memory of this process. Keys are kept as hashes of 128 bits under a secret seed, and
// numbers beside them: about 60 bytes for a counter. What has expired is removed soon after; when the storage is full,
// expired entries are dropped first, then any.
type MemoryStorage struct {
	now     func() time.Time
	seeds   [2]maphash.Seed
	perPart int // entries of a shard
	evicted atomic.Uint64
	ticking atomic.Bool // a sweep is to come
	shards  [storageShards]storageShard
}

type storageKey [2]uint64

type storageShard struct {
	mu      sync.Mutex
	entries map[storageKey]storageEntry
	values  map[storageKey][]byte // of entries that are no numbers
	most    int                   // entries since memory was given back
	_       [40]byte              // neighbours don't share a cache line
}

type storageEntry struct {
	number  int64
	expires int64 // unix nanoseconds; 0: never
}

func (e storageEntry) live(at int64) bool { return e.expires == 0 || at < e.expires }

// NewMemoryStorage returns a storage of so many entries at most.
func NewMemoryStorage(now func() time.Time, maxEntries int) *MemoryStorage {
	m := &MemoryStorage{now: now, perPart: max(1, maxEntries/storageShards)}
	m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].entries = make(map[storageKey]storageEntry)
		m.shards[i].values = make(map[storageKey][]byte)
	}
	return m
}

// lock returns the locked shard of key, the key's hash and the time.
func (m *MemoryStorage) lock(key []byte) (*storageShard, storageKey, int64) {
	k := storageKey{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
	s := &m.shards[k[0]%storageShards]
	at := m.now().UnixNano()
	s.mu.Lock()
	return s, k, at
}

// put adds an entry that is not there, or has expired, or is replaced.
func (m *MemoryStorage) put(s *storageShard, k storageKey, at int64, e storageEntry) {
	if _, there := s.entries[k]; !there {
		if len(s.entries) >= m.perPart {
			m.makeRoom(s, at)
		}
	}
	s.entries[k] = e
	s.most = max(s.most, len(s.entries))
	if e.expires != 0 && !m.ticking.Load() && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.tick)
	}
}

func (s *storageShard) remove(k storageKey) {
	delete(s.entries, k)
	delete(s.values, k)
}

func expiry(at int64, expire time.Duration) int64 {
	if expire <= 0 {
		return 0
	}
	return at + int64(expire)
}

// makeRoom looks at a few entries in the map's random order and removes the expired ones, or one that is not.
func (m *MemoryStorage) makeRoom(s *storageShard, at int64) {
	const looks = 16
	seen, freed := 0, 0
	var victim storageKey
	for k, e := range s.entries {
		if e.live(at) {
			victim = k
		} else {
			s.remove(k)
			freed++
		}
		if seen++; seen == looks {
			break
		}
	}
	if freed == 0 {
		s.remove(victim)
		m.evicted.Add(1)
	}
}

// tick removes what has expired, and comes again as long as there is something that will.
func (m *MemoryStorage) tick() {
	m.ticking.Store(false)
	if m.sweep() > 0 && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.tick)
	}
}

// sweep removes what has expired and gives its memory back. It returns how many entries will expire later.
func (m *MemoryStorage) sweep() (mortal int) {
	at := m.now().UnixNano()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for k, e := range s.entries {
			switch {
			case !e.live(at):
				s.remove(k)
			case e.expires != 0:
				mortal++
			}
		}
		s.shrink()
		s.mu.Unlock()
	}
	return mortal
}

// shrink gives back the memory of a map that was once much larger: maps never do by themselves.
func (s *storageShard) shrink() {
	if s.most < shrinkFrom || len(s.entries) > s.most/4 {
		return
	}
	entries := make(map[storageKey]storageEntry, len(s.entries))
	for k, e := range s.entries {
		entries[k] = e
	}
	values := make(map[storageKey][]byte, len(s.values))
	for k, v := range s.values {
		values[k] = v
	}
	s.entries, s.values, s.most = entries, values, len(entries)
}

// bytes returns the value of a live entry.
func (s *storageShard) bytes(k storageKey, e storageEntry) []byte {
	if v, ok := s.values[k]; ok {
		return append([]byte(nil), v...)
	}
	return strconv.AppendInt(nil, e.number, 10)
}

// live returns the entry of k if it has not expired.
func (s *storageShard) live(k storageKey, at int64) (storageEntry, bool) {
	e, ok := s.entries[k]
	return e, ok && e.live(at)
}

// Get is Storage.
func (m *MemoryStorage) Get(_ context.Context, key []byte) ([]byte, bool, error) {
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	if e, ok := s.live(k, at); ok {
		return s.bytes(k, e), true, nil
	}
	return nil, false, nil
}

// Set is Storage.
func (m *MemoryStorage) Set(_ context.Context, key, value []byte, expire time.Duration) error {
	if expire < 0 {
		return store.ErrTTL
	}
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	m.put(s, k, at, storageEntry{expires: expiry(at, expire)})
	s.values[k] = append([]byte{}, value...)
	return nil
}

// Add is Storage.
func (m *MemoryStorage) Add(_ context.Context, key, value []byte, expire time.Duration) (bool, error) {
	if expire < 0 {
		return false, store.ErrTTL
	}
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	if _, ok := s.live(k, at); ok {
		return false, nil
	}
	m.put(s, k, at, storageEntry{expires: expiry(at, expire)})
	s.values[k] = append([]byte{}, value...)
	return true, nil
}

// Append is Storage.
func (m *MemoryStorage) Append(_ context.Context, key, value []byte) (bool, error) {
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	e, ok := s.live(k, at)
	if !ok {
		return false, nil
	}
	old := s.bytes(k, e)
	if len(old)+len(value) > maxStored {
		return false, errTooLong
	}
	s.values[k] = append(old, value...)
	return true, nil
}

// Incr is Storage.
func (m *MemoryStorage) Incr(_ context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	if expire < 0 {
		return 0, store.ErrTTL
	}
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	e, ok := s.live(k, at)
	switch {
	case !ok && n <= 0:
		return 0, nil
	case !ok:
		delete(s.values, k)
		e = storageEntry{expires: expiry(at, expire)}
	default:
		if v, text := s.values[k]; text {
			number, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return 0, errNotNumber
			}
			delete(s.values, k)
			e.number = number
		}
	}
	e.number = store.SaturatingAdd(e.number, n)
	m.put(s, k, at, e)
	return e.number, nil
}

// Delete is Storage.
func (m *MemoryStorage) Delete(_ context.Context, key []byte) error {
	s, k, _ := m.lock(key)
	defer s.mu.Unlock()
	s.remove(k)
	return nil
}

// Draw is Storage.
func (m *MemoryStorage) Draw(_ context.Context, key []byte, b rules.Bucket, take bool) (time.Duration, error) {
	s, k, at := m.lock(key)
	defer s.mu.Unlock()
	e, _ := s.live(k, at)
	next, wait := drawn(e.number, at, b)
	if wait == 0 && take {
		m.put(s, k, at, storageEntry{number: next, expires: next})
	}
	return wait, nil
}
