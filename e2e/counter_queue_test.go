package e2e

import (
	"encoding/json"
	"syscall"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// counted reads a counter of a test, of today.
func (g *gateway) counted(typ int, shingle string) uint64 {
	g.t.Helper()
	var out struct {
		Counts []uint64 `json:"counts"`
	}
	status, body := g.tryAPI("POST", "/api/counters/read", map[string]any{
		"prefix": "e2e", "queries": []map[string]any{{"type": typ, "shingle": shingle, "unit": "1d", "last": 2}},
	})
	if status == 200 {
		if err := json.Unmarshal(body, &out); err != nil || len(out.Counts) != 1 {
			g.t.Fatalf("read: %s", body)
		}
		return out.Counts[0]
	}
	return 0
}

// TestDurableWithoutTheStore: what was acknowledged as durable is counted, once, although the store was away and the gateway
// was killed.
func TestDurableWithoutTheStore(t *testing.T) {
	t.Parallel()
	const shingle, sender = "00000000000000aa", "00000000000000bb"
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	g := fleet(t, 1, "redis://"+r.Addr)[0]
	update := func(n int) {
		t.Helper()
		g.api("POST", "/api/counters/update?wait=durable", map[string]any{
			"prefix":  "e2e",
			"updates": []map[string]any{{"type": 15, "shingle": shingle, "n": n}},
			"uniques": []map[string]any{{"type": 31, "shingle": sender, "pair": map[string]any{"type": 30, "shingle": shingle}}},
		})
	}
	update(1)
	if n := g.counted(15, shingle); n != 1 {
		t.Fatalf("counted %d", n)
	}
	r.Kill()
	update(10)
	eventually(t, "the gateway knows that the store is away", func() bool { status, _ := g.health(); return status == "degraded" })
	update(100)
	if n := g.metric("antirobot_counter_queue_batches"); n == 0 {
		t.Error("nothing waits on disk")
	}
	g.kill(syscall.SIGKILL)
	r.Restart(t)
	g.run()
	eventually(t, "all is counted", func() bool { return g.counted(15, shingle) == 111 })
	if pair, unique := g.counted(30, shingle), g.counted(31, sender); pair != 3 || unique != 1 {
		t.Errorf("the pair counts %d, its unique %d; want 3 and 1", pair, unique)
	}
	eventually(t, "the queue is empty", func() bool { return g.metric("antirobot_counter_queue_batches") == 0 })
}
