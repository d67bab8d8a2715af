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
	"antirobot/store/behind"
	"antirobot/verdict/replicate"
)

const (
	prefix      = "label/"
	repeated    = 24 * time.Hour // how often the same label of a service is recorded anew
	evictAmong  = 32
	tidyEvery   = time.Minute
	closeWithin = 10 * time.Second
)

// ErrFull is returned when the table holds nothing but labels of operators.
var ErrFull = errors.New("there is no room for another label of an operator")

// Deps is what a Table works with. Store and Metrics are required.
type Deps struct {
	Store   store.Store
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Table is the labels in force, in memory and in the store. Gateways that share a store see each other's within a minute.
// Safe for concurrent use; it is not for the path of requests.
type Table struct {
	cfg     Config
	st      store.Store
	now     func() time.Time
	log     zerolog.Logger
	evicted *metrics.Counter
	writes  *behind.Writer[identity.Subject]

	mu sync.Mutex
	m  map[identity.Subject]Entry

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
		m: map[identity.Subject]Entry{},
	}
	t.writes = behind.New(t.write)
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
	t.wg.Go(func() { t.writes.Run(run) })
	t.wg.Go(func() { store.Every(run, tidyEvery, func() { t.tidy(run) }) })
	return nil
}

// tidy forgets what is out of date, which the store does by itself, and reads what other gateways have changed.
func (t *Table) tidy(ctx context.Context) {
	oldest := t.now().Add(-t.cfg.Keep)
	t.mu.Lock()
	maps.DeleteFunc(t.m, func(_ identity.Subject, e Entry) bool { return e.At.Before(oldest) })
	t.mu.Unlock()
	if !t.st.Shared() {
		return
	}
	if err := t.scan(ctx); err != nil && ctx.Err() == nil {
		t.log.Warn().Err(err).Msg("labels of other gateways are read later")
	}
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
	return t.writes.Flush(ctx)
}

// Of returns the label of a subject.
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

// Note takes a label of a service. It waits for nothing, and reports whether the table took it: an operator's label stays,
// and so do all if they are operators'.
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
	t.writes.Add(s)
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
	return t.writes.Now(ctx, e.Subject)
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
	return true, t.writes.Now(ctx, s)
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
	t.writes.Add(oldest.Subject)
	return true
}

// write writes the label of a subject as memory has it.
func (t *Table) write(ctx context.Context, s identity.Subject) (err error) {
	t.mu.Lock()
	e, known := t.m[s]
	t.mu.Unlock()
	if known {
		c := replicate.Writer(nil, 0)
		e.code(c)
		err = t.st.Put(ctx, key(s), c.Bytes(), t.cfg.Keep)
	} else {
		err = t.st.Delete(ctx, key(s))
	}
	if err != nil {
		return fmt.Errorf("write label: %w", err)
	}
	return nil
}

// scan makes memory what the store has, except for what is still to be written.
func (t *Table) scan(ctx context.Context) error {
	began := t.now().Truncate(time.Second) // as entries are
	found := map[identity.Subject]Entry{}
	err := t.st.Scan(ctx, []byte(prefix), func(k, v []byte, _ time.Duration) error {
		e, err := readEntry(k[len(prefix):], v)
		if err != nil || len(found) >= t.cfg.Max {
			return nil //nolint:nilerr // another version wrote it
		}
		found[e.Subject] = e
		return nil
	})
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(found, func(s identity.Subject, _ Entry) bool {
		_, known := t.m[s]
		return !known && t.writes.Pending(s)
	})
	for s, e := range t.m {
		if t.writes.Pending(s) || !e.At.Before(began) && e.At.After(found[s].At) {
			found[s] = e
		}
	}
	t.m = found
	return nil
}
