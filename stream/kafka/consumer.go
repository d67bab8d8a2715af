package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"antirobot/store"
	"antirobot/stream"
)

// holding is a partition that the brokers have given to us.
type holding struct {
	from  int64 // where we asked to begin; -1: wherever it begins
	begun int64 // below it, an earlier holder has processed it; 0: nobody has

	mu    sync.Mutex
	next  int64 // after what was processed and is not Again; 0: nothing yet
	noted int64 // of that, committed
	past  stream.Past
	waits bool      // more has come after what is being processed
	hand  time.Time // when that came, by the brokers' clock
}

// lag is how far what is processed is behind the newest, when more is waiting.
func (h *holding) lag(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.waits {
		return 0
	}
	return max(now.Sub(h.hand), 0)
}

// The bounds of what is read at once, and the pauses.
const (
	fetchBytes     = 8 << 20 // from one broker
	partitionBytes = 1 << 20
	batchBytes     = 16 << 20 // after decompression, if the brokers compress
	pollRecords    = 512
	commitEvery    = 250 * time.Millisecond
	retryPause     = 250 * time.Millisecond
	leavePatience  = 3 * time.Second
)

// Consume implements stream.Stream.
func (s *Stream) Consume(ctx context.Context, f func(d stream.Delivery)) error {
	for ctx.Err() == nil {
		limit, cancel := context.WithTimeout(ctx, 2*s.cfg.Timeout)
		err := s.ready(limit)
		cancel()
		if err == nil {
			break
		}
		s.report(err)
		store.Pause(ctx, retryPause)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var heard answers
	cl, err := s.join(&heard)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	s.read(ctx, cl, &heard, f)
	limit, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	cl.AllowRebalance()
	_ = cl.LeaveGroupContext(limit) // else the session ends by itself
	cl.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.held)
	return ctx.Err()
}

// answers counts the fetches and heartbeats that brokers have answered: so a processor to which nothing comes learns that it can read
// again.
type answers struct{ n atomic.Int64 }

// OnBrokerRead implements kgo.HookBrokerRead.
func (a *answers) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if k := kmsg.Key(key); err == nil && (k == kmsg.Fetch || k == kmsg.Heartbeat) {
		a.n.Add(1)
	}
}

// join makes a member of the group.
func (s *Stream) join(heard *answers) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.WithHooks(heard),
		kgo.ConsumeTopics(s.cfg.Topic), kgo.ConsumerGroup(s.cfg.Group), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(s.cfg.SessionTimeout), kgo.HeartbeatInterval(s.cfg.SessionTimeout / 6), kgo.RebalanceTimeout(s.cfg.SessionTimeout),
		kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit(), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(max(partitionBytes, int32(s.largest()))), kgo.MaxDecompressBatchBytes(max(batchBytes, int(s.largest()))), //nolint:gosec // at most 512 MiB
		kgo.OnPartitionsAssigned(s.assigned), kgo.OnOffsetsFetched(s.fetched), kgo.AdjustFetchOffsetsFn(s.adjust),
		kgo.OnPartitionsRevoked(s.revoked), kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { s.drop(lost) }),
	}, s.opts...)...)
}

// assigned notes the partitions that were given to us.
func (s *Stream) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range given[s.cfg.Topic] {
		s.held[p] = &holding{from: -1}
		s.log.Info().Int32("partition", p).Msg("took a partition")
	}
}

// fetched learns how far earlier holders have come. Only one topic is consumed.
func (s *Stream) fetched(_ context.Context, _ *kgo.Client, r *kmsg.OffsetFetchResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			h := s.held[p.Partition]
			if h == nil || p.Offset < 0 {
				continue
			}
			h.begun, h.from = p.Offset, p.Offset
			if p.Metadata == nil {
				continue
			}
			if from, err := strconv.ParseInt(*p.Metadata, 10, 64); err == nil && from >= 0 && from < p.Offset {
				h.from = from
			}
		}
	}
	return nil
}

// adjust begins before what was committed.
func (s *Stream) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range offsets[s.cfg.Topic] {
		if h := s.held[p]; h != nil && h.from >= 0 {
			offsets[s.cfg.Topic][p] = kgo.NewOffset().At(h.from)
		}
	}
	return offsets, nil
}

// revoked gives partitions back. It is called while nothing is being processed.
func (s *Stream) revoked(ctx context.Context, cl *kgo.Client, given map[string][]int32) {
	limit, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	if err := s.commit(limit, cl); err != nil {
		s.log.Warn().Err(err).Msg("what was processed could not be noted: some is counted twice")
	}
	s.drop(given)
}

func (s *Stream) drop(lost map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range lost[s.cfg.Topic] {
		delete(s.held, p)
	}
}

// read calls f with what comes, until ctx ends.
func (s *Stream) read(ctx context.Context, cl *kgo.Client, heard *answers, f func(d stream.Delivery)) {
	committed, failed := time.Now(), int64(0) // failed: what was heard until something last failed
	for ctx.Err() == nil {
		n := heard.n.Load()
		list, err := s.poll(ctx, cl)
		var all sync.WaitGroup
		for _, fetched := range list {
			all.Go(func() { s.process(fetched, f) })
		}
		all.Wait()
		if now := time.Now(); ctx.Err() == nil && now.Sub(committed) >= commitEvery {
			limit, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
			err = errors.Join(err, s.commit(limit, cl))
			cancel()
			committed = now
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.report(err)
			failed = heard.n.Load()
		case len(list) > 0 || n > failed:
			s.report(nil)
		}
		cl.AllowRebalance()
	}
}

// poll waits for what comes, by partition, for a moment. There may be an error beside it.
func (s *Stream) poll(ctx context.Context, cl *kgo.Client) (list map[int32][]kgo.FetchPartition, err error) {
	limit, cancel := context.WithTimeout(ctx, commitEvery)
	defer cancel()
	list = map[int32][]kgo.FetchPartition{}
	fetches := cl.PollRecords(limit, pollRecords)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil && !errors.Is(p.Err, context.DeadlineExceeded) && !errors.Is(p.Err, context.Canceled) {
			err = errors.Join(err, p.Err)
		}
		if len(p.Records) > 0 {
			list[p.Partition] = append(list[p.Partition], p.FetchPartition)
		}
	})
	return list, err
}

// process calls f with the records of a partition. None is processed that is not ours.
func (s *Stream) process(list []kgo.FetchPartition, f func(d stream.Delivery)) {
	partition := list[0].Partition
	s.mu.Lock()
	h := s.held[partition]
	s.mu.Unlock()
	if h == nil {
		return
	}
	for _, p := range list {
		for _, r := range p.Records {
			if r.Offset < h.from {
				h.begun = 0 // the topic is another one than was committed
			}
			again := r.Offset < h.begun
			h.mu.Lock()
			h.hand, h.waits = r.Timestamp, r.Offset+1 < p.HighWatermark
			h.mu.Unlock()
			f(stream.Delivery{Partition: int(partition), Data: r.Value, Again: again})
			h.mu.Lock()
			if !again {
				h.next = r.Offset + 1
			}
			h.past.Add(strconv.FormatInt(r.Offset, 10), time.Duration(r.Timestamp.UnixNano()), int64(len(r.Value)))
			h.past.Drop(s.of.Replay, s.of.ReplayBytes)
			h.mu.Unlock()
		}
	}
}

// commit notes how far each partition was processed, and where its past begins.
func (s *Stream) commit(ctx context.Context, cl *kgo.Client) (err error) {
	offsets, from, moved := map[int32]kgo.EpochOffset{}, map[int32]string{}, map[int32]*holding{}
	s.mu.Lock()
	for p, h := range s.held {
		h.mu.Lock()
		if h.next > h.noted {
			offsets[p], from[p], moved[p] = kgo.EpochOffset{Epoch: -1, Offset: h.next}, h.past.From(s.of.Replay, s.of.ReplayBytes), h
		}
		h.mu.Unlock()
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	ctx = kgo.PreCommitFnContext(ctx, func(r *kmsg.OffsetCommitRequest) error {
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				p.Metadata = kmsg.StringPtr(from[p.Partition])
			}
		}
		return nil
	})
	cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.cfg.Topic: offsets}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, failed error) {
		err = committed(r, failed)
	})
	for p, h := range moved {
		if err == nil {
			h.mu.Lock()
			h.noted = offsets[p].Offset
			h.mu.Unlock()
		}
	}
	return err
}

// committed returns the first error of an answer.
func committed(r *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || r == nil {
		return err
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("commit partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}
