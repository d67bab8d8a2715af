package formula

import (
	"fmt"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// Live is the formula in use, and maybe a candidate that scores beside it: what the candidate would have done
// otherwise is counted, and changes nothing. Both can be replaced at any time. Safe for concurrent use.
type Live struct {
	pair atomic.Pointer[pair]

	set        *metrics.Set
	scored     *metrics.Counter
	difference *metrics.Histogram
	newlyOver  *metrics.Counter
	newlyUnder *metrics.Counter
	bothOver   *metrics.Counter
}

type pair struct{ model, shadow *Model }

// NewLive returns a Live with the model, and a candidate or nil.
func NewLive(model, shadow *Model, set *metrics.Set) *Live {
	l := &Live{
		set:        set,
		scored:     set.NewCounter("antirobot_formula_scores_total"),
		difference: set.NewHistogram("antirobot_formula_shadow_difference"),
		newlyOver:  set.NewCounter(`antirobot_formula_shadow_total{would="ban"}`),
		newlyUnder: set.NewCounter(`antirobot_formula_shadow_total{would="free"}`),
		bothOver:   set.NewCounter(`antirobot_formula_shadow_total{would="ban_too"}`),
	}
	l.Set(model, shadow)
	return l
}

// Set replaces both. shadow may be nil.
func (l *Live) Set(model, shadow *Model) {
	if model == nil {
		panic("BUG: no formula")
	}
	old := l.pair.Swap(&pair{model, shadow})
	if old != nil {
		l.show(old, 0)
	}
	l.show(l.pair.Load(), 1)
}

// show sets the metric that names the models in use.
func (l *Live) show(p *pair, v float64) {
	l.set.GetOrCreateGauge(fmt.Sprintf(`antirobot_formula_info{role="live",version=%q}`, p.model.version), nil).Set(v)
	if p.shadow != nil {
		l.set.GetOrCreateGauge(fmt.Sprintf(`antirobot_formula_info{role="shadow",version=%q}`, p.shadow.version), nil).Set(v)
	}
}

// Model returns the formula in use.
func (l *Live) Model() *Model { return l.pair.Load().model }

// Shadow returns the candidate; nil if there is none.
func (l *Live) Shadow() *Model { return l.pair.Load().shadow }

// Score returns the score of x by the formula in use, and that formula, for the explanation and the version. threshold
// is the service's: a score above it bans. It only decides how the candidate's score is counted.
func (l *Live) Score(x []float32, threshold float32) (float32, *Model) {
	p := l.pair.Load()
	score := p.model.Score(x)
	l.scored.Inc()
	if p.shadow != nil {
		l.compare(score, p.shadow.Score(x), threshold)
	}
	return score, p.model
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
