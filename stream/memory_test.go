package stream_test

import (
	"testing"
	"time"

	"antirobot/store"
	"antirobot/stream"
	"antirobot/stream/streamtest"
)

// quick is a configuration whose leases end soon.
func quick() stream.Config {
	c := stream.DefaultConfig()
	c.Partitions, c.Lease = 4, 500*time.Millisecond
	return c
}

func TestConformsMemory(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) streamtest.Engine {
		cfg := quick()
		cfg.Lease = streamtest.Lease
		log, kv := newMemoryLog(cfg.Partitions), store.NewMemory(nil)
		t.Cleanup(func() { _ = kv.Close() })
		links := map[stream.Stream]*streamtest.Link{}
		return streamtest.Engine{
			Join: func(*testing.T) stream.Stream {
				link := &streamtest.Link{KV: kv}
				g := stream.NewGroup(cfg, stream.GroupDeps{Log: log, KV: link})
				links[g] = link
				return g
			},
			Lose: func(_ *testing.T, s stream.Stream) { links[s].Cut() },
		}
	})
}
