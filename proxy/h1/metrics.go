package h1

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/proxy/h1/wire"
)

type serverMetrics struct {
	accepted, requests         *metrics.Counter
	panics, retries, tunnels   *metrics.Counter
	clientGone, truncated      *metrics.Counter
	revoked                    *metrics.Counter
	limitConns, limitAddr      *metrics.Counter
	limitRequests, limitOfAddr *metrics.Counter
	limitIdle, limitHandshake  *metrics.Counter
	limitHandshakeRate         *metrics.Counter
	limitBody, limitRead       *metrics.Counter
	limitWrite, limitUpstream  *metrics.Counter
	limitBodies                *metrics.Counter
	badProxyHeader, badBody    *metrics.Counter
	badResponse                *metrics.Counter
	refused                    [wire.Refusals]*metrics.Counter
	openConns, openTunnels     atomic.Int64
	bodies                     atomic.Int64
}

func newServerMetrics(set *metrics.Set) *serverMetrics {
	limit := func(kind string) *metrics.Counter {
		return set.GetOrCreateCounter(`antirobot_http_limits_total{limit="` + kind + `"}`)
	}
	bad := func(reason string) *metrics.Counter {
		return set.GetOrCreateCounter(`antirobot_http_bad_requests_total{reason="` + reason + `"}`)
	}
	m := &serverMetrics{
		accepted:           set.GetOrCreateCounter("antirobot_http_connections_total"),
		requests:           set.GetOrCreateCounter("antirobot_http_requests_total"),
		panics:             set.GetOrCreateCounter("antirobot_http_panics_total"),
		retries:            set.GetOrCreateCounter("antirobot_http_retries_total"),
		tunnels:            set.GetOrCreateCounter("antirobot_http_tunnels_total"),
		clientGone:         set.GetOrCreateCounter("antirobot_http_clients_gone_total"),
		truncated:          set.GetOrCreateCounter("antirobot_http_truncated_answers_total"),
		revoked:            set.GetOrCreateCounter("antirobot_http_revoked_answers_total"),
		badResponse:        set.GetOrCreateCounter("antirobot_http_bad_answers_total"),
		limitConns:         limit("connections"),
		limitAddr:          limit("connections_per_addr"),
		limitRequests:      limit("requests"),
		limitOfAddr:        limit("requests_per_addr"),
		limitIdle:          limit("idle_timeout"),
		limitHandshake:     limit("handshake"),
		limitHandshakeRate: limit("handshake_rate"),
		limitBody:          limit("body_size"),
		limitRead:          limit("body_timeout"),
		limitBodies:        limit("bodies_in_sum"),
		limitWrite:         limit("write_timeout"),
		limitUpstream:      limit("upstream_timeout"),
		badProxyHeader:     bad("proxy_header"),
		badBody:            bad("chunked_body"),
	}
	for i := 1; i < len(m.refused); i++ {
		m.refused[i] = bad(wire.Refusal(i).Name())
	}
	set.GetOrCreateGauge("antirobot_http_open_connections", func() float64 { return float64(m.openConns.Load()) })
	set.GetOrCreateGauge("antirobot_http_bodies_bytes", func() float64 { return float64(m.bodies.Load()) })
	set.GetOrCreateGauge("antirobot_http_open_tunnels", func() float64 { return float64(m.openTunnels.Load()) })
	return m
}
