package replay

import (
	"context"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
)

// A line is judged after all before it, by one goroutine. What it says by itself, and what follows from the order of
// lines alone, is worked out before, in a goroutine of its own: on two cores a log takes as long as its judgement.

type asked struct {
	*Record
	view    request.View
	who     identity.Subject
	asks    request.Kind
	agent   []byte  // User-Agent; nil if there is none
	crawler [2]bool // it declares to be a crawler that the first configuration, or the second, knows
}

const (
	frontBatch = 256
	frontAhead = 3 // batches
)

// front makes records ready, in batches, which it gets back.
type front struct {
	in     *ahead
	host   []byte // of records that name none
	judges []*Gateway

	ready, done chan []asked
	err         error // why there are no more, set before ready is closed
}

// start begins with the next record of the log, which must not be used elsewhere until stop has returned.
func (f *front) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	f.ready, f.done = make(chan []asked, frontAhead), make(chan []asked, frontAhead)
	for range frontAhead {
		f.done <- make([]asked, frontBatch)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(f.ready)
		f.err = f.run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (f *front) run(ctx context.Context) error {
	for {
		var batch []asked
		select {
		case batch = <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		n, err := f.fill(batch[:cap(batch)])
		f.ready <- batch[:n] // there is room for as many as there are
		if err != nil {
			return err
		}
	}
}

// fill makes ready as many records as there is room for, and returns how many, and why they are fewer.
func (f *front) fill(batch []asked) (n int, err error) {
	for i := range batch {
		a := &batch[i]
		if a.Record != nil { // it was judged
			f.in.log.release(a.Record)
			a.Record = nil
		}
		var r *Record
		if r, err = f.in.next(); err != nil {
			return i, err
		}
		a.Record, a.who, a.agent = r, r.subject(), r.Agent()
		r.view(&a.view, f.host)
		f.in.calls.see(r, a.view.NamesPart()).tell(&a.view)
		if a.asks = r.asks; !r.said {
			a.asks = a.view.Kind()
		}
		for k, g := range f.judges {
			_, is := g.crawler(a.agent, r.Addr)
			a.crawler[k] = is != cbb.ClaimNone
		}
	}
	return len(batch), nil
}
