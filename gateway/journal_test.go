package gateway

import (
	"maps"
	"testing"

	"github.com/VictoriaMetrics/metrics"
)

// TestCounts: figures are summed over the labels that don't matter, and a challenge counts when it is shown, not when a visitor is
// sent to its page.
func TestCounts(t *testing.T) {
	set := metrics.NewSet()
	for name, n := range map[string]uint64{
		`antirobot_requests_total{service="a",verdict="robot",cause="ban"}`: 2, `antirobot_requests_total{service="b",verdict="robot",cause="ban"}`: 3,
		`antirobot_captcha_shown_total{form="redirect"}`: 9, `antirobot_captcha_shown_total{form="page"}`: 7, `antirobot_captcha_shown_total{form="json"}`: 1,
		`antirobot_other_total`: 5,
	} {
		set.GetOrCreateCounter(name).Set(n)
	}
	got := (&figures{base: &base{set: set}}).counts()
	if want := map[string]float64{"requests/robot/ban": 5, "shown": 8}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
