package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// processor runs a process that judges what gateways see.
func processor(t *testing.T, file string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), args: []string{"serve", "--role", "processor", "--config", file}, ownListen: true}
	g.run()
	t.Cleanup(func() {
		g.kill(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the processor wrote:\n%s", tail(g.logs.String(), 4000))
		}
	})
	return g
}

// visitors is where g serves visitors; a processor serves none.
func (g *gateway) visitors() string {
	if slices.Contains(g.args, "processor") {
		return ""
	}
	return "http://" + g.listening("visitors")
}

// robot is a made-up client that reads pages one after the other.
type robot struct {
	kind    string
	address func(i int) string // of its request number i
	header  func(i int) map[string]string
	cookies bool
}

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

// robots are one of each kind; net is the third number of their addresses.
func robots(net int) []robot {
	at := func(host int) func(int) string {
		return func(int) string { return fmt.Sprintf("203.0.%d.%d", net, host) }
	}
	browser := map[string]string{"User-Agent": chrome, "Accept": "text/html,*/*;q=0.8", "Accept-Language": "en", "Accept-Encoding": "gzip", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
	return []robot{
		{kind: "library", address: at(1), header: func(int) map[string]string { return map[string]string{"User-Agent": "python-requests/2.31"} }},
		{kind: "browser without cookies", address: func(int) string { return fmt.Sprintf("198.51.%d.2", net) }, header: func(int) map[string]string { return browser }},
		{kind: "browser with cookies", address: func(int) string { return fmt.Sprintf("198.18.%d.3", net) }, header: func(int) map[string]string { return browser }, cookies: true},
		{kind: "another browser at each page", address: func(int) string { return fmt.Sprintf("198.19.%d.4", net) }, header: func(i int) map[string]string {
			return map[string]string{"User-Agent": strings.Replace(chrome, "126", fmt.Sprint(100+i%25), 1), "Accept": "text/html", "Accept-Language": "en"}
		}},
		{kind: "network", address: func(i int) string { return fmt.Sprintf("192.0.%d.%d", net, i%100+1) }, header: func(int) map[string]string { return browser }},
	}
}

// mostPages is how many pages a robot reads at most.
const mostPages = 400

// reads lets the robot read until it is stopped, and returns the number of pages that it got. wait is called before each.
func (r *robot) reads(t *testing.T, url string, from int, wait func(i int)) int {
	v := visitor(t)
	if !r.cookies {
		v.Client.Jar = nil
	}
	for i := from; i < mostPages; i++ {
		wait(i)
		header := []string{"X-Forwarded-For", r.address(i)}
		for k, val := range r.header(i) {
			header = append(header, k, val)
		}
		if res := v.get(fmt.Sprintf("%s/articles/%d", url, i), header...); res.StatusCode != http.StatusOK {
			return i
		}
	}
	return mostPages
}

// race lets all robots read at once, and returns what each got.
func race(t *testing.T, url string, net int) map[string]int {
	t.Helper()
	got := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range robots(net) {
		wg.Go(func() {
			n := r.reads(t, url, 0, func(int) { time.Sleep(15 * time.Millisecond) })
			mu.Lock()
			defer mu.Unlock()
			got[r.kind] = n
		})
	}
	wg.Wait()
	return got
}

const siteOfRobots = `
role: %s
store: {url: %q}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1], i_per_hour: 100000}
processor: {budget: {hour: 60, day: 200}}
stream: {lease: 2s}
defaults:
  upstream: {urls: [%q]}
  verdict: {limits: [{requests: 30, window: 1m, ban: 10m}]}
services: [{name: default, hosts: ["*"]}]
`

// site3 is three gateways behind HAProxy, which takes turns, with two processors behind them.
type site3 struct {
	url      string
	gateways []*gateway
	judges   []*gateway
}

func startSite3(t *testing.T) *site3 {
	bin, up, secret := program(t, "haproxy"), site(t).URL, secretFile(t)
	r := redistest.Start(t)
	file := func(role string) string { return configFile(t, siteOfRobots, role, "redis://"+r.Addr, secret, up) }
	s := &site3{gateways: make([]*gateway, 3), judges: make([]*gateway, 2)}
	s.gateways[0] = start(t, "serve", "--config", file("gateway")) // it makes the key ring
	var wg sync.WaitGroup
	files := [...]string{file("gateway"), file("gateway"), file("processor"), file("processor")}
	wg.Go(func() { s.gateways[1] = start(t, "serve", "--config", files[0]) })
	wg.Go(func() { s.gateways[2] = start(t, "serve", "--config", files[1]) })
	wg.Go(func() { s.judges[0] = processor(t, files[2]) })
	wg.Go(func() { s.judges[1] = processor(t, files[3]) })
	wg.Wait()
	eventually(t, "the processors share the partitions", func() bool {
		return s.judges[0].metric("antirobot_stream_partitions ") == 8 && s.judges[1].metric("antirobot_stream_partitions ") == 8
	})
	addr := freeAddr(t)
	lines := "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\nlisten site\n  bind " + addr + "\n  balance roundrobin\n"
	for i, g := range s.gateways {
		eventually(t, "the gateway hears of processors", func() bool { return g.metric("antirobot_stream_alone ") == 0 })
		lines += fmt.Sprintf("  server g%d %s\n", i, bare(g.url))
	}
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", lines))
	s.url = "http://" + addr
	return s
}

// TestRobotsThroughThreeGateways lets the same robots read through one gateway that does everything, and through three that
// take turns: they are stopped after the same number of pages. Then a processor is killed while a robot reads: the other one
// takes over what it knew, and no ban is lost.
func TestRobotsThroughThreeGateways(t *testing.T) {
	one := startConfigured(t, fmt.Sprintf(siteOfRobots, "all", "", "", site(t).URL))
	want := race(t, one.url, 1)
	s := startSite3(t)
	got := race(t, s.url, 2)
	for kind, n := range want {
		t.Logf("%s: stopped after %d pages by one gateway, after %d by three", kind, n, got[kind])
		if n == mostPages {
			t.Errorf("%s is not stopped by one gateway", kind)
		}
		if slack := max(float64(n)/10, 3); float64(got[kind]) > float64(n)+slack || float64(got[kind]) < float64(n)-slack {
			t.Errorf("%s: stopped after %d pages by three gateways, want %d ± %.0f", kind, got[kind], n, slack)
		}
	}
	for i, g := range s.gateways {
		if g.metric("antirobot_stream_judged_alone_total") > 0 || g.metric("antirobot_processor_bans_total") > 0 {
			t.Errorf("gateway %d has judged by itself", i)
		}
		if g.metric("antirobot_stream_offered_total") == 0 {
			t.Errorf("gateway %d has seen nothing", i)
		}
	}
	s.bansEverywhere(t, want["browser without cookies"])
	s.killsAJudge(t, want)
}

// bansEverywhere lets robots read as much as they may at one gateway, and measures how soon all gateways stop them.
func (s *site3) bansEverywhere(t *testing.T, most int) {
	var took []time.Duration
	r := robots(0)[1]
	for i := range 40 {
		r.address = func(int) string { return fmt.Sprintf("198.51.%d.2", 50+i) }
		v := visitor(t)
		v.Client.Jar = nil
		asks := func(g *gateway, page int) int {
			header := []string{"X-Forwarded-For", r.address(0)}
			for k, val := range r.header(0) {
				header = append(header, k, val)
			}
			return v.get(fmt.Sprintf("%s/articles/%d", g.url, page), header...).StatusCode
		}
		for page := range most {
			asks(s.gateways[0], page)
		}
		began := time.Now()
		polls := 0
		for _, g := range s.gateways {
			for asks(g, 1000+polls) == http.StatusOK && polls < mostPages {
				polls++
				time.Sleep(2 * time.Millisecond)
			}
			if polls == mostPages {
				t.Fatal("a ban does not reach all gateways")
			}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("from the answer to the page that is one too many until all gateways stop: p50 %v, p99 %v of %d", took[len(took)/2], took[len(took)-1], len(took))
}

// killsAJudge kills a processor when each robot has read half of what it may.
func (s *site3) killsAJudge(t *testing.T, want map[string]int) {
	var half, judged sync.WaitGroup
	list := robots(3)
	half.Add(len(list))
	judged.Add(1)
	var mu sync.Mutex
	got := map[string]int{}
	var done sync.WaitGroup
	for _, r := range list {
		done.Go(func() {
			n := r.reads(t, s.url, 0, func(i int) {
				time.Sleep(15 * time.Millisecond)
				if i == want[r.kind]/2 {
					half.Done()
					judged.Wait()
				}
			})
			mu.Lock()
			defer mu.Unlock()
			got[r.kind] = n
		})
	}
	half.Wait()
	s.judges[0].kill(syscall.SIGKILL)
	took := eventually(t, "the other processor has all partitions", func() bool { return s.judges[1].metric("antirobot_stream_partitions ") == 16 })
	eventually(t, "it has read what was waiting", func() bool { return s.judges[1].metric("antirobot_stream_lag_seconds ") == 0 })
	t.Logf("the other processor has taken over within %v; it has read %.0f events once more", took, s.judges[1].metric("antirobot_stream_replayed_total "))
	judged.Done()
	done.Wait()
	for kind, n := range want {
		if slack := max(float64(n)/10, 3); float64(got[kind]) > float64(n)+slack { // earlier by time, because it has waited
			t.Errorf("%s: stopped after %d pages because a processor was killed, want at most %d + %.0f", kind, got[kind], n, slack)
		}
	}
	for i, g := range s.gateways {
		if g.metric("antirobot_stream_judged_alone_total") > 0 {
			t.Errorf("gateway %d has judged by itself, although there was a processor", i)
		}
	}
}

func startConfigured(t *testing.T, text string) *gateway {
	t.Helper()
	return start(t, "serve", "--config", configFile(t, "%s", text))
}
