package cmd

import (
	"context"
	"hash/fnv"
	"testing"
	"time"

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

// stoppedBehind returns the share of the clients of each kind that several gateways stop.
func stoppedBehind(t *testing.T, n int, choose func(v *request.View) int, cfg traffic.Config) map[traffic.Kind]float64 {
	t.Helper()
	b := &behindBalancer{choose: choose}
	for range n {
		r, err := newTrafficRehearsal("", &cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		b.gateways = append(b.gateways, r.Gateway)
	}
	score := traffic.Score{Begin: cfg.Begin}
	err := traffic.Run(context.Background(), cfg, b, nil, func(q *traffic.Request, s *replay.Served) error {
		score.Add(q, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	share := map[traffic.Kind]float64{}
	for _, o := range score.Outcomes() {
		share[o.Kind] = float64(o.Stopped) / float64(max(o.Clients, 1))
		t.Logf("%d gateways: of %d %s %d are stopped", n, o.Clients, o.Kind, o.Stopped)
	}
	return share
}

// TestDetectionBehindABalancer holds what docs/scaling.md says: three gateways behind a balancer that sends a client
// address to one of them stop what one gateway stops. Without that they do not, which shows that the test can tell.
func TestDetectionBehindABalancer(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Kinds = []traffic.Kind{traffic.Headless, traffic.Evasive, traffic.People}
	cfg.Length, cfg.WarmUp, cfg.Scale = 6*time.Hour, 2*time.Hour, 0.2
	one := stoppedBehind(t, 1, func(*request.View) int { return 0 }, cfg)
	three := stoppedBehind(t, 3, func(v *request.View) int {
		h := fnv.New32a()
		a := v.Peer.As16()
		_, _ = h.Write(a[:])
		return int(h.Sum32() >> 1)
	}, cfg)
	for _, kind := range []traffic.Kind{traffic.Headless, traffic.Evasive} {
		if three[kind] < one[kind]-0.15 {
			t.Errorf("%s: one gateway stops %.0f %%, three by client address %.0f %%", kind, 100*one[kind], 100*three[kind])
		}
	}
	if one[traffic.Headless] < 0.8 {
		t.Errorf("one gateway stops %.0f %% of headless browsers", 100*one[traffic.Headless])
	}
	if three[traffic.People] > 0 {
		t.Errorf("%.1f %% of people are hurt", 100*three[traffic.People])
	}
	turn := 0
	robin := stoppedBehind(t, 3, func(*request.View) int { turn++; return turn }, cfg)
	if robin[traffic.Headless] > one[traffic.Headless]-0.3 {
		t.Errorf("without affinity three gateways stop %.0f %% of headless browsers, one %.0f %%: this test does not tell the two apart", 100*robin[traffic.Headless], 100*one[traffic.Headless])
	}
}
