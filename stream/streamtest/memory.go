package streamtest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"antirobot/stream"
)

// Memory is a stream.Log in this process. Made by NewMemory. Safe for concurrent use.
type Memory struct {
	cfg    stream.Config
	now    func() time.Time
	mu     sync.Mutex
	grown  chan struct{} // closed and replaced whenever something is added
	closed bool
	parts  [][]remembered
	next   uint64
}

type remembered struct {
	at   int64
	n    uint64
	data []byte
}

// NewMemory makes an empty log, whose times are those of now.
func NewMemory(cfg stream.Config, now func() time.Time) *Memory {
	return &Memory{cfg: cfg, now: now, grown: make(chan struct{}), parts: make([][]remembered, cfg.Partitions)}
}

func (r *remembered) pos() string { return fmt.Sprintf("%d-%d", r.at, r.n) }

func parsePos(pos string) (at int64, n uint64) {
	if i := bytes.IndexByte([]byte(pos), '-'); i >= 0 {
		at, _ = strconv.ParseInt(pos[:i], 10, 64)
		n, _ = strconv.ParseUint(pos[i+1:], 10, 64)
	}
	return at, n
}

// Append implements stream.Log.
func (m *Memory) Append(ctx context.Context, partitions []int, data [][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return stream.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := m.now().UnixMilli()
	for i, p := range partitions {
		m.next++
		list := append(m.parts[p], remembered{at, m.next, bytes.Clone(data[i])})
		n, size := 0, int64(0)
		for i := len(list) - 1; i >= 0 && size <= m.cfg.KeepBytes/int64(m.cfg.Partitions); i-- {
			size += int64(len(list[i].data))
			n++
		}
		list = list[len(list)-n:]
		for len(list) > 0 && list[0].at < at-m.cfg.Keep.Milliseconds() {
			list = list[1:]
		}
		m.parts[p] = list
	}
	close(m.grown)
	m.grown = make(chan struct{})
	return nil
}

// Read implements stream.Log.
func (m *Memory) Read(ctx context.Context, partition int, after string, wait time.Duration,
	f func(pos string, data []byte),
) error {
	at, n := parsePos(after)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		m.mu.Lock()
		var got []remembered
		for _, r := range m.parts[partition] {
			if r.at > at || r.at == at && r.n > n {
				got = append(got, r)
			}
		}
		grown, closed := m.grown, m.closed
		m.mu.Unlock()
		if closed {
			return stream.ErrClosed
		}
		for i := range got {
			f(got[i].pos(), got[i].data)
		}
		if len(got) > 0 {
			return nil
		}
		select {
		case <-grown:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Back implements stream.Log.
func (m *Memory) Back(pos string, by time.Duration) string {
	at, _ := parsePos(pos)
	return fmt.Sprintf("%d-0", at-by.Milliseconds())
}

// Ahead implements stream.Log.
func (m *Memory) Ahead(a, b string) time.Duration {
	x, m1 := parsePos(a)
	y, m2 := parsePos(b)
	d := time.Duration(x-y) * time.Millisecond
	if d == 0 && m1 != m2 {
		return time.Duration(int64(m1 - m2)) //nolint:gosec // of one millisecond: less than a million
	}
	return d
}

// End implements stream.Log.
func (m *Memory) End(_ context.Context, partition int) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if list := m.parts[partition]; len(list) > 0 {
		return list[len(list)-1].pos(), nil
	}
	return "", nil
}

// Trim implements stream.Log.
func (m *Memory) Trim(_ context.Context, partition int, before string) error {
	at, n := parsePos(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.parts[partition]
	for len(list) > 0 && (list[0].at < at || list[0].at == at && list[0].n < n) {
		list = list[1:]
	}
	m.parts[partition] = list
	return nil
}

// Close implements stream.Log.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.grown)
		m.grown = make(chan struct{})
	}
	return nil
}
