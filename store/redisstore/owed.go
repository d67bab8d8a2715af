package redisstore

import (
	"context"
	"sync"
	"time"
)

// owed are keys that callers took for spent while the servers were away. They are spent when these are back, so that no
// other node takes them again.
type owed struct {
	mu   sync.Mutex
	keys map[string]time.Time // until when the spending matters
	lost uint64               // keys that there was no room for
}

// maxOwed bounds what is remembered: at a hundred bytes each some megabytes.
const maxOwed = 1 << 16

// SpendLater implements store.Later.
func (s *Store) SpendLater(key []byte, ttl time.Duration) {
	o := &s.owed
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[string]time.Time{}
	}
	if len(o.keys) >= maxOwed {
		o.lost++
		return
	}
	o.keys[string(key)] = time.Now().Add(ttl)
}

// settle spends what is owed. It ends at the first error: the next probe that works begins again.
func (s *Store) settle(ctx context.Context) {
	o := &s.owed
	o.mu.Lock()
	keys := make(map[string]time.Time, len(o.keys))
	for k, until := range o.keys {
		keys[k] = until
	}
	o.mu.Unlock()
	for k, until := range keys {
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
