package e2e

import (
	"encoding/json"
	"fmt"
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
