package admin

import (
	"container/heap"
	"encoding/base64"
	"strconv"
)

// Bounds of one page of a list.
const (
	usualPage = 100
	maxPage   = 1000
)

// page collects the smallest keys after a position out of an unordered walk, so that a list of any length is shown in
// a stable order with the memory of one page. Entries that come and go between two pages move no other entry.
type page[T any] struct {
	after string
	limit int
	top   largestFirst[T]
	more  bool
}

type keyed[T any] struct {
	key string
	val T
}

// newPage reads ?limit= and ?after= of a request.
func newPage[T any](c *call) (*page[T], error) {
	p := &page[T]{limit: usualPage}
	args := c.QueryArgs()
	if q := args.Peek("limit"); q != nil {
		n, err := strconv.Atoi(string(q))
		if err != nil || n < 1 || n > maxPage {
			return nil, badField("limit", "%q is not a number in the range 1..%d", q, maxPage)
		}
		p.limit = n
	}
	if q := args.Peek("after"); q != nil {
		key, err := base64.RawURLEncoding.DecodeString(string(q))
		if err != nil || len(key) == 0 {
			return nil, badField("after", "this is no position: take the value of next of the page before")
		}
		p.after = string(key)
	}
	return p, nil
}

// offer shows the page one element; keys are unique.
func (p *page[T]) offer(key string, v T) {
	if key <= p.after {
		return
	}
	if len(p.top) < p.limit {
		heap.Push(&p.top, keyed[T]{key, v})
		return
	}
	p.more = true
	if key < p.top[0].key {
		p.top[0] = keyed[T]{key, v}
		heap.Fix(&p.top, 0)
	}
}

// take returns the page in order, never nil, and the position of the next one, empty if this is the last.
func (p *page[T]) take() (vals []T, next string) {
	vals = make([]T, len(p.top))
	if p.more {
		next = base64.RawURLEncoding.EncodeToString([]byte(p.top[0].key))
	}
	for i := len(vals) - 1; i >= 0; i-- {
		vals[i] = heap.Pop(&p.top).(keyed[T]).val
	}
	return vals, next
}

// largestFirst is a heap of the page's elements.
type largestFirst[T any] []keyed[T]

func (h largestFirst[T]) Len() int           { return len(h) }
func (h largestFirst[T]) Less(i, j int) bool { return h[i].key > h[j].key }
func (h largestFirst[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *largestFirst[T]) Push(x any)        { *h = append(*h, x.(keyed[T])) }
func (h *largestFirst[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
