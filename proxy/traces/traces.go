// Package traces tells an OpenTelemetry receiver about requests, as spans over OTLP/HTTP.
//
// Rules:
//  1. A trusted proxy that traces or does not trace a request decides it. For all others a share is traced: a stranger can't
//     make the gateway work by a header.
//  2. A request that is not traced costs two comparisons, and its traceparent goes to the service as it came.
//  3. Nobody waits for the receiver: traced requests wait in a bounded queue for one goroutine, and what does not fit, or what
//     the receiver does not take, is dropped and counted.
//  4. Spans have no address, query, cookie, User-Agent or Referer of the client.
package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/request"
)

// Request is a traced request that has been answered. Texts may be hostile.
type Request struct {
	Context                Context
	ID                     string
	At, End                time.Time
	Method, Host, Path     string
	Service                string
	Verdict, Cause, Mode   string
	DecidedFrom, DecidedTo time.Time // zero: there was no decision
	Status                 int       // that the client got
	Failure                string    // why there was no proper answer

	CalledAt         time.Time     // when the service was asked; zero: it was not
	HeadAt, CallTook time.Duration // until its answer began, and until it ended
	Answer           int           // the status of its answer; 0: there was none
	Upstream         string        // its address
}

// Deps is what a Tracer works with. Metrics are required.
type Deps struct {
	Version string // of the program
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
	ill    bool // the last call failed; of run

	sent, shed, refused *metrics.Counter

	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
}

// maxBatch bounds the requests that one call tells of.
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
		client:  http.Client{Timeout: cfg.Timeout, Transport: &http.Transport{Proxy: nil, IdleConnTimeout: time.Minute}},
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

// Begin decides whether a request is traced. Trusted says that its traceparent comes from a trusted proxy.
func (t *Tracer) Begin(c *Context, rid request.ID, traceparent []byte, trusted bool) {
	c.begin(rid, traceparent, trusted, t.share)
}

// Offer takes a traced request that has been answered, unless too many wait.
func (t *Tracer) Offer(r *Request) {
	select {
	case t.queue <- *r:
	default:
		t.shed.Inc()
	}
}

// Close sends what waits, for as long as one call may take, and ends. Nothing may be offered any more.
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

// run is the goroutine that sends.
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

// send tells the receiver of requests. It says once that this fails, and once that it works again.
func (t *Tracer) send(batch []Request) {
	err := t.post(encode(batch, t.deps.Version))
	switch {
	case err != nil:
		t.refused.Add(len(batch))
		if !t.ill {
			t.deps.Log.Warn().Err(err).Str("endpoint", t.cfg.Endpoint).Msg("the receiver of traces takes none: they are dropped and counted")
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
	said, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // what it says is for the message alone
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s %q", res.Status, said)
	}
	return nil
}
