package admin

import (
	"bytes"
	"fmt"
	"strconv"
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
