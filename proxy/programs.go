package proxy

import (
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/verdict"
)

// Programs that say what they are (webhooks, package managers, tools) are judged by what they read, not by their pace: a sender
// of webhooks that works through its backlog is no robot. What one client and one network may ask for in a second is bounded all
// the same. The bounds are far above what tools need, and below what would be a load for most services; an operator who wants
// others sets `throttle` in a rule or `limit_req` at the balancer, or lists the client as white.
const (
	programRate     = 200              // requests a second of one client in the long run
	programBurst    = 30 * programRate // that it may be ahead of that
	programNetwork  = 4                // times as many of a /24 or /48
	programsTracked = 1 << 14          // clients, and as many networks; 16 bytes each
)

// A preflight of a stopped client goes on to the service, as often as the pages that people have open ask.
const (
	preflightEvery = time.Second / 2
	preflightBurst = 120
)

// programs limits how often programs ask, and how often preflights of stopped clients go on. Safe for concurrent use.
type programs struct{ clients, networks, preflights *bounded.Rate }

func newPrograms() programs {
	pace := func(times int) *bounded.Rate {
		return bounded.NewRate(time.Second/time.Duration(times*programRate), times*programBurst, programsTracked)
	}
	return programs{
		clients: pace(1), networks: pace(programNetwork), preflights: bounded.NewRate(preflightEvery, preflightBurst, programsTracked),
	}
}

// limit stops a request that would pass if its program asks too often, or if whoever it is writes too often. With watch nothing
// is counted.
func (p *programs) limit(c *Case, watch bool) {
	d := &c.decision
	if d.Verdict != verdict.Human || !d.Judged() || d.Waived == verdict.WaivedWellKnown || c.id.N == 0 || c.id.Partner {
		return
	}
	program := d.Program(c.view, &c.id)
	if !program && !verdict.Writes(c.view.Method) {
		return
	}
	if spared := c.core.deps.Spared; spared != nil && spared(c.id.Addr) {
		return
	}
	at := c.view.At
	var who [17]byte // a browser at the address of a program is somebody else
	copy(who[1:], c.id.Subjects[0].ID[:])
	if program {
		who[0] = 1
	}
	client, network := p.clients.Key(who[:]), p.networks.AddrKey(identity.NetOf(c.id.Addr).Addr(), 0)
	take := taking(watch)
	wait := take(p.clients, client, at)
	if wait == 0 { // what one client is refused is not its neighbours'
		wait = take(p.networks, network, at)
	}
	if wait > 0 {
		d.Limit(wait)
	}
}

func taking(watch bool) func(*bounded.Rate, uint64, time.Time) time.Duration {
	if watch {
		return (*bounded.Rate).Peek
	}
	return (*bounded.Rate).Take
}

// limitPreflight stops a preflight of a stopped client that sends too many.
func (p *programs) limitPreflight(c *Case, watch bool) {
	if c.decision.Stops() && c.decision.Verdict != verdict.Blocked && c.kind() == kindPreflight {
		c.flood = taking(watch)(p.preflights, p.preflights.AddrKey(c.id.Addr, 0), c.view.At) > 0
	}
}
