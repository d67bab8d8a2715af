package h2

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// batch joins the writes of http2.Server, which flushes heads and bodies separately: each flush would be a TLS record
// and a system call. Writes wait until other handlers with answers have written theirs. Safe for concurrent use.
type batch struct {
	nc      net.Conn
	timeout time.Duration // of a piece; 0: none

	mu      sync.Mutex
	turn    sync.Cond // signals room, or the end
	next    *[]byte   // waiting; nil: nothing
	sending bool      // by a goroutine
	by      time.Time
	last    time.Time // zero: the connection is not ending
	err     error     // of the first failed write; final
}

const (
	batchMost  = 32 << 10    // waiting bytes; then writers block
	batchPiece = 16 << 10    // per timeout
	lastWords  = time.Second // for the rest when the connection ends
)

var batches = sync.Pool{New: func() any { return new([]byte) }}

func newBatch(nc net.Conn, timeout time.Duration) *batch {
	b := &batch{nc: nc, timeout: timeout}
	b.turn.L = &b.mu
	return b
}

// Write buffers p; it fails after a failed write.
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

// send sends until nothing waits.
func (b *batch) send() {
	for {
		runtime.Gosched() // lets other handlers write first
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
		_ = b.nc.Close() // ends http2.Server's reading
	}
}

// take returns what waits; nil: nothing, and the sending has ended.
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

// arm sets the deadline of the next piece, or keeps a slightly earlier one.
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

func (b *batch) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
}

// end sets the last deadline. The caller holds mu.
func (b *batch) end() {
	if b.last.IsZero() {
		b.last = time.Now().Add(lastWords)
		_ = b.nc.SetWriteDeadline(b.last)
	}
}

// close bounds the time of the rest, and fails later writes.
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
