package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// secretFile is the secret that all gateways of a test share.
func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of all gateways\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// fleet runs gateways that share a store.
func fleet(t *testing.T, n int, url string, args ...string) []*gateway {
	t.Helper()
	up, secret := site(t).URL, secretFile(t)
	var all []*gateway
	for range n {
		all = append(all, serve(t, up, append([]string{"--store", url, "--secret-file", secret}, args...)...))
	}
	return all
}

func (g *gateway) health() (status, storeErr string) {
	g.t.Helper()
	var h struct {
		Status string `json:"status"`
		Store  struct {
			Backend string `json:"backend"`
			Shared  bool   `json:"shared"`
			Error   string `json:"error"`
		} `json:"store"`
	}
	if err := json.Unmarshal(g.api("GET", "/healthz", nil), &h); err != nil {
		g.t.Fatal(err)
	}
	if h.Store.Backend != "redis" || !h.Store.Shared {
		g.t.Fatalf("health: %+v", h)
	}
	return h.Status, h.Store.Error
}

func (g *gateway) asks(v *client, path, addr string) int {
	return v.get(g.url+path, "X-Forwarded-For", addr).StatusCode
}

// TestRedisSharesEverything: two gateways on one Redis follow each other's changes.
func TestRedisSharesEverything(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 2, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
	a, b := all[0], all[1]
	v := visitor(t)

	t.Run("a ban of A is enforced on B within 100 ms", func(t *testing.T) {
		var took []time.Duration
		for i := range 40 {
			addr := fmt.Sprintf("203.0.113.%d", i+1)
			if s := b.asks(v, "/", addr); s != 200 {
				t.Fatalf("%s is asked before the ban: %d", addr, s)
			}
			began := time.Now()
			a.ban("ip:"+addr, "10m")
			eventually(t, "the ban on B", func() bool { return b.asks(visitor(t), "/", addr) == 302 })
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("from the call on A to the first 302 on B: p50 %v, max %v", took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > 100*time.Millisecond {
			t.Errorf("the median is %v; want less than 100 ms", took[len(took)/2])
		}
		a.api("DELETE", "/api/bans?subject=ip:203.0.113.1", nil)
		eventually(t, "the end of the ban on B", func() bool { return b.asks(visitor(t), "/", "203.0.113.1") == 200 })
	})

	t.Run("run-time entries travel", func(t *testing.T) {
		a.api("POST", "/api/lists/block", map[string]string{"entry": "198.51.100.0/24", "ttl": "1h", "reason": "test"})
		eventually(t, "the entry on B", func() bool { return b.asks(v, "/", "198.51.100.9") == 403 })
		b.api("DELETE", "/api/lists/block?entry=198.51.100.0/24", nil)
		eventually(t, "its end on A", func() bool { return a.asks(v, "/", "198.51.100.9") == 200 })
	})

	t.Run("a pass of A holds on B, until it is revoked", func(t *testing.T) {
		v := visitor(t)
		v.header.Set("X-Forwarded-For", "203.0.113.2")
		if res := a.solve(v, "/"); res.StatusCode != http.StatusSeeOther {
			t.Fatalf("solve: %d %s", res.StatusCode, res.body)
		}
		v.get(b.url+"/x").must(t, 200, "site got")
		next := time.Now().UTC().Truncate(time.Second).Add(time.Second) // births are kept in whole seconds
		<-time.After(time.Until(next))
		a.api("POST", "/api/revoke", map[string]string{"before": next.Format(time.RFC3339)})
		eventually(t, "the revocation on B", func() bool { return v.get(b.url+"/x").StatusCode == 302 })
	})

	t.Run("an answer spent on A is refused on B", func(t *testing.T) {
		v := visitor(t)
		v.header.Set("X-Forwarded-For", "203.0.113.3")
		challenge := v.get(a.url + "/")
		page := v.get(challenge.Header.Get("Location")).must(t, 200, `name="rep"`)
		form := formOf(t, page.body)
		form.Set("rep", testAnswer)
		post := func(g *gateway) *response {
			w := visitor(t) // without the pass that the first answer earns
			w.header.Set("X-Forwarded-For", "203.0.113.3")
			return w.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		}
		earns := func(r *response) bool {
			return strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), " "), "spravka=")
		}
		solved := func() (n float64) {
			for _, g := range all {
				n += g.metric("antirobot_captcha_answers_total", `result="solved"`)
			}
			return n
		}
		before := solved()
		for i, g := range append([]*gateway{a}, all...) { // whose response is lost gets the same pass again, from each
			if res := post(g); !earns(res) {
				t.Errorf("answer %d: %d %v", i+1, res.StatusCode, res.Header)
			}
		}
		if n := solved() - before; n != 1 {
			t.Errorf("one answer earned %v passes", n)
		}
	})

	t.Run("counters add up", func(t *testing.T) {
		item := map[string]any{"prefix": "e2e", "type": 15, "text": "203.0.113.9"}
		for _, g := range all {
			g.api("POST", "/api/counters/update", map[string]any{"updates": []any{item, item}})
		}
		item["unit"] = "1d"
		read := func(g *gateway) string {
			return string(g.api("POST", "/api/counters/read", map[string]any{"queries": []any{item}}))
		}
		eventually(t, "the sum on B", func() bool { return strings.Contains(read(b), "[4]") })
	})
}

// TestRedisLeases spends one pass on three gateways at once: never more than its allowance.
func TestRedisLeases(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 3, "redis://"+r.Addr)
	all[0].ban("ip:127.0.0.1", "10m")
	for _, g := range all[1:] {
		eventually(t, "the ban", func() bool { return visitor(t).get(g.url+"/").StatusCode == 302 })
	}
	v := visitor(t)
	all[0].solve(v, "/")
	pass := v.pass(t, all[0].url)
	var passed atomic.Int64
	spend := func(each int) {
		var wg sync.WaitGroup
		for _, g := range all {
			for range 4 {
				wg.Go(func() {
					c := visitor(t)
					for range each {
						if c.get(g.url+"/x", "Cookie", "spravka="+pass).StatusCode == 200 {
							passed.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
	}
	spend(50)
	const allowance, lease = 100, 12
	n := passed.Load()
	t.Logf("the pass paid for %d requests on three gateways", n)
	if n > allowance {
		t.Errorf("the pass paid for %d requests of %d", n, allowance)
	}
	if n < allowance-3*lease {
		t.Errorf("the pass paid for %d requests only; of %d, at most 3 × %d may be held by others", n, allowance, lease)
	}
}

// TestRedisAway makes the store unavailable while gateways run, and brings it back empty.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	all := fleet(t, 2, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
	a, b := all[0], all[1]
	v := visitor(t)
	a.ban("ip:203.0.113.1", "10m")
	eventually(t, "the ban on B", func() bool { return b.asks(v, "/", "203.0.113.1") == 302 })

	r.Kill()
	for _, g := range all {
		eventually(t, "health says so", func() bool { status, _ := g.health(); return status == "degraded" })
		if g.metric("antirobot_redis_up") != 0 {
			t.Error("antirobot_redis_up is not 0")
		}
	}
	began := time.Now()
	for i := range 50 { // serving goes on, and nobody waits for the store
		if s := b.asks(v, "/", fmt.Sprintf("198.51.100.%d", i)); s != 200 {
			t.Fatalf("a human is asked while the store is away: %d", s)
		}
		if s := b.asks(visitor(t), "/", "203.0.113.1"); s != 302 {
			t.Fatalf("a banned one passes while the store is away: %d", s)
		}
	}
	if took := time.Since(began); took > patience {
		t.Errorf("100 requests took %v while the store is away", took)
	}
	if status, body := a.tryAPI("POST", "/api/bans", map[string]string{"subject": "ip:203.0.113.2", "ttl": "10m", "reason": "x"}); status != 503 {
		t.Errorf("a ban that can't be kept is answered with %d %s", status, body)
	}
	if s := a.asks(visitor(t), "/", "203.0.113.2"); s != 302 {
		t.Errorf("it is not in force on its node: %d", s)
	}
	// A gateway that starts now goes on from the copy of its keys.
	b.kill(syscall.SIGTERM)
	b.run()
	b.asks(v, "/", "198.51.100.1")

	r.Restart(t)
	for _, g := range all {
		eventually(t, "health recovers", func() bool { status, _ := g.health(); return status == "ok" })
	}
	took := eventually(t, "the ban that was made meanwhile on B", func() bool { return b.asks(visitor(t), "/", "203.0.113.2") == 302 })
	t.Logf("caught up %v after health was good again", took)
	if s := b.asks(visitor(t), "/", "203.0.113.1"); s != 302 {
		t.Errorf("the old ban is gone: %d", s)
	}
}

// TestRedisNeedsASecret starts with a shared store and no key ring.
func TestRedisNeedsASecret(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t)
	refused := func(says string, args ...string) {
		t.Helper()
		args = append([]string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)
		out, err := exec.Command(bin, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%v: %v, want a refusal that says %q:\n%s", args, err, says, out)
		}
	}
	url := "redis://" + r.Addr
	refused("keys.secret_file", "--store", url)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("16 or more", "--store", url, "--secret-file", short)
	refused("store.url", "--store", "redis://h:port", "--secret-file", short)
	secret := secretFile(t)
	g := serve(t, site(t).URL, "--store", url, "--secret-file", secret) // makes the ring
	keys := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(bin, append([]string{"keys", "--store", url, "--secret-file", secret}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("keys %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	g.solve(v, "/")
	keys("rotate")
	g.api("POST", "/api/reload", nil)
	if out := keys("list"); strings.Count(out, "\n") != 3 {
		t.Errorf("after a rotation the ring is\n%s", out)
	}
	v.get(g.url+"/").must(t, 200, "site got") // the rotation logs nobody out
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("another secret of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("secret does not fit", "--store", url, "--secret-file", other)
}

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

// TestKilledWhileTheStoreIsAway kills a gateway with SIGKILL seconds after bans were made, and starts it while the store is
// away: all bans that it made or heard hold, a lifted one does not, and a pass pays what it has left and no more.
func TestKilledWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]func(t *testing.T, r *redistest.Server){
		"the store is killed, too": func(_ *testing.T, r *redistest.Server) { r.Kill() },
		"the store hangs":          func(t *testing.T, r *redistest.Server) { r.Signal(t, syscall.SIGSTOP) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const bans, allowance, before = 300, 100, 37
			r := redistest.Start(t)
			all := fleet(t, 2, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
			a, b := all[0], all[1]
			addr := func(i int) string { return fmt.Sprintf("203.0.%d.%d", i/250, i%250+1) }
			for i := range bans {
				all[i%2].ban("ip:"+addr(i), "1h")
			}
			b.ban("ip:100.64.0.1", "1h")
			eventually(t, "A hears all bans", func() bool { return a.metric("antirobot_bans ") == bans+1 })
			b.api("DELETE", "/api/bans?subject=ip:100.64.0.1", nil)
			eventually(t, "A hears that one is lifted", func() bool { return a.metric("antirobot_bans ") == bans })
			b.list("block", "192.0.2.0/24", "1h")
			eventually(t, "A hears of a list entry", func() bool { return a.asks(visitor(t), "/", "192.0.2.1") == 403 })
			v := visitor(t)
			v.header.Set("X-Forwarded-For", addr(0))
			a.solve(v, "/")
			pass := v.pass(t, a.url)
			pay := func() bool {
				return visitor(t).get(a.url+"/x", "X-Forwarded-For", addr(0), "Cookie", "spravka="+pass).StatusCode == 200
			}
			paid := 0
			for range before {
				if pay() {
					paid++
				}
			}
			// The answer to the next request leaves after the last payment is on its way to the disk.
			eventually(t, "metrics after the last payment", func() bool { return a.metric("antirobot_allowance_spent_total") >= float64(paid) })

			a.kill(syscall.SIGKILL)
			away(t, r)
			a.run()
			held := 0
			for i := range bans {
				if a.asks(visitor(t), "/", addr(i)) == 302 {
					held++
				}
			}
			if held != bans {
				t.Errorf("%d of %d bans hold", held, bans)
			}
			if s := a.asks(visitor(t), "/", "100.64.0.1"); s != 200 {
				t.Errorf("the lifted ban is back: %d", s)
			}
			if s := a.asks(visitor(t), "/", "192.0.2.1"); s != 403 {
				t.Errorf("the list entry is forgotten: %d", s)
			}
			for range allowance {
				if pay() {
					paid++
				}
			}
			if paid != allowance {
				t.Errorf("the pass of %d paid for %d requests", allowance, paid)
			}
		})
	}
}

// TestOneAnswerWhileTheStoreIsAway: while the store is away, a right answer earns a pass at the gateway that asked, once, and at
// no other one: there its sender sees a fresh picture, without being told that the answer was wrong, and can answer that.
func TestOneAnswerWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 3, "redis://"+r.Addr)
	all[0].ban("ip:127.0.0.1", "1h")
	for _, g := range all {
		eventually(t, "the ban", func() bool { return visitor(t).get(g.url+"/").StatusCode == 302 })
	}
	answer := func(v *client, page *response, at *gateway) *response {
		form := formOf(t, page.body)
		form.Set("rep", testAnswer)
		return v.do("POST", at.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	v := visitor(t)
	earned := func(a *response) bool { return strings.Contains(strings.Join(a.Header["Set-Cookie"], ";"), "spravka=") }
	const wrong = "did not match"
	page := v.get(v.get(all[0].url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, `name="rep"`)
	r.Kill()
	for _, g := range all[1:] {
		a := answer(v, page, g)
		if earned(a) {
			t.Fatal("another gateway gives a pass for the answer")
		}
		fresh := v.get(a.must(t, 303, "").Header.Get("Location")).must(t, 200, `name="rep"`)
		if strings.Contains(fresh.body, wrong) {
			t.Errorf("another gateway says that a right answer is wrong:\n%s", fresh.body)
		}
		if !earned(answer(v, fresh, g)) {
			t.Error("the answer to the fresh picture earns nothing")
		}
	}
	if !earned(answer(v, page, all[0])) {
		t.Error("the gateway that asked gives no pass for the right answer")
	}
	if earned(answer(v, page, all[0])) {
		t.Error("it gives a second pass for it")
	}
}

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

// TestRedisStoreFailurePolicy gives one service the policy closed, and makes the store unavailable: its passes no longer
// pay.
func TestRedisStoreFailurePolicy(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := redistest.StartProxy(t, r.Addr)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf(`
store: {url: "redis://%s", redis: {timeout: 300ms}}
keys: {secret_file: %q}
captcha: {test_answer: "%s"}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: open, hosts: [open.test], verdict: {on_store_failure: open}, captcha: {on_store_failure: open}}
  - {name: closed, hosts: [closed.test], verdict: {on_store_failure: closed}, captcha: {on_store_failure: closed}}
`, p.Addr, secretFile(t), testAnswer, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", file)
	g.ban("ip:127.0.0.1", "10m")
	ask := func(host, path, pass string) int {
		t.Helper()
		req, err := http.NewRequest("GET", g.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		asBrowser(req)
		req.Header.Set("Cookie", "spravka="+pass)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	earn := func(host string) string {
		t.Helper()
		req := func(method, path, body string) *http.Response {
			t.Helper()
			req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			asBrowser(req)
			req.Header.Set("Accept", "text/html")
			req.Header.Set("Accept-Encoding", "identity")
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := req("GET", "/", "")
		_ = res.Body.Close()
		at, err := res.Location()
		if err != nil {
			t.Fatalf("%d: %v", res.StatusCode, err)
		}
		page := req("GET", at.RequestURI(), "")
		body, err := io.ReadAll(page.Body)
		_ = page.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		form := formOf(t, string(body))
		form.Set("rep", testAnswer)
		done := req("POST", "/checkcaptcha", form.Encode())
		_ = done.Body.Close()
		for _, c := range done.Cookies() {
			if c.Name == "spravka" {
				return c.Value
			}
		}
		t.Fatalf("no pass on %s: %d", host, done.StatusCode)
		return ""
	}
	open, closed := earn("open.test"), earn("closed.test")
	for host, pass := range map[string]string{"open.test": open, "closed.test": closed} {
		if s := ask(host, "/x", pass); s != 200 {
			t.Fatalf("a pass on %s: %d", host, s)
		}
	}
	p.Cut()
	eventually(t, "health says so", func() bool { status, _ := g.health(); return status == "degraded" })
	// The ledger learns of it when it next asks for a lease.
	eventually(t, "the closed service lets no pass pay", func() bool { return ask("closed.test", "/x", closed) == 302 })
	if s := ask("open.test", "/x", open); s != 200 {
		t.Errorf("the open service: %d", s)
	}
	p.Heal()
	eventually(t, "health recovers", func() bool { status, _ := g.health(); return status == "ok" })
	eventually(t, "the closed service lets passes pay again", func() bool { return ask("closed.test", "/x", closed) == 200 })
}

// TestRedisACL starts a gateway as the user given in docs/scaling.md, on a server whose only other user may do nothing but
// check whether something was refused.
func TestRedisACL(t *testing.T) {
	t.Parallel()
	acl := strings.ReplaceAll(fromScaling(t, "acl"), "PASSWORD", "secret")
	file := writeFile(t, "users.acl", "user default off\nuser watcher on >seen resetkeys -@all +acl|log\n"+acl)
	r := redistest.Start(t, "--aclfile", file)
	all := fleet(t, 2, "redis://antirobot:secret@"+r.Addr, "--trusted-proxies", "127.0.0.1")
	a, b := all[0], all[1]
	a.ban("ip:203.0.113.1", "10m")
	eventually(t, "the ban on B", func() bool { return b.asks(visitor(t), "/", "203.0.113.1") == 302 })
	v := visitor(t)
	v.header.Set("X-Forwarded-For", "203.0.113.1")
	a.earn(v, "/")
	v.get(b.url+"/x").must(t, 200, "site got")
	for _, g := range all {
		if status, err := g.health(); status != "ok" {
			t.Errorf("health: %s, %s", status, err)
		}
	}
	if got := r.CLI(t, "--no-auth-warning", "--user", "watcher", "--pass", "seen", "acl", "log"); got != "" {
		t.Errorf("the server refused:\n%s", got)
	}
}

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
