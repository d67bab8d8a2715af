package main

import (
	"hash/fnv"
	"testing"
	"time"

	"antirobot/replay"
	"antirobot/request"
)

// balancer is several gateways behind a balancer that sends a client address to one of them.
type balancer []*replay.Gateway

func (b balancer) at(v *request.View) *replay.Gateway {
	h := fnv.New32a()
	a := v.Peer.As16()
	_, _ = h.Write(a[:])
	return b[int(h.Sum32()>>1)%len(b)]
}

func (b balancer) Serve(v *request.View, a *replay.Response) *replay.Served {
	return b.at(v).Serve(v, a)
}

func (b balancer) Show(v *request.View) { b.at(v).Show(v) }

func (b balancer) Answer(v *request.View, body []byte) replay.OwnAnswer {
	return b.at(v).Answer(v, body)
}

// TestBehindABalancer: three gateways stop the headless browsers that one gateway stops, and no person.
func TestBehindABalancer(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Kinds = []Kind{Headless, People}
	cfg.Length, cfg.WarmUp, cfg.Scale = 6*time.Hour, 2*time.Hour, 0.2
	var of [2]map[Kind]outcome
	for i, n := range []int{1, 3} {
		var b balancer
		for range n {
			b = append(b, gatewayFor(t, &cfg, replay.Deps{}, nil))
		}
		of[i] = byKind(fatesAt(t, cfg, b))
	}
	one, three := of[0][Headless], of[1][Headless]
	if 5*one.stopped < 4*one.clients || three.stopped < one.stopped {
		t.Errorf("headless browsers: of %d one gateway stops %d, three stop %d", one.clients, one.stopped, three.stopped)
	}
	if n := of[1][People].stopped; n > 0 {
		t.Errorf("%d people are stopped", n)
	}
}

// TestTwoProcessors: two processors that share the networks stop as many robots of each kind as one, a tenth more or less,
// and no more people.
func TestTwoProcessors(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Kinds = []Kind{People, Slow, Headless, Liar, API}
	cfg.Length, cfg.WarmUp, cfg.Scale = 3*time.Hour, 6*time.Hour, 0.2
	var of [2]map[Kind]outcome
	for i := range of {
		of[i] = byKind(fatesAt(t, cfg, gatewayFor(t, &cfg, replay.Deps{Processors: i + 1}, nil)))
	}
	for _, kind := range cfg.Kinds {
		one, two := of[0][kind].stopped, of[1][kind].stopped
		switch {
		case kind == People && two > one:
			t.Errorf("two processors stop %d people, one stops %d", two, one)
		case kind != People && (one == 0 || 10*two < 9*one || 10*two > 11*one):
			t.Errorf("%s: two processors stop %d, one stops %d", kind, two, one)
		}
	}
}
