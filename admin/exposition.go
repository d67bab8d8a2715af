package admin

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// metricTable has the name, the type and a description of each metric, one a line.
//
//go:embed metrics.txt
var metricTable string

type metric struct{ kind, help string }

func metricNames() map[string]metric {
	all := map[string]metric{}
	for line := range strings.Lines(metricTable) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, help, _ := strings.Cut(rest, " ")
		all[name] = metric{kind, help}
	}
	return all
}

// family returns to which metric a sample belongs: a histogram and a summary have several.
func family(all map[string]metric, sample string) string {
	for _, suffix := range [...]string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok &&
			(all[name].kind == "histogram" || all[name].kind == "summary" || all[name].kind == "untyped") {
			return name
		}
	}
	return sample
}

// describe copies samples in the Prometheus text format, those of a metric together and below what they are. Metrics of
// the runtime and the process that the table does not have are described by the form of their names.
func describe(w io.Writer, all map[string]metric, samples []byte) {
	var order []string
	lines := map[string][]byte{}
	for s := bufio.NewScanner(bytes.NewReader(samples)); s.Scan(); {
		line := s.Bytes()
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name := string(line[:max(bytes.IndexAny(line, "{ "), 0)])
		name = family(all, name)
		if lines[name] == nil {
			order = append(order, name)
		}
		lines[name] = append(append(lines[name], line...), '\n')
	}
	for _, name := range order {
		m, ok := all[name]
		switch {
		case ok:
		case strings.HasPrefix(name, "go_"):
			m = metric{kindOf(name), "Of the Go runtime."}
		case strings.HasPrefix(name, "process_"):
			m = metric{kindOf(name), "Of the process."}
		default:
			m = metric{"untyped", "Not described."}
		}
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s", name, m.help, name, m.kind, lines[name])
	}
}

// kindOf tells a counter from a gauge by its name.
func kindOf(name string) string {
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}
