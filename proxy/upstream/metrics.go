package upstream

import (
	"fmt"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// gauge is a gauge that changes by differences, each tick: during a reload two Groups share its name, and it shows
// their sum.
type gauge struct {
	g    *metrics.Gauge
	last atomic.Int64
}

func (g *gauge) set(n int64) {
	if d := n - g.last.Swap(n); d != 0 {
		g.g.Add(float64(d))
	}
}

type addressMetrics struct {
	dials, dialErrors, reused, dirty *metrics.Counter
	active, idle, down               *gauge
}

type groupMetrics struct {
	busy    *metrics.Counter
	waiting *gauge
}

func newAddressMetrics(set *metrics.Set, service, addr string) addressMetrics {
	labels := fmt.Sprintf("service=%q,addr=%q", service, addr)
	counter := func(name string) *metrics.Counter {
		return set.GetOrCreateCounter(fmt.Sprintf("antirobot_upstream_%s{%s}", name, labels))
	}
	gaugeOf := func(name, more string) *gauge {
		return &gauge{g: set.GetOrCreateGauge(fmt.Sprintf("antirobot_upstream_%s{%s%s}", name, labels, more), nil)}
	}
	return addressMetrics{
		dials:      counter("dials_total"),
		dialErrors: counter("dial_errors_total"),
		reused:     counter("reused_total"),
		dirty:      counter("dropped_dirty_total"),
		active:     gaugeOf("connections", `,state="active"`),
		idle:       gaugeOf("connections", `,state="idle"`),
		down:       gaugeOf("down", ""),
	}
}

func newGroupMetrics(set *metrics.Set, service string) groupMetrics {
	return groupMetrics{
		busy:    set.GetOrCreateCounter(fmt.Sprintf("antirobot_upstream_busy_total{service=%q}", service)),
		waiting: &gauge{g: set.GetOrCreateGauge(fmt.Sprintf("antirobot_upstream_waiters{service=%q}", service), nil)},
	}
}

func (g *Group) publish() {
	gone := g.closed.Load()
	g.m.waiting.set(g.queue.waiting.Load())
	for _, a := range g.addrs {
		a.m.active.set(a.active.Load())
		a.m.idle.set(a.idle.Load())
		if a.downUntil.Load() != 0 && !gone {
			a.m.down.set(1)
		} else {
			a.m.down.set(0)
		}
	}
}
