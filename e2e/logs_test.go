package e2e

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"
)

// logBuffer keeps what the process wrote, and wakes tests that wait for a line.
type logBuffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []string
	end  bool
}

func newLogBuffer() *logBuffer {
	l := new(logBuffer)
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *logBuffer) follow(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		l.mu.Lock()
		l.all = append(l.all, s.Text())
		l.cond.Broadcast()
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.end = true
	l.cond.Broadcast()
	l.mu.Unlock()
}

// find waits until a line satisfies ok and returns it; "" after the time is over or the process has ended.
func (l *logBuffer) find(ok func(string) bool) string {
	timer := time.AfterFunc(patience, func() { l.mu.Lock(); l.cond.Broadcast(); l.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; ; {
		for ; i < len(l.all); i++ {
			if ok(l.all[i]) {
				return l.all[i]
			}
		}
		if l.end || !time.Now().Before(deadline) {
			return ""
		}
		l.cond.Wait()
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}
