package processor

import (
	"math"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/training"
)

// Tally is what the scores of one visit add up to under a formula, for rehearsals. The zero value is its beginning.
type Tally struct {
	weight, span        float32
	judgedAt, weighedAt uint32
}

// Weigh returns the score of a visit with a further row of it, as evaluate would have.
func (p *Processor) Weigh(c *Tally, m *formula.Model, v *training.Row) float32 {
	return c.add(&p.cfg.Visit, m, m.Raw(v.Factors), uint32(Pages(v)), v.At)
}

// add returns the score of a visit with what a model says of a further moment of it, after so many pages.
func (c *Tally) add(cfg *VisitConfig, m *formula.Model, raw float32, pages uint32, at time.Time) float32 {
	s := session{weight: c.weight, span: c.span, judgedAt: c.judgedAt, weighedAt: c.weighedAt, pages: pages}
	weight, span := s.weigh(cfg, m, raw, at)
	s.add(weight, span, at)
	*c = Tally{s.weight, s.span, s.judgedAt, s.weighedAt}
	return m.Share(weight)
}

// Pages returns how many pages the subject of a row had asked for.
func Pages(v *training.Row) float32 {
	if n := v.Factors[factorPages]; n == n { // known
		return min(max(n, 0), math.MaxInt32/2)
	}
	return 0
}

// Stops reports whether a score would ban a subject for the first time: it exceeds the threshold by the hysteresis, and the
// subject has been here for a moment.
func (p *Processor) Stops(score, threshold float32, v *training.Row) bool {
	age, pages := v.Factors[factorAge], v.Factors[factorPages]
	if age == age && float64(age) < p.cfg.Patience.Seconds() && int(pages) < p.cfg.PatienceDocs {
		return false
	}
	return score > p.firstLimit(threshold)
}

// firstLimit returns the score that bans a subject for the first time where the threshold is this.
func (p *Processor) firstLimit(threshold float32) float32 {
	return threshold + min(float32(p.cfg.Hysteresis), (1-threshold)/2)
}

// Over reports whether the subject of a row is over a limit. Windows that no factor counts are left out: see Rehearsed.
func (p *Processor) Over(limits []verdict.Limit, v *training.Row) bool {
	times := float32(1)
	if agents := v.Factors[factorAgents]; v.Kind == identity.KindIP && agents == agents {
		times = float32(min(max(int(agents), 1), p.cfg.AddressAgents))
	}
	for i := range limits {
		if k, ok := windowFactor(limits[i].Window); ok && v.Factors[k] > float32(limits[i].Requests)*times {
			return true
		}
	}
	return false
}

// Rehearsed reports whether some factor counts the pages of a limit's window.
func Rehearsed(window time.Duration) bool {
	_, ok := windowFactor(window)
	return ok
}

// The places of the factors that a rehearsal reads.
var (
	factorPages, factorAge, factorAgents = placeOf("session_pages"), placeOf("session_age"), placeOf("agents")

	windows = map[time.Duration]int{
		time.Second: placeOf("pages_1s"), 10 * time.Second: placeOf("pages_10s"), time.Minute: placeOf("pages_1m"),
		10 * time.Minute: placeOf("pages_10m"), time.Hour: placeOf("pages_1h"), 24 * time.Hour: placeOf("pages_1d"),
	}
)

func windowFactor(window time.Duration) (int, bool) {
	i, ok := windows[window]
	return i, ok
}

func placeOf(name string) int {
	for i := range factors {
		if factors[i].Name == name {
			return i
		}
	}
	panic("BUG: there is no factor " + name)
}
