package pebblestore

import (
	"context"
	"testing"
)

// TestLateAnswerCounts: who wakes up late, as on a busy machine, finds both the answer and the end of its time, and gets the answer.
func TestLateAnswerCounts(t *testing.T) {
	t.Parallel()
	for range 100 {
		s := &committer{
			living: &living{health: new(health), closing: make(chan struct{})},
			queue:  make(chan *request, 1), drained: make(chan struct{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		got, err := s.submit(&sleeper{Context: ctx, until: func() {
			r := <-s.queue
			r.done <- result{n: 7}
			cancel()
		}}, new(request))
		if err != nil || got.n != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}

// sleeper is the time of somebody who sleeps while its request is answered, and until its time is over.
type sleeper struct {
	context.Context
	looked bool
	until  func()
}

// Done is looked at before the request is handed over, and after that.
func (s *sleeper) Done() <-chan struct{} {
	if s.looked {
		s.until()
	}
	s.looked = true
	return s.Context.Done()
}
