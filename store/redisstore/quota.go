package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// Spend implements store.Once.
func (s *Store) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
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

// Take implements store.Quota.
func (s *Store) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return 0, err
	}
	if want <= 0 || limit <= 0 {
		return 0, nil
	}
	was, err := s.count(ctx, s.scripts.take, key, decimal(want), decimal(limit), decimal(millis(ttl)))
	if err != nil {
		return 0, err
	}
	return store.Grant(was, want, limit), nil
}

// Incr implements store.Quota.
func (s *Store) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
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

// count runs a script on one counter. It does not wait for replicas: a failover that loses recent leases lets an allowance
// be overspent by as much, which is bounded like the leases themselves.
func (s *Store) count(ctx context.Context, sc *script, key []byte, args ...string) (int64, error) {
	m, err := s.run(ctx, false, sc, []string{s.spread(letterUsed, key)}, args...)
	if err != nil {
		return 0, err
	}
	return s.number(m)
}

func (s *Store) number(m rueidis.RedisMessage) (int64, error) {
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
