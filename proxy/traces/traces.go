// Package traces exports spans of requests over OTLP/HTTP.
//
// Rules:
// 1. A trusted proxy decides whether a request is traced; of the others a share is. A stranger's field decides nothing.
// 2. An untraced request costs two comparisons, and keeps its traceparent.
// 3. Nothing waits for the receiver: a bounded queue drops and counts.
// 4. Spans have no address, query, cookie, User-Agent or Referer.
package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/request"
)

// Request is an answered, traced request. Texts may be hostile.
type Request struct {
	Context                Context
	ID                     string
	At, End                time.Time
	Method, Host, Path     string
	Service                string
	Verdict, Cause, Mode   string
	DecidedFrom, DecidedTo time.Time // zero: no decision
	Status                 int
	Failure                string

	CalledAt         time.Time     // zero: the service was not asked
	HeadAt, CallTook time.Duration // to the head, and to the end
	Answer           int           // of the service; 0: none
	Upstream         string        // address
}

// Deps is what a Tracer works with. Metrics are required.
type Deps struct {
	Version string
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Tracer sends spans. Safe for concurrent use; made by New.
type Tracer struct {
	cfg    Config
	deps   Deps
	share  uint32
	auth   string
	queue  chan Request
	client http.Client
	ill    bool // the last export failed

	sent, shed, refused *metrics.Counter

	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
}

const maxBatch = 512

// New returns nil without an endpoint. Its goroutine runs until Close.
func New(cfg Config, d Deps) (*Tracer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if cfg.Endpoint == "" {
		return nil, nil
	}
	t := &Tracer{
		cfg: cfg, deps: d, share: bound(cfg.Share), queue: make(chan Request, cfg.Queue),
		client: http.Client{Timeout: cfg.Timeout, Transport: &http.Transport{
			Proxy:           nil,
			IdleConnTimeout: time.Minute,
		}},
		sent:    d.Metrics.GetOrCreateCounter("antirobot_traces_sent_total"),
		shed:    d.Metrics.GetOrCreateCounter(`antirobot_traces_dropped_total{why="queue"}`),
		refused: d.Metrics.GetOrCreateCounter(`antirobot_traces_dropped_total{why="receiver"}`),
	}
	if cfg.AuthorizationFile != "" {
		text, err := os.ReadFile(cfg.AuthorizationFile)
		if err != nil {
			return nil, fmt.Errorf("traces: authorization_file: %w", err)
		}
		t.auth = strings.TrimSpace(string(text))
	}
	t.life, t.cancel = context.WithCancel(context.Background())
	t.done.Go(t.run)
	return t, nil
}

// Begin samples a request. trusted: the traceparent is a trusted proxy's.
func (t *Tracer) Begin(c *Context, rid request.ID, traceparent []byte, trusted bool) {
	c.begin(rid, traceparent, trusted, t.share)
}

// Offer queues an answered request, or drops it.
func (t *Tracer) Offer(r *Request) {
	select {
	case t.queue <- *r:
	default:
		t.shed.Inc()
	}
}

// Close sends the queue within one timeout. Nothing may be offered afterwards.
func (t *Tracer) Close() error {
	t.once.Do(func() {
		close(t.queue)
		defer t.cancel()
		defer time.AfterFunc(t.cfg.Timeout, t.cancel).Stop()
		t.done.Wait()
		t.client.CloseIdleConnections()
	})
	return nil
}

func (t *Tracer) run() {
	tick := time.NewTicker(t.cfg.Every)
	defer tick.Stop()
	batch := make([]Request, 0, maxBatch)
	for open := true; open; {
		select {
		case r, ok := <-t.queue:
			if open = ok; ok {
				batch = append(batch, r)
			}
			if ok && len(batch) < maxBatch {
				continue
			}
		case <-tick.C:
		}
		if len(batch) > 0 {
			t.send(batch)
			clear(batch)
			batch = batch[:0]
		}
	}
}

// send exports requests, and logs the first failure and the recovery.
func (t *Tracer) send(batch []Request) {
	body, err := encode(batch, t.deps.Version)
	if err == nil {
		err = t.post(body)
	}
	switch {
	case err != nil:
		t.refused.Add(len(batch))
		if !t.ill {
			t.deps.Log.Warn().Err(err).Str("endpoint", t.cfg.Endpoint).
				Msg("the receiver of traces takes none: they are dropped and counted")
		}
	default:
		t.sent.Add(len(batch))
		if t.ill {
			t.deps.Log.Info().Msg("the receiver of traces takes them again")
		}
	}
	t.ill = err != nil
}

func (t *Tracer) post(body []byte) error {
	req, err := http.NewRequestWithContext(t.life, http.MethodPost, t.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if t.auth != "" {
		req.Header.Set("Authorization", t.auth)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // for the message
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s %q", res.Status, said)
	}
	return nil
}

// Config is the section traces.
type Config struct {
	// Endpoint is the URL of an OTLP/HTTP receiver, with its path; empty: off.
	Endpoint string `mapstructure:"endpoint"`
	// AuthorizationFile has the receiver's Authorization value; empty: none.
	AuthorizationFile string `mapstructure:"authorization_file"`
	// Page is a trace's page with {trace} for its ID, for the console and `why`; empty: none.
	Page string `mapstructure:"page"`
	// Share of requests is traced, unless a trusted proxy decides.
	Share   float64       `mapstructure:"share"`
	Queue   int           `mapstructure:"-"` // requests waiting to be sent, about 1 kB each
	Every   time.Duration `mapstructure:"-"`
	Timeout time.Duration `mapstructure:"-"` // of one export
}

// DefaultConfig is off.
func DefaultConfig() Config {
	return Config{Share: 0.01, Queue: 2048, Every: 2 * time.Second, Timeout: 10 * time.Second}
}

// Validate returns all problems, each with its key.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.Path != ""
		bad(ok, "endpoint: %q is no URL with its path; write for example http://127.0.0.1:4318/v1/traces", c.Endpoint)
	}
	if c.Page != "" {
		u, err := url.Parse(strings.ReplaceAll(c.Page, "{trace}", "0"))
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
			strings.Contains(c.Page, "{trace}")
		bad(ok, "page: %q is no URL with {trace} in it; write for example http://127.0.0.1:16686/trace/{trace}", c.Page)
	}
	bad(c.Share >= 0 && c.Share <= 1, "share: %v is not between 0 and 1", c.Share)
	return errors.Join(errs...)
}
