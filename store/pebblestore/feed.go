package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2"
)

type feeds struct {
	mu   sync.Mutex
	more map[string]chan struct{} // for topics with followers; closed when the topic grows
}

// wait returns a channel that is closed when the topic next grows.
func (f *feeds) wait(topic string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.more[topic]
	if c == nil {
		c = make(chan struct{})
		f.more[topic] = c
	}
	return c
}

func (f *feeds) wake(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.more[topic]; c != nil {
		close(c)
		delete(f.more, topic)
	}
}

func (f *feeds) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.more {
		close(c)
	}
	clear(f.more)
}

// topicEnds are the numbers of a topic's oldest and last messages, from 1; last is first-1 in an empty topic.
type topicEnds struct{ first, last uint64 }

// decideAppend numbers the message, and drops the oldest beyond an eighth too many.
func (s *committer) decideAppend(g *group, r *request, topics map[string]*topicEnds) error {
	topic := string(r.key)
	prefix := topicPrefix(topic)
	ends := topics[topic]
	if ends == nil {
		var err error
		if ends, err = readEnds(g.batch, prefix); err != nil {
			return err
		}
		topics[topic] = ends
	}
	if err := g.batch.Set(feedKey(prefix, ends.last+1), r.val, nil); err != nil {
		return err
	}
	ends.last++
	g.topics = append(g.topics, topic)
	keep := s.limit.feedKeep
	if ends.last-ends.first+1 <= keep+keep/8 {
		return nil
	}
	first := ends.last - keep + 1
	if err := g.batch.DeleteRange(feedKey(prefix, ends.first), feedKey(prefix, first), nil); err != nil {
		return err
	}
	ends.first = first
	return nil
}

func readEnds(r pebble.Reader, prefix []byte) (*topicEnds, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: feedKey(prefix, 0), UpperBound: feedKey(prefix, 1<<64-1)})
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	ends := &topicEnds{first: 1}
	if it.First() {
		ends.first = feedNumber(it.Key())
	}
	if it.Last() {
		ends.last = feedNumber(it.Key())
	}
	return ends, wrap("read feed", it.Close())
}

func (s *Store) ends(topic string) (ends *topicEnds, err error) {
	if len(topic) > maxTopic {
		return nil, fmt.Errorf("read feed: a topic of %d bytes", len(topic))
	}
	err = s.with(func(e *engine) error {
		ends, err = readEnds(e.db, topicPrefix(topic))
		return err
	})
	return ends, err
}

// Append implements store.Feed. A topic's name has at most 65535 bytes.
func (s *Store) Append(ctx context.Context, topic string, msg []byte) error {
	if len(topic) > maxTopic {
		return fmt.Errorf("append to feed: a topic of %d bytes", len(topic))
	}
	_, err := s.write(ctx, 0, request{verb: doAppend, key: []byte(topic), val: bytes.Clone(msg)})
	return err
}

// Position implements store.Feed.
func (s *Store) Position(ctx context.Context, topic string) (string, error) {
	if err := s.ready(ctx, 0); err != nil {
		return "", err
	}
	ends, err := s.ends(topic)
	if err != nil {
		return "", err
	}
	return store.FormatPosition(ends.last), nil
}

// Follow implements store.Feed.
func (s *Store) Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	next, err := s.followFrom(topic, from)
	if err != nil {
		return err
	}
	prefix := topicPrefix(topic)
	for {
		more := s.feeds.wait(topic) // before reading, so that no message is missed in between
		list, _, err := s.chunk(feedKey(prefix, next), feedKey(prefix, 1<<64-1))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			if err := s.waitMore(ctx, topic, next, more); err != nil {
				return err
			}
			continue
		}
		for _, e := range list {
			if feedNumber(e.key) != next {
				return store.ErrGap
			}
			if err := s.ready(ctx, 0); err != nil {
				return err
			}
			if err := f(store.FormatPosition(next), e.val); err != nil {
				return err
			}
			next++
		}
	}
}

func (s *Store) followFrom(topic, from string) (uint64, error) {
	if from != "" && from != "0" {
		n, err := store.ParsePosition(from)
		return n + 1, err
	}
	ends, err := s.ends(topic)
	if err != nil {
		return 0, err
	}
	if from == "" {
		return ends.last + 1, nil
	}
	return ends.first, nil
}

// waitMore returns when message next may exist, or an error if it cannot.
func (s *Store) waitMore(ctx context.Context, topic string, next uint64, more <-chan struct{}) error {
	ends, err := s.ends(topic)
	if err != nil {
		return err
	}
	if next > ends.last+1 { // a position from another life of this feed
		return store.ErrGap
	}
	if next <= ends.last {
		return nil
	}
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
}
