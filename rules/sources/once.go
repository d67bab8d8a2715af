package sources

import (
	"context"
	"fmt"
	"time"

	"antirobot/rules"
)

// Once makes several runs of rules over one request or message count as one: a later run gets the answers of an
// earlier one and adds nothing. For one goroutine at a time; the zero value passes everything on.
type Once struct {
	Storages rules.Storages
	Counters rules.CounterSource

	runs int
	seen map[string]reading // nil: a single run
}

type reading struct {
	run  int
	a, b uint64
}

// Begin starts the first run; several announces others.
func (o *Once) Begin(several bool) {
	if o.runs, o.seen = 0, nil; several {
		o.seen = make(map[string]reading)
	}
}

// Again starts another run over the same.
func (o *Once) Again() { o.runs++ }

// First reports whether this is the first run.
func (o *Once) First() bool { return o.runs == 0 }

func (o *Once) ask(key string, f func() (a, b uint64, err error)) (a, b uint64, err error) {
	if had, ok := o.seen[key]; ok && had.run < o.runs {
		return had.a, had.b, nil
	}
	if a, b, err = f(); err == nil {
		o.seen[key] = reading{o.runs, a, b}
	}
	return a, b, err
}

// Frequency implements rules.Storages.
func (o *Once) Frequency(ctx context.Context, name string, key []byte, n int64, window time.Duration) (int64, error) {
	if o.seen == nil {
		return o.Storages.Frequency(ctx, name, key, n, window)
	}
	got, _, err := o.ask(fmt.Sprintf("frequency %d %s %s", n, name, key), func() (uint64, uint64, error) {
		got, err := o.Storages.Frequency(ctx, name, key, n, window)
		return uint64(got), 0, err
	})
	return int64(got), err
}

// Draw implements rules.Storages.
func (o *Once) Draw(ctx context.Context, name string, key []byte, b rules.Bucket) (time.Duration, error) {
	if o.seen == nil {
		return o.Storages.Draw(ctx, name, key, b)
	}
	wait, _, err := o.ask(fmt.Sprintf("draw %s %s", name, key), func() (uint64, uint64, error) {
		wait, err := o.Storages.Draw(ctx, name, key, b)
		return uint64(wait), 0, err
	})
	return time.Duration(wait), err
}

// Count implements rules.CounterSource.
func (o *Once) Count(ctx context.Context, u rules.CounterUse) (n, of uint64, err error) {
	if o.seen == nil {
		return o.Counters.Count(ctx, u)
	}
	return o.ask(fmt.Sprintf("count %+v", u), func() (n, of uint64, err error) { return o.Counters.Count(ctx, u) })
}
