package processor

import (
	"encoding/binary"
	"sync/atomic"

	"antirobot/identity"
	"antirobot/verdict/tally"
)

// companyFactors are those that say how large the groups are to which a subject belongs by what its requests look like.
var companyFactors = [...]string{"agent_addresses", "shape_addresses", "hello_addresses", "hello_agents"}

// company is their values when a subject was evaluated; a session does not know its User-Agent.
type company [len(companyFactors)]rough

func companyOf(c *evidence) (all company) {
	for i, g := range [...]*group{&c.agent, &c.shape, &c.hello.company, &c.hello.agents} {
		if n := g.membership(); n > 0 {
			all[i] = roughly(float64(n))
		}
	}
	return all
}

func (c company) view() (all []FactorView) {
	for i, n := range c {
		if n != 0 {
			all = append(all, FactorView{Name: companyFactors[i], Group: Company, Value: n.value()})
		}
	}
	return all
}

// companies remembers the company of the subjects that were evaluated last: in each place one, half of its hash above the four values.
// It is for people who look, and may forget.
type companies []atomic.Uint64

// newCompanies makes places for an eighth of the sessions: one byte for each of these.
func newCompanies(sessions int) companies {
	n := 1024
	for n < sessions/8 {
		n *= 2
	}
	return make(companies, n)
}

func (c companies) place(sub identity.Subject) (at *atomic.Uint64, half uint64) {
	h := tally.Hash(sub.ID) + uint64(sub.Kind)*0x9e3779b97f4a7c15
	return &c[h%uint64(len(c))], h &^ (1<<32 - 1)
}

func (c companies) put(sub identity.Subject, is company) {
	at, half := c.place(sub)
	at.Store(half | uint64(binary.BigEndian.Uint32([]byte{byte(is[0]), byte(is[1]), byte(is[2]), byte(is[3])})))
}

// of returns the company of a subject; unknown if another one has its place.
func (c companies) of(sub identity.Subject) (is company) {
	at, half := c.place(sub)
	if v := at.Load(); v&^(1<<32-1) == half {
		for i := range is {
			is[i] = rough(v >> (24 - 8*i)) //nolint:gosec // a byte of it
		}
	}
	return is
}
