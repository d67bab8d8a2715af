package label

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
)

const (
	prefix      = "label/"
	repeated    = 24 * time.Hour // how often the same word of a service is recorded anew
	evictAmong  = 32
	tidyEvery   = time.Minute
	retryAfter  = time.Second
	closeWithin = 10 * time.Second
)

// ErrFull is returned when only labels of operators are left, and as many as there may be.
var ErrFull = errors.New("as many subjects have labels of operators as labels.max allows")

// Deps is what a Table works with. Store and Metrics are required.
type Deps struct {
	Store   store.Store
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Table is the labels in force, in memory and in the store. Gateways that share a store see each other's within a
// minute. Safe for concurrent use; it is not for the path of requests.
type Table struct {
	cfg     Config
	st      store.Store
	now     func() time.Time
	log     zerolog.Logger
	evicted *metrics.Counter

	mu      sync.Mutex
	m       map[identity.Subject]Entry
	pending map[identity.Subject]bool // to be written to the store as memory has them

	wake   chan struct{}
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes an empty Table; Start fills it.
func New(cfg Config, d Deps) (*Table, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	t := &Table{
		cfg: cfg, st: d.Store, now: d.Now, log: d.Log, evicted: d.Metrics.NewCounter("antirobot_labels_evicted_total"),
		m: map[identity.Subject]Entry{}, pending: map[identity.Subject]bool{}, wake: make(chan struct{}, 1),
	}
	d.Metrics.NewGauge("antirobot_labels", func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(len(t.m))
	})
	return t, nil
}

// Start reads the store, and begins to write to it. A shared store that is away is not an error: it is read later.
func (t *Table) Start(ctx context.Context) error {
	if err := t.scan(ctx); err != nil && !t.st.Shared() {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	t.wg.Go(func() { t.run(run) })
	return nil
}

// Close writes out what is pending. The store stays open: it belongs to the caller.
func (t *Table) Close() error {
	if t.cancel == nil {
		return nil
	}
	t.cancel()
	t.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return t.flush(ctx)
}

// Of returns what the subject is said to be.
func (t *Table) Of(s identity.Subject) Mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[s].Mark
}

// All returns every label, in no order.
func (t *Table) All() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.m))
}

// Note takes a word of a service. It waits for nothing, and reports whether the table took it: it does not where an
// operator has spoken, or everything else is an operator's.
func (t *Table) Note(s identity.Subject, m Mark, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.m[s]
	switch {
	case old.Source == Operator:
		return false
	case known && old.Mark == m && at.Sub(old.At) < repeated:
		return true
	case !known && !t.room():
		return false
	}
	t.m[s] = Entry{Subject: s, Mark: m, At: at.UTC().Truncate(time.Second)}
	t.later(s)
	return true
}

// Set takes a label of an operator. An error other than ErrFull means that it is in force, and will be written later.
func (t *Table) Set(ctx context.Context, e Entry) error {
	e.Source = Operator
	t.mu.Lock()
	if _, known := t.m[e.Subject]; !known && !t.room() {
		t.mu.Unlock()
		return ErrFull
	}
	t.m[e.Subject] = e
	t.mu.Unlock()
	return t.writeNow(ctx, e.Subject)
}

// Remove forgets the label of a subject, and reports whether there was one.
func (t *Table) Remove(ctx context.Context, s identity.Subject) (bool, error) {
	t.mu.Lock()
	_, known := t.m[s]
	delete(t.m, s)
	t.mu.Unlock()
	if !known {
		return false, nil
	}
	return true, t.writeNow(ctx, s)
}

// room makes room for one more, and reports whether there is any. The caller holds the lock.
func (t *Table) room() bool {
	if len(t.m) < t.cfg.Max {
		return true
	}
	var oldest Entry
	tried := 0
	for _, e := range t.m {
		if e.Source != Operator && (oldest.At.IsZero() || e.At.Before(oldest.At)) {
			oldest = e
		}
		if tried++; tried >= evictAmong && !oldest.At.IsZero() {
			break
		}
	}
	if oldest.At.IsZero() {
		return false
	}
	t.evicted.Inc()
	delete(t.m, oldest.Subject)
	t.later(oldest.Subject)
	return true
}

// later asks for a subject to be written. The caller holds the lock.
func (t *Table) later(s identity.Subject) {
	t.pending[s] = true
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Table) writeNow(ctx context.Context, s identity.Subject) error {
	err := t.write(ctx, s)
	if err != nil {
		t.mu.Lock()
		t.later(s)
		t.mu.Unlock()
	}
	return err
}

// write writes what memory has of a subject.
func (t *Table) write(ctx context.Context, s identity.Subject) error {
	t.mu.Lock()
	e, known := t.m[s]
	t.mu.Unlock()
	key := append(append([]byte(prefix), byte(s.Kind)), s.ID[:]...)
	var err error
	if known {
		err = t.st.Put(ctx, key, e.record(), t.cfg.Keep)
	} else {
		err = t.st.Delete(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("write label: %w", err)
	}
	return nil
}

// flush writes what is pending; what fails stays pending.
func (t *Table) flush(ctx context.Context) error {
	t.mu.Lock()
	batch := t.pending
	t.pending = map[identity.Subject]bool{}
	t.mu.Unlock()
	var failed error
	for s := range batch {
		if failed == nil {
			failed = t.write(ctx, s)
		}
		if failed != nil {
			t.mu.Lock()
			t.pending[s] = true
			t.mu.Unlock()
		}
	}
	return failed
}

func (t *Table) run(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			again = t.flushOrWait(ctx)
		case <-again:
			again = t.flushOrWait(ctx)
		case <-tick.C:
			t.expire()
			if !t.st.Shared() {
				continue
			}
			if err := t.scan(ctx); err != nil && ctx.Err() == nil {
				t.log.Warn().Err(err).Msg("labels of other gateways are read later")
			}
		}
	}
}

// flushOrWait writes what is pending; if that fails, it returns when to try again.
func (t *Table) flushOrWait(ctx context.Context) (again <-chan time.Time) {
	err := t.flush(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	t.log.Warn().Err(err).Msg("labels are written again later")
	return time.After(retryAfter)
}

// expire forgets what nobody has repeated; the store does so by itself.
func (t *Table) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.now().Add(-t.cfg.Keep)
	for s, e := range t.m {
		if e.At.Before(oldest) {
			delete(t.m, s)
		}
	}
}

// scan makes memory what the store has, but for what is still to be written.
func (t *Table) scan(ctx context.Context) error {
	began := t.now().Truncate(time.Second) // as entries are
	found := map[identity.Subject]Entry{}
	err := t.st.Scan(ctx, []byte(prefix), func(k, v []byte, _ time.Duration) error {
		e, err := readEntry(k[len(prefix):], v)
		if err != nil || len(found) >= t.cfg.Max {
			return nil //nolint:nilerr // what another version has written is left alone
		}
		found[e.Subject] = e
		return nil
	})
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, e := range t.m {
		if t.pending[s] || !e.At.Before(began) && e.At.After(found[s].At) {
			found[s] = e
		}
	}
	for s := range t.pending {
		if _, known := t.m[s]; !known {
			delete(found, s)
		}
	}
	t.m = found
	return nil
}
