// Package kafka carries events over brokers that speak Kafka's protocol, 2.4 or later: a stream.Stream of its own.
//
//  1. Each batch of events is a record in the partition that its network chooses (stream.Partition), uncompressed.
//  2. Processors are a consumer group, so the brokers share out the partitions and replace a processor that is silent; a
//     partition that stays where it is is not interrupted (cooperative sticky).
//  3. What is committed is the offset that was processed last, and beside it, as metadata, the offset where the last
//     stream.Config.Replay and ReplayBytes before it begin: who takes a partition over begins there. What is
//     below the committed offset comes as Delivery.Again.
//  4. Times are the brokers' (LogAppendTime), so clocks of gateways that differ don't matter. The topic is checked for this
//     and for its number of partitions before anything is written or read.
//  5. The brokers drop what is old, by the topic's retention.
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"antirobot/stream"
)

// Stream is a stream.Stream over brokers. Made by New; safe for concurrent use.
type Stream struct {
	cfg  Config
	of   stream.Config
	log  zerolog.Logger
	opts []kgo.Opt // of every connection

	producer *kgo.Client
	checking sync.Mutex
	checked  atomic.Bool           // the topic is as it must be
	failing  atomic.Pointer[error] // as was last logged; nil: the brokers can be used
	closed   atomic.Bool

	mu   sync.Mutex
	held map[int32]*holding
}

// New checks the topic, and makes it if it may. Brokers that can't be reached are no error: they are tried again with each
// call. A topic, or a way to log in, that can't work is one.
func New(cfg Config, of stream.Config, log zerolog.Logger) (*Stream, error) {
	opts, err := options(&cfg)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return open(cfg, of, log, opts)
}

// open is New with the options of the connections.
func open(cfg Config, of stream.Config, log zerolog.Logger, opts []kgo.Opt) (*Stream, error) {
	s := &Stream{cfg: cfg, of: of, log: log, opts: opts, held: map[int32]*holding{}}
	var err error
	s.producer, err = kgo.NewClient(append([]kgo.Opt{
		kgo.DefaultProduceTopicAlways(), kgo.DefaultProduceTopic(cfg.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxBufferedBytes(int(2 * of.BufferBytes)), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(s.largest())), kgo.ProduceRequestTimeout(cfg.Timeout), kgo.RecordDeliveryTimeout(cfg.Timeout), //nolint:gosec // at most 512 MiB
		kgo.DisableIdempotentWrite(), // consumers know what they have had; and what was given up must not wait
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*cfg.Timeout)
	defer cancel()
	var unfit *unfitError
	switch err := s.ready(ctx); {
	case errors.As(err, &unfit):
		s.producer.Close()
		return nil, fmt.Errorf("kafka: %w", err)
	case err != nil:
		s.report(err)
	}
	return s, nil
}

// options are those of every connection.
func options(cfg *Config) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("antirobot"), kgo.DisableClientMetrics(),
		kgo.DialTimeout(cfg.Timeout), kgo.RequestTimeoutOverhead(cfg.Timeout), kgo.MetadataMinAge(500 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	if !cfg.TLS.Enabled {
		return opts, nil
	}
	t, err := cfg.TLS.load()
	if err != nil {
		return nil, err
	}
	return append(opts, kgo.Dialer(dialer(cfg.Timeout, t))), nil
}

// dialer connects with TLS; the handshake has its time, too.
func dialer(timeout time.Duration, t *tls.Config) func(ctx context.Context, network, host string) (net.Conn, error) {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: t}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return d.DialContext(ctx, network, host)
	}
}

// largest is how many bytes a record batch may have: one batch of events, and what the protocol adds.
func (s *Stream) largest() int64 {
	const overhead = 4096
	return max(s.of.BufferBytes/2/int64(s.of.Partitions)+overhead, 1<<20)
}

// Partitions implements stream.Stream.
func (s *Stream) Partitions() int { return s.of.Partitions }

// Publish implements stream.Stream. It ends after Config.Timeout, too.
func (s *Stream) Publish(ctx context.Context, batches []stream.Batch) error {
	if s.closed.Load() {
		return stream.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.ready(ctx)
	if err == nil {
		err = s.produce(ctx, batches)
	}
	s.report(err)
	return err
}

// produce waits until the brokers have the batches, or ctx ends. The client may hold the records longer, so they are copies; and
// they don't end with ctx, because all others of their partition would fail with them.
func (s *Stream) produce(ctx context.Context, batches []stream.Batch) error {
	size := 0
	for _, b := range batches {
		size += len(b.Data)
	}
	data, done := make([]byte, 0, size), make(chan error, len(batches))
	for _, b := range batches {
		begin := len(data)
		data = append(data, b.Data...)
		s.producer.TryProduce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(b.Partition), Value: data[begin:]}, func(_ *kgo.Record, err error) { done <- err }) //nolint:gosec // below 256
	}
	var first error
	for range batches {
		select {
		case err := <-done:
			if err != nil && first == nil {
				first = fmt.Errorf("kafka: publish: %w", err)
			}
		case <-ctx.Done():
			return fmt.Errorf("kafka: publish: %w", ctx.Err())
		}
	}
	return first
}

// report logs that the brokers are away, and that they are back.
func (s *Stream) report(err error) {
	var now *error
	if err != nil {
		now = &err
	}
	switch was := s.failing.Swap(now); {
	case (was != nil) == (err != nil):
	case err != nil:
		s.log.Error().Err(err).Msg("the brokers can't be used now")
	default:
		s.log.Info().Msg("the brokers can be used again")
	}
}

// Status implements stream.Stream.
func (s *Stream) Status() stream.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := stream.Status{Held: len(s.held)}
	if err := s.failing.Load(); err != nil {
		st.Err = fmt.Errorf("the brokers can't be used now: %w", *err)
	}
	for _, h := range s.held {
		st.Lag = max(st.Lag, h.lag(time.Now()))
	}
	return st
}

// Close implements stream.Stream.
func (s *Stream) Close() error {
	if !s.closed.Swap(true) {
		s.producer.Close()
	}
	return nil
}
