package redisstore

import (
	"context"
	"fmt"
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
		s.owed.add(key, ttl, true)
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
	mu   sync.Mutex
	keys map[string]owedKey
	lost uint64 // keys that did not fit
}

type owedKey struct {
	until time.Time // when the spend stops to matter
	spent bool      // the servers have accepted it
}

// maxOwed bounds the keys: some megabytes.
const maxOwed = 1 << 17

func (s *quotas) SpendLater(key []byte, ttl time.Duration) { s.owed.add(key, ttl, false) }

// add records a key. When all room is taken, a spent key replaces another spent one. A key that is spent forever is no
// challenge, and not recorded.
func (o *owed) add(key []byte, ttl time.Duration, spent bool) {
	if ttl == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[string]owedKey{}
	}
	now, looked := time.Now(), 0
	for k, was := range o.keys { // two in no order: more than are added
		if was.spent && (was.until.Before(now) || len(o.keys) >= maxOwed) {
			delete(o.keys, k)
		}
		if looked++; looked == 2 {
			break
		}
	}
	if _, known := o.keys[string(key)]; !known && len(o.keys) >= maxOwed {
		if !spent {
			o.lost++
		}
		return
	}
	o.keys[string(key)] = owedKey{now.Add(ttl), spent}
}

// again marks every spent key as owed.
func (o *owed) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, was := range o.keys {
		o.keys[k] = owedKey{was.until, false}
	}
}

// waiting returns the owed keys, and how many were lost.
func (o *owed) waiting() (keys map[string]time.Time, lost uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys = map[string]time.Time{}
	for k, was := range o.keys {
		if !was.spent {
			keys[k] = was.until
		}
	}
	return keys, o.lost
}

// settle spends owed keys for a while, up to the first error: the next probe continues.
func (s *quotas) settle(ctx context.Context) {
	end := time.Now().Add(s.deps.ProbeEvery)
	keys, _ := s.owed.waiting()
	for k, until := range keys {
		if time.Now().After(end) {
			return
		}
		left := time.Until(until)
		if left <= 0 {
			s.owed.mu.Lock()
			delete(s.owed.keys, k)
			s.owed.mu.Unlock()
			continue
		}
		if _, err := s.Spend(ctx, []byte(k), left); err != nil {
			return
		}
		s.owed.add([]byte(k), left, true)
	}
}
