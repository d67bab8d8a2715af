package redisstore_test

import (
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// TestSpendLater: keys treated as spent while the servers were down are spent when they are back, so another node refuses
// them.
func TestSpendLater(t *testing.T) {
	r := redistest.Start(t)
	p := redistest.StartProxy(t, r.Addr)
	cfg := config()
	b := open(t, "redis://"+r.Addr, cfg)
	cfg.Timeout = 300 * time.Millisecond
	a := open(t, "redis://"+p.Addr, cfg)
	p.Cut()
	if _, err := a.Spend(bg, []byte("k"), time.Hour); err == nil {
		t.Fatal("Spend works without the servers")
	}
	a.SpendLater([]byte("k"), time.Hour)
	if n := metric(t, a, "antirobot_redis_spends_owed"); n != 1 {
		t.Errorf("%v spends are owed", n)
	}
	p.Heal()
	servertest.Eventually(t, "nothing is owed", func() bool { return metric(t, a, "antirobot_redis_spends_owed") == 0 })
	if first, err := b.Spend(bg, []byte("k"), time.Hour); err != nil || first {
		t.Errorf("another node: %v, %v; want false", first, err)
	}
}

// TestSpentAgain: spent keys that the servers have lost are spent again: an answer that one node accepted is refused by
// another, even after a flush.
func TestSpentAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	cfg := config()
	a, b := open(t, "redis://"+r.Addr, cfg), open(t, "redis://"+r.Addr, cfg)
	if first, err := a.Spend(bg, []byte("k"), time.Hour); err != nil || !first {
		t.Fatal(first, err)
	}
	before, _ := a.Life()
	r.CLI(t, "flushall")
	servertest.Eventually(t, "the loss is noticed", func() bool { now, _ := a.Life(); return now != before && now != "" })
	servertest.Eventually(t, "nothing is owed", func() bool { return metric(t, a, "antirobot_redis_spends_owed") == 0 })
	if first, err := b.Spend(bg, []byte("k"), time.Hour); err != nil || first {
		t.Errorf("another node: %v, %v; want false", first, err)
	}
	servertest.Eventually(t, "both know the same life", func() bool {
		x, _ := a.Life()
		y, _ := b.Life()
		return x == y
	})
}
