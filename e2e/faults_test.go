package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// faultsEnv makes TestFaults cause every fault, and for longer: make faults.
const faultsEnv = "ANTIROBOT_FAULTS"

// rig is two gateways and the store that they share, each behind a link of its own, under load.
type rig struct {
	t     *testing.T
	redis *redistest.Server
	links []*redistest.Proxy
	all   []*gateway

	served, wrong, slowest atomic.Int64 // requests; nanoseconds
	acked, refused         atomic.Int64 // durable updates
	stop                   chan struct{}
	done                   sync.WaitGroup
}

const (
	rigBans    = 20
	rigShingle = "00000000000000cc"
)

func rigBanned(i int) string { return fmt.Sprintf("203.0.113.%d", i%rigBans+1) }

// newRig starts everything, bans, and begins the load.
func newRig(t *testing.T, f *fault) *rig {
	t.Helper()
	x := &rig{t: t, stop: make(chan struct{})}
	x.redis = redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	up, secret := site(t).URL, secretFile(t)
	for range 2 {
		link := redistest.StartProxy(t, x.redis.Addr)
		g := &gateway{t: t, dir: t.TempDir(), args: []string{
			"serve", "--upstream", up, "--captcha-test-answer", testAnswer, "--store", "redis://" + link.Addr, "--secret-file", secret,
			"--trusted-proxies", "127.0.0.1",
		}}
		if f.disk != "" {
			mountSmall(t, g.dir, f.disk)
		}
		if f.clock && len(x.all) == 1 {
			g.clock = filepath.Join(t.TempDir(), "clock")
		}
		g.run()
		t.Cleanup(func() { g.kill(syscall.SIGKILL) })
		x.links, x.all = append(x.links, link), append(x.all, g)
	}
	for i := range rigBans {
		x.all[i%2].ban("ip:"+rigBanned(i), "1h")
	}
	for _, g := range x.all {
		eventually(t, "all bans", func() bool { return g.metric("antirobot_bans ") == rigBans })
	}
	for n, g := range x.all {
		x.done.Go(func() { x.visit(n, g) })
		x.done.Go(func() { x.count(g) })
	}
	return x
}

// fill writes a file until the disk is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func (x *rig) running() bool {
	select {
	case <-x.stop:
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

// visit sends requests of banned visitors and others, and looks at the answers.
func (x *rig) visit(n int, g *gateway) {
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i := 0; x.running(); i++ {
		addr, want := fmt.Sprintf("198.51.%d.%d", n, i%250), 200
		if i%2 == 0 {
			addr, want = rigBanned(i/2), 302
		}
		req, err := http.NewRequest("GET", g.url+"/x", nil)
		if err != nil {
			x.t.Error(err)
			return
		}
		req.Header.Set("X-Forwarded-For", addr)
		asBrowser(req)
		began := time.Now()
		res, err := client.Do(req)
		took := int64(time.Since(began))
		for old := x.slowest.Load(); took > old && !x.slowest.CompareAndSwap(old, took); old = x.slowest.Load() {
		}
		x.served.Add(1)
		if err != nil || res.StatusCode != want {
			x.wrong.Add(1)
		}
		if err == nil {
			_ = res.Body.Close()
		}
	}
}

// count makes durable updates, and counts those that are acknowledged.
func (x *rig) count(g *gateway) {
	for x.running() {
		status, _ := g.tryAPI("POST", "/api/counters/update?wait=durable", map[string]any{
			"prefix": "e2e", "updates": []map[string]any{{"type": 15, "shingle": rigShingle}},
		})
		if status == 200 {
			x.acked.Add(1)
		} else {
			x.refused.Add(1)
		}
	}
}

// well reports whether both gateways are, and nothing waits.
func (x *rig) well() bool {
	for _, g := range x.all {
		if status, _ := g.health(); status != "ok" || g.metric("antirobot_counter_queue_batches") > 0 {
			return false
		}
	}
	return true
}

// during is the load for a while under a fault, until there was enough of it to see something.
func (x *rig) during(d time.Duration) {
	from := x.served.Load()
	time.Sleep(d)
	eventually(x.t, "requests are answered", func() bool { return x.served.Load() > from+20 })
}

// end ends the load and says what came of it.
func (x *rig) end(f *fault, again time.Duration) {
	x.t.Helper()
	close(x.stop)
	x.done.Wait()
	acked := x.acked.Load()
	if !f.forgets {
		eventually(x.t, "what was acknowledged is counted", func() bool {
			return int64(x.all[0].counted(15, rigShingle)) >= acked
		})
	}
	n := int64(x.all[0].counted(15, rigShingle))
	if n > acked+x.refused.Load() {
		x.t.Errorf("counted %d of %d updates: something was counted twice", n, acked+x.refused.Load())
	}
	x.t.Logf("| %s | %d | %d | %d | %d | %d | %v | %v |", f.name, x.served.Load(), x.wrong.Load(), acked, x.refused.Load(), max(acked-n, 0),
		time.Duration(x.slowest.Load()).Round(time.Millisecond), again.Round(10*time.Millisecond))
	if wrong := x.wrong.Load(); f.clock && wrong*20 <= x.served.Load() {
		return // in the moment until the gateway has asked for the store's time
	} else if wrong > 0 {
		x.t.Errorf("%d of %d requests were answered wrongly", x.wrong.Load(), x.served.Load())
	}
	if acked < 10 {
		x.t.Errorf("only %d durable updates were acknowledged", acked)
	}
}

// fault is one of the rig's: break does the harm for a while and mends it.
type fault struct {
	name    string
	always  bool   // without faultsEnv, too
	forgets bool   // the store loses its counters
	ill     bool   // health does not get well by itself
	clock   bool   // of the second gateway, is set
	disk    string // how large the disk of a gateway is, such as 64m
	harm    func(x *rig, d time.Duration)
}

func faults() []fault {
	each := func(harm func(p *redistest.Proxy)) func(x *rig, d time.Duration) {
		return func(x *rig, d time.Duration) {
			for _, l := range x.links {
				harm(l)
			}
			x.during(d)
			for _, l := range x.links {
				l.Heal()
			}
		}
	}
	return []fault{
		{name: "both gateways cut off from the store", harm: each((*redistest.Proxy).Cut)},
		{name: "one gateway cut off from the store", harm: func(x *rig, d time.Duration) { x.links[0].Cut(); x.during(d); x.links[0].Heal() }},
		{name: "packets vanish", harm: each((*redistest.Proxy).Hole)},
		{name: "the store hears and is not heard", always: true, harm: each((*redistest.Proxy).Mute)},
		{name: "every answer takes 100 ms more", harm: each(func(p *redistest.Proxy) { p.Slow(50 * time.Millisecond) })},
		{name: "store paused (SIGSTOP)", harm: func(x *rig, d time.Duration) {
			x.redis.Signal(x.t, syscall.SIGSTOP)
			x.during(d)
			x.redis.Signal(x.t, syscall.SIGCONT)
		}},
		{name: "store killed and started with its data", harm: func(x *rig, d time.Duration) {
			x.redis.Kill()
			x.during(d)
			x.redis.Restart(x.t)
		}},
		{name: "store's memory full", harm: func(x *rig, d time.Duration) {
			x.redis.CLI(x.t, "config", "set", "maxmemory", "1")
			x.during(d)
			x.redis.CLI(x.t, "config", "set", "maxmemory", "0")
		}},
		{name: "FLUSHALL by mistake", forgets: true, ill: true, harm: func(x *rig, d time.Duration) {
			x.redis.CLI(x.t, "flushall")
			x.during(d)
		}},
		{name: "one gateway's clock an hour ahead", clock: true, harm: clock(time.Hour)},
		{name: "one gateway's clock an hour behind", clock: true, harm: clock(-time.Hour)},
		{name: "the gateways' disks full", disk: "96m", harm: func(x *rig, d time.Duration) {
			for _, g := range x.all {
				fill(x.t, filepath.Join(g.dir, "filler"))
			}
			x.during(d)
			for _, g := range x.all {
				if err := os.Remove(filepath.Join(g.dir, "filler")); err != nil {
					x.t.Error(err)
				}
			}
		}},
		{name: "store away and the gateways' disks full", disk: "96m", harm: func(x *rig, d time.Duration) {
			for i, g := range x.all {
				x.links[i].Cut()
				fill(x.t, filepath.Join(g.dir, "filler"))
			}
			x.during(d)
			for i, g := range x.all {
				if err := os.Remove(filepath.Join(g.dir, "filler")); err != nil {
					x.t.Error(err)
				}
				x.links[i].Heal()
			}
		}},
	}
}

// TestFaults causes faults under load: no request may get a wrong verdict, and nothing that was acknowledged as durable may
// be lost or counted twice. make faults causes all of them and prints the table of docs/scaling.md.
func TestFaults(t *testing.T) {
	all, d := os.Getenv(faultsEnv) != "", time.Second
	if all {
		d = 5 * time.Second
	}
	for _, f := range faults() {
		if !all && !f.always {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			x := newRig(t, &f)
			x.during(d / 5)
			f.harm(x, d)
			mended := time.Now()
			if f.ill { // health tells of a loss for ten minutes
				eventually(t, "all bans are back", func() bool { return indexed(t, x.redis, "-", "+") >= rigBans })
			} else {
				eventually(t, "all is well", x.well)
			}
			again := time.Since(mended)
			x.during(d / 5)
			x.end(&f, again)
		})
	}
}
