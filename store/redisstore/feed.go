package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// feed implements store.Feed with streams trimmed by length. Each message carries the ID of the one before it, so that
// a follower notices a gap.
type feed struct {
	*servers
	monitor *monitor
}

const startOfFeed = "0-0"

const (
	feedPage  = 256
	feedBlock = time.Second // between two checks whether the topic was lost
)

func (s *feed) topic(name string) string { return s.spread(letterFeed, []byte(name)) }

func (s *feed) Append(ctx context.Context, topic string, msg []byte) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	_, err := s.run(ctx, false, s.scripts.push, []string{s.topic(topic)}, string(msg), strconv.Itoa(s.deps.FeedKeep))
	return err
}

func (s *feed) Position(ctx context.Context, topic string) (string, error) {
	if err := s.ready(ctx, 0); err != nil {
		return "", err
	}
	return s.position(ctx, topic)
}

func (s *feed) position(ctx context.Context, topic string) (string, error) {
	id, err := s.lastOf(ctx, s.topic(topic))
	if id == "" && err == nil {
		id = startOfFeed
	}
	return id, err
}

// lastOf returns the ID of a stream's last message; empty without one.
func (s *servers) lastOf(ctx context.Context, key string) (string, error) {
	m, err := s.do(ctx, false, func(cl rueidis.Client) rueidis.Completed {
		return cl.B().Xrevrange().Key(key).End("+").Start("-").Count(1).Build()
	})
	if err != nil {
		return "", s.failed(err)
	}
	last, err := m.AsXRange()
	if err != nil || len(last) == 0 {
		return "", s.failed(err)
	}
	return last[0].ID, nil
}

// validPosition accepts only the canonical spelling of a stream ID.
func validPosition(pos string) bool {
	ms, seq, ok := strings.Cut(pos, "-")
	a, err1 := strconv.ParseUint(ms, 10, 64)
	b, err2 := strconv.ParseUint(seq, 10, 64)
	return ok && err1 == nil && err2 == nil && pos == strconv.FormatUint(a, 10)+"-"+strconv.FormatUint(b, 10)
}

// before reports whether position a lies before b. Both are valid.
func before(a, b string) bool {
	less := func(x, y string) bool { return len(x) < len(y) || len(x) == len(y) && x < y }
	ams, aseq, _ := strings.Cut(a, "-")
	bms, bseq, _ := strings.Cut(b, "-")
	return less(ams, bms) || ams == bms && less(aseq, bseq)
}

func (s *feed) Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	oldest := from == "0"
	switch {
	case oldest:
		from = startOfFeed
	case from == "":
		var err error
		if from, err = s.position(ctx, topic); err != nil {
			return err
		}
	case !validPosition(from):
		return fmt.Errorf("%w: %.80q", store.ErrPosition, from)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	at, era := from, s.monitor.era.Load()
	for {
		if s.monitor.era.Load() != era {
			return store.ErrGap
		}
		got, err := s.listen(ctx, topic, at)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			if err := s.stillThere(ctx, topic, at); err != nil {
				return err
			}
		}
		for _, m := range got {
			if err := s.ready(ctx, 0); err != nil {
				return err
			}
			if m.FieldValues["p"] != at && !oldest {
				return store.ErrGap
			}
			oldest = false
			at = m.ID
			if err := f(at, []byte(m.FieldValues["m"])); err != nil {
				return err
			}
		}
	}
}

// listen waits briefly for messages after a position. It returns at once when ctx ends: a stopping gateway closes its
// topics one by one.
func (s *feed) listen(ctx context.Context, topic, at string) ([]rueidis.XRangeEntry, error) {
	cl, err := s.conn()
	if err != nil {
		return nil, err
	}
	key := s.topic(topic)
	wait, cancel := context.WithTimeout(ctx, feedBlock+s.cfg.Timeout)
	defer cancel()
	read := cl.B().Xread().Count(feedPage).Block(feedBlock.Milliseconds()).Streams().Key(key).Id(at).Build()
	streams, err := cl.Do(wait, read.UnblockOnCancel()).AsXRead()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, s.ready(ctx, 0)
	case err != nil:
		if own := s.ready(ctx, 0); own != nil {
			return nil, own
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("a feed does not answer")
		}
		return nil, s.failed(err)
	}
	return streams[key], nil
}

// stillThere checks that a silent topic still has the position: a server that lost it is silent too.
func (s *feed) stillThere(ctx context.Context, topic, at string) error {
	end, err := s.position(ctx, topic)
	if err != nil {
		if own := s.ready(ctx, 0); own != nil {
			return own
		}
		return err
	}
	if before(end, at) {
		return store.ErrGap
	}
	return nil
}
