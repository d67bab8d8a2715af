package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The ways to choose among a service's addresses.
const (
	leastConn  = "least_conn"
	roundRobin = "round_robin"
)

// maxAddresses is the size of the set in which Get records the addresses that it has tried.
const maxAddresses = 64

// Config says where a service is and how its connections are managed. The zero value is not usable: start with
// DefaultConfig.
type Config struct {
	// Service is the label of the metrics and log lines. It is the service's name, so whoever builds the Group sets it; it
	// is not read from this section.
	Service string `mapstructure:"-"`

	// URLs are the addresses: http://host:port, https://host:port or http+unix:///path/of.sock. A path is not allowed.
	URLs    []string `mapstructure:"urls"`
	Balance string   `mapstructure:"balance"` // least_conn or round_robin

	Protocol string `mapstructure:"protocol"` // http1 or h2: by ALPN with https, otherwise from the first byte

	DialTimeout       time.Duration `mapstructure:"dial_timeout"`        // resolve, connect and shake hands with one address
	IdleTimeout       time.Duration `mapstructure:"idle_timeout"`        // an unused connection is closed after it
	MaxAge            time.Duration `mapstructure:"-"`                   // an older connection is not used again; 0: no limit
	ResponseTimeout   time.Duration `mapstructure:"response_timeout"`    // until the head of the answer, after the request was sent
	StreamIdleTimeout time.Duration `mapstructure:"stream_idle_timeout"` // between two pieces of a body, either way
	TunnelIdleTimeout time.Duration `mapstructure:"tunnel_idle_timeout"` // a tunnel (WebSocket) without a byte either way
	ResolveInterval   time.Duration `mapstructure:"-"`                   // how long a resolved name is used for further dials

	MaxIdle    int           `mapstructure:"-"`         // kept unused connections per address; as wide as the load
	MaxConns   int           `mapstructure:"max_conns"` // open connections per address; 0: no limit
	MaxWaiters int           `mapstructure:"-"`         // requests that wait for one when max_conns is reached
	MaxWait    time.Duration `mapstructure:"max_wait"`  // how long each of them waits

	ReadBufferSize int64 `mapstructure:"-"` // bytes; also the limit of an answer's head

	MaxFails    int           `mapstructure:"max_fails"`    // failures in a row within fail_window that take an address out; 0: never
	FailWindow  time.Duration `mapstructure:"-"`            // a failure older than this is forgotten
	FailTimeout time.Duration `mapstructure:"fail_timeout"` // how long it stays out before it is tried again

	TLS TLSConfig `mapstructure:"tls"`
}

// TLSConfig is for https addresses.
type TLSConfig struct {
	ServerName         string `mapstructure:"server_name"` // SNI and the name that is verified; default: the URL's host
	CAFile             string `mapstructure:"ca_file"`     // PEM; default: the system's
	InsecureSkipVerify bool   `mapstructure:"insecure_skip_verify"`
	MinVersion         string `mapstructure:"min_version"` // 1.2 or 1.3
	CertFile           string `mapstructure:"cert_file"`   // client certificate, PEM
	KeyFile            string `mapstructure:"key_file"`
}

// DefaultConfig is complete except for the URLs.
func DefaultConfig() Config {
	return Config{
		Balance:           leastConn,
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
		TLS:               TLSConfig{MinVersion: "1.2"},
	}
}

// Validate returns everything that is wrong at once. It accesses no file and no network.
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
	if c.Balance != leastConn && c.Balance != roundRobin {
		bad("balance", "%q is neither %s nor %s", c.Balance, leastConn, roundRobin)
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
		{"tunnel_idle_timeout", c.TunnelIdleTimeout},
		{"max_wait", c.MaxWait},
		{"fail_timeout", c.FailTimeout},
	} {
		if d.d <= 0 {
			bad(d.path, "%v is not positive", d.d)
		}
	}
	for _, d := range []struct {
		path string
		d    time.Duration
	}{} {
		if d.d < 0 {
			bad(d.path, "%v is negative", d.d)
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
	if v := c.TLS.MinVersion; v != "1.2" && v != "1.3" {
		bad("tls.min_version", "%q is neither 1.2 nor 1.3", v)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls.cert_file", "cert_file and key_file belong together")
	}
	return errors.Join(errs...)
}

// target is a parsed URL: what to dial.
type target struct {
	network string // tcp or unix
	host    string // name or IP without brackets; the path for unix
	port    string
	tls     bool
}

// String returns the name of an address in metrics, logs and Conn.Addr.
func (t target) String() string {
	if t.network == "unix" {
		return t.host
	}
	return net.JoinHostPort(t.host, t.port)
}

// parseTarget parses the URL of an address. Its errors go into logs and contain nothing that may be a secret: no user part, no
// query.
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
		return target{}, fmt.Errorf("%q has the path %q; requests keep their own path, so an address has none", raw, u.Path)
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

// withoutQuery returns a URL that can safely be shown.
func withoutQuery(raw string) string {
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		return raw[:i] + "…"
	}
	return raw
}
