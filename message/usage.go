package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metrics"
)

// Requested counts a request of a method on d.
func (d *Domain) Requested(method string) {
	if c, ok := d.requests.Load(method); ok {
		if c, ok := c.(*metrics.Counter); ok {
			c.Inc()
		}
		return
	}
	c := d.set.GetOrCreateCounter(fmt.Sprintf(`antirobot_message_requests_total{partner=%q,domain=%q,method=%q}`,
		d.partner, d.path, method))
	d.requests.Store(method, c)
	c.Inc()
}

// Usage counts a partner's calls of a method on a domain.
type Usage struct {
	Partner  string `json:"partner"`
	Domain   string `json:"domain"`
	Method   string `json:"method"`
	Requests uint64 `json:"requests"`
}

// Usage returns the usage of all partners since the start.
func (s *System) Usage() []Usage {
	var out []Usage
	for _, name := range slices.Sorted(maps.Keys(s.partners)) {
		_ = s.partners[name].root.walk(func(d *Domain) error {
			first := len(out)
			d.requests.Range(func(method, count any) bool {
				m, _ := method.(string)
				if c, ok := count.(*metrics.Counter); ok && c.Get() > 0 {
					out = append(out, Usage{name, d.path, m, c.Get()})
				}
				return true
			})
			slices.SortFunc(out[first:], func(a, b Usage) int { return strings.Compare(a.Method, b.Method) })
			return nil
		})
	}
	return out
}
