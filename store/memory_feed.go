package store

import (
	"context"
	"sync"
)

// MemoryFeedKept is how many messages of a topic Memory keeps.
const MemoryFeedKept = 4096

type feeds struct {
	mu     sync.Mutex
	topics map[string]*memoryTopic
}

// memoryTopic is a ring: message n is at n mod MemoryFeedKept; numbers start at 1.
type memoryTopic struct {
	mu   sync.Mutex
	ring [][]byte
	last uint64
	more chan struct{} // closed by the next Append
}

func (m *Memory) topic(name string) *memoryTopic {
	m.feeds.mu.Lock()
	defer m.feeds.mu.Unlock()
	t := m.feeds.topics[name]
	if t == nil {
		t = &memoryTopic{more: make(chan struct{})}
		m.feeds.topics[name] = t
	}
	return t
}

// Append implements Feed.
func (m *Memory) Append(ctx context.Context, topic string, msg []byte) error {
	if err := m.ready(ctx, 0); err != nil {
		return err
	}
	t := m.topic(topic)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	kept := append([]byte(nil), msg...)
	if i := t.last % MemoryFeedKept; i < uint64(len(t.ring)) {
		t.ring[i] = kept
	} else {
		// Number 1 goes to place 1: place 0 is filled by number MemoryFeedKept.
		for uint64(len(t.ring)) < i {
			t.ring = append(t.ring, nil)
		}
		t.ring = append(t.ring, kept)
	}
	close(t.more)
	t.more = make(chan struct{})
	return nil
}

// Position implements Feed.
func (m *Memory) Position(ctx context.Context, topic string) (string, error) {
	if err := m.ready(ctx, 0); err != nil {
		return "", err
	}
	t := m.topic(topic)
	t.mu.Lock()
	defer t.mu.Unlock()
	return FormatPosition(t.last), nil
}

// Follow implements Feed.
func (m *Memory) Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error {
	if err := m.ready(ctx, 0); err != nil {
		return err
	}
	t := m.topic(topic)
	next, err := t.start(from)
	if err != nil {
		return err
	}
	var buf []byte
	for {
		msg, more, err := t.read(buf[:0], next)
		if err != nil {
			return err
		}
		if more != nil {
			select {
			case <-more:
			case <-ctx.Done():
				return ctx.Err()
			case <-m.closed:
				return ErrClosed
			}
			continue
		}
		if err := m.ready(ctx, 0); err != nil {
			return err
		}
		if err := f(FormatPosition(next), msg); err != nil {
			return err
		}
		buf = msg
		next++
	}
}

func (t *memoryTopic) start(from string) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch from {
	case "":
		return t.last + 1, nil
	case "0":
		return t.oldest(), nil
	}
	n, err := ParsePosition(from)
	if err != nil {
		return 0, err
	}
	return n + 1, nil
}

func (t *memoryTopic) oldest() uint64 {
	if t.last < MemoryFeedKept {
		return 1
	}
	return t.last - MemoryFeedKept + 1
}

// read appends message n to dst, or returns a channel that is closed by the next one.
func (t *memoryTopic) read(dst []byte, n uint64) ([]byte, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case n < t.oldest() || n > t.last+1:
		return dst, nil, ErrGap
	case n == t.last+1:
		return dst, t.more, nil
	}
	return append(dst, t.ring[n%MemoryFeedKept]...), nil, nil
}
