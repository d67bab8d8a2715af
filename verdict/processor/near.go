package processor

import (
	"time"

	"antirobot/identity"
)

// An address is near its budget when it has used nearShare of it. It is told again at most once in nearFor.
const (
	nearShare = 0.5
	nearFor   = 10 * time.Minute
)

// nearBudget reports whether an address has come near its budget, and has not been told of. The caller holds the lock of b.
func (p *Processor) nearBudget(b *budget, at time.Time) bool {
	c := &p.cfg.Budget
	now := at.Unix()
	if int64(b.nearUntil) > now {
		return false
	}
	for i, most := range [...]float64{c.Hour, c.Day} {
		if float64(b.read[i]) > most*nearShare || float64(b.known[i]) > most*c.Person*nearShare {
			b.nearUntil = uint32(now + int64(nearFor/time.Second)) //nolint:gosec // until 2106
			return true
		}
	}
	return false
}

// tellNear tells gateways that an address is near its budget.
func (p *Processor) tellNear(x identity.Prefix, at time.Time) { p.keeper.Near(x, at.Add(nearFor)) }
