package media

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps rendered media by key within a bound of bytes; the least recently requested goes first. Safe for
// concurrent use.
type cache struct {
	mu    sync.Mutex
	used  int
	most  int
	made  map[cacheKey]*list.Element // of *rendered
	order *list.List                 // most recently requested first
	under map[cacheKey]*rendering
}

type cacheKey struct {
	nonce  [16]byte
	medium Medium
	voice  string
}

type rendered struct {
	key  cacheKey
	body []byte
}

// rendering is a rendering in progress; body and err are set when done is closed.
type rendering struct {
	done chan struct{}
	body []byte
	err  error
}

// renderedCost is the cost of an entry in addition to its body, in bytes.
const renderedCost = 256

func newCache(most int64) *cache {
	return &cache{
		most: int(most), made: map[cacheKey]*list.Element{}, order: list.New(), under: map[cacheKey]*rendering{},
	}
}

// get returns the medium of k, rendering it if necessary. Concurrent callers wait for that rendering up to the given
// time. The result must not be changed.
func (m *cache) get(k cacheKey, wait time.Duration, render func() ([]byte, error)) (body []byte, err error) {
	m.mu.Lock()
	if e, ok := m.made[k]; ok {
		m.order.MoveToFront(e)
		body = e.Value.(*rendered).body
		m.mu.Unlock()
		return body, nil
	}
	if r, ok := m.under[k]; ok {
		m.mu.Unlock()
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-r.done:
			return r.body, r.err
		case <-t.C:
			return nil, ErrBusy
		}
	}
	r := &rendering{done: make(chan struct{}), err: ErrBusy}
	m.under[k] = r
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.under, k)
		if r.err == nil {
			m.keep(&rendered{key: k, body: r.body})
		}
		m.mu.Unlock()
		close(r.done)
	}()
	r.body, r.err = render()
	return r.body, r.err
}

func (m *cache) keep(e *rendered) {
	size := len(e.body) + renderedCost
	if size > m.most {
		return
	}
	m.made[e.key] = m.order.PushFront(e)
	m.used += size
	for m.used > m.most {
		last := m.order.Back()
		old := m.order.Remove(last).(*rendered)
		delete(m.made, old.key)
		m.used -= len(old.body) + renderedCost
	}
}
