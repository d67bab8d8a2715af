package pebblestore

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

type ailment uint8

const (
	ailStalled ailment = iota // writes wait for the disk
	ailSlow                   // a commit takes too long
	ailEngine                 // the engine failed and is being opened again
	ailDamaged                // a read met a damaged block; writes go on
	ailments
)

// health backs Healthy, and refuses writes while the disk does.
type health struct {
	log  zerolog.Logger
	mu   sync.Mutex
	errs [ailments]error
	held int           // writes that are waiting now
	sick chan struct{} // closed while writes are refused
	from time.Time
}

func newHealth(log zerolog.Logger) *health {
	return &health{log: log, sick: make(chan struct{})}
}

func (h *health) set(a ailment, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setLocked(a, err)
}

func (h *health) setLocked(a ailment, err error) {
	before := h.refusal()
	first := h.errs[a] == nil
	h.errs[a] = err
	after := h.refusal()
	switch {
	case a == ailDamaged && err != nil && first:
		h.log.Error().Err(err).Msg("store: a block of the data directory is damaged")
	case before == nil && after != nil:
		h.from = time.Now()
		close(h.sick)
		h.log.Error().Err(after).Msg("store: writes are refused")
	case before != nil && after == nil:
		h.sick = make(chan struct{})
		h.log.Info().Dur("after", time.Since(h.from)).Msg("store: writes work again")
	}
}

// stall notes that a write has started to wait.
func (h *health) stall(op string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held++
	h.setLocked(ailStalled, fmt.Errorf("store: disk refuses writes: %s: %w", op, err))
}

// flow notes that a waiting write went through, or was given up.
func (h *health) flow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held--; h.held == 0 {
		h.setLocked(ailStalled, nil)
	}
}

func (h *health) refusal() error {
	for a, err := range h.errs {
		if err != nil && ailment(a) != ailDamaged {
			return err
		}
	}
	return nil
}

// state returns the refusal, and a channel that is closed when one begins.
func (h *health) state() (<-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick, h.refusal()
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusal(); err != nil {
		return err
	}
	return h.errs[ailDamaged]
}
