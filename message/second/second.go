// Package second asks for opinions on messages of which the model is not sure: DNS lists (RFC 5782) and HTTP
// services.
//
// Invariants:
//  1. Only configured sources are asked, and get only the configured data.
//  2. Questions have a timeout, a bound on concurrency, and a pause after failures. A failure is no opinion.
//  3. Answers are cached by hash, within a bound.
package second

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/bounded"
)

// Says is an opinion's verdict.
type Says uint8

// The verdicts.
const (
	Unsure Says = iota // unknown, or no answer
	Good
	Bad
)

func (s Says) String() string { return [...]string{"unsure", "good", "bad"}[s] }

// Question is a message with its context.
type Question struct {
	Service, Route, Domain string
	Score                  float64
	Message                map[string]any
	Hosts                  []string // linked from the message
}

// Opinion is an answer.
type Opinion struct {
	By   string
	Says Says
	Why  string
}

func (o Opinion) String() string { return o.By + " says " + o.Says.String() + ": " + o.Why }

// Deps is what Opinions work with. Metrics is required.
type Deps struct {
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Opinions asks the configured sources. Safe for concurrent use.
type Opinions struct {
	askers map[string]*asker
}

// New returns Opinions of a valid configuration.
func New(cfgs []Config, d Deps) (*Opinions, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	o := &Opinions{askers: make(map[string]*asker)}
	for _, c := range cfgs {
		if err := c.Validate(); err != nil {
			return nil, err
		}
		o.askers[c.Name] = newAsker(c.withDefaults(), d)
	}
	return o, nil
}

// Ask asks the named sources concurrently and returns their opinions in order.
func (o *Opinions) Ask(ctx context.Context, names []string, q Question) []Opinion {
	out := make([]Opinion, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		a := o.askers[name]
		if a == nil {
			out[i] = Opinion{By: name, Why: "no source of that name is configured"}
			continue
		}
		all.Go(func() {
			out[i] = a.opinion(ctx, &q)
			out[i].By = name
		})
	}
	all.Wait()
	return out
}

// Close closes idle connections.
func (o *Opinions) Close() error {
	for _, a := range o.askers {
		a.client.CloseIdleConnections()
	}
	return nil
}

type asker struct {
	cfg      Config
	log      zerolog.Logger
	now      func() time.Time
	places   chan struct{}
	resolver *net.Resolver
	listed   []listedNet
	client   *http.Client
	count    map[string]*metrics.Counter

	known *bounded.Expiring[[sha256.Size]byte, Opinion]

	mu     sync.Mutex
	failed int
	paused time.Time
}

func newAsker(c Config, d Deps) *asker {
	a := &asker{
		cfg: c, log: d.Log, now: d.Now, places: make(chan struct{}, concurrency),
		known: bounded.NewExpiring[[sha256.Size]byte, Opinion](maxRemembered),
		count: make(map[string]*metrics.Counter),
	}
	for _, result := range [...]string{"good", "bad", "unsure", "remembered", "failed", "paused", "busy"} {
		a.count[result] = d.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_second_opinions_total{name=%q,result=%q}`,
			c.Name, result))
	}
	a.openDNS()
	a.client = &http.Client{
		Transport: &http.Transport{
			Proxy: nil, MaxConnsPerHost: concurrency, MaxIdleConnsPerHost: concurrency,
			IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a
}

const (
	concurrency   = 16
	rememberFor   = time.Hour
	maxRemembered = 10_000
	pauseAfter    = 5
	pauseFor      = 10 * time.Second
)

var errFailed = errors.New("no answer")

func (a *asker) opinion(ctx context.Context, q *Question) Opinion {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	if a.cfg.Kind == kindDNS {
		return a.askDNS(ctx, q)
	}
	return a.askHTTP(ctx, q)
}

func (a *asker) once(ctx context.Context, key [sha256.Size]byte,
	ask func(ctx context.Context) (Opinion, error),
) (Opinion, error) {
	now := a.now()
	if o, _, ok := a.known.Find(key, now.UnixNano()); ok {
		a.count["remembered"].Inc()
		return o, nil
	}
	a.mu.Lock()
	wait := now.Before(a.paused)
	a.mu.Unlock()
	if wait {
		a.count["paused"].Inc()
		return Opinion{Why: "it is not asked for a while, since it failed"}, errFailed
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default:
		a.count["busy"].Inc()
		return Opinion{Why: "too many questions at once"}, errFailed
	}
	o, err := ask(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.count["failed"].Inc()
		if a.failed++; a.failed >= pauseAfter {
			a.failed, a.paused = 0, now.Add(pauseFor)
			a.log.Warn().Err(err).Str("name", a.cfg.Name).Dur("pause", pauseFor).Msg("second opinions fail; pausing")
		}
		return Opinion{Why: err.Error()}, err
	}
	a.failed = 0
	a.count[o.Says.String()].Inc()
	if !a.known.Put(key, now.Add(rememberFor), o) {
		a.known.Sweep(now.UnixNano())
	}
	return o, nil
}

// Config declares a source of second opinions. Zero fields get the defaults of withDefaults.
type Config struct {
	Name string `mapstructure:"name"`
	Kind string `mapstructure:"kind"`

	Zone   string   `mapstructure:"zone"`
	Server string   `mapstructure:"server"` // host:port; empty: the machine's resolver
	Listed []string `mapstructure:"listed"` // dns: networks of answers that mean listed; empty: 127.0.0.0/24

	URL   string   `mapstructure:"url"`
	Token string   `mapstructure:"token"`
	Send  []string `mapstructure:"send"` // http: attributes that are sent

	Timeout time.Duration `mapstructure:"timeout"`
}

const (
	kindDNS  = "dns"
	kindHTTP = "http"
)

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	if c.Kind == kindDNS && len(c.Listed) == 0 {
		c.Listed = []string{"127.0.0.0/24"}
	}
	if c.Kind == kindHTTP && len(c.Send) == 0 {
		c.Send = []string{"text"}
	}
	return c
}

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var errs []error
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" || len(c.Name) > 64 {
		addf("name: needs 1 to 64 characters")
	}
	c = c.withDefaults()
	switch c.Kind {
	case kindDNS:
		if c.Zone == "" || strings.ContainsAny(c.Zone, " /:") {
			addf("zone: %q is no zone such as uribl.example", c.Zone)
		}
		if _, _, err := net.SplitHostPort(c.Server); c.Server != "" && err != nil {
			addf("server: %q is no host:port", c.Server)
		}
		for i, n := range c.Listed {
			if _, err := netip.ParsePrefix(n); err != nil {
				addf("listed[%d]: %q is no network such as 127.0.0.0/24", i, n)
			}
		}
	case kindHTTP:
		if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			addf("url: %q is no URL with http or https", c.URL)
		}
	default:
		addf("kind: %q is neither dns nor http", c.Kind)
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > 30*time.Second {
		addf("timeout: %v is not between 10ms and 30s", c.Timeout)
	}
	return errors.Join(errs...)
}

// Calls returns the hosts that are contacted; questions to a DNS list end at its zone.
func (c Config) Calls() []string {
	if c.Kind == kindHTTP {
		return []string{c.URL}
	}
	return []string{c.Server, c.Zone}
}
