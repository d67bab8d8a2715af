package admin

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
)

// observe serves /metrics, /healthz and /readyz. They are open to loopback; other peers need the
// token for /metrics, and get only the status of the others.
func (s *Server) observe(ctx *fasthttp.RequestCtx, path string) error {
	if !ctx.IsGet() && !ctx.IsHead() {
		return methodRefused(ctx, "GET")
	}
	full := s.authorized(ctx) || local(ctx)
	if !full && path == "/metrics" {
		_, err := s.requireToken(ctx, Viewer)
		return err
	}
	switch path {
	case "/metrics":
		s.writeMetrics(ctx)
	case "/healthz":
		s.health(ctx, full)
	default:
		s.readiness(ctx, full)
	}
	return nil
}

func (s *Server) writeMetrics(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	var w bytes.Buffer
	s.set.WritePrometheus(&w)
	metrics.WriteGaugeUint64(&w, fmt.Sprintf("antirobot_build_info{version=%s}", strconv.Quote(s.deps.Version)), 1)
	metrics.WriteProcessMetrics(&w)
	describe(ctx.Response.BodyWriter(), s.described, w.Bytes())
}

// health answers 200 as long as the process can answer at all: a restart would not repair a store. The body says what
// is degraded.
func (s *Server) health(ctx *fasthttp.RequestCtx, full bool) {
	type answer struct {
		Status  string        `json:"status"` // ok or degraded
		Version string        `json:"version,omitempty"`
		Uptime  float64       `json:"uptime_seconds,omitzero"`
		Store   *StoreHealth  `json:"store,omitempty"`
		Stream  *StreamHealth `json:"stream,omitempty"`
		Lists   []string      `json:"lists_failing,omitempty"`
		TLS     []string      `json:"certificates_failing,omitempty"`
	}
	a := answer{Status: "ok"}
	if s.deps.Gateway != nil {
		st := s.deps.Gateway.Store()
		a.Store = &st
		a.TLS = s.deps.Gateway.Certificates()
		a.Stream = s.deps.Gateway.Stream()
		if !st.Healthy || len(a.TLS) > 0 || a.Stream != nil && !a.Stream.Healthy {
			a.Status = "degraded"
		}
	}
	if s.deps.Lists != nil {
		for _, l := range s.deps.Lists.Stats().Lists {
			if l.LastError != "" {
				a.Status = "degraded"
				a.Lists = append(a.Lists, l.Name)
			}
		}
	}
	if !full {
		a = answer{Status: a.Status}
	} else {
		a.Version, a.Uptime = s.deps.Version, s.uptime().Seconds()
	}
	answerJSON(ctx, fasthttp.StatusOK, a)
}

// readiness answers 200 when all checks hold and 503 otherwise.
func (s *Server) readiness(ctx *fasthttp.RequestCtx, full bool) {
	type answer struct {
		Ready  bool    `json:"ready"`
		Checks []Check `json:"checks,omitempty"`
	}
	var a answer
	a.Checks, a.Ready = s.checks()
	if !full {
		a.Checks = nil
	}
	status := fasthttp.StatusOK
	if !a.Ready {
		status = fasthttp.StatusServiceUnavailable
	}
	answerJSON(ctx, status, a)
}

// checks returns all conditions of readiness, never nil, and whether they hold.
func (s *api) checks() (list []Check, ready bool) {
	list = []Check{}
	if s.deps.Lists != nil {
		list = append(list, s.listsCheck())
	}
	if s.deps.Gateway != nil {
		list = append(list, s.deps.Gateway.Ready()...)
	}
	if s.stopped.Load() {
		list = append(list, Check{Name: "admin", Detail: "shutting down"})
	}
	for _, c := range list {
		if !c.OK {
			return list, false
		}
	}
	return list, true
}

func (s *api) uptime() time.Duration {
	if s.deps.Started.IsZero() {
		return 0
	}
	return s.now().Sub(s.deps.Started)
}

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
