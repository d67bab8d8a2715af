package formula

import (
	"fmt"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// Live is the operator's formula, and optionally a candidate that scores beside it: where the candidate would have decided
// differently is counted, and changes nothing. Either may be missing, and both can be replaced at any time. A nil Live has neither.
// Safe for concurrent use.
type Live struct {
	models atomic.Pointer[Models]

	set        *metrics.Set
	scored     *metrics.Counter
	difference *metrics.Histogram
	newlyOver  *metrics.Counter
	newlyUnder *metrics.Counter
	bothOver   *metrics.Counter
}

// Models are the formula in use and the candidate beside it; nil: there is none.
type Models struct{ Model, Shadow *Model }

// Deps is what a Live works with. Metrics is required.
type Deps struct{ Metrics *metrics.Set }

// NewLive returns a Live with m.
func NewLive(m Models, d Deps) *Live {
	set := d.Metrics
	l := &Live{
		set:        set,
		scored:     set.NewCounter("antirobot_formula_scores_total"),
		difference: set.NewHistogram("antirobot_formula_shadow_difference"),
		newlyOver:  set.NewCounter(`antirobot_formula_shadow_total{would="ban"}`),
		newlyUnder: set.NewCounter(`antirobot_formula_shadow_total{would="free"}`),
		bothOver:   set.NewCounter(`antirobot_formula_shadow_total{would="ban_too"}`),
	}
	l.Use(m)
	return l
}

// Use puts other models into use.
func (l *Live) Use(m Models) {
	if old := l.models.Swap(&m); old != nil {
		l.show(old, 0)
	}
	l.show(&m, 1)
}

// show sets the metric that names the models in use.
func (l *Live) show(m *Models, v float64) {
	for role, model := range map[string]*Model{"live": m.Model, "shadow": m.Shadow} {
		if model != nil {
			l.set.GetOrCreateGauge(fmt.Sprintf(`antirobot_formula_info{role=%q,version=%q}`, role, model.version), nil).Set(v)
		}
	}
}

// Model returns the formula in use; nil if there is none.
func (l *Live) Model() *Model {
	if l == nil {
		return nil
	}
	return l.models.Load().Model
}

// Scores reports whether there is a model.
func (l *Live) Scores() bool {
	if l == nil {
		return false
	}
	m := l.models.Load()
	return m.Model != nil || m.Shadow != nil
}

// Score is Model.Score of the formula in use, and returns that formula; 0 and nil if there is none. threshold is the service's: a
// score above it bans. It only affects how the candidate's score is counted.
func (l *Live) Score(x []float32, threshold float32) (score float32, of *Model) {
	if l == nil {
		return 0, nil
	}
	m := l.models.Load()
	if m.Model != nil {
		score = m.Model.Score(x)
		l.scored.Inc()
	}
	if m.Shadow != nil {
		l.compare(score, m.Shadow.Score(x), threshold)
	}
	return score, m.Model
}

func (l *Live) compare(live, shadow, threshold float32) {
	l.difference.Update(float64(abs(live - shadow)))
	switch over, would := live > threshold, shadow > threshold; {
	case over && would:
		l.bothOver.Inc()
	case would:
		l.newlyOver.Inc()
	case over:
		l.newlyUnder.Inc()
	}
}
