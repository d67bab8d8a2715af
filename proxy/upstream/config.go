package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/clienttls"
)

// maxAddresses is the size of Get's bit set.
const maxAddresses = 64

// Config describes a service's addresses and connections. The zero value is not usable: start with DefaultConfig.
// Fields without a key are constants that tests vary.
type Config struct {
	// Service is the label of metrics and log lines.
	Service string `mapstructure:"-"`

	// URLs are http://host:port, https://host:port or http+unix:///path/of.sock, without a path.
	URLs []string `mapstructure:"urls"`

	Protocol string `mapstructure:"protocol"` // http1 or h2 (ALPN with https, prior knowledge with http)

	// resolve, connect and handshake of one address
	DialTimeout       time.Duration `mapstructure:"-"`
	IdleTimeout       time.Duration `mapstructure:"idle_timeout"`        // of an unused connection
	MaxAge            time.Duration `mapstructure:"-"`                   // of a connection; 0: no limit
	ResponseTimeout   time.Duration `mapstructure:"response_timeout"`    // from request to head
	StreamIdleTimeout time.Duration `mapstructure:"stream_idle_timeout"` // between pieces of a body
	TunnelIdleTimeout time.Duration `mapstructure:"-"`                   // of a silent WebSocket
	ResolveInterval   time.Duration `mapstructure:"-"`                   // of a resolved name

	MaxIdle    int           `mapstructure:"-"`         // unused connections per address
	MaxConns   int           `mapstructure:"max_conns"` // per address; 0: no limit
	MaxWaiters int           `mapstructure:"-"`         // for max_conns
	MaxWait    time.Duration `mapstructure:"max_wait"`  // of each waiter

	ReadBufferSize int64 `mapstructure:"-"` // also bounds an answer's head

	MaxFails    int           `mapstructure:"-"` // consecutive, within FailWindow; 0: never
	FailWindow  time.Duration `mapstructure:"-"`
	FailTimeout time.Duration `mapstructure:"-"` // until an address is retried

	TLS clienttls.Config `mapstructure:"tls"` // for https addresses
}

// DefaultConfig is complete except for the URLs.
func DefaultConfig() Config {
	return Config{
		Protocol:          protocolHTTP1,
		DialTimeout:       5 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxAge:            10 * time.Minute,
		ResponseTimeout:   60 * time.Second,
		StreamIdleTimeout: 60 * time.Second,
		TunnelIdleTimeout: time.Hour,
		ResolveInterval:   5 * time.Second,
		MaxIdle:           1024,
		MaxWaiters:        1024,
		MaxWait:           10 * time.Second,
		ReadBufferSize:    64 << 10,
		MaxFails:          3,
		FailWindow:        10 * time.Second,
		FailTimeout:       10 * time.Second,
	}
}

// Validate returns everything that is wrong at once. It accesses no file or network.
func (c *Config) Validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf(path+": "+format, args...))
	}
	if len(c.URLs) == 0 {
		bad("urls", "at least one address is needed")
	}
	if len(c.URLs) > maxAddresses {
		bad("urls", "%d addresses, at most %d are allowed", len(c.URLs), maxAddresses)
	}
	seen := make(map[target]int, len(c.URLs))
	for i, raw := range c.URLs {
		t, err := parseTarget(raw)
		if err != nil {
			bad(fmt.Sprintf("urls[%d]", i), "%w", err)
			continue
		}
		if first, ok := seen[t]; ok {
			bad(fmt.Sprintf("urls[%d]", i), "%q is the same address as urls[%d]", raw, first)
			continue
		}
		seen[t] = i
	}
	if c.Protocol != protocolHTTP1 && c.Protocol != protocolHTTP2 {
		bad("protocol", "%q is neither %s nor %s", c.Protocol, protocolHTTP1, protocolHTTP2)
	}
	for _, d := range []struct {
		path string
		d    time.Duration
	}{
		{"dial_timeout", c.DialTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"response_timeout", c.ResponseTimeout},
		{"stream_idle_timeout", c.StreamIdleTimeout},
		{"max_wait", c.MaxWait},
		{"tunnel_idle_timeout", c.TunnelIdleTimeout},
		{"fail_timeout", c.FailTimeout},
	} {
		if d.d <= 0 {
			bad(d.path, "%v is not positive", d.d)
		}
	}
	for _, n := range []struct {
		path string
		n    int
	}{
		{"max_conns", c.MaxConns},
		{"max_fails", c.MaxFails},
	} {
		if n.n < 0 {
			bad(n.path, "%d is negative", n.n)
		}
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls.cert_file", "cert_file and key_file belong together")
	}
	return errors.Join(errs...)
}

type target struct {
	network string
	host    string // without brackets; the path for unix
	port    string
	tls     bool
}

// String is the name in metrics, logs and Conn.Addr.
func (t target) String() string {
	if t.network == "unix" {
		return t.host
	}
	return net.JoinHostPort(t.host, t.port)
}

// parseTarget returns errors without user part and query, which may be secret.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if at := strings.LastIndexByte(raw, '@'); at >= 0 && (err != nil || u.Scheme != "http+unix") {
		return target{}, fmt.Errorf("the URL of %q has a user part, which is not allowed", withoutQuery(raw[at+1:]))
	}
	if !strings.Contains(raw, "://") && raw != "" {
		return target{}, fmt.Errorf("%q has no scheme; did you mean http://%s?", withoutQuery(raw), withoutQuery(raw))
	}
	if err != nil {
		return target{}, fmt.Errorf("%q is no URL", withoutQuery(raw))
	}
	switch {
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return target{}, fmt.Errorf("%q has a query or fragment, which is not allowed", withoutQuery(raw))
	case u.Scheme == "http+unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" {
			return target{}, fmt.Errorf("%q: a socket is written http+unix:///path/of.sock", raw)
		}
		return target{network: "unix", host: u.Path}, nil
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, fmt.Errorf("%q must begin with http://, https:// or http+unix://", raw)
	case u.Path != "" && u.Path != "/":
		return target{}, fmt.Errorf("%q has the path %q; requests keep their own path, so an address has none", raw,
			u.Path)
	case u.Hostname() == "":
		return target{}, fmt.Errorf("%q has no host", raw)
	}
	t := target{network: "tcp", host: strings.ToLower(u.Hostname()), port: u.Port(), tls: u.Scheme == "https"}
	if t.port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return target{}, fmt.Errorf("%q has an empty port", raw)
		}
		t.port = "80"
		if t.tls {
			t.port = "443"
		}
	}
	if n, err := strconv.Atoi(t.port); err != nil || n < 1 || n > 65535 {
		return target{}, fmt.Errorf("%q: %s is no port", raw, t.port)
	}
	return t, nil
}

func withoutQuery(raw string) string {
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		return raw[:i] + "…"
	}
	return raw
}

// gauge is a gauge that changes by differences, each tick: during a reload two Groups share its name, and it shows
// their sum.
type gauge struct {
	g    *metrics.Gauge
	last atomic.Int64
}

func (g *gauge) set(n int64) {
	if d := n - g.last.Swap(n); d != 0 {
		g.g.Add(float64(d))
	}
}

type addressMetrics struct {
	dials, dialErrors, reused, dirty *metrics.Counter
	active, idle, down               *gauge
}

type groupMetrics struct {
	busy    *metrics.Counter
	waiting *gauge
}

func newAddressMetrics(set *metrics.Set, service, addr string) addressMetrics {
	labels := fmt.Sprintf("service=%q,addr=%q", service, addr)
	counter := func(name string) *metrics.Counter {
		return set.GetOrCreateCounter(fmt.Sprintf("%s{%s}", name, labels))
	}
	gaugeOf := func(name, more string) *gauge {
		return &gauge{g: set.GetOrCreateGauge(fmt.Sprintf("%s{%s%s}", name, labels, more), nil)}
	}
	return addressMetrics{
		dials:      counter("antirobot_upstream_dials_total"),
		dialErrors: counter("antirobot_upstream_dial_errors_total"),
		reused:     counter("antirobot_upstream_reused_total"),
		dirty:      counter("antirobot_upstream_dropped_dirty_total"),
		active:     gaugeOf("antirobot_upstream_connections", `,state="active"`),
		idle:       gaugeOf("antirobot_upstream_connections", `,state="idle"`),
		down:       gaugeOf("antirobot_upstream_down", ""),
	}
}

func newGroupMetrics(set *metrics.Set, service string) groupMetrics {
	return groupMetrics{
		busy:    set.GetOrCreateCounter(fmt.Sprintf("antirobot_upstream_busy_total{service=%q}", service)),
		waiting: &gauge{g: set.GetOrCreateGauge(fmt.Sprintf("antirobot_upstream_waiters{service=%q}", service), nil)},
	}
}

func (g *Group) publish() {
	gone := g.closed.Load()
	g.m.waiting.set(g.queue.waiting.Load())
	for _, a := range g.addrs {
		a.m.active.set(a.active.Load())
		a.m.idle.set(a.idle.Load())
		if a.downUntil.Load() != 0 && !gone {
			a.m.down.set(1)
		} else {
			a.m.down.set(0)
		}
	}
}
