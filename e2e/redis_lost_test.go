package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// siege makes banned and other visitors send requests to all gateways until it is stopped, and counts wrong answers.
func siege(t *testing.T, all []*gateway, banned func(i int) string) (end func() (served, wrong int64)) {
	t.Helper()
	stop, browser := make(chan struct{}), visitor(t).header
	var served, wrong atomic.Int64
	var wg sync.WaitGroup
	for n, g := range all {
		wg.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
				}
				addr, want := fmt.Sprintf("198.51.%d.%d", n, i%250), 200
				if i%2 == 0 {
					addr, want = banned(i/2), 302
				}
				req, err := http.NewRequest("GET", g.url+"/x", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = browser.Clone()
				req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36") // passes of others pay nothing
				req.Header.Set("X-Forwarded-For", addr)
				res, err := client.Do(req)
				if err != nil {
					wrong.Add(1)
					continue
				}
				_ = res.Body.Close()
				if res.StatusCode != want {
					wrong.Add(1)
				}
				served.Add(1)
			}
		})
	}
	return func() (int64, int64) {
		close(stop)
		wg.Wait()
		return served.Load(), wrong.Load()
	}
}

// indexed counts the names from one to another that a store's index has, in one question: a process for each of its buckets would take
// a core for a second.
func indexed(t *testing.T, r *redistest.Server, from, to string) (n int) {
	t.Helper()
	const sum = "local n = 0 for b = 0, 63 do n = n + redis.call('zlexcount', string.format('antirobot{%02x}i', b), ARGV[1], ARGV[2]) end return n"
	_, _ = fmt.Sscan(r.CLI(t, "eval", sum, "0", from, to), &n) // 0 while it says that it is loading
	return n
}

// TestRedisEmptied empties the store while two gateways serve visitors, by FLUSHALL and by a restart without its data: no
// ban, entry or revocation is forgotten, the pass of one gateway is valid on the other and on one that starts afterwards,
// and health says what happened.
func TestRedisEmptied(t *testing.T) {
	t.Parallel()
	const bans = 60
	addr := func(i int) string { return fmt.Sprintf("203.0.113.%d", i%bans+1) }
	for how, empty := range map[string]func(t *testing.T, r *redistest.Server){
		"flushed":                    func(t *testing.T, r *redistest.Server) { r.CLI(t, "flushall") },
		"restarted without its data": func(t *testing.T, r *redistest.Server) { r.Kill(); r.Restart(t) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			soon := configFile(t, "captcha: {pass: {allowance: 40}}\n") // spent without asking faster than people do
			all := fleet(t, 2, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1", "--config", soon)
			a, b := all[0], all[1]
			for i := range bans {
				all[i%2].ban("ip:"+addr(i), "1h")
			}
			a.list("block", "192.0.2.0/24", "1h")
			b.list("block", "192.0.2.128/25", "1h")
			b.api("DELETE", "/api/lists/block?entry=192.0.2.128/25", nil)
			a.ban("ip:100.64.0.1", "1h")
			eventually(t, "the last ban on B", func() bool { return b.asks(visitor(t), "/", "100.64.0.1") == 302 })
			b.api("DELETE", "/api/bans?subject=ip:100.64.0.1", nil)
			v := visitor(t)
			v.header.Set("X-Forwarded-For", addr(0))
			a.earn(v, "/")
			spent := visitor(t) // whose pass has nothing left
			spent.header.Set("X-Forwarded-For", addr(1))
			a.earn(spent, "/")
			for range 3 { // some may ask before the next lease is there
				eventually(t, "the pass is spent", func() bool { return spent.get(a.url+"/x").StatusCode == 302 })
				time.Sleep(20 * time.Millisecond)
			}
			for _, g := range all {
				eventually(t, "all bans", func() bool { return g.metric("antirobot_bans ") == bans })
			}
			end := siege(t, all, addr)
			eventually(t, "the store knows what both passes have spent", func() bool {
				n := 0
				_, _ = fmt.Sscan(r.CLI(t, "eval", "return #redis.call('keys', '*spent/*')", "0"), &n)
				return n == 2
			})

			empty(t, r)
			eventually(t, "health of who wrote it back says what was lost", func() bool {
				said := 0
				for _, g := range all { // where the other was quicker, nothing was lost any more
					if status, err := g.health(); status == "degraded" && strings.Contains(err, "had lost") {
						said++
					} else if status != "ok" {
						return false
					}
				}
				return said > 0
			})
			eventually(t, "what passes have spent is written back", func() bool {
				return a.metric(`antirobot_store_lost_total{of="spent allowances"}`) >= 2
			})
			// 60 bans and one that was lifted, two marks of the list, the ring.
			eventually(t, "the store has all again", func() bool { return indexed(t, r, "-", "+") >= bans+1+2+1 })
			late := serve(t, site(t).URL, "--store", "redis://"+r.Addr, "--secret-file", a.flag("--secret-file"), "--trusted-proxies", "127.0.0.1", "--config", soon)
			served, wrong := end()
			t.Logf("%d requests while the store was emptied, %d answered wrongly", served, wrong)
			if wrong > 0 || served < 50 {
				t.Errorf("%d of %d requests were answered wrongly", wrong, served)
			}
			for name, g := range map[string]*gateway{"A": a, "B": b, "one that starts afterwards": late} {
				if n := g.metric("antirobot_bans "); n != bans {
					t.Errorf("%s has %v bans; want %d", name, n, bans)
				}
				if s := g.asks(visitor(t), "/", "192.0.2.9"); s != 403 {
					t.Errorf("%s forgot the list entry: %d", name, s)
				}
				if s := g.asks(visitor(t), "/", "100.64.0.1"); s != 200 {
					t.Errorf("%s has the lifted ban again: %d", name, s)
				}
				v.get(g.url+"/x").must(t, 200, "site got")
				paid := 0 // a gateway that never saw the pass lets it pay for a lease before it knows better
				eventually(t, "the spent pass pays nothing", func() bool {
					if spent.get(g.url+"/x").StatusCode == 302 {
						return true
					}
					paid++
					return false
				})
				if paid > 5 {
					t.Errorf("on %s the spent pass paid for %d requests", name, paid)
				}
			}
			if n := a.metric(`antirobot_store_lost_total{of="bans"}`) + b.metric(`antirobot_store_lost_total{of="bans"}`); n < bans {
				t.Errorf("the metric counts %v lost bans", n)
			}
		})
	}
}

// TestRedisEmptiedWhileDown: all gateways are down when the store is emptied. The first one that starts restores what is on
// its disk: bans, entries and the ring, so that old passes stay valid.
func TestRedisEmptiedWhileDown(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	g := fleet(t, 1, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")[0]
	g.ban("ip:203.0.113.1", "1h")
	g.list("block", "192.0.2.0/24", "1h")
	v := visitor(t)
	v.header.Set("X-Forwarded-For", "203.0.113.1")
	g.earn(v, "/")
	g.kill(syscall.SIGTERM)
	r.CLI(t, "flushall")
	g.run()
	if s := g.asks(visitor(t), "/", "203.0.113.1"); s != 302 {
		t.Errorf("the ban is gone: %d", s)
	}
	if s := g.asks(visitor(t), "/", "192.0.2.1"); s != 403 {
		t.Errorf("the list entry is gone: %d", s)
	}
	v.get(g.url+"/x").must(t, 200, "site got")
	if status, err := g.health(); status != "degraded" || !strings.Contains(err, "bans") || !strings.Contains(err, "key rings") || !strings.Contains(err, "list entries") {
		t.Errorf("health: %s, %s", status, err)
	}

	// Without the store a start has them, too.
	g.kill(syscall.SIGTERM)
	r.Kill()
	g.run()
	if s := g.asks(visitor(t), "/", "203.0.113.1"); s != 302 {
		t.Errorf("without the store the ban is gone: %d", s)
	}
	if s := g.asks(visitor(t), "/", "192.0.2.1"); s != 403 {
		t.Errorf("without the store the list entry is gone: %d", s)
	}
}

// TestRedisStaleReplica promotes a replica that has not seen the last bans: they are written again, and both gateways
// enforce them all the while.
func TestRedisStaleReplica(t *testing.T) {
	t.Parallel()
	const bans = 60
	addr := func(i int) string { return fmt.Sprintf("203.0.113.%d", i%bans+1) }
	r := redistest.Start(t)
	replica := redistest.StartReplica(t, r)
	p := redistest.StartProxy(t, r.Addr) // where the gateways find the master
	all := fleet(t, 2, "redis://"+p.Addr, "--trusted-proxies", "127.0.0.1")
	a, b := all[0], all[1]
	for i := range bans - 20 {
		a.ban("ip:"+addr(i), "1h")
	}
	replica.CLI(t, "replicaof", "no", "one")
	for i := bans - 20; i < bans; i++ {
		a.ban("ip:"+addr(i), "1h")
	}
	for _, g := range all {
		eventually(t, "all bans", func() bool { return g.metric("antirobot_bans ") == bans })
	}
	end := siege(t, all, addr)
	r.Kill()
	p.Retarget(replica.Addr)
	for _, g := range all {
		eventually(t, "health after the failover", func() bool {
			status, err := g.health()
			return status == "degraded" && strings.Contains(err, "had lost") || status == "ok"
		})
	}
	eventually(t, "the new master has all bans", func() bool { return indexed(t, replica, "[ban/", "(ban0") == bans })
	served, wrong := end()
	t.Logf("%d requests over the failover, %d answered wrongly", served, wrong)
	if wrong > 0 {
		t.Errorf("%d of %d requests were answered wrongly", wrong, served)
	}
	for name, g := range map[string]*gateway{"A": a, "B": b} {
		if n := g.metric("antirobot_bans "); n != bans {
			t.Errorf("%s has %v bans; want %d", name, n, bans)
		}
	}
}

// flag returns the value of a flag that a gateway was started with.
func (g *gateway) flag(name string) string {
	for i, arg := range g.args[:len(g.args)-1] {
		if arg == name {
			return g.args[i+1]
		}
	}
	g.t.Fatalf("the gateway was started without %s", name)
	return ""
}
