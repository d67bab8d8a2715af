package h1

import (
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/bounded"
)

const (
	handshakeBurst  = 10    // seconds over which max_handshake_rate is an average
	handshakeOfMany = 10    // times, for the /48 of an IPv6 address
	handshakesKept  = 16384 // addresses, 16 bytes each
)

// handshakes limits the TLS handshakes of each address. Safe for concurrent use.
type handshakes struct {
	rates atomic.Pointer[handshakeRates]
}

type handshakeRates struct {
	perSecond int
	one, many *bounded.Rate
}

// of returns the rates for a limit, which a reload may change.
func (h *handshakes) of(perSecond int) *handshakeRates {
	if r := h.rates.Load(); r != nil && r.perSecond == perSecond {
		return r
	}
	rate := func(n int) *bounded.Rate {
		return bounded.NewRate(time.Second/time.Duration(n), handshakeBurst*n, handshakesKept)
	}
	r := &handshakeRates{perSecond: perSecond, one: rate(perSecond), many: rate(handshakeOfMany * perSecond)}
	h.rates.Store(r)
	return r
}

// take counts a handshake, and reports whether it is within the limit. Addresses that are not proven count apart: a
// forged one costs its owner nothing.
func (h *handshakes) take(addr netip.Addr, proven bool, perSecond int, at time.Time) bool {
	if perSecond == 0 || !addr.IsValid() {
		return true
	}
	r := h.of(perSecond)
	within := func(rate *bounded.Rate, addr netip.Addr) bool {
		if !proven && rate.Peek(rate.AddrKey(addr, 0), at) > 0 {
			return false
		}
		extra := uint64(1)
		if proven {
			extra = 0
		}
		return rate.Take(rate.AddrKey(addr, extra), at) == 0
	}
	if !within(r.one, addr) {
		return false
	}
	if addr.Is4() {
		return true
	}
	site, _ := addr.Prefix(48)
	return within(r.many, site.Addr())
}

// MayShakeHands counts a TLS handshake, and reports whether it is within http.max_handshake_rate. proven: the address
// is the client's.
func (s *Server) MayShakeHands(addr netip.Addr, proven bool) bool {
	if s.handshakes.take(addr, proven, s.cfg.Load().MaxHandshakeRate, time.Now()) {
		return true
	}
	if proven {
		s.m.limitHandshakeRate.Inc()
	}
	return false
}
