package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"antirobot/stream"
)

// memoryLog is a stream.Log in this process that drops nothing by itself.
type memoryLog struct {
	mu     sync.Mutex
	grown  chan struct{} // closed and replaced whenever something is added
	closed bool
	parts  [][]memoryBatch
	next   int64
}

type memoryBatch struct {
	at, n int64 // milliseconds, and a number in order
	data  []byte
}

func newMemoryLog(partitions int) *memoryLog {
	return &memoryLog{grown: make(chan struct{}), parts: make([][]memoryBatch, partitions)}
}

func (b *memoryBatch) pos() string { return fmt.Sprintf("%d-%d", b.at, b.n) }

func (b *memoryBatch) before(c memoryBatch) bool { return b.at < c.at || b.at == c.at && b.n < c.n }

func parsePos(pos string) (b memoryBatch) {
	_, _ = fmt.Sscanf(pos, "%d-%d", &b.at, &b.n) // the empty position is before all others
	return b
}

func (m *memoryLog) Append(ctx context.Context, partitions []int, data [][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return stream.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, p := range partitions {
		m.next++
		m.parts[p] = append(m.parts[p], memoryBatch{time.Now().UnixMilli(), m.next, bytes.Clone(data[i])})
	}
	close(m.grown)
	m.grown = make(chan struct{})
	return nil
}

// find returns the batches of a partition that keep selects.
func (m *memoryLog) find(partition int, keep func(b memoryBatch) bool) (found []memoryBatch, grown chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.parts[partition] {
		if keep(b) {
			found = append(found, b)
		}
	}
	return found, m.grown
}

func (m *memoryLog) Read(ctx context.Context, partition int, after string, wait time.Duration,
	f func(pos string, data []byte),
) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	from := parsePos(after)
	for {
		found, grown := m.find(partition, func(b memoryBatch) bool { return from.before(b) })
		for i := range found {
			f(found[i].pos(), found[i].data)
		}
		if len(found) > 0 {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *memoryLog) Back(pos string, by time.Duration) string {
	return fmt.Sprintf("%d-0", parsePos(pos).at-by.Milliseconds())
}

func (m *memoryLog) Ahead(a, b string) time.Duration {
	x, y := parsePos(a), parsePos(b)
	if x.at == y.at {
		return time.Duration(x.n - y.n)
	}
	return time.Duration(x.at-y.at) * time.Millisecond
}

func (m *memoryLog) End(_ context.Context, partition int) (string, error) {
	all, _ := m.find(partition, func(memoryBatch) bool { return true })
	if len(all) == 0 {
		return "", nil
	}
	return all[len(all)-1].pos(), nil
}

func (m *memoryLog) Trim(_ context.Context, partition int, before string) error {
	first := parsePos(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts[partition] = slices.DeleteFunc(m.parts[partition], func(b memoryBatch) bool { return b.before(first) })
	return nil
}

func (m *memoryLog) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
