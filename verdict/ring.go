package verdict

// ring is the last records of a shard. It grows by chunks until it has as many as it may: what a site never fills takes no memory,
// and the garbage collector does not look through it.
type ring[T any] struct {
	chunks [][]T
	next   int
}

const ringChunk = 32

func (r *ring[T]) at(i int) *T { return &r.chunks[i/ringChunk][i%ringChunk] }

// turn returns the place of the record that comes next in a ring of so many, which is the oldest's once the ring is full, and its number.
func (r *ring[T]) turn(most int) (p *T, i int) {
	i = r.next
	if i/ringChunk == len(r.chunks) {
		r.chunks = append(r.chunks, make([]T, min(ringChunk, most-i)))
	}
	if r.next++; r.next == most {
		r.next = 0
	}
	return r.at(i), i
}

// all are the places that were made, those of no record among them.
func (r *ring[T]) all(yield func(*T) bool) {
	for _, c := range r.chunks {
		for i := range c {
			if !yield(&c[i]) {
				return
			}
		}
	}
}
