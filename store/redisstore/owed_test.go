package redisstore_test

import (
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// What was taken for spent while the servers were away is spent when they are back, so that another node refuses it.
func TestSpendLater(t *testing.T) {
	r := redistest.Start(t)
	p := redistest.StartProxy(t, r.Addr)
	cfg := config()
	cfg.Timeout, cfg.WaitTimeout = 300*time.Millisecond, 50*time.Millisecond
	a := open(t, "redis://"+p.Addr, cfg)
	b := open(t, "redis://"+r.Addr, cfg)
	p.Cut()
	if _, err := a.Spend(bg, []byte("k"), time.Hour); err == nil {
		t.Fatal("Spend works without the servers")
	}
	a.SpendLater([]byte("k"), time.Hour)
	if n := metric(t, a, "antirobot_redis_spends_owed"); n != 1 {
		t.Errorf("%v spends are owed", n)
	}
	p.Heal()
	eventually(t, "nothing is owed", 20*time.Second, func() bool { return metric(t, a, "antirobot_redis_spends_owed") == 0 })
	if first, err := b.Spend(bg, []byte("k"), time.Hour); err != nil || first {
		t.Errorf("another node: %v, %v; want false", first, err)
	}
}
