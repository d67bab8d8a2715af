package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// unfitError is something that no waiting will mend.
type unfitError struct{ text string }

func (e *unfitError) Error() string { return e.text }

func unfit(format string, args ...any) error { return &unfitError{fmt.Sprintf(format, args...)} }

// ready makes sure that the topic is as it must be. Once it was found so, it is not asked for again.
func (s *Stream) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	s.checking.Lock()
	defer s.checking.Unlock()
	if s.checked.Load() {
		return nil
	}
	if err := s.check(ctx, kadm.NewClient(s.producer)); err != nil {
		switch {
		case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
			return unfit("%v: see kafka.mechanism, user and password", err)
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			return unfit("%v: the user of the brokers needs Describe, Read and Write of topic %s and Read of group %s, and Create if it is to make the topic", err, s.cfg.Topic, s.cfg.Group)
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the brokers end the connection at its start: see kafka.tls, mechanism, user and password", err)
		}
		return err
	}
	s.checked.Store(true)
	return nil
}

// check looks at the topic, and makes it if there is none.
func (s *Stream) check(ctx context.Context, cl *kadm.Client) error {
	topic := s.cfg.Topic
	for {
		list, err := cl.ListTopics(ctx, topic)
		if err != nil {
			return fmt.Errorf("ask for topic %s: %w", topic, err)
		}
		t := list[topic]
		switch {
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition) && !s.cfg.Create:
			return unfit("there is no topic %s, and kafka.create is false: make it with %d partitions and message.timestamp.type=LogAppendTime", topic, s.of.Partitions)
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			if err := s.create(ctx, cl); err != nil {
				return err
			}
			select { // the brokers tell each other
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return fmt.Errorf("wait for the new topic %s: %w", topic, ctx.Err())
			}
		case t.Err != nil:
			return fmt.Errorf("ask for topic %s: %w", topic, t.Err)
		case len(t.Partitions) != s.of.Partitions:
			return unfit("topic %s has %d partitions, and stream.partitions is %d: set it to %d on all nodes, or name another topic in kafka.topic",
				topic, len(t.Partitions), s.of.Partitions, len(t.Partitions))
		}
		return s.checkSettings(ctx, cl)
	}
}

// segments is into how many files a partition is divided: the brokers drop whole ones.
const segments = 8

// create makes the topic. That another node was faster is no error.
func (s *Stream) create(ctx context.Context, cl *kadm.Client) error {
	bytes := max(s.of.KeepBytes/int64(s.of.Partitions), 1<<20)
	number := func(n int64) *string { return new(strconv.FormatInt(n, 10)) }
	settings := map[string]*string{
		"cleanup.policy": new("delete"), "message.timestamp.type": new("LogAppendTime"), "max.message.bytes": number(s.largest()),
		"retention.ms": number(s.of.Keep.Milliseconds()), "retention.bytes": number(bytes),
		"segment.ms": number(max(s.of.Keep/segments, time.Minute).Milliseconds()), "segment.bytes": number(max(bytes/segments, s.largest(), 1<<20)),
	}
	replicas := int16(s.cfg.Replicas) //nolint:gosec // at most 16
	if replicas == 0 {
		replicas = -1
	}
	_, err := cl.CreateTopic(ctx, int32(s.of.Partitions), replicas, settings, s.cfg.Topic) //nolint:gosec // at most 256
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return unfit("make topic %s: %v: there are fewer brokers than kafka.replicas", s.cfg.Topic, err)
	case err != nil:
		return fmt.Errorf("make topic %s: %w", s.cfg.Topic, err)
	}
	s.log.Info().Str("topic", s.cfg.Topic).Int("partitions", s.of.Partitions).Msg("made the topic")
	return nil
}

// checkSettings looks at the topic's settings, if the brokers show them to us.
func (s *Stream) checkSettings(ctx context.Context, cl *kadm.Client) error {
	all, err := cl.DescribeTopicConfigs(ctx, s.cfg.Topic)
	if err == nil && len(all) > 0 {
		err = all[0].Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		s.log.Warn().Msg("we may not see the topic's settings (DescribeConfigs), so they are not checked")
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for the settings of topic %s: %w", s.cfg.Topic, err)
	}
	var errs []string
	for _, r := range all {
		for _, c := range r.Configs {
			if want := s.wrong(c.Key, c.MaybeValue()); want != "" {
				errs = append(errs, fmt.Sprintf("%s is %s, and must be %s", c.Key, c.MaybeValue(), want))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.Sort(errs)
	return unfit("topic %s: %s", s.cfg.Topic, strings.Join(errs, "; "))
}

// wrong returns what a setting of the topic must be; empty if it is well.
func (s *Stream) wrong(key, value string) string {
	n, _ := strconv.ParseInt(value, 10, 64)
	switch {
	case key == "cleanup.policy" && !slices.Contains(strings.Split(value, ","), "delete"):
		return "delete: events have no keys by which they could be compacted"
	case key == "message.timestamp.type" && value != "LogAppendTime":
		return "LogAppendTime: what is read once more goes by the brokers' clock"
	case key == "max.message.bytes" && n < s.largest():
		return fmt.Sprintf("at least %d (stream.buffer_bytes / 2 / stream.partitions)", s.largest())
	case key == "retention.ms" && n >= 0 && n < s.of.Replay.Milliseconds():
		return fmt.Sprintf("at least %d (stream.replay)", s.of.Replay.Milliseconds())
	}
	return ""
}
