package media

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCache(t *testing.T) {
	m := newCache(10 * (1000 + renderedCost))
	made := 0
	get := func(n byte) {
		t.Helper()
		body, err := m.get(cacheKey{nonce: [16]byte{n}}, 0, func() ([]byte, error) {
			made++
			return bytes.Repeat([]byte{n}, 1000), nil
		})
		if err != nil || len(body) != 1000 || body[0] != n {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	for n := range byte(10) {
		get(n)
	}
	get(0) // the latest now
	if made != 10 {
		t.Fatalf("%d made", made)
	}
	get(10)
	get(0)
	if made != 11 {
		t.Errorf("the latest was forgotten")
	}
	get(1) // evicted to make room
	if made != 12 || m.used > m.most || len(m.made) != 10 || m.order.Len() != 10 {
		t.Errorf("%d made, %d bytes in %d entries", made, m.used, len(m.made))
	}
	_, err := m.get(cacheKey{nonce: [16]byte{99}}, 0, func() ([]byte, error) { return nil, errors.New("no") })
	if err == nil || len(m.under) != 0 || len(m.made) != 10 {
		t.Errorf("a failure was kept: %v", err)
	}
	m = newCache(0)
	get(1)
	if len(m.made) != 0 {
		t.Error("kept more than nothing")
	}
}

// TestCacheMakesOnce: concurrent callers wait for the rendering in progress.
func TestCacheMakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newCache(1 << 20)
		made := 0
		var late error
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				wait := 2 * time.Second
				if i == 19 {
					time.Sleep(time.Millisecond)
					wait = time.Millisecond
				}
				_, err := m.get(cacheKey{}, wait, func() ([]byte, error) {
					time.Sleep(time.Second)
					made++
					return []byte("x"), nil
				})
				if i == 19 {
					late = err
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made != 1 || !errors.Is(late, ErrBusy) {
			t.Errorf("made %d times; who could not wait: %v", made, late)
		}
	})
}
