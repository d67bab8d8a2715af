package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Events has a stream for each partition, trimmed by age. Safe for concurrent use; it lives as long as its Store.
type Events struct {
	s    *Store
	keep time.Duration
	keys []string // by partition
}

// Events returns the streams of a number of partitions, and keeps batches for a time.
func (s *Store) Events(partitions int, keep time.Duration) *Events {
	e := &Events{s: s, keep: keep}
	for i := range partitions {
		e.keys = append(e.keys, s.spread(letterEvents, []byte(strconv.Itoa(i))))
	}
	return e
}

// Close does nothing: the Store owns the connection.
func (e *Events) Close() error { return nil }

// Append adds batches in one round trip. After an error some may have been added.
func (e *Events) Append(ctx context.Context, partitions []int, data [][]byte) error {
	if err := e.s.ready(ctx, 0); err != nil {
		return err
	}
	oldest := strconv.FormatInt(e.s.deps.Now().Add(e.s.Skew()-e.keep).UnixMilli(), 10)
	all, err := e.s.doMulti(ctx, len(partitions), func(cl rueidis.Client, i int) rueidis.Completed {
		return cl.B().Xadd().Key(e.keys[partitions[i]]).Minid().Almost().Threshold(oldest).Id("*").
			FieldValue().FieldValue("d", rueidis.BinaryString(data[i])).Build()
	})
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := r.Error(); err != nil {
			return e.s.failed(err)
		}
	}
	return nil
}

const eventsPage = 64

// Read calls f with batches after a position, from the oldest if it is empty; it returns after some, or after wait. The
// data is valid during the call.
func (e *Events) Read(ctx context.Context, partition int, after string, wait time.Duration,
	f func(pos string, data []byte),
) error {
	if err := e.s.ready(ctx, 0); err != nil {
		return err
	}
	cl, err := e.s.conn()
	if err != nil {
		return err
	}
	if after == "" {
		after = startOfFeed
	}
	limit, cancel := context.WithTimeout(ctx, wait+e.s.cfg.Timeout)
	defer cancel()
	key := e.keys[partition]
	read := cl.B().Xread().Count(eventsPage).Block(max(wait.Milliseconds(), 1)).Streams().Key(key).Id(after).Build()
	streams, err := cl.Do(limit, read.UnblockOnCancel()).AsXRead()
	switch {
	case rueidis.IsRedisNil(err):
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return e.s.failed(errors.New("a stream does not answer"))
	case err != nil:
		return e.s.failed(err)
	}
	for _, m := range streams[key] {
		f(m.ID, []byte(m.FieldValues["d"]))
	}
	return nil
}

// End returns the position of the newest batch; empty if there is none.
func (e *Events) End(ctx context.Context, partition int) (string, error) {
	return e.s.lastOf(ctx, e.keys[partition])
}

// Trim drops the batches before a position.
func (e *Events) Trim(ctx context.Context, partition int, before string) error {
	_, err := e.s.do(ctx, false, func(cl rueidis.Client) rueidis.Completed {
		return cl.B().Xtrim().Key(e.keys[partition]).Minid().Threshold(before).Build()
	})
	return e.s.failed(err)
}

// Back returns the position some time before another one.
func (e *Events) Back(pos string, by time.Duration) string {
	ms, _ := eventPosition(pos)
	return strconv.FormatInt(max(ms-by.Milliseconds(), 0), 10) + "-0"
}

// Ahead returns how much later a is than b; within a millisecond, by order.
func (e *Events) Ahead(a, b string) time.Duration {
	ams, aseq := eventPosition(a)
	bms, bseq := eventPosition(b)
	return time.Duration(ams-bms)*time.Millisecond + time.Duration(min(max(aseq-bseq, -999), 999))*time.Nanosecond
}

func eventPosition(pos string) (ms, seq int64) {
	a, b, _ := strings.Cut(pos, "-")
	ms, _ = strconv.ParseInt(a, 10, 64)
	seq, _ = strconv.ParseInt(b, 10, 64)
	return ms, seq
}
