package redisstore

import (
	"context"
	"maps"
	"sync"
	"time"
)

// owed are keys that callers took for spent while the servers were away. They are spent when these are back, so that no
// other node takes them again. And what was spent there is remembered for as long as it matters: servers that may have
// lost it are owed it again.
type owed struct {
	mu    sync.Mutex
	keys  map[string]time.Time // until when the spending matters
	spent map[string]time.Time // the same, of what the servers took
	lost  uint64               // keys that there was no room for
}

// maxOwed bounds what is remembered of either: at a hundred bytes each some megabytes.
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

// remember notes what was spent; where there is no room, some other one is forgotten. What is spent for ever is not for
// those who answer a question, and is not noted.
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

// again owes everything that was spent and still matters.
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

// settle spends what is owed, for a while. It ends at the first error: the next probe that works goes on.
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
