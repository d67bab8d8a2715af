package proxy

import (
	"fmt"
	"io"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/captcha"
	"antirobot/verdict"
)

// Metrics counts what the gateway does. It is safe for concurrent use; a service's counters are found once, when its
// Snapshot is built, so that a request touches atomics only.
type Metrics struct {
	set      *metrics.Set
	decide   latency // from the complete head to the decision
	outcomes [captcha.OutcomeLimited + 1]*metrics.Counter

	mu       sync.Mutex
	services map[string]*serviceMetrics
}

// serviceMetrics are the counters of one service.
type serviceMetrics struct {
	verdicts [verdict.Blocked + 1][verdict.CauseOff + 1]*metrics.Counter
	own      *metrics.Counter
	failed   *metrics.Counter
	whole    latency // from the complete head to the last byte of the answer
}

var outcomeNames = [...]string{"", "shown", "solved", "failed", "limited"}

// NewMetrics registers the gateway's metrics in set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{set: set, services: map[string]*serviceMetrics{}}
	for i, n := range outcomeNames {
		if n != "" {
			m.outcomes[i] = set.NewCounter(fmt.Sprintf(`antirobot_captcha_total{outcome=%q}`, n))
		}
	}
	set.RegisterMetricsWriter(func(w io.Writer) {
		m.decide.write(w, "antirobot_verdict_seconds", "")
		m.mu.Lock()
		defer m.mu.Unlock()
		for name, s := range m.services {
			s.whole.write(w, "antirobot_request_seconds", fmt.Sprintf("service=%q", name))
		}
	})
	return m
}

func (m *Metrics) service(name string) *serviceMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.services[name]; s != nil {
		return s
	}
	s := &serviceMetrics{
		own:    m.set.NewCounter(fmt.Sprintf(`antirobot_own_pages_total{service=%q}`, name)),
		failed: m.set.NewCounter(fmt.Sprintf(`antirobot_upstream_failures_total{service=%q}`, name)),
	}
	for v := range s.verdicts {
		for c := range s.verdicts[v] {
			s.verdicts[v][c] = m.set.NewCounter(fmt.Sprintf(`antirobot_requests_total{service=%q,verdict=%q,cause=%q}`,
				name, verdict.Verdict(v), verdict.Cause(c)))
		}
	}
	m.services[name] = s
	return s
}

func (m *Metrics) outcome(o captcha.Outcome) {
	if c := m.outcomes[o]; c != nil {
		c.Inc()
	}
}
