package admin

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	var out bytes.Buffer
	describe(&out, metricNames(), []byte(`antirobot_bans 3
antirobot_request_seconds_bucket{service="a",le="1"} 1
antirobot_unheard_of 1
antirobot_request_seconds_sum{service="a"} 0.5
antirobot_request_seconds_count{service="a"} 1
process_cpu_seconds_total 1
# a comment
go_threads 7
`))
	const want = `# HELP antirobot_bans Live bans.
# TYPE antirobot_bans gauge
antirobot_bans 3
# HELP antirobot_request_seconds Time from the complete head of a request to the last byte of its answer, by service.
# TYPE antirobot_request_seconds histogram
antirobot_request_seconds_bucket{service="a",le="1"} 1
antirobot_request_seconds_sum{service="a"} 0.5
antirobot_request_seconds_count{service="a"} 1
# HELP antirobot_unheard_of Not described.
# TYPE antirobot_unheard_of untyped
antirobot_unheard_of 1
# HELP process_cpu_seconds_total Of the process.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1
# HELP go_threads Of the Go runtime.
# TYPE go_threads gauge
go_threads 7
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// cookies and the like have names that begin as metrics do.
var noMetrics = []string{
	"antirobot_console", "antirobot_console_lang", "antirobot_console_oidc", "antirobot_form", "antirobot_grant_", "antirobot_http", "antirobot_lang", "antirobot_probe",
	"antirobot_", "antirobot_upstream_", "antirobot_request_seconds_bucket", "antirobot_extra_total",
}

// written returns the names of metrics in the program's source.
func written(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	quoted := regexp.MustCompile("[\"`n](antirobot_[a-z0-9_]*)")
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "e2e" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range quoted.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range noMetrics {
		delete(names, n)
	}
	return names
}

// TestMetricsAreDescribed: the table of descriptions has every metric that the program writes, and no other.
func TestMetricsAreDescribed(t *testing.T) {
	table := metricNames()
	for _, name := range slices.Sorted(maps.Keys(written(t))) {
		if _, ok := table[name]; !ok {
			t.Errorf("%s is not in admin/metrics.txt", name)
		}
	}
	inSource := written(t)
	for name, m := range table {
		if !strings.HasPrefix(name, "antirobot_") {
			continue
		}
		if !inSource[name] {
			t.Errorf("admin/metrics.txt has %s, which nothing writes", name)
		}
		if !slices.Contains([]string{"counter", "gauge", "histogram", "summary", "untyped"}, m.kind) || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s is described as %+v", name, m)
		}
	}
}

// TestRulesAndBoardKnowTheMetrics: what is shipped for Prometheus and Grafana asks for metrics that exist.
func TestRulesAndBoardKnowTheMetrics(t *testing.T) {
	table := metricNames()
	asked := regexp.MustCompile(`\bantirobot_[a-z0-9_]+`)
	for _, file := range []string{"rules.yaml", "rules_test.yaml", "board.json"} {
		text, err := os.ReadFile("../deploy/prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, name := range asked.FindAllString(string(text), -1) {
			n++
			if _, ok := table[family(table, name)]; !ok {
				t.Errorf("%s asks for %s, which there is not", file, name)
			}
		}
		if n < 10 {
			t.Errorf("%s asks for %d metrics", file, n)
		}
	}
}
