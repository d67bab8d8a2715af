package processor

import (
	"net/netip"
	"time"

	"antirobot/identity"
)

// spares reports whether an address is exempt.
func (p *Processor) spares(addr [16]byte) bool {
	if len(p.exempt) == 0 {
		return false
	}
	a := netip.AddrFrom16(addr).Unmap()
	for _, n := range p.exempt {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// Spares reports whether an address is exempt.
func (p *Processor) Spares(addr netip.Addr) bool { return p.spares(addr.As16()) }

// spareEvery is how often, in seconds, an operator is told that an exempt address would have been banned.
const spareEvery = 60

func (p *Processor) spare(sub identity.Subject, at time.Time) {
	p.spared.Inc()
	if last := p.warned.Load(); at.Unix()-last >= spareEvery && p.warned.CompareAndSwap(last, at.Unix()) {
		p.log.Warn().Str("subject", sub.String()).Msg("over the limits but exempt (processor.exempt); " +
			"if this is a balancer, name it in identity.trusted_proxies so that visitors are told apart")
	}
}
