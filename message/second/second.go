// Package second asks others for an opinion on messages about which the gateway's own model is not sure: lists of hosts in
// DNS (RFC 5782), and services over HTTP.
//
// Invariants:
//  1. Nobody is asked unless the configuration names them, and what they are told is said there.
//  2. A question has a time limit, a bound on how many there are at once, and a pause after failures: who does not answer
//     delays nobody for long. A failure is no opinion.
//  3. Answers are remembered by hashes, within a bound.
package second

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/bounded"
)

// Says is what somebody says of a message.
type Says uint8

// What they can say.
const (
	Unsure Says = iota // they don't know, or did not answer
	Good
	Bad
)

func (s Says) String() string { return [...]string{"unsure", "good", "bad"}[s] }

// Question is what is asked about.
type Question struct {
	Service, Route, Domain string
	Score                  float64 // of the gateway's model
	Message                map[string]any
	Hosts                  []string // that the message links to
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
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Opinions asks those whom a configuration names. Safe for concurrent use.
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

// Ask asks those of these names, all at once, and returns what they say in the same order.
func (o *Opinions) Ask(ctx context.Context, names []string, q Question) []Opinion {
	out := make([]Opinion, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		a := o.askers[name]
		if a == nil {
			out[i] = Opinion{By: name, Why: "nobody of that name is configured"}
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

// Close closes the connections that are not in use.
func (o *Opinions) Close() error {
	for _, a := range o.askers {
		a.client.CloseIdleConnections()
	}
	return nil
}

// asker is one who is asked.
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

	mu     sync.Mutex // of what follows
	failed int        // in a row
	paused time.Time  // until then nobody is asked
}

func newAsker(c Config, d Deps) *asker {
	a := &asker{
		cfg: c, log: d.Log, now: d.Now, places: make(chan struct{}, concurrency), known: bounded.NewExpiring[[sha256.Size]byte, Opinion](maxRemembered),
		count: make(map[string]*metrics.Counter),
	}
	for _, result := range [...]string{"good", "bad", "unsure", "remembered", "failed", "paused", "busy"} {
		a.count[result] = d.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_second_opinions_total{name=%q,result=%q}`, c.Name, result))
	}
	a.openDNS()
	a.client = &http.Client{
		Transport:     &http.Transport{Proxy: nil, MaxConnsPerHost: concurrency, MaxIdleConnsPerHost: concurrency, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a
}

const (
	concurrency   = 16 // questions at a time; beyond: no opinion
	rememberFor   = time.Hour
	maxRemembered = 10_000
	pauseAfter    = 5 // failures in a row
	pauseFor      = 10 * time.Second
)

// errFailed is what a question ends with that got no usable answer.
var errFailed = errors.New("no answer")

// opinion asks, unless the answer is known.
func (a *asker) opinion(ctx context.Context, q *Question) Opinion {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	if a.cfg.Kind == kindDNS {
		return a.askDNS(ctx, q)
	}
	return a.askHTTP(ctx, q)
}

// once returns what is remembered of a question, or asks; only answers are remembered.
func (a *asker) once(ctx context.Context, key [sha256.Size]byte, ask func(ctx context.Context) (Opinion, error)) (Opinion, error) {
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
			a.log.Warn().Err(err).Str("name", a.cfg.Name).Dur("pause", pauseFor).Msg("second opinions fail")
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
