package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

const (
	mostTakeover = 10 * time.Second // until a neighbour has judged what a processor left behind
	fleeing      = 48               // robots, each in a network of its own
)

// pair2 is two gateways with two processors behind them, all with the lease that is the default.
type pair2 struct {
	gateways [2]*gateway
	judges   [2]*gateway
}

func startPair2(t *testing.T) *pair2 {
	t.Helper()
	r, up, secret, p := redistest.Start(t), site(t).URL, secretFile(t), new(pair2)
	file := func(role string) string {
		return configFile(t, siteOfRobots, role, "redis://"+r.Addr, secret, up)
	}
	for i := range p.gateways {
		p.gateways[i] = start(t, "serve", "--config", file("gateway"))
	}
	for i := range p.judges {
		p.judges[i] = processor(t, file("processor"))
	}
	p.shared(t)
	for _, g := range p.gateways {
		eventually(t, "the gateway hears of processors", func() bool { return g.metric("antirobot_stream_alone ") == 0 })
	}
	return p
}

func (p *pair2) held(i int) float64 { return p.judges[i].metric("antirobot_stream_partitions ") }

// shared waits until each of the processors has half of the partitions.
func (p *pair2) shared(t *testing.T) {
	t.Helper()
	eventually(t, "the processors share the partitions", func() bool { return p.held(0) == 8 && p.held(1) == 8 })
}

// flee lets robots read as many pages as they may, and then one too many at the moment in which harm is done to a processor. It returns
// when all of them are banned at both gateways, and how long after the harm that was.
func (p *pair2) flee(t *testing.T, net int, harm func()) time.Duration {
	t.Helper()
	r := robots(0)[1]
	v := visitor(t)
	v.Client.Jar = nil
	asks := func(g *gateway, k, page int) int {
		header := []string{"X-Forwarded-For", fmt.Sprintf("198.%d.%d.2", net, k)}
		for key, val := range r.header(0) {
			header = append(header, key, val)
		}
		return v.get(fmt.Sprintf("%s/few/%d", g.url, page), header...).StatusCode
	}
	all := func(page int) {
		var wg sync.WaitGroup
		for k := range fleeing {
			wg.Go(func() {
				if status := asks(p.gateways[page%2], k, page); status != http.StatusOK {
					t.Errorf("page %d of robot %d: %d", page, k, status)
				}
			})
		}
		wg.Wait()
	}
	before := [2]float64{}
	for i, g := range p.gateways {
		before[i] = g.metric("antirobot_bans ")
	}
	for page := range fewPages {
		all(page)
	}
	all(fewPages)
	harm()
	began := time.Now()
	for i, g := range p.gateways {
		eventually(t, "all robots are banned", func() bool { return g.metric("antirobot_bans ") >= before[i]+fleeing })
	}
	took := time.Since(began)
	for k := range fleeing {
		if status := asks(p.gateways[k%2], k, 1000); status == http.StatusOK {
			t.Errorf("robot %d is not stopped", k)
		}
	}
	return took
}

// TestNoBanIsLostWithAProcessor: what robots have done when a processor ends is judged by its neighbour within ten seconds, whether it is
// killed or hangs; and one that hung gives up what is no longer its own.
func TestNoBanIsLostWithAProcessor(t *testing.T) {
	p := startPair2(t)
	took := p.flee(t, 51, func() { p.judges[0].kill(syscall.SIGKILL) })
	t.Logf("a processor is killed: %d bans at both gateways after %v", fleeing, took)
	if took > mostTakeover {
		t.Errorf("its neighbour has banned after %v, want at most %v", took, mostTakeover)
	}
	p.judges[0].run()
	p.shared(t)
	took = p.flee(t, 52, func() { signal(t, p.judges[0], syscall.SIGSTOP) })
	t.Logf("a processor hangs: %d bans at both gateways after %v", fleeing, took)
	if took > mostTakeover {
		t.Errorf("its neighbour has banned after %v, want at most %v", took, mostTakeover)
	}
	eventually(t, "the other processor has all partitions", func() bool { return p.held(1) == 16 })
	signal(t, p.judges[0], syscall.SIGCONT)
	p.shared(t)
	p.flee(t, 53, func() {})
	for i, g := range p.gateways {
		if n := g.metric("antirobot_stream_judged_alone_total"); n > 0 {
			t.Errorf("gateway %d has judged %.0f events by itself", i, n)
		}
	}
}

func signal(t *testing.T, g *gateway, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
