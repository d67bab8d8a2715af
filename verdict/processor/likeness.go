package processor

import (
	"fmt"
	"math"
	"slices"

	"antirobot/identity"
	"antirobot/verdict/likeness"
	"antirobot/verdict/tally"
)

// LikenessConfig is the section processor.likeness: what is remembered of the latest visitors of each service, to tell how those are judged
// who behave alike.
type LikenessConfig struct {
	Visitors int `mapstructure:"max_visitors"` // of each service, 300 bytes each; 0: nobody is compared
}

// Validate returns every problem.
func (c LikenessConfig) Validate() error {
	if c.Visitors < 0 || c.Visitors > 1<<16 {
		return fmt.Errorf("likeness.max_visitors: %d is not between 0 and 65536", c.Visitors)
	}
	return nil
}

const (
	likenFrom  = 5    // pages after which a subject is compared …
	likenAgain = 1.25 // … and how many times as many after which it is compared again
)

// growing are factors of pace and course that are no traits of a subject: they say for how long it has been here, or what we did.
var growing = []string{
	"pages_1h", "pages_1d", "client_pages_10s", "client_pages_1m", "client_pages_10m", "client_pages_1h", "client_pages_1d", "client_loads_1h", "client_loads_1d",
	"session_age", "session_pages", "hours_active", "hours_in_row", "days", "hours_per_day", "visits", "targets", "stopped_share",
}

// behaviour is the factors by which visitors are compared, by their places among the factors, and alike is the factor that comes of it.
var behaviour, alike = func() (at []int, alike int) {
	for i := range factors {
		switch f := &factors[i]; {
		case f.Name == "alike_rank":
			alike = i
		case (f.Group == Pace || f.Group == Course) && !slices.Contains(growing, f.Name):
			at = append(at, i)
		}
	}
	return at[:min(len(at), likeness.MaxTraits)], alike
}()

// resemblance is how those are judged who behave most like a subject, and when it was compared. The zero value: never.
type resemblance struct {
	rank uint8 // in 254ths, plus one
	at   rough // pages
}

func (l resemblance) value() float32 {
	if l.rank == 0 {
		return nan
	}
	return float32(l.rank-1) / 254
}

// due reports whether a subject is to be compared after so many pages.
func (l resemblance) due(pages uint32) bool {
	return pages >= likenFrom && (l.at == 0 || float32(pages) >= likenAgain*l.at.value())
}

// liken compares the subject with others of the service where that is due, and puts into x what comes of it.
func (p *Processor) liken(c *evidence, r *rates, x []float32) {
	if r.people.alike == nil || !c.t.alike.due(c.s.pages) || c.s.agentCount() >= several || c.unnamed() >= several {
		return
	}
	var own [likeness.MaxTraits]float32
	for i, at := range behaviour {
		own[i] = x[at]
	}
	x[alike] = nan // how others are judged must not come back to them
	raw := p.formula.Model().Raw(x)
	sub := c.e.Subjects[0]
	l := resemblance{at: roughly(float64(c.s.pages))}
	if rank := r.people.alike.Compare(tally.Hash(sub.ID)+uint64(sub.Kind), own[:len(behaviour)], min(max(raw, -weighBound), weighBound)); rank == rank {
		l.rank = uint8(math.Round(float64(rank)*254)) + 1
	}
	x[alike] = l.value()
	p.resembles(sub, l)
}

// resembles records it.
func (p *Processor) resembles(sub identity.Subject, l resemblance) {
	sh, h := p.trails.lock(sub)
	defer sh.mu.Unlock()
	if t := sh.find(h, sub); t != nil {
		t.alike = l
	}
}

// likenesses returns a service's memory of who behaves alike; nil where nobody is to be compared.
func (p *Processor) likenesses() *likeness.Visitors {
	if p.cfg.Likeness.Visitors == 0 {
		return nil
	}
	return likeness.New(p.cfg.Likeness.Visitors, len(behaviour))
}
