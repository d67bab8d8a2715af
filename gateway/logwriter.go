package gateway

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"antirobot/terminal"
)

// Bounds of the log's buffers: a line waits at most logFlushEvery, and a shard is written sooner when it has
// logShardBytes. While nobody takes what is written, as behind a pipe that is not read, a shard keeps logShardMost, and
// further lines are left out: no request waits for the log.
const (
	logShardBytes = 64 << 10
	logShardMost  = 1 << 20
	logFlushEvery = 200 * time.Millisecond
)

// logWriter buffers log lines in shards, so that requests on different cores do not meet at one lock, and writes them
// out several times a second. Lines from different shards may be out of order within that time; each has its own
// timestamp. It is safe for concurrent use. Close flushes it.
type logWriter struct {
	out    io.Writer
	outMu  sync.Mutex
	shards []logShard
	spare  []byte // what the next shard fills while its own is written; guarded by outMu
	full   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

type logShard struct {
	mu  sync.Mutex
	buf []byte
	out int      // lines that were left out
	_   [64]byte // keeps two shards off one cache line
}

func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{
		out: out, shards: make([]logShard, max(2*runtime.GOMAXPROCS(0), 4)),
		full: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.flushUntilStopped()
	return w
}

// Write takes one whole line.
func (w *logWriter) Write(line []byte) (int, error) {
	s := &w.shards[rand.IntN(len(w.shards))] //nolint:gosec // spreads load, guards nothing
	s.mu.Lock()
	if len(s.buf)+len(line) > logShardMost {
		s.out++
		s.mu.Unlock()
		return len(line), nil
	}
	s.buf = append(s.buf, line...)
	full := len(s.buf) >= logShardBytes
	s.mu.Unlock()
	if full {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// flush writes a shard, which takes lines meanwhile.
func (w *logWriter) flush(s *logShard) {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	s.mu.Lock()
	lines, out := s.buf, s.out
	s.buf, s.out = w.spare[:0], 0
	s.mu.Unlock()
	if out > 0 {
		lines = fmt.Appendf(lines, `{"level":"warn","left_out":%d,"message":"nobody took log lines"}`+"\n", out)
	}
	if len(lines) > 0 {
		_, _ = w.out.Write(terminal.Escape(lines)) // a failing log has no other outlet
	}
	w.spare = lines
}

// Flush writes the buffers.
func (w *logWriter) Flush() {
	for i := range w.shards {
		w.flush(&w.shards[i])
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
		case <-w.full:
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
