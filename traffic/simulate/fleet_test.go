//go:build !race

// Simulated days run in one goroutine, where the race detector finds nothing, and takes minutes.

package main

import (
	"hash/fnv"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
	"antirobot/request"
	"antirobot/traffic"
)

// behindBalancer is several gateways before which a balancer stands.
type behindBalancer struct {
	gateways []*replay.Gateway
	choose   func(v *request.View) int
}

func (b *behindBalancer) at(v *request.View) *replay.Gateway {
	return b.gateways[b.choose(v)%len(b.gateways)]
}

func (b *behindBalancer) Serve(v *request.View, a *replay.Response) *replay.Served {
	return b.at(v).Serve(v, a)
}

func (b *behindBalancer) Show(v *request.View) { b.at(v).Show(v) }

func (b *behindBalancer) Answer(v *request.View, body []byte) replay.OwnAnswer {
	return b.at(v).Answer(v, body)
}

// stoppedBehind returns the share of the clients of each kind that several gateways stop.
func stoppedBehind(t *testing.T, n int, choose func(v *request.View) int, cfg traffic.Config) map[traffic.Kind]float64 {
	t.Helper()
	b := &behindBalancer{choose: choose}
	for range n {
		r, err := newTrafficRehearsal("", &cfg, replay.Deps{}, func(*config.Config) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		b.gateways = append(b.gateways, r)
	}
	share := map[traffic.Kind]float64{}
	for _, o := range scored(t, cfg, b).Outcomes() {
		share[o.Kind] = float64(o.Stopped) / float64(max(o.Clients, 1))
		t.Logf("%d gateways: of %d %s %d are stopped", n, o.Clients, o.Kind, o.Stopped)
	}
	return share
}

// TestDetectionBehindABalancer holds what docs/scaling.md says: three gateways behind a balancer that sends a client
// address to one of them stop the headless browsers that one gateway stops, and no person.
func TestDetectionBehindABalancer(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Kinds = []traffic.Kind{traffic.Headless, traffic.People}
	cfg.Length, cfg.WarmUp, cfg.Scale = 6*time.Hour, 2*time.Hour, 0.2
	one := stoppedBehind(t, 1, func(*request.View) int { return 0 }, cfg)
	byAddress := stoppedBehind(t, 3, func(v *request.View) int {
		h := fnv.New32a()
		a := v.Peer.As16()
		_, _ = h.Write(a[:])
		return int(h.Sum32() >> 1)
	}, cfg)
	if one[traffic.Headless] < 0.8 || byAddress[traffic.Headless] < one[traffic.Headless] {
		t.Errorf("headless browsers: one gateway stops %.0f %%, three by client address %.0f %%", 100*one[traffic.Headless], 100*byAddress[traffic.Headless])
	}
	if byAddress[traffic.People] > 0 {
		t.Errorf("%.1f %% of people are hurt", 100*byAddress[traffic.People])
	}
}

// TestDetectionByTwoProcessors: of every kind of robot that is told apart by what one network does, two processors that share the networks stop as
// many as one, a tenth more or less, and they hurt nobody whom one does not.
func TestDetectionByTwoProcessors(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Kinds = []traffic.Kind{traffic.People, traffic.Slow, traffic.Headless, traffic.Liar, traffic.API}
	cfg.Length, cfg.WarmUp, cfg.Scale = 3*time.Hour, 6*time.Hour, 0.2
	var by [2]map[traffic.Kind]int
	for i := range by {
		by[i] = map[traffic.Kind]int{}
		for _, o := range rehearsed(t, cfg, replay.Deps{Processors: i + 1}).Outcomes() {
			by[i][o.Kind] += o.Stopped
		}
	}
	for _, kind := range cfg.Kinds {
		one, two := by[0][kind], by[1][kind]
		t.Logf("%s: one processor stops %d, two stop %d", kind, one, two)
		switch {
		case kind == traffic.People && two > one:
			t.Errorf("two processors stop %d people, one stops %d", two, one)
		case kind != traffic.People && (one == 0 || 10*two < 9*one || 10*two > 11*one):
			t.Errorf("%s: two processors stop %d, one stops %d", kind, two, one)
		}
	}
}
