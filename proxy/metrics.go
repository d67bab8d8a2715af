package proxy

import (
	"fmt"
	"io"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/proxy/insert"
	"antirobot/verdict"
)

// coreMetrics counts requests. Safe for concurrent use; a service's counters are looked up when its Snapshot is built,
// so that a request only touches atomics.
type coreMetrics struct {
	set     *metrics.Set
	decided latency

	badLabels *metrics.Counter
	waited    *metrics.Counter // for an in-flight slot

	mu       sync.Mutex
	services map[string]*serviceMetrics
	moded    map[modedService]*verdictCounters
}

type modedService struct {
	name string
	mode verdict.Mode
}

type verdictCounters [verdict.Blocked + 1][verdict.Causes]*metrics.Counter

// serviceMetrics are the counters of one service, and other state that survives a reload.
type serviceMetrics struct {
	own       *metrics.Counter
	failed    *metrics.Counter
	required  [requireResults]*metrics.Counter
	inserted  [insert.Results]*metrics.Counter
	forbidden atomic.Int64 // last log line about a forbidding policy; unix seconds
	messages  sync.Map     // *metrics.Counter by messageCount
	set       *metrics.Set
	name      string
	whole     latency // from head to last byte
	sitemaps  sitemaps
}

func newCoreMetrics(set *metrics.Set) *coreMetrics {
	m := &coreMetrics{
		set: set, services: map[string]*serviceMetrics{}, moded: map[modedService]*verdictCounters{},
		badLabels: set.GetOrCreateCounter("antirobot_service_labels_not_understood_total"),
		waited:    set.GetOrCreateCounter("antirobot_requests_waited_total"),
	}
	set.RegisterMetricsWriter(func(w io.Writer) {
		m.decided.write(w, "antirobot_verdict_seconds", "")
		m.mu.Lock()
		defer m.mu.Unlock()
		for name, s := range m.services {
			s.whole.write(w, "antirobot_request_seconds", fmt.Sprintf("service=%q", name))
		}
	})
	return m
}

func (m *coreMetrics) leftOut(kind string) *metrics.Counter {
	return m.set.GetOrCreateCounter(fmt.Sprintf(`antirobot_log_lines_left_out_total{kind=%q}`, kind))
}

// service returns the counters of a service, which survive a reload.
func (m *coreMetrics) service(name string) *serviceMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.services[name]; s != nil {
		return s
	}
	s := &serviceMetrics{
		set: m.set, name: name,
		own:    m.set.NewCounter(fmt.Sprintf(`antirobot_own_pages_total{service=%q}`, name)),
		failed: m.set.NewCounter(fmt.Sprintf(`antirobot_upstream_failures_total{service=%q}`, name)),
	}
	for i, result := range requireResultNames {
		s.required[i] = m.set.NewCounter(fmt.Sprintf(`antirobot_service_requires_total{service=%q,result=%q}`, name,
			result))
	}
	for r := insert.Inserted; r < insert.Results; r++ {
		s.inserted[r] = m.set.NewCounter(fmt.Sprintf(`antirobot_evidence_pages_total{service=%q,result=%q}`, name, r))
	}
	m.services[name] = s
	return s
}

// Forget releases the counters of a removed service.
func (c *Core) Forget(service string) { c.metrics.forget(service) }

func (m *coreMetrics) forget(service string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.services, service)
	maps.DeleteFunc(m.moded, func(k modedService, _ *verdictCounters) bool { return k.name == service })
}

// verdicts returns the counters of a service in a mode, which survive a reload.
func (m *coreMetrics) verdicts(name string, mode verdict.Mode) *verdictCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := modedService{name, mode}
	if n := m.moded[k]; n != nil {
		return n
	}
	n := new(verdictCounters)
	for v := range n {
		for c := range n[v] {
			n[v][c] = m.set.NewCounter(fmt.Sprintf(`antirobot_requests_total{service=%q,mode=%q,verdict=%q,cause=%q}`,
				name, mode, verdict.Verdict(v), verdict.Cause(c)))
		}
	}
	m.moded[k] = n
	return n
}

type messageCount struct{ route, result string }

func (s *serviceMetrics) message(route string, r *verdict.Ruling) {
	k := messageCount{route, r.Action.String()}
	switch {
	case r.Granted:
		k.result = "granted"
	case r.Failed != "":
		k.result += "-unjudged"
	}
	c, ok := s.messages.Load(k)
	if !ok {
		c, _ = s.messages.LoadOrStore(k, s.set.GetOrCreateCounter(
			fmt.Sprintf(`antirobot_messages_total{service=%q,route=%q,result=%q}`, s.name, route, k.result)))
	}
	c.(*metrics.Counter).Inc()
}

// latency is a lock-free histogram: powers of two from 1 µs to 134 s. Safe for concurrent use; the zero value is ready.
type latency struct {
	buckets [28]atomic.Uint64 // below 2^i µs
	over    atomic.Uint64
	sum     atomic.Uint64 // nanoseconds
}

func (l *latency) observe(d time.Duration) {
	d = max(d, 0)
	l.sum.Add(uint64(d))
	i := bits.Len64(uint64(d / time.Microsecond))
	if i >= len(l.buckets) {
		l.over.Add(1)
		return
	}
	l.buckets[i].Add(1)
}

// write prints l in the Prometheus text format; labels is empty or `name="value"`.
func (l *latency) write(w io.Writer, name, labels string) {
	bucketLabels, braced := "", ""
	if labels != "" {
		bucketLabels, braced = labels+",", "{"+labels+"}"
	}
	total := uint64(0)
	for i := range l.buckets {
		total += l.buckets[i].Load()
		fmt.Fprintf(w, "%s_bucket{%sle=\"%g\"} %d\n", name, bucketLabels, float64(uint64(1)<<i)/1e6, total)
	}
	total += l.over.Load()
	fmt.Fprintf(w, "%s_bucket{%sle=\"+Inf\"} %d\n", name, bucketLabels, total)
	fmt.Fprintf(w, "%s_sum%s %g\n%s_count%s %d\n", name, braced, float64(l.sum.Load())/1e9, name, braced, total)
}
