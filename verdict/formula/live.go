package formula

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// Live is the formula in use, and optionally a candidate that scores beside it: where the candidate would have decided
// differently is counted, and changes nothing. Both can be replaced at any time. Safe for concurrent use.
type Live struct {
	models atomic.Pointer[Models]

	set        *metrics.Set
	scored     *metrics.Counter
	difference *metrics.Histogram
	newlyOver  *metrics.Counter
	newlyUnder *metrics.Counter
	bothOver   *metrics.Counter
}

// Models are the formula in use and the candidate beside it, which may be nil.
type Models struct{ Model, Shadow *Model }

// Deps is what a Live works with. Metrics is required.
type Deps struct{ Metrics *metrics.Set }

// NewLive returns a Live with m.
func NewLive(m Models, d Deps) (*Live, error) {
	set := d.Metrics
	l := &Live{
		set:        set,
		scored:     set.NewCounter("antirobot_formula_scores_total"),
		difference: set.NewHistogram("antirobot_formula_shadow_difference"),
		newlyOver:  set.NewCounter(`antirobot_formula_shadow_total{would="ban"}`),
		newlyUnder: set.NewCounter(`antirobot_formula_shadow_total{would="free"}`),
		bothOver:   set.NewCounter(`antirobot_formula_shadow_total{would="ban_too"}`),
	}
	commit, err := l.Prepare(m)
	if err != nil {
		return nil, err
	}
	commit()
	return l, nil
}

// Prepare prepares other models, and returns a func that puts them into use.
func (l *Live) Prepare(m Models) (commit func(), err error) {
	if m.Model == nil {
		return nil, errors.New("formula: there is no model")
	}
	return func() {
		if old := l.models.Swap(&m); old != nil {
			l.show(old, 0)
		}
		l.show(&m, 1)
	}, nil
}

// show sets the metric that names the models in use.
func (l *Live) show(m *Models, v float64) {
	l.set.GetOrCreateGauge(fmt.Sprintf(`antirobot_formula_info{role="live",version=%q}`, m.Model.version), nil).Set(v)
	if m.Shadow != nil {
		l.set.GetOrCreateGauge(fmt.Sprintf(`antirobot_formula_info{role="shadow",version=%q}`, m.Shadow.version), nil).Set(v)
	}
}

// Model returns the formula in use.
func (l *Live) Model() *Model { return l.models.Load().Model }

// Raw is Model.Raw of the formula in use, and returns that formula, for the score, the explanation and the version.
// threshold is the service's: a score above it bans. It only affects how the candidate's score is counted.
func (l *Live) Raw(x []float32, threshold float32) (raw float32, of *Model) {
	m := l.models.Load()
	raw = m.Model.Raw(x)
	l.scored.Inc()
	if m.Shadow != nil {
		l.compare(m.Model.Share(raw), m.Shadow.Score(x), threshold)
	}
	return raw, m.Model
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
