// Package queue keeps messages that wait for a person, with their requests, until they are delivered, refused,
// erased or too old.
//
// Invariants:
//  1. A message is durable before its sender is told that it waits, and sealed: a reader of the store sees no text
//     and no cookie.
//  2. An approved message is delivered at least once, under the same ID each time.
//  3. Once it is delivered or refused, only a record without text and request is kept for a while.
//  4. Entries, their size, their age and those of one network are bounded. A full queue refuses.
//  5. Gateways that share a store share the queue: any of them decides, and one of them delivers.
package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/spravka"
	"antirobot/store"
)

// Deps is what a Queue works with. Store, Keys and Metrics are required.
type Deps struct {
	Store   store.Store
	Keys    *spravka.Keys
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Queue keeps the messages. Safe for concurrent use.
type Queue struct {
	cfg   Config
	deps  Deps
	now   func() time.Time
	count map[string]*metrics.Counter
	size  *metrics.Gauge

	deliver Deliver
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

// New returns a Queue that delivers nothing before Start.
func New(cfg Config, d Deps) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Store == nil || d.Keys == nil || d.Metrics == nil {
		return nil, errors.New("queue: store, keys and metrics are needed")
	}
	q := &Queue{cfg: cfg, deps: d, now: d.Now, count: map[string]*metrics.Counter{}}
	if q.now == nil {
		q.now = time.Now
	}
	for _, result := range [...]string{
		"held", "again", "full", "approved", "refused", "erased", "delivered", "retried",
		"failed",
	} {
		q.count[result] = d.Metrics.GetOrCreateCounter(`antirobot_queue_total{result="` + result + `"}`)
	}
	q.size = d.Metrics.GetOrCreateGauge("antirobot_queue_entries", nil)
	return q, nil
}

func idOf(it *Item, fingerprint [32]byte) string {
	h := sha256.New()
	for _, s := range [...]string{it.Service, it.Route, it.Subject, it.Method, it.Target} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	h.Write(fingerprint[:])
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// Hold keeps a message until a person decides, and returns when it is durable. A message with the same fingerprint
// and sender is kept once. ID, State, At and Until are set here. Error: ErrFull.
func (q *Queue) Hold(ctx context.Context, it *Item, r *Request, fingerprint [32]byte) error {
	now := q.now()
	it.ID, it.State, it.At, it.Until = idOf(it, fingerprint), Waiting, now.UTC(), now.Add(q.cfg.MaxAge).UTC()
	it.Bytes = len(r.Body)
	if _, _, err := q.head(ctx, it.ID); err == nil {
		q.count["again"].Inc()
		return nil
	}
	if r.size() > maxBytes {
		return q.full("the request is too large")
	}
	if err := q.places(ctx, it); err != nil {
		return err
	}
	if err := q.write(ctx, it, r); err != nil {
		_, back := q.deps.Store.Incr(ctx, []byte(countKey), -1, 0)
		return errors.Join(err, back)
	}
	q.count["held"].Inc()
	return nil
}

func (q *Queue) full(why string) error {
	q.count["full"].Inc()
	return fmt.Errorf("%w: %s", ErrFull, why)
}

func (q *Queue) places(ctx context.Context, it *Item) error {
	from := []byte(fromPrefix + network(it.Client))
	got, err := q.deps.Store.Take(ctx, from, 1, max(20, int64(q.cfg.MaxEntries)/50), 24*time.Hour)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if got == 0 {
		return q.full("this network added too many messages today")
	}
	got, err = q.deps.Store.Take(ctx, []byte(countKey), 1, int64(q.cfg.MaxEntries), 0)
	if err == nil && got == 1 {
		return nil
	}
	_, back := q.deps.Store.Incr(ctx, from, -1, 24*time.Hour)
	if err = errors.Join(err, back); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return q.full("max_entries messages wait already")
}

func network(client string) string {
	bits := 24
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return "unknown"
	}
	if addr.Is6() {
		bits = 48
	}
	net, _ := addr.Prefix(bits)
	sum := sha256.Sum256([]byte(net.String()))
	return hex.EncodeToString(sum[:10])
}

// write puts the request before the head: a head is complete.
func (q *Queue) write(ctx context.Context, it *Item, r *Request) error {
	if err := q.put(ctx, bodyPrefix+it.ID, r, it.Until, q.cfg.MaxAge); err != nil {
		return err
	}
	return q.put(ctx, headPrefix+it.ID, it, it.Until, q.cfg.MaxAge)
}

// Approve lets a message be delivered and tries at once. The item is then delivered, approved (to be retried) or
// failed. Errors: ErrNotFound, ErrState.
func (q *Queue) Approve(ctx context.Context, id string) (*Item, error) {
	it, raw, err := q.head(ctx, id)
	if err != nil {
		return nil, err
	}
	if it.State == Approved {
		return it, nil
	}
	// First the mark: a crash must not leave an approved message without delivery.
	if err := q.deps.Store.Put(ctx, []byte(duePrefix+id), nil, it.Until.Sub(q.now())+time.Minute); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	it.State, it.Decided, it.Attempts, it.Next, it.Error, it.Status, it.Location = Approved, q.now().UTC(), 0,
		q.now().UTC(), "", 0, ""
	if ok, err := q.swap(ctx, it, raw); err != nil || !ok {
		return nil, errors.Join(err, changed(ok))
	}
	q.count["approved"].Inc()
	q.try(ctx, id)
	return q.Get(ctx, id)
}

func changed(ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: it was decided concurrently", ErrState)
}

// Refuse ends a message and erases its text. Errors: ErrNotFound, ErrState.
func (q *Queue) Refuse(ctx context.Context, id string) (*Item, error) {
	it, raw, err := q.head(ctx, id)
	if err != nil {
		return nil, err
	}
	if it.State == Approved {
		return nil, fmt.Errorf("%w: it is being delivered; erase it to stop further attempts", ErrState)
	}
	it.State, it.Decided = Refused, q.now().UTC()
	if ok, err := q.swap(ctx, it, raw); err != nil || !ok {
		return nil, errors.Join(err, changed(ok))
	}
	q.count["refused"].Inc()
	return it, q.finish(ctx, it)
}

func (q *Queue) finish(ctx context.Context, it *Item) error {
	it.Message, it.Next = nil, time.Time{}
	it.Client, it.Subject, it.Target, it.Location = "", "", pathOf(it.Target), pathOf(it.Location)
	it.Until = q.now().Add(keepRecords).UTC()
	if err := q.put(ctx, donePrefix+it.ID, it, it.Until, keepRecords); err != nil {
		return err
	}
	return q.erase(ctx, it.ID)
}

// Erase removes a message and its record. Error: ErrNotFound.
func (q *Queue) Erase(ctx context.Context, id string) error {
	if _, err := q.Get(ctx, id); errors.Is(err, ErrNotFound) {
		return err
	}
	if err := q.deps.Store.Delete(ctx, []byte(donePrefix+id)); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := q.erase(ctx, id); err != nil {
		return err
	}
	q.count["erased"].Inc()
	return nil
}

// EraseAll erases matching messages and returns their number.
func (q *Queue) EraseAll(ctx context.Context, f Filter) (n int, err error) {
	all, err := q.List(ctx, f)
	if err != nil {
		return 0, err
	}
	for _, it := range all {
		if err := q.Erase(ctx, it.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return n, err
		}
		n++
	}
	return n, nil
}

func (q *Queue) erase(ctx context.Context, id string) error {
	_, err := q.deps.Store.Get(ctx, nil, []byte(headPrefix+id))
	was := err == nil
	for _, prefix := range [...]string{bodyPrefix, headPrefix, duePrefix} {
		if err := q.deps.Store.Delete(ctx, []byte(prefix+id)); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
	}
	if was {
		if _, err := q.deps.Store.Incr(ctx, []byte(countKey), -1, 0); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
	}
	return nil
}

// Config bounds the queue.
type Config struct {
	MaxEntries int           `mapstructure:"max_entries"` // waiting or failed
	MaxAge     time.Duration `mapstructure:"max_age"`     // undecided messages are erased then
	// WebhookSecret signs deliveries to webhooks; empty: unsigned.
	WebhookSecret string `mapstructure:"webhook_secret"`
}

// DefaultConfig returns bounds for a moderator who looks every few days.
func DefaultConfig() Config {
	return Config{MaxEntries: 1000, MaxAge: 7 * 24 * time.Hour}
}

const (
	maxKept         = 30 * 24 * time.Hour
	maxBytes        = 1 << 20
	keepRecords     = 24 * time.Hour // without text and request
	deliveryTimeout = 10 * time.Second
	maxAttempts     = 8
	retryAfter      = 30 * time.Second
)

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var errs []error
	between := func(key string, value, least, most int64, words string) {
		if value < least || value > most {
			errs = append(errs, fmt.Errorf("%s: must be %s", key, words))
		}
	}
	between("max_entries", int64(c.MaxEntries), 1, 100_000, "1 to 100000")
	between("max_age", int64(c.MaxAge), int64(time.Minute), int64(maxKept), "1m to 30d")
	if c.WebhookSecret != "" && len(c.WebhookSecret) < 16 {
		errs = append(errs, errors.New("webhook_secret: needs at least 16 characters"))
	}
	return errors.Join(errs...)
}
