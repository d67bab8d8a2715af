package redisstore_test

import (
	"testing"
	"time"

	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
	"antirobot/stream"
	"antirobot/stream/streamtest"
)

// TestEventsConform runs the suite for streams against a real server; each connection is one of its own.
func TestEventsConform(t *testing.T) {
	r := redistest.Start(t)
	n := 0
	streamtest.Run(t, func(*testing.T) streamtest.Engine {
		n++
		own := redisstore.DefaultConfig()
		own.KeyPrefix += string(rune('a' + n))
		cfg := stream.DefaultConfig()
		cfg.Partitions, cfg.Lease = 4, 500*time.Millisecond
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
