package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Answer is the response of a service or a webhook to a delivery.
type Answer struct {
	Status   int
	Location string // of a redirect
}

// Deliver sends a request to its service or webhook. An error means that there was no response.
type Deliver func(ctx context.Context, it *Item, r *Request) (Answer, error)

const (
	deliverEvery = 5 * time.Second
	recountEvery = time.Minute
	// leaseSlack is added to the lease of a delivery.
	leaseSlack = 20 * time.Second
)

// Start begins to deliver approved messages, until Close.
func (q *Queue) Start(deliver Deliver) {
	q.deliver = deliver
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	q.work.Go(func() { q.tend(ctx) })
}

// Close stops deliveries; the next Start tries them again.
func (q *Queue) Close() error {
	if q.cancel != nil {
		q.cancel()
	}
	q.work.Wait()
	return nil
}

func (q *Queue) tend(ctx context.Context) {
	due := time.NewTicker(deliverEvery)
	defer due.Stop()
	count := time.NewTicker(recountEvery)
	defer count.Stop()
	q.report(ctx, q.recount)
	for {
		q.report(ctx, q.deliverDue)
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-count.C:
			q.report(ctx, q.recount)
		}
	}
}

func (q *Queue) report(ctx context.Context, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		q.deps.Log.Error().Err(err).Msg("processing the message queue failed; retrying")
	}
}

func (q *Queue) recount(ctx context.Context) error {
	n := int64(0)
	err := q.deps.Store.Scan(ctx, []byte(headPrefix), func([]byte, []byte, time.Duration) error {
		n++
		return nil
	})
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	q.size.Set(float64(n))
	counted, err := q.deps.Store.Incr(ctx, []byte(countKey), 0, 0)
	if err == nil && counted != n {
		_, err = q.deps.Store.Incr(ctx, []byte(countKey), n-counted, 0)
	}
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	return nil
}

func (q *Queue) deliverDue(ctx context.Context) error {
	var ids []string
	err := q.deps.Store.Scan(ctx, []byte(duePrefix), func(k, _ []byte, _ time.Duration) error {
		ids = append(ids, string(k[len(duePrefix):]))
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for deliveries: %w", err)
	}
	for _, id := range ids {
		q.try(ctx, id)
	}
	return nil
}

func (q *Queue) try(ctx context.Context, id string) {
	if ctx.Err() != nil {
		return
	}
	if err := q.attempt(ctx, id); err != nil && ctx.Err() == nil {
		q.deps.Log.Error().Err(err).Str("id", id).
			Msg("delivery of a queued message failed; retrying")
	}
}

func (q *Queue) attempt(ctx context.Context, id string) error {
	it, raw, err := q.head(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return q.deps.Store.Delete(ctx, []byte(duePrefix+id))
	}
	if err != nil || it.State != Approved || it.Next.After(q.now()) {
		return err
	}
	it.Attempts++
	it.Next = q.now().Add(deliveryTimeout + leaseSlack).UTC()
	if ok, err := q.swap(ctx, it, raw); err != nil || !ok {
		return err
	}
	r, err := q.Request(ctx, id)
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(ctx, deliveryTimeout)
	a, err := q.deliver(sending, it, r)
	cancel()
	return q.note(context.WithoutCancel(ctx), it.ID, a, err)
}

func (q *Queue) note(ctx context.Context, id string, a Answer, failed error) error {
	it, raw, err := q.head(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	it.Status, it.Location, it.Error = a.Status, a.Location, ""
	switch {
	case failed == nil && a.Status >= 200 && a.Status < 400:
		it.State = Delivered
		q.count["delivered"].Inc()
		return q.finish(ctx, it)
	case failed != nil:
		it.Error = failed.Error()
	default:
		it.Error = fmt.Sprintf("the answer was %d", a.Status)
	}
	// The service would refuse it again.
	refused := failed == nil && a.Status >= 400 && a.Status < 500 && a.Status != 408 && a.Status != 425 &&
		a.Status != 429
	if refused || it.Attempts >= maxAttempts {
		it.State, it.Next = Failed, time.Time{}
		q.count["failed"].Inc()
		q.deps.Log.Warn().Str("id", id).Str("service", it.Service).Str("error", it.Error).
			Msg("giving up delivery of an approved message")
	} else {
		it.Next = q.now().Add(min(retryAfter<<min(it.Attempts-1, 20), time.Hour)).UTC()
		q.count["retried"].Inc()
	}
	if _, err := q.swap(ctx, it, raw); err != nil || it.State != Failed {
		return err
	}
	return q.deps.Store.Delete(ctx, []byte(duePrefix+id))
}

func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}
