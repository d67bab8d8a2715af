package upstream

import (
	"crypto/tls"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shelf is a part of an address's idle connections. Several shelves reduce contention.
type shelf struct {
	mu    sync.Mutex
	stack []*Conn // most recently used last
	n     atomic.Int32
	_     [88]byte // cache lines are fetched in pairs
}

type address struct {
	g      *Group
	index  int
	name   string
	target target
	tls    *tls.Config // nil: none
	names  resolver
	m      addressMetrics
	http2  *http.Transport // nil: HTTP/1
	dials  chan struct{}   // HTTP/2 dials in progress
	made   atomic.Uint64   // HTTP/2 connections so far
	unmade atomic.Uint64   // failed dials

	active  atomic.Int64 // in use; over HTTP/2: requests
	open    atomic.Int64 // in use, idle, or being dialled
	idle    atomic.Int64
	shelves []shelf

	// Health.
	fails     atomic.Int32 // consecutive, within the window
	downUntil atomic.Int64 // on the Group's clock; 0: up
	probing   atomic.Bool
	mu        sync.Mutex // for transitions
	firstFail int64
	downSince int64
}

// putIdle shelves c; false: full.
func (a *address) putIdle(c *Conn) bool {
	if a.idle.Add(1) > int64(a.g.cfg.MaxIdle) {
		a.idle.Add(-1)
		return false
	}
	s := &a.shelves[rand.Uint32N(uint32(len(a.shelves)))]
	s.mu.Lock()
	s.stack = append(s.stack, c)
	s.n.Store(int32(len(s.stack)))
	s.mu.Unlock()
	return true
}

// popIdle takes a recently used connection, unchecked; nil: none.
func (a *address) popIdle() *Conn {
	if a.idle.Load() == 0 {
		return nil
	}
	n := uint32(len(a.shelves))
	first := rand.Uint32N(n)
	for i := range n {
		s := &a.shelves[(first+i)%n]
		if s.n.Load() == 0 {
			continue
		}
		s.mu.Lock()
		if l := len(s.stack); l > 0 {
			c := s.stack[l-1]
			s.stack[l-1] = nil
			s.stack = s.stack[:l-1]
			s.n.Store(int32(l - 1))
			s.mu.Unlock()
			a.idle.Add(-1)
			return c
		}
		s.mu.Unlock()
	}
	return nil
}

func (a *address) takeIdle(now int64) *Conn {
	for {
		c := a.popIdle()
		if c == nil {
			return nil
		}
		if now-c.idleSince > int64(a.g.cfg.IdleTimeout) {
			a.dropIdle(c)
			continue
		}
		ok, unasked := c.clean()
		if !ok {
			a.noteUnusable(unasked)
			a.dropIdle(c)
			continue
		}
		c.state = lent
		a.m.reused.Inc()
		return c
	}
}

func (a *address) noteUnusable(unasked bool) {
	if !unasked {
		return // the peer has just left
	}
	a.m.dirty.Inc()
	a.g.log.Warn().Str("service", a.g.cfg.Service).Str("upstream", a.name).
		Msg("upstream sent an answer that nobody asked for; connection dropped")
}

func (a *address) dropIdle(c *Conn) {
	c.shut()
	a.open.Add(-1)
}

func (a *address) closeIdle() {
	for c := a.popIdle(); c != nil; c = a.popIdle() {
		a.dropIdle(c)
	}
}

// sweep closes idle connections that are too old, or whose peer has left. Those used within a second are checked at
// checkout instead.
func (a *address) sweep(now int64) {
	for i := range a.shelves {
		s := &a.shelves[i]
		quiet := s.cut(func(c *Conn) bool { return now-c.idleSince > int64(time.Second) })
		kept := slices.DeleteFunc(quiet, func(c *Conn) bool {
			if now-c.idleSince <= int64(a.g.cfg.IdleTimeout) {
				ok, unasked := c.clean()
				if ok {
					return false
				}
				a.noteUnusable(unasked)
			}
			a.idle.Add(-1)
			a.dropIdle(c)
			return true
		})
		s.mu.Lock()
		s.stack = slices.Insert(s.stack, 0, kept...)
		s.n.Store(int32(len(s.stack)))
		s.mu.Unlock()
	}
}

// cut takes the leading connections for which is holds: the least recently used.
func (s *shelf) cut(is func(*Conn) bool) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.stack) && is(s.stack[n]) {
		n++
	}
	quiet := slices.Clone(s.stack[:n])
	s.stack = slices.Delete(s.stack, 0, n)
	s.n.Store(int32(len(s.stack)))
	return quiet
}

// reserve counts an open connection; false: at the limit.
func (a *address) reserve() bool {
	limit := int64(a.g.cfg.MaxConns)
	if a.open.Add(1) > limit && limit > 0 {
		a.open.Add(-1)
		return false
	}
	return true
}

// failed counts a failure, which may take the address out of use.
func (a *address) failed(err error) {
	cfg := &a.g.cfg
	if cfg.MaxFails == 0 {
		return
	}
	now := a.g.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails.Load() > 0 && now-a.firstFail > int64(cfg.FailWindow) {
		a.fails.Store(0)
	}
	if a.fails.Load() == 0 {
		a.firstFail = now
	}
	if a.fails.Load() < int32(cfg.MaxFails) {
		a.fails.Add(1)
	}
	if a.fails.Load() < int32(cfg.MaxFails) {
		return
	}
	wasUp := a.downUntil.Load() == 0
	if wasUp {
		a.downSince = now
	}
	a.downUntil.Store(now + int64(cfg.FailTimeout))
	a.firstFail = now
	if wasUp {
		a.g.log.Warn().Str("service", cfg.Service).Str("upstream", a.name).Err(err).
			Dur("for", cfg.FailTimeout).Msg("upstream is taken out")
	}
}

func (a *address) succeeded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails.Store(0)
	a.up()
}

// reached follows a successful dial. An address that was down is on probation: one failure takes it out.
func (a *address) reached() {
	if a.downUntil.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.downUntil.Load() != 0 {
		a.fails.Store(int32(a.g.cfg.MaxFails) - 1)
		a.firstFail = a.g.now()
		a.up()
	}
}

// up requires mu.
func (a *address) up() {
	if a.downUntil.Swap(0) != 0 {
		a.g.log.Info().Str("service", a.g.cfg.Service).Str("upstream", a.name).Msg("upstream is back")
	}
}

func (a *address) downFrom() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.downSince
}
