package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// TestRedisClusterLosesAMaster kills a master of a cluster while two gateways serve visitors: nobody gets an error, health
// reports it, and afterwards everything works again.
func TestRedisClusterLosesAMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	// A failover takes longer than the cluster's node timeout of a second: with these no gateway can sleep through it.
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf(`
store: {url: %q, redis: {timeout: 300ms}}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
processor: {quota: {enabled: false}} # five hundred new addresses a minute would be a wave
defaults: {upstream: {urls: [%q]}}
services: [{name: default, hosts: ["*"]}]
`, c.URL(), secretFile(t), site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []*gateway{start(t, "serve", "--config", file), start(t, "serve", "--config", file)}
	a, b := all[0], all[1]
	a.ban("ip:203.0.113.1", "10m")
	eventually(t, "the ban on B", func() bool { return b.asks(visitor(t), "/", "203.0.113.1") == 302 })

	stop := make(chan struct{})
	var served, bad atomic.Int64
	var slowest atomic.Int64
	var wg sync.WaitGroup
	for _, g := range all {
		for w := range 2 {
			wg.Go(func() {
				client := &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
					addr, want := fmt.Sprintf("198.%d.%d.1", 18+w, i%250), 200 // no network reads much
					if i%3 == 0 {
						addr, want = "203.0.113.1", 302
					}
					req, err := http.NewRequest("GET", g.url+"/x", nil)
					if err != nil {
						t.Error(err)
						return
					}
					asBrowser(req)
					req.Header.Set("X-Forwarded-For", addr)
					began := time.Now()
					res, err := client.Do(req)
					if err != nil {
						bad.Add(1)
						continue
					}
					_ = res.Body.Close()
					for took := time.Since(began).Nanoseconds(); ; {
						old := slowest.Load()
						if took <= old || slowest.CompareAndSwap(old, took) {
							break
						}
					}
					if res.StatusCode != want {
						bad.Add(1)
					}
					served.Add(1)
				}
			})
		}
	}
	time.Sleep(500 * time.Millisecond)
	killed := time.Now()
	c.Master(t, "antirobot{00}xprobe").Kill()
	eventually(t, "health says so", func() bool { status, _ := a.health(); return status == "degraded" })
	for _, g := range all {
		eventually(t, "health after the failover", func() bool { status, _ := g.health(); return status == "ok" })
	}
	t.Logf("health was good again %v after the kill", time.Since(killed))
	close(stop)
	wg.Wait()
	t.Logf("%d requests, the slowest took %v", served.Load(), time.Duration(slowest.Load()))
	if bad.Load() > 0 {
		t.Errorf("%d of %d requests were answered wrongly", bad.Load(), served.Load())
	}
	if s := b.asks(visitor(t), "/", "203.0.113.1"); s != 302 {
		t.Errorf("the ban is gone: %d", s)
	}
	for i := range 30 { // keys of every shard
		a.ban(fmt.Sprintf("ip:203.0.113.%d", 100+i), "10m")
	}
	for i := range 30 {
		addr := fmt.Sprintf("203.0.113.%d", 100+i)
		eventually(t, "a new ban on B", func() bool { return b.asks(visitor(t), "/", addr) == 302 })
	}
}
