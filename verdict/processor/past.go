package processor

import (
	"context"
	"runtime"
	"sync"
	"time"

	"antirobot/verdict"
)

// Past is what this process judged before it ended: it reads it, oldest first, with e.Past, and returns how many there were. The event is
// valid during the call of f.
type Past func(ctx context.Context, f func(e *verdict.Event)) int

// lane is a worker that judges a part of the past. Events are handed over many at once.
type lane struct {
	next []verdict.Event
	full chan []verdict.Event
	free chan []verdict.Event
}

const laneBatch = 256

// Recall judges the past once more, and then lets the workers begin with what has been offered meanwhile. Of a Processor that waits for
// it (Deps.Waits), it is to be called once the services are known. It returns at once; Close ends it.
func (p *Processor) Recall(past Past) {
	p.wg.Go(func() {
		defer close(p.ready)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-p.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		begin := time.Now()
		n := p.recallAll(ctx, past)
		if n > 0 {
			p.log.Info().Int("events", n).Dur("ms", time.Since(begin)).Msg("what was judged before this start is known again")
		}
	})
}

func (p *Processor) recallAll(ctx context.Context, past Past) int {
	// Half of the processors: visitors are served meanwhile.
	lanes := make([]*lane, min(len(p.queues), max(1, runtime.GOMAXPROCS(0)/2)))
	var all sync.WaitGroup
	for i := range lanes {
		l := &lane{next: make([]verdict.Event, 0, laneBatch), full: make(chan []verdict.Event, 1), free: make(chan []verdict.Event, 2)}
		l.free <- make([]verdict.Event, 0, laneBatch)
		lanes[i] = l
		all.Go(func() {
			for list := range l.full {
				for j := range list {
					p.Process(&list[j])
				}
				l.free <- list[:0]
			}
		})
	}
	n := past(ctx, func(e *verdict.Event) {
		l := lanes[workerOf(e, len(lanes))]
		if l.next = append(l.next, *e); len(l.next) == laneBatch {
			l.full <- l.next
			l.next = <-l.free
		}
	})
	for _, l := range lanes {
		l.full <- l.next
		close(l.full)
	}
	all.Wait()
	return n
}
