package store

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// LossNotice is how long health reports a loss.
const LossNotice = 10 * time.Minute

// Losses counts data that a shared store had lost and gateways wrote back: an operator should find the cause. A nil
// *Losses counts nothing. Safe for concurrent use.
type Losses struct {
	log zerolog.Logger
	now func() time.Time

	mu    sync.Mutex
	last  time.Time
	since map[string]uint64 // of the loss that health reports
	total map[string]uint64
}

// NewLosses returns an empty record of losses.
func NewLosses(log zerolog.Logger, now func() time.Time) *Losses {
	return &Losses{log: log, now: now, since: map[string]uint64{}, total: map[string]uint64{}}
}

// Note records that n things of a kind ("bans", "list entries") were gone.
func (l *Losses) Note(of string, n int) {
	if l == nil || n <= 0 {
		return
	}
	l.log.Error().Str("of", of).Int("lost", n).Msg("the shared store had lost what this gateway knew: written back; " +
		"look for a restart without its data, a flush, or a failover")
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.now()
	if at.Sub(l.last) > LossNotice {
		clear(l.since)
	}
	l.last = at
	l.since[of] += uint64(n)
	l.total[of] += uint64(n)
}

// Err reports the losses within LossNotice.
func (l *Losses) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.since) == 0 || l.now().Sub(l.last) > LossNotice {
		return nil
	}
	var parts []string
	for _, of := range slices.Sorted(maps.Keys(l.since)) {
		parts = append(parts, fmt.Sprintf("%d %s", l.since[of], of))
	}
	return fmt.Errorf("store: the shared store had lost %s at %s; written back", strings.Join(parts, ", "),
		l.last.UTC().Format(time.RFC3339))
}

// WriteMetrics writes the numbers in the Prometheus text format.
func (l *Losses) WriteMetrics(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range slices.Sorted(maps.Keys(l.total)) {
		fmt.Fprintf(w, "antirobot_store_lost_total{of=%q} %d\n", of, l.total[of])
	}
}
