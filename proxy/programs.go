package proxy

import (
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/verdict"
)

// Programs that identify themselves (webhooks, package managers, tools) are judged by what they read, not by their
// pace: a webhook sender with a backlog is no robot. The rates below are far above the needs of tools, and no load for
// most services. Operators who want others set `throttle` in a rule, limit at the balancer, or allow-list the client.
const (
	programRate     = 200 // requests a second of one client
	programBurst    = 30 * programRate
	programNetwork  = 4       // times as many of a /24 or /48
	programsTracked = 1 << 14 // clients, and networks
)

// Preflights of a stopped client reach the service, at the rate of open pages.
const (
	preflightEvery = time.Second / 2
	preflightBurst = 120
)

// programs limits programs, and preflights of stopped clients. Safe for concurrent use.
type programs struct{ clients, networks, preflights *bounded.Rate }

func newPrograms() programs {
	pace := func(times int) *bounded.Rate {
		return bounded.NewRate(time.Second/time.Duration(times*programRate), times*programBurst, programsTracked)
	}
	return programs{
		clients: pace(1), networks: pace(programNetwork),
		preflights: bounded.NewRate(preflightEvery, preflightBurst, programsTracked),
	}
}

// limit stops a request that would pass if the program asks, or the visitor writes, too often. With watch nothing is
// counted.
func (p *programs) limit(c *Case, watch bool) {
	d := &c.decision
	if d.Verdict != verdict.Human || !d.Judged() || d.Waived == verdict.WaivedWellKnown || c.id.N == 0 || c.id.Partner {
		return
	}
	program := d.Program(c.view, &c.id)
	if !program && !verdict.Writes(c.view.Method) {
		return
	}
	if exempt := c.core.deps.Exempt; exempt != nil && exempt(c.id.Addr) {
		return
	}
	at := c.view.At
	var who [17]byte // a browser and a program of an address count separately
	copy(who[1:], c.id.Subjects[0].ID[:])
	if program {
		who[0] = 1
	}
	client, network := p.clients.Key(who[:]), p.networks.AddrKey(identity.NetOf(c.id.Addr).Addr(), 0)
	take := taking(watch)
	wait := take(p.clients, client, at)
	if wait == 0 { // the network does not pay for refused requests
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

func (p *programs) limitPreflight(c *Case, watch bool) {
	if c.decision.Stops() && c.decision.Verdict != verdict.Blocked && c.kind() == kindPreflight {
		c.flood = taking(watch)(p.preflights, p.preflights.AddrKey(c.id.Addr, 0), c.view.At) > 0
	}
}
