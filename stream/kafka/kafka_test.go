package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"antirobot/stream"
	"antirobot/stream/streamtest"
)

// brokers starts an imitation of brokers that speaks the protocol.
func brokers(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// quick is a configuration whose processors are replaced soon.
func quick(c *kfake.Cluster) (Config, stream.Config) {
	cfg, of := DefaultConfig(), stream.DefaultConfig()
	cfg.Brokers, cfg.SessionTimeout, cfg.Timeout, of.Partitions = c.ListenAddrs(), time.Second, time.Second, 4
	return cfg, of
}

// link is a network that can be cut.
type link struct {
	mu    sync.Mutex
	conns []net.Conn
	away  bool
}

func (l *link) dial(ctx context.Context, network, host string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, errors.New("the link is cut")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, host)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// joined opens a stream over a link of its own.
func joined(t *testing.T, c *kfake.Cluster) (*Stream, *link) {
	t.Helper()
	cfg, of := quick(c)
	opts, err := options(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{}
	s, err := open(cfg, of, zerolog.Nop(), append(opts, kgo.Dialer(l.dial)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, l
}

// TestConforms runs the suite for streams against an imitation of brokers.
func TestConforms(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) streamtest.Engine {
		c := brokers(t)
		links := map[stream.Stream]*link{}
		return streamtest.Engine{
			Join: func(t *testing.T) stream.Stream {
				s, l := joined(t, c)
				links[s] = l
				return s
			},
			Lose: func(_ *testing.T, s stream.Stream) { links[s].cut() },
		}
	})
}
