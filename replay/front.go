package replay

import (
	"context"

	"antirobot/identity"
	"antirobot/request"
)

// A line is judged after all before it, by one goroutine. What it says by itself, and what follows from the order of lines alone, is worked out
// before, in a goroutine of its own: on two cores a log takes as long as its judgement.

// asked is a record ready to be judged.
type asked struct {
	*Record
	view request.View
	who  identity.Subject
}

const (
	frontBatch = 256
	frontAhead = 3 // batches
)

// front makes records ready, in batches, which it gets back.
type front struct {
	ready, done chan []asked
	err         error // why there are no more, set before ready is closed
}

// startFront begins with the next record of in, whose log nobody else may use until stop has returned. host is for records that name none.
func startFront(ctx context.Context, in *ahead, host []byte) (f *front, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	f = &front{ready: make(chan []asked, frontAhead), done: make(chan []asked, frontAhead)}
	for range frontAhead {
		f.done <- make([]asked, frontBatch)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(f.ready)
		f.err = f.run(ctx, in, host)
	}()
	return f, func() {
		cancel()
		<-ended
	}
}

func (f *front) run(ctx context.Context, in *ahead, host []byte) error {
	for {
		var batch []asked
		select {
		case batch = <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		n, err := fill(batch[:cap(batch)], in, host)
		f.ready <- batch[:n] // there is room for as many as there are
		if err != nil {
			return err
		}
	}
}

// fill makes ready as many records as there is room for, and returns how many, and why they are fewer.
func fill(batch []asked, in *ahead, host []byte) (n int, err error) {
	for i := range batch {
		a := &batch[i]
		if a.Record != nil { // it was judged
			in.log.release(a.Record)
			a.Record = nil
		}
		var r *Record
		if r, err = in.next(); err != nil {
			return i, err
		}
		a.Record, a.who = r, r.subject()
		r.view(&a.view, host)
		if in.calls.see(r, a.view.NamesPart()) {
			called(&a.view)
		}
	}
	return len(batch), nil
}
