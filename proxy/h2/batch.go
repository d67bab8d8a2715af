package h2

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// batch sends what http2.Server writes. That flushes after the head of an answer and again after its body, and each flush
// would be a TLS record and a system call; here they wait until the handlers that have their answers have written them, too,
// and go out together. Safe for concurrent use.
type batch struct {
	nc      net.Conn
	timeout time.Duration // of a piece; 0: none

	mu      sync.Mutex
	turn    sync.Cond // there is room again, or the sending has ended
	next    *[]byte   // what waits; nil: nothing
	sending bool      // a goroutine sends
	by      time.Time // its deadline
	last    time.Time // the latest one that there may be; zero: the connection is not ending
	err     error     // of the first write that failed: no other is tried
}

const (
	batchMost  = 32 << 10    // bytes that may wait for those that are being sent; then who writes waits
	batchPiece = 16 << 10    // sent within one timeout
	lastWords  = time.Second // for what waits when the connection ends
)

// batches are the buffers of the connections that have something to send.
var batches = sync.Pool{New: func() any { return new([]byte) }}

func newBatch(nc net.Conn, timeout time.Duration) *batch {
	b := &batch{nc: nc, timeout: timeout}
	b.turn.L = &b.mu
	return b
}

// Write takes p, and fails once an earlier write has.
func (b *batch) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && b.next != nil && len(*b.next)+len(p) > batchMost {
		b.turn.Wait()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.next == nil {
		b.next = batches.Get().(*[]byte)
	}
	*b.next = append(*b.next, p...)
	if !b.sending {
		b.sending = true
		go b.send()
	}
	return len(p), nil
}

// send sends until nothing waits any more.
func (b *batch) send() {
	for {
		runtime.Gosched() // handlers that have their answers write them first
		p := b.take()
		if p == nil {
			return
		}
		err := b.deliver(*p)
		if *p = (*p)[:0]; cap(*p) <= 2*batchMost {
			batches.Put(p)
		}
		if err == nil {
			continue
		}
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		_ = b.nc.Close() // http2.Server's reading ends with it
	}
}

// take takes what waits; nil if that is nothing, and then the sending has ended.
func (b *batch) take() (p *[]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		p, b.next = b.next, nil
	}
	b.sending = p != nil
	b.turn.Broadcast()
	return p
}

// deliver sends p in pieces that have a deadline each.
func (b *batch) deliver(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), batchPiece)]
		b.arm()
		if _, err := b.nc.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

// arm sets the deadline of the next piece; a slightly shorter one saves setting it anew each time.
func (b *batch) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.timeout <= 0 || !b.last.IsZero() || b.by.Sub(now) > b.timeout-b.timeout/8 {
		return
	}
	b.by = now.Add(b.timeout)
	_ = b.nc.SetWriteDeadline(b.by)
}

// hurry gives what waits and what comes a moment to be sent.
func (b *batch) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
}

// end sets the last deadline, unless it is set. The caller holds mu.
func (b *batch) end() {
	if b.last.IsZero() {
		b.last = time.Now().Add(lastWords)
		_ = b.nc.SetWriteDeadline(b.last)
	}
}

// close gives what waits a moment to be sent, and fails all later writes.
func (b *batch) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sending {
		b.end()
	}
	for b.sending {
		b.turn.Wait()
	}
	if b.err == nil {
		b.err = net.ErrClosed
	}
}
