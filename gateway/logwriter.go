package gateway

import (
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Bounds of the log's buffers: a line waits at most logFlushEvery, and a shard writes by itself when it is full.
const (
	logShardBytes = 64 << 10
	logFlushEvery = 200 * time.Millisecond
)

// logWriter buffers log lines in shards, so that requests on different cores do not meet at one lock, and writes them
// out several times a second. Lines from different shards may be out of order within that time; each has its own
// timestamp. It is safe for concurrent use. Close writes what is left.
type logWriter struct {
	out    io.Writer
	outMu  sync.Mutex
	shards []logShard
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

type logShard struct {
	mu  sync.Mutex
	buf []byte
	_   [64]byte // keeps two shards off one cache line
}

func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{
		out: out, shards: make([]logShard, max(2*runtime.GOMAXPROCS(0), 4)),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.flushUntilStopped()
	return w
}

// Write takes one whole line.
func (w *logWriter) Write(line []byte) (int, error) {
	s := &w.shards[rand.IntN(len(w.shards))] //nolint:gosec // spreads load, guards nothing
	s.mu.Lock()
	s.buf = append(s.buf, line...)
	full := len(s.buf) >= logShardBytes
	if full {
		w.flush(s)
	}
	s.mu.Unlock()
	return len(line), nil
}

// flush writes a shard whose lock is held.
func (w *logWriter) flush(s *logShard) {
	if len(s.buf) == 0 {
		return
	}
	w.outMu.Lock()
	_, _ = w.out.Write(s.buf) // where logs can't be written there is nobody to tell
	w.outMu.Unlock()
	s.buf = s.buf[:0]
}

// Flush writes out what is buffered.
func (w *logWriter) Flush() {
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		w.flush(s)
		s.mu.Unlock()
	}
}

func (w *logWriter) flushUntilStopped() {
	defer close(w.done)
	tick := time.NewTicker(logFlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.Flush()
		case <-w.stop:
			w.Flush()
			return
		}
	}
}

// Close stops the writer after a last flush. It may be called more than once.
func (w *logWriter) Close() error {
	w.once.Do(func() { close(w.stop) })
	<-w.done
	return nil
}
