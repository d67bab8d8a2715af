package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// values implements store.KV.
type values struct{ *servers }

// value returns the keys of a value and of its bucket's index.
func (s *values) value(key []byte) []string {
	tag := hash(key) % kvBuckets
	return []string{s.key(letterKV, tag, key), s.index(tag)}
}

func (s *values) index(bucket uint64) string { return s.key(letterIdx, bucket, nil) }

func (s *values) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if err := s.ready(ctx, 0); err != nil {
		return dst, err
	}
	k := s.key(letterKV, hash(key)%kvBuckets, key)
	m, err := s.do(ctx, false, func(cl rueidis.Client) rueidis.Completed { return cl.B().Get().Key(k).Build() })
	if rueidis.IsRedisNil(err) {
		return dst, store.ErrNotFound
	}
	if err != nil {
		return dst, s.failed(err)
	}
	v, err := m.ToString()
	if err != nil {
		return dst, s.failed(err)
	}
	return append(dst, v...), nil
}

func (s *values) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	if err := s.ready(ctx, ttl); err != nil {
		return err
	}
	_, err := s.run(ctx, true, s.scripts.put, s.value(key), string(val), decimal(millis(ttl)), string(key))
	return err
}

func (s *values) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return false, err
	}
	expect := "v"
	if old == nil {
		expect = "a"
	}
	m, err := s.run(ctx, true, s.scripts.swap, s.value(key), string(val), decimal(millis(ttl)), string(key), expect,
		string(old))
	if err != nil {
		return false, err
	}
	n, err := m.AsInt64()
	return n == 1, s.failed(err)
}

func (s *values) Delete(ctx context.Context, key []byte) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	_, err := s.run(ctx, true, s.scripts.remove, s.value(key), string(key))
	return err
}

const scanPage = 256

// Scan implements store.KV, bucket by bucket, each in key order. Its cost depends on the matching keys.
func (s *values) Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	end := lexEnd(prefix)
	pages, err := s.pages(ctx, "["+string(prefix), end)
	if err != nil {
		return err
	}
	for b := range uint64(kvBuckets) {
		for keys := pages[b]; len(keys) > 0; {
			if err := s.show(ctx, b, keys, f); err != nil {
				return err
			}
			if len(keys) < scanPage {
				break
			}
			if keys, err = s.page(ctx, b, "("+keys[len(keys)-1], end); err != nil {
				return err
			}
		}
	}
	return nil
}

// lexEnd is the end of a prefix for ZRANGEBYLEX.
func lexEnd(prefix []byte) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return "(" + string(append(slices.Clone(prefix[:i]), prefix[i]+1))
		}
	}
	return "+"
}

func (s *values) pages(ctx context.Context, from, end string) ([][]string, error) {
	r, err := s.doMulti(ctx, kvBuckets, func(cl rueidis.Client, b int) rueidis.Completed {
		index := s.index(uint64(b)) //nolint:gosec // a bucket
		return cl.B().Zrangebylex().Key(index).Min(from).Max(end).Limit(0, scanPage).Build()
	})
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(r))
	for b := range r {
		if out[b], err = r[b].AsStrSlice(); err != nil {
			return nil, s.failed(err)
		}
	}
	return out, nil
}

func (s *values) page(ctx context.Context, bucket uint64, from, end string) ([]string, error) {
	if err := s.ready(ctx, 0); err != nil {
		return nil, err
	}
	m, err := s.do(ctx, false, func(cl rueidis.Client) rueidis.Completed {
		return cl.B().Zrangebylex().Key(s.index(bucket)).Min(from).Max(end).Limit(0, scanPage).Build()
	})
	if err != nil {
		return nil, s.failed(err)
	}
	keys, err := m.AsStrSlice()
	return keys, s.failed(err)
}

type found struct {
	val  string
	ttl  time.Duration
	live bool
}

func (s *values) show(ctx context.Context, bucket uint64, keys []string,
	f func(k, v []byte, ttl time.Duration) error,
) error {
	vals, err := s.values(ctx, bucket, keys)
	if err != nil {
		return err
	}
	read := time.Now()
	for i, k := range keys {
		if !vals[i].live {
			continue
		}
		if err := s.ready(ctx, 0); err != nil {
			return err
		}
		ttl := vals[i].ttl
		if ttl > 0 {
			if ttl -= time.Since(read); ttl <= 0 {
				continue
			}
		}
		if err := f([]byte(k), []byte(vals[i].val), ttl); err != nil {
			return err
		}
	}
	return nil
}

func (s *values) values(ctx context.Context, bucket uint64, keys []string) ([]found, error) {
	if err := s.ready(ctx, 0); err != nil {
		return nil, err
	}
	r, err := s.doMulti(ctx, 2*len(keys), func(cl rueidis.Client, i int) rueidis.Completed {
		name := s.key(letterKV, bucket, []byte(keys[i/2]))
		if i%2 == 0 { // TTL first: a replaced key may get too short a TTL, never too long a one
			return cl.B().Pttl().Key(name).Build()
		}
		return cl.B().Get().Key(name).Build()
	})
	if err != nil {
		return nil, err
	}
	out := make([]found, len(keys))
	for i := range keys {
		left, err := r[2*i].AsInt64()
		if err != nil {
			return nil, s.failed(err)
		}
		val, err := r[2*i+1].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, s.failed(err)
		}
		const absent, forEver = -2, -1
		out[i] = found{val: val, live: err == nil && left != absent}
		if left != forEver {
			out[i].ttl = store.TTLLeft(left+1, 0) // see millis
		}
	}
	return out, nil
}

const sweepEvery = time.Minute

// sweep cleans the indexes: values expire, their names do not.
func (s *values) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for bucket := rand.Uint64N(kvBuckets); ; bucket = (bucket + 1) % kvBuckets {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		if err := s.reap(s.life, bucket); err != nil {
			s.deps.Log.Debug().Err(err).Msg("store: clear an index")
		}
	}
}

func (s *values) reap(ctx context.Context, bucket uint64) error {
	from := "["
	for {
		keys, err := s.page(ctx, bucket, from, "+")
		if err != nil || len(keys) == 0 {
			return err
		}
		from = "(" + keys[len(keys)-1]
		vals, err := s.values(ctx, bucket, keys)
		if err != nil {
			return err
		}
		dead, names := []string{}, []string{s.index(bucket)}
		for i, k := range keys {
			if !vals[i].live {
				dead = append(dead, k)
				names = append(names, s.key(letterKV, bucket, []byte(k)))
			}
		}
		if len(dead) > 0 {
			if _, err := s.run(ctx, false, s.scripts.reap, names, dead...); err != nil {
				return err
			}
			s.stats.reaped.Add(uint64(len(dead)))
		}
	}
}
