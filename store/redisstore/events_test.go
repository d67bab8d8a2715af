package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
	"antirobot/stream"
	"antirobot/stream/streamtest"
)

// TestEventsConform runs the suite for streams against a real server; each connection is one of its own.
func TestEventsConform(t *testing.T) {
	r := redistest.Start(t)
	streamtest.Run(t, func(*testing.T) streamtest.Engine {
		own := config()
		cfg := stream.DefaultConfig()
		cfg.Partitions, cfg.Lease = 4, streamtest.Lease
		links := map[stream.Stream]*streamtest.Link{}
		return streamtest.Engine{
			Join: func(t *testing.T) stream.Stream {
				s, err := redisstore.New(own, redisstore.Deps{URL: "redis://" + r.Addr})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				link := &streamtest.Link{KV: s}
				g := stream.NewGroup(cfg, stream.GroupDeps{Log: s.Events(cfg.Partitions, cfg.Keep), KV: link})
				links[g] = link
				return g
			},
			Lose: func(_ *testing.T, s stream.Stream) { links[s].Cut() },
		}
	})
}

// TestReadEndsWithItsContext: who stops does not wait for what it was waiting for, and leaves nothing on the server that waits.
func TestReadEndsWithItsContext(t *testing.T) {
	r := redistest.Start(t)
	e := open(t, "redis://"+r.Addr, config()).Events(1, time.Hour)
	blocked := func(n string) func() bool {
		return func() bool { return strings.Contains(r.CLI(t, "info", "clients"), "blocked_clients:"+n) }
	}
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	go func() { ended <- e.Read(ctx, 0, "", time.Hour, func(string, []byte) {}) }()
	servertest.Eventually(t, "it waits", blocked("1"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	servertest.Eventually(t, "nothing waits", blocked("0"))
}
