package sources

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

const (
	maxDraws = 64 // tries to take tokens while other gateways take some …
	hardly   = 4  // … after which it waits a little before the next …
	pause    = 100 * time.Microsecond
	drawTime = time.Second // for those who came while others drew
)

// draws lets those who draw from one bucket at the same time share one change of its value in the store: else all but one of
// them would try again. Safe for concurrent use; the zero value is ready for use.
type draws struct {
	mu    sync.Mutex
	under map[string]*[]*drawer // buckets from which somebody draws: who came in the meantime
}

// drawer is one who draws a token.
type drawer struct {
	bucket rules.Bucket
	wait   time.Duration // for a token; valid, as err is, once done is closed
	err    error
	done   chan struct{}
}

// join adds one who draws to those of a bucket. It reports whether nobody else does: then it draws for itself, and leave is
// to be called.
func (d *draws) join(key []byte, one *drawer) (alone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if came, ok := d.under[string(key)]; ok {
		*came = append(*came, one)
		return false
	}
	if d.under == nil {
		d.under = make(map[string]*[]*drawer)
	}
	d.under[string(key)] = new([]*drawer)
	return true
}

// leave returns those who have come in the meantime, for whom somebody is to draw; if there are none nobody draws any more.
func (d *draws) leave(key string) []*drawer {
	d.mu.Lock()
	defer d.mu.Unlock()
	came := d.under[key]
	if len(*came) == 0 {
		delete(d.under, key)
		return nil
	}
	all := *came
	*came = nil
	return all
}

// clock returns the time by which buckets count: the servers' own, where they have one, since gateways share it.
func (d *StoreStorage) clock() time.Time { return store.Time(d.store, d.now()) }

// Draw is Storage. The value in the store is the time at which the bucket is full again, by the servers' clock.
func (d *StoreStorage) Draw(ctx context.Context, key []byte, b rules.Bucket, take bool) (time.Duration, error) {
	at := d.clock().UnixNano()
	if until, err := d.empty.Incr(ctx, key, 0, 0); err == nil && until > at {
		return time.Duration(until - at), nil
	}
	one := &drawer{bucket: b}
	if !take {
		full, _, err := d.full(ctx, d.key(key))
		_, wait := drawn(full, at, b)
		return wait, err
	}
	one.done = make(chan struct{})
	if !d.draws.join(key, one) {
		select {
		case <-one.done:
			return one.wait, one.err
		case <-ctx.Done(): // a token may be drawn for nobody
			return 0, ctx.Err()
		}
	}
	d.draw(ctx, key, []*drawer{one})
	if came := d.draws.leave(string(key)); came != nil {
		go d.drawFor(string(key), came)
	}
	return one.wait, one.err
}

// drawFor draws for those who came while others drew, until nobody comes.
func (d *StoreStorage) drawFor(key string, all []*drawer) {
	for ; all != nil; all = d.draws.leave(key) {
		ctx, cancel := context.WithTimeout(context.Background(), drawTime)
		d.draw(ctx, []byte(key), all)
		cancel()
	}
}

// full returns when a bucket is full again, and its value in the store; nil: it has none.
func (d *StoreStorage) full(ctx context.Context, key []byte) (int64, []byte, error) {
	old, err := d.store.Get(ctx, nil, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil, nil
	}
	if err != nil || len(old) != 8 {
		return 0, old, err
	}
	return int64(binary.BigEndian.Uint64(old)), old, nil //nolint:gosec // a time
}

// draw takes a token for each of those who draw from a bucket, in their order, as far as there are tokens.
func (d *StoreStorage) draw(ctx context.Context, key []byte, all []*drawer) {
	err := d.drawAll(ctx, key, all)
	for _, x := range all {
		if err != nil {
			x.wait, x.err = 0, err
		}
		close(x.done)
	}
}

func (d *StoreStorage) drawAll(ctx context.Context, key []byte, all []*drawer) error {
	stored := d.key(key)
	for try := range maxDraws {
		if try >= hardly && !rest(ctx, rand.N(pause*time.Duration(try))) { //nolint:gosec // nothing depends on it
			return ctx.Err()
		}
		at := d.clock().UnixNano()
		full, old, err := d.full(ctx, stored)
		if err != nil {
			return err
		}
		some, last := false, time.Duration(0)
		for _, x := range all {
			var next int64
			if next, x.wait = drawn(full, at, x.bucket); x.wait == 0 {
				full, some = next, true
			}
			last = max(last, x.wait)
		}
		swapped := !some
		if some {
			val := binary.BigEndian.AppendUint64(nil, uint64(full)) //nolint:gosec // a time
			swapped, err = d.quick.Swap(ctx, stored, old, val, time.Duration(full-at)+time.Second)
		}
		if swapped && err == nil && last > 0 {
			d.remember(ctx, key, at, last)
		}
		if swapped || err != nil {
			return err
		}
	}
	for _, x := range all {
		x.wait = x.bucket.Every // so many take from it at once that it may count as empty
	}
	return nil
}

// rest waits, and reports false if ctx ends first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *StoreStorage) remember(ctx context.Context, key []byte, at int64, wait time.Duration) {
	_ = d.empty.Delete(ctx, key)
	_, _ = d.empty.Incr(ctx, key, at+int64(wait), wait) // memory does not fail
}
