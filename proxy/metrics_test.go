package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
)

// TestLatencyHistogram: buckets are cumulative, each duration is below the bound of its bucket, and nothing is lost at
// either end.
func TestLatencyHistogram(t *testing.T) {
	var l latency
	for _, d := range []time.Duration{
		-time.Second, 0, 999, time.Microsecond, 3 * time.Microsecond, time.Millisecond,
		time.Second, time.Hour,
	} {
		l.observe(d)
	}
	var out bytes.Buffer
	l.write(&out, "x_seconds", `service="s"`)
	text := out.String()
	for _, want := range []string{
		`x_seconds_bucket{service="s",le="1e-06"} 3`, // below a microsecond, the negative one as zero
		`x_seconds_bucket{service="s",le="2e-06"} 4`,
		`x_seconds_bucket{service="s",le="4e-06"} 5`,
		`x_seconds_bucket{service="s",le="0.000512"} 5`,
		`x_seconds_bucket{service="s",le="0.001024"} 6`,
		`x_seconds_bucket{service="s",le="1.048576"} 7`,
		`x_seconds_bucket{service="s",le="134.217728"} 7`,
		`x_seconds_bucket{service="s",le="+Inf"} 8`,
		`x_seconds_count{service="s"} 8`,
		`x_seconds_sum{service="s"} 3601.001004999`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	last := -1
	for line := range strings.Lines(text) {
		var n int
		if i := strings.LastIndexByte(line, ' '); strings.Contains(line, "_bucket") {
			if _, err := fmt.Sscan(line[i:], &n); err != nil || n < last {
				t.Errorf("%s after %d (%v)", line, last, err)
			}
			last = n
		}
	}
	out.Reset()
	l.write(&out, "y", "")
	if !strings.Contains(out.String(), "y_count 8\n") || !strings.Contains(out.String(), `y_bucket{le="+Inf"} 8`) {
		t.Errorf("without labels:\n%s", out.String())
	}
}

func TestLatencyCountsInParallel(t *testing.T) {
	var l latency
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				l.observe(time.Duration(i) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	var out bytes.Buffer
	l.write(&out, "x", "")
	if !strings.Contains(out.String(), "x_count 8000\n") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	var l latency
	if n := testing.AllocsPerRun(100, func() { l.observe(time.Millisecond) }); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

// TestMetricsOutliveAReload: a service keeps its counters when a new configuration is built.
func TestMetricsOutliveAReload(t *testing.T) {
	set := metrics.NewSet()
	m := newCoreMetrics(set)
	m.service("shop").own.Inc()
	m.service("shop").own.Inc()
	m.service(`we"ird`).failed.Inc()
	m.verdicts("shop", verdict.Observe)[verdict.Robot][verdict.CauseBan].Inc()
	m.verdicts("shop", verdict.Observe)[verdict.Robot][verdict.CauseBan].Inc()
	m.verdicts("shop", verdict.Enforce)[verdict.Robot][verdict.CauseBan].Inc()
	var out bytes.Buffer
	set.WritePrometheus(&out)
	for _, want := range []string{
		`antirobot_requests_total{service="shop",mode="observe",verdict="robot",cause="ban"} 2`,
		`antirobot_requests_total{service="shop",mode="enforce",verdict="robot",cause="ban"} 1`,
		`antirobot_own_pages_total{service="shop"} 2`, `antirobot_upstream_failures_total{service="we\"ird"} 1`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, tailOf(out.String()))
		}
	}
}

func tailOf(s string) string { return s[max(0, len(s)-2000):] }
