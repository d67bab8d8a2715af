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

	"antirobot/servertest"
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
	parts   bool   // each page with two pictures
	under   string // where it reads
	hurries bool
	took    time.Duration // the last page, with its parts
}

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

// robots are one of each kind; net is the third number of their addresses.
func robots(net int) []robot {
	at := func(format string) func(int) string {
		return func(int) string { return fmt.Sprintf(format, net) }
	}
	always := func(h map[string]string) func(int) map[string]string {
		return func(int) map[string]string { return h }
	}
	browser := always(map[string]string{"User-Agent": chrome, "Accept": "text/html,*/*;q=0.8", "Accept-Language": "en", "Accept-Encoding": "gzip", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"})
	rotating := func(i int) map[string]string {
		return map[string]string{"User-Agent": strings.Replace(chrome, "126", fmt.Sprint(100+i%25), 1), "Accept": "text/html", "Accept-Language": "en"}
	}
	return []robot{
		{kind: "library, by the quota", address: at("203.0.%d.1"), header: always(map[string]string{"User-Agent": "python-requests/2.31"}), under: "/articles"},
		{kind: "library with the name of a browser, by a rule", address: at("198.51.%d.1"), header: always(map[string]string{"User-Agent": chrome, "Accept": "*/*"}), under: "/articles"},
		{kind: "library with cookies, by the quota", address: at("198.18.%d.1"), header: always(map[string]string{"User-Agent": "python-requests/2.31"}), cookies: true, under: "/articles"},
		{kind: "without cookies, by its pace", address: at("198.52.%d.1"), header: browser, under: "/pace"},
		{kind: "with cookies and parts, by its pace", address: at("198.19.%d.1"), header: browser, cookies: true, parts: true, under: "/pace"},
		{kind: "without cookies, by the quota", address: at("100.65.%d.1"), header: browser, under: "/free"},
		{kind: "another browser at each page, by the quota", address: at("100.67.%d.1"), header: rotating, under: "/free"},
		{kind: "network, by the quota", address: func(i int) string { return fmt.Sprintf("192.0.%d.%d", net, i%100+1) }, header: browser, under: "/free", hurries: true},
		{kind: "IPv6 network, by the quota", address: func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::1", net, i) }, header: browser, under: "/free", hurries: true},
	}
}

// mostPages is how many pages a robot reads at most.
const mostPages = 400

// ask requests a page as the robot's request number i does.
func (r *robot) ask(v *client, url string, i int) *response {
	header := []string{"X-Forwarded-For", r.address(i)}
	for k, val := range r.header(i) {
		header = append(header, k, val)
	}
	return v.get(url, header...)
}

// reads lets the robot read until it is stopped, and returns the number of pages that it got. wait is called before each.
func (r *robot) reads(t *testing.T, url string, wait func(i int)) int {
	v := visitor(t)
	if !r.cookies {
		v.Client.Jar = nil
	}
	for i := range mostPages {
		wait(i)
		began, page := time.Now(), fmt.Sprintf("%s%s/%d", url, r.under, i)
		if r.ask(v, page, i).StatusCode != http.StatusOK {
			return i
		}
		if r.parts {
			for k := range 2 {
				v.get(fmt.Sprintf("%s/pictures/%d-%d", url, i, k), "X-Forwarded-For", r.address(i), "User-Agent", chrome, "Accept", "image/*,*/*;q=0.8", "Accept-Language", "en",
					"Referer", page, "Accept-Encoding", "gzip", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin")
			}
		}
		r.took = time.Since(began)
	}
	return mostPages
}

// pause waits before a page: longer where answers take longer, since there judgements do, too.
func (r *robot) pause() {
	wait := 12 * time.Millisecond
	if r.hurries {
		wait = 4 * time.Millisecond
	}
	time.Sleep(wait + 5*r.took)
}

// peopleRead lets people of many networks read a page and the one behind it, so that every processor knows that cookies and referers
// arrive: until then who sends none is blamed by those alone that have met somebody who does.
func peopleRead(t *testing.T, url string, net int) {
	t.Helper()
	for i := range 24 {
		v := visitor(t)
		at := fmt.Sprintf("198.20.%d.1", 100*net+i)
		first := url + "/articles/of-people"
		v.get(first, "X-Forwarded-For", at)
		if r := v.get(first+"/more", "X-Forwarded-For", at, "Referer", first); r.StatusCode != http.StatusOK {
			t.Fatalf("a person gets %d", r.StatusCode)
		}
	}
}

// race lets all robots read at once where people have read, and returns what each got.
func race(t *testing.T, url string, net int) map[string]int {
	t.Helper()
	peopleRead(t, url, net)
	got := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range robots(net) {
		wg.Go(func() {
			n := r.reads(t, url, func(int) { r.pause() })
			mu.Lock()
			defer mu.Unlock()
			got[r.kind] = n
		})
	}
	wg.Wait()
	return got
}

// Robots under /free are stopped by the quota alone, under /pace and /few by their pace, and elsewhere by a rule.
const siteOfRobots = `
role: %s
store: {url: %q}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1], i_per_hour: 100000}
processor: {quota: {hour: 40, day: 700, newcomers: 1000000}}
defaults:
  upstream: {urls: [%q]}
  verdict: {limits: [], campaign: nothing}
services:
  - name: default
    hosts: ["*"]
    paths:
      - {prefix: /free, verdict: {threshold: 0.999}}
      - {prefix: /pace, verdict: {threshold: 0.999, limits: [{requests: 40, window: 1m, ban: 10m}]}}
      - {prefix: /few, verdict: {threshold: 0.999, limits: [{requests: 10, window: 1m, ban: 10m}]}}
`

// site3 is three gateways behind HAProxy, which takes turns, with two processors behind them.
type site3 struct {
	url      string
	gateways []*gateway
	judges   []*gateway
}

func startSite3(t *testing.T) *site3 {
	bin, up, secret := servertest.Need(t, "haproxy"), site(t).URL, secretFile(t)
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
	addr := freePort(t)
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
// take turns: they are stopped after the same number of pages, and by the same cause. Then a processor is killed while robots read:
// the other one takes over what it knew, and no ban is lost.
// onTheWay is how many pages a robot may get while the processors' decision is on its way to the gateways.
const onTheWay = 150

func TestRobotsThroughThreeGateways(t *testing.T) {
	servertest.Need(t, "haproxy") // before robots read
	servertest.Need(t, "redis-server", "valkey-server")
	one := startConfigured(t, fmt.Sprintf(siteOfRobots, "all", "", "", site(t).URL))
	var want map[string]int
	var first sync.WaitGroup
	first.Go(func() { want = race(t, one.url, 1) })
	s := startSite3(t)
	first.Wait()
	got := race(t, s.url, 2)
	for kind, n := range want {
		t.Logf("%s: stopped after %d pages by one gateway, after %d by three", kind, n, got[kind])
		if strings.Contains(kind, "network") && n == mostPages {
			continue // a hundred addresses with four pages each: each is checked at its fifth
		}
		if n == mostPages || n < 30 {
			t.Errorf("%s is stopped by one gateway after %d pages: a tenth of that says nothing", kind, n)
		}
		if slack := n/10 + onTheWay; got[kind] > n+slack || got[kind] < n-slack {
			t.Errorf("%s: stopped after %d pages by three gateways, want %d ± %d", kind, got[kind], n, slack)
		}
	}
	stoppedBy(t, 1, one)
	stoppedBy(t, 2, s.gateways...)
	for i, g := range s.gateways {
		if g.metric("antirobot_stream_judged_alone_total") > 0 || g.metric("antirobot_processor_bans_total") > 0 {
			t.Errorf("gateway %d has judged by itself", i)
		}
		if g.metric("antirobot_stream_offered_total") == 0 {
			t.Errorf("gateway %d has seen nothing", i)
		}
	}
	s.bansEverywhere(t)
	s.killsAJudge(t, want)
}

// stoppedBy reads in what the gateways wrote why they stopped each robot: its kind says it.
func stoppedBy(t *testing.T, net int, gateways ...*gateway) {
	t.Helper()
	for _, r := range robots(net) {
		if strings.HasPrefix(r.kind, "network") {
			continue // four pages from each address: it need not be stopped
		}
		why := `"cause":"quota"`
		switch {
		case strings.HasSuffix(r.kind, "rule"):
			why = `"verdict":"robot"` // the quota may come first
		case strings.HasSuffix(r.kind, "pace"):
			why = `"reason":"pace: `
		}
		var addresses []string
		for i := range mostPages {
			addresses = append(addresses, fmt.Sprintf(`"client":%q`, r.address(i)))
		}
		eventually(t, r.kind+" is written down as stopped with "+why, func() bool {
			return slices.ContainsFunc(gateways, func(g *gateway) bool {
				for line := range strings.Lines(g.logs.String()) {
					if strings.Contains(line, `"message":"decision"`) && strings.Contains(line, why) &&
						slices.ContainsFunc(addresses, func(a string) bool { return strings.Contains(line, a) }) {
						return true
					}
				}
				return false
			})
		})
	}
}

// fewPages is how many pages may be read under /few.
const fewPages = 10

// bansEverywhere lets robots read as much as they may at one gateway, and measures how soon all gateways stop them.
func (s *site3) bansEverywhere(t *testing.T) {
	var took []time.Duration
	r := robots(0)[1]
	for i := range 40 {
		r.address = func(int) string { return fmt.Sprintf("198.51.%d.2", 50+i) }
		v := visitor(t)
		v.Client.Jar = nil
		asks := func(g *gateway, page int) int {
			return r.ask(v, fmt.Sprintf("%s/few/%d", g.url, page), page).StatusCode
		}
		for page := range fewPages + 1 {
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

// killsAJudge kills a processor when each robot has read half of what it may. Those that are stopped by their score are left out: they
// wait meanwhile, and look more like people for it.
func (s *site3) killsAJudge(t *testing.T, want map[string]int) {
	var half, judged sync.WaitGroup
	list := slices.DeleteFunc(robots(3), func(r robot) bool { return r.under == "/articles" })
	half.Add(len(list))
	judged.Add(1)
	var mu sync.Mutex
	got := map[string]int{}
	var done sync.WaitGroup
	for _, r := range list {
		done.Go(func() {
			n := r.reads(t, s.url, func(i int) {
				r.pause()
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
	for _, r := range list {
		kind, n := r.kind, want[r.kind]
		if slack := n / 10; got[kind] > n+slack { // earlier by time, because it has waited
			t.Errorf("%s: stopped after %d pages because a processor was killed, want at most %d + %d", kind, got[kind], n, slack)
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
