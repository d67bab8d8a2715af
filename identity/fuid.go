package identity

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/bounded"
	"antirobot/store"
)

const (
	fuidShards = 64
	fuidNets   = 1 << 16 // networks with new values
	fuidDigits = 8       // hexadecimal digits of the creation time at the start of the value
	maxFuid    = 128     // bytes

	fuidNoticed = 10 * 60           // seconds between two updates of the last sighting
	fuidIdle    = 30 * 24 * 60 * 60 // seconds after which a value that came back may be forgotten
	fuidTries   = 16                // entries examined to find one to evict
)

func fuidBirth(v []byte) (int64, bool) {
	if len(v) < fuidDigits || len(v) > maxFuid {
		return 0, false
	}
	var b [fuidDigits / 2]byte
	if _, err := hex.Decode(b[:], v[:fuidDigits]); err != nil {
		return 0, false
	}
	return int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3]), true
}

// fuids remembers when a fuid was first seen. A fuid is unsigned, so clients can make any number of them; that must
// neither grow the table nor evict known values:
//   - a /24 or /48 brings in a limited number of new values a day;
//   - in a full shard, a new value takes the place of one that never came back after a day, or of one that was idle
//     for 30 days. Otherwise it is not remembered, and its owner is identified by the address.
type fuids struct {
	seed    maphash.Seed
	shards  [fuidShards]fuidShard
	news    *bounded.Counts[uint64] // new values of a network in a day
	perDay  int
	perPart int
	refused atomic.Uint64
	evicted atomic.Uint64
}

type fuidShard struct {
	mu sync.Mutex
	m  map[[16]byte]sighting
	_  [40]byte // keeps shards on separate cache lines
}

// sighting is when a value was seen, in unix seconds.
type sighting struct{ first, last uint32 }

func (s sighting) returned() bool { return s.last-s.first >= uint32(day/time.Second) }

func newFuids(size, perDay int64) *fuids {
	f := &fuids{
		seed: maphash.MakeSeed(), news: bounded.NewCounts[uint64](day, fuidNets), perDay: int(perDay),
		perPart: int((size + fuidShards - 1) / fuidShards),
	}
	for i := range f.shards {
		f.shards[i].m = make(map[[16]byte]sighting)
	}
	return f
}

func (f *fuids) shard(id [16]byte) *fuidShard {
	return &f.shards[maphash.Comparable(f.seed, id)%fuidShards]
}

// see records a value from the network, and returns when it was first seen; false if it could not be remembered.
func (f *fuids) see(id [16]byte, net uint64, at int64) (first int64, remembered bool) {
	now := uint32(at)
	s := f.shard(id)
	s.mu.Lock()
	e, known := s.m[id]
	if known && now > e.last && now-e.last >= fuidNoticed {
		e.last = now
		s.m[id] = e
	}
	s.mu.Unlock()
	if known {
		return int64(e.first), true
	}
	if !f.news.Take(net, time.Unix(at, 0), f.perDay) {
		f.refused.Add(1)
		return 0, false
	}
	return at, f.put(id, sighting{first: now, last: now}, now)
}

// put remembers a value, or merges it with the present entry: the earlier first sighting, the later last one.
func (f *fuids) put(id [16]byte, e sighting, now uint32) bool {
	s := f.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.m[id]; ok {
		s.m[id] = sighting{first: min(old.first, e.first), last: max(old.last, e.last)}
		return true
	}
	if len(s.m) >= f.perPart {
		victim, ok := s.victim(now)
		if !ok {
			f.refused.Add(1)
			return false
		}
		delete(s.m, victim)
		f.evicted.Add(1)
	}
	s.m[id] = e
	return true
}

// victim picks the entry to evict out of a random handful: an idle one, or else the oldest that has not come back.
func (s *fuidShard) victim(now uint32) (victim [16]byte, ok bool) {
	var oldest uint32
	tries := 0
	for id, e := range s.m {
		if now > e.last && now-e.last > fuidIdle {
			return id, true
		}
		if !e.returned() && (!ok || e.last < oldest) {
			victim, oldest, ok = id, e.last, true
		}
		if tries++; tries == fuidTries {
			break
		}
	}
	return victim, ok
}

func (f *fuids) size() int {
	n := 0
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		n += len(s.m)
		s.mu.Unlock()
	}
	return n
}

// since calls f for each value that was seen since a time. It copies one shard at a time: f may be slow, requests do
// not wait.
func (f *fuids) since(from int64, call func(id [16]byte, e sighting) error) error {
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		seen := maps.Clone(s.m)
		s.mu.Unlock()
		for id, e := range seen {
			if int64(e.last) < from {
				continue
			}
			if err := call(id, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// A crash loses the sightings of one interval: their owners wait that much longer.
const (
	fuidEvery  = 5 * time.Minute
	fuidKeep   = 30 * 24 * time.Hour
	fuidPrefix = "fuid/"
)

// fuidKeeper keeps the known fuids in the store, so that a restart does not make all visitors strangers.
type fuidKeeper struct {
	fuids  *fuids
	store  store.Store
	now    func() time.Time
	log    zerolog.Logger
	saved  time.Time
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newFuidKeeper(f *fuids, d Deps) *fuidKeeper {
	k := &fuidKeeper{fuids: f, store: d.Store, now: d.Now, log: d.Log}
	if k.now == nil {
		k.now = time.Now
	}
	return k
}

func (k *fuidKeeper) start(ctx context.Context) error {
	now := k.now()
	err := k.store.Scan(ctx, []byte(fuidPrefix), func(key, val []byte, _ time.Duration) error {
		id := key[len(fuidPrefix):]
		if len(id) != 16 || len(val) != 16 {
			return nil // written by another version
		}
		first, last := binary.BigEndian.Uint64(val), binary.BigEndian.Uint64(val[8:])
		if first <= last && last <= uint64(now.Unix()) { //nolint:gosec // after 1970
			k.fuids.put([16]byte(id), sighting{uint32(first), uint32(last)}, uint32(now.Unix())) //nolint:gosec // times
		}
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

func (k *fuidKeeper) save(ctx context.Context) error {
	now := k.now()
	err := k.fuids.since(k.saved.Unix(), func(id [16]byte, e sighting) error {
		val := binary.BigEndian.AppendUint64(nil, uint64(e.first))
		val = binary.BigEndian.AppendUint64(val, uint64(e.last))
		return k.store.Put(ctx, append([]byte(fuidPrefix), id[:]...), val, fuidKeep)
	})
	if err == nil {
		k.saved = now
	}
	return err
}

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
