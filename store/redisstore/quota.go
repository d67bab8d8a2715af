package redisstore

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// quotas implements store.Once and store.Quota.
type quotas struct {
	*servers
	owed owed
}

func (s *quotas) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return false, err
	}
	k, ms := s.spread(letterOnce, key), millis(ttl)
	_, err := s.do(ctx, true, func(cl rueidis.Client) rueidis.Completed {
		set := cl.B().Set().Key(k).Value("").Nx()
		if ms == 0 {
			return set.Build()
		}
		return set.PxMilliseconds(ms).Build()
	})
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err == nil {
		s.owed.remember(key, ttl)
	}
	return err == nil, s.failed(err)
}

func (s *quotas) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return 0, err
	}
	if want <= 0 || limit <= 0 {
		return 0, nil
	}
	used, err := s.count(ctx, s.scripts.take, key, decimal(want), decimal(limit), decimal(millis(ttl)))
	if err != nil {
		return 0, err
	}
	return store.Grant(used, want, limit), nil
}

func (s *quotas) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return 0, err
	}
	if n == 0 {
		k := s.spread(letterUsed, key)
		m, err := s.do(ctx, false, func(cl rueidis.Client) rueidis.Completed { return cl.B().Get().Key(k).Build() })
		if rueidis.IsRedisNil(err) {
			return 0, nil
		}
		if err != nil {
			return 0, s.failed(err)
		}
		return s.number(m)
	}
	text := decimal(n)
	return s.count(ctx, s.scripts.incr, key, text, strings.TrimPrefix(text, "-"), decimal(millis(ttl)))
}

// count runs a script on one counter, without waiting for replicas: a failover may overspend recent leases, which are
// bounded.
func (s *quotas) count(ctx context.Context, sc *script, key []byte, args ...string) (int64, error) {
	m, err := s.run(ctx, false, sc, []string{s.spread(letterUsed, key)}, args...)
	if err != nil {
		return 0, err
	}
	return s.number(m)
}

func (s *quotas) number(m rueidis.RedisMessage) (int64, error) {
	text, err := m.ToString()
	if err != nil {
		return 0, s.failed(err)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("redis: a counter is not a number: %w", err)
	}
	return n, nil
}

// owed holds keys to spend once the servers are back, so that no other gateway accepts them. Spent keys are remembered
// too: after a possible loss they are owed again.
type owed struct {
	mu    sync.Mutex
	keys  map[string]time.Time // until when the spend matters
	spent map[string]time.Time // the same, for keys that the servers accepted
	lost  uint64               // keys that did not fit
}

// maxOwed bounds each map: some megabytes.
const maxOwed = 1 << 16

func (s *quotas) SpendLater(key []byte, ttl time.Duration) {
	s.owed.mu.Lock()
	defer s.owed.mu.Unlock()
	s.owed.owe(string(key), time.Now().Add(ttl))
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

// remember records a spent key, evicting another when full. A key that is spent forever is no challenge, and not
// recorded.
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
	for k, until := range o.spent { // two in no order: more than are added
		if looked++; until.Before(now) || len(o.spent) >= maxOwed {
			delete(o.spent, k)
		}
		if looked == 2 {
			break
		}
	}
	o.spent[string(key)] = now.Add(ttl)
}

// again marks every spent key that still matters as owed.
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

// settle spends owed keys for a while, up to the first error: the next probe continues.
func (s *quotas) settle(ctx context.Context) {
	o, end := &s.owed, time.Now().Add(s.deps.ProbeEvery)
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
