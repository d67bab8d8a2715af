package redisstore

import (
	"context"
	"maps"
	"sync"
	"time"
)

// owed are keys that callers treated as spent while the servers were unavailable. They are spent when the servers are back,
// so that no other node accepts them again. Keys that were spent on the servers are also remembered for as long as it
// matters: if the servers may have lost them, they are owed again.
type owed struct {
	mu    sync.Mutex
	keys  map[string]time.Time // until when the spend matters
	spent map[string]time.Time // the same, for keys that the servers accepted
	lost  uint64               // keys that did not fit
}

// maxOwed bounds each of the two maps: some megabytes at a hundred bytes each.
const maxOwed = 1 << 16

// SpendLater implements store.Later.
func (s *Store) SpendLater(key []byte, ttl time.Duration) {
	o := &s.owed
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owe(string(key), time.Now().Add(ttl))
}

func (o *owed) owe(key string, until time.Time) {
	if o.keys == nil {
		o.keys = map[string]time.Time{}
	}
	if len(o.keys) >= maxOwed {
		o.lost++
		return
	}
	o.keys[key] = until
}

// remember notes a spent key; when there is no room, some other key is forgotten. A key that is spent forever does not
// belong to an answered challenge, and is not noted.
func (o *owed) remember(key []byte, ttl time.Duration) {
	if ttl == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.spent == nil {
		o.spent = map[string]time.Time{}
	}
	now := time.Now()
	looked := 0
	for k, until := range o.spent { // a few, in no order: more than are added
		if looked++; until.Before(now) || len(o.spent) >= maxOwed {
			delete(o.spent, k)
		}
		if looked == 2 {
			break
		}
	}
	o.spent[string(key)] = now.Add(ttl)
}

// again marks everything that was spent and still matters as owed.
func (o *owed) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for k, until := range o.spent {
		if until.After(now) {
			o.owe(k, until)
		}
	}
}

// settle spends owed keys for a while. It stops at the first error: the next successful probe continues.
func (s *Store) settle(ctx context.Context) {
	o, end := &s.owed, time.Now().Add(s.cfg.ProbeEvery)
	o.mu.Lock()
	keys := maps.Clone(o.keys)
	o.mu.Unlock()
	for k, until := range keys {
		if time.Now().After(end) {
			return
		}
		if left := time.Until(until); left > 0 {
			if _, err := s.Spend(ctx, []byte(k), left); err != nil {
				return
			}
		}
		o.mu.Lock()
		delete(o.keys, k)
		o.mu.Unlock()
	}
}

func (o *owed) counts() (waiting int, lost uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.keys), o.lost
}
