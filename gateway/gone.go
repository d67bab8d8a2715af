package gateway

import (
	"slices"
	"sync"
)

// keptGone is how many services that are no longer configured, and addresses that services no longer have, keep their counters: they
// may come back. With more, the ones that have been gone for longest are forgotten.
const keptGone = 64

// gone is what was counted for services and addresses that are gone.
type gone struct {
	mu   sync.Mutex
	list []counted          // those whose counters are kept, as they went
	sums map[string]float64 // of those that are forgotten, for the figures
}

// counted is what counters are kept for: a service, or one of its addresses.
type counted struct{ service, addr string }

// countedBy returns what the labels of a metric name; ok is false if that is no service.
func countedBy(labels map[string]string) (of counted, ok bool) {
	of.service, ok = labels["service"]
	of.addr = labels["addr"]
	return of, ok
}

// forgetGone releases the counters of what has been gone for longest. It is called with a.mu.
func (a *Server) forgetGone() {
	a.gone.mu.Lock()
	defer a.gone.mu.Unlock()
	here := map[counted]bool{}
	for name, g := range a.groups {
		here[counted{service: name}] = true
		for _, addr := range g.Healthy() {
			here[counted{name, addr.Addr}] = true
		}
	}
	metrics := map[counted][]string{}
	for _, name := range a.set.ListMetricNames() {
		_, _, labels := metricLine(name + " 0")
		of, ok := countedBy(labels)
		if !ok || here[of] {
			continue
		}
		if metrics[of] == nil && !slices.Contains(a.gone.list, of) {
			a.gone.list = append(a.gone.list, of)
		}
		metrics[of] = append(metrics[of], name)
	}
	a.gone.list = slices.DeleteFunc(a.gone.list, func(of counted) bool { return metrics[of] == nil })
	forgotten := a.gone.list[:max(len(a.gone.list)-keptGone, 0)]
	if len(forgotten) == 0 {
		return
	}
	for name, n := range a.sum(func(of counted) bool { return slices.Contains(forgotten, of) }) {
		a.gone.sums[name] += n
	}
	for _, of := range forgotten {
		for _, name := range metrics[of] {
			a.set.UnregisterMetric(name)
		}
		if of.addr == "" {
			a.gateway.Forget(of.service)
			a.requestRules.Forget(of.service)
			a.cacher.ForgetLoad(of.service)
		}
	}
	a.gone.list = slices.Clone(a.gone.list[len(forgotten):])
}
