package ledger

import (
	"slices"

	"antirobot/spravka"
)

// Tariff is the section verdict.pass: what requests cost a pass, in units of its allowance. A document costs one. Each unit
// includes some parts of pages and some calls of scripts; beyond that, these cost one each, too.
type Tariff struct {
	Parts   int `mapstructure:"parts"`   // parts of pages included in a unit
	Calls   int `mapstructure:"calls"`   // calls of scripts included in a unit
	Browser int `mapstructure:"browser"` // what a document costs in a browser other than the one that solved
	Move    int `mapstructure:"move"`    // the surcharge when the browser comes from a network where it was not seen before
}

// maxPlaces is how many networks beside its own a pass remembers. The oldest one gives way.
const maxPlaces = 3

// Kind is what a request is for.
type Kind uint8

// The kinds. Parts and calls are included in what was paid.
const (
	Document Kind = iota
	Part
	Call
)

// Bill is what a request charges to a pass.
type Bill struct {
	Cost uint32 // of a document
	Net  uint64 // where it comes from; 0: anywhere
	Is   Kind
}

// account is what is known of one pass.
type account struct {
	expires int64  // unix seconds, of the pass
	dry     int64  // unix nanoseconds until which the store is known to have nothing left; 0: it may have
	used    int64  // unix nanoseconds of the last payment or lease
	limit   uint32 // sealed in the pass
	spent   uint32 // by this node; with an unshared store: in total
	leased  uint32 // granted to this node by the shared store
	missed  uint32 // cost of a request that the lease did not cover
	parts   uint32 // that were covered by what was spent; of this node and since its start
	calls   uint32
	places  [maxPlaces]uint64 // networks beside its own to which the browser has paid to move
	turn    uint8
	owed    uint32 // the part of leased that the shared store has lost
}

// debt is the amount spent beyond the leases.
func (a *account) debt() uint32 { return a.spent - min(a.spent, a.leased) }

// spare is the amount leased and not spent.
func (a *account) spare() uint32 { return a.leased - min(a.spent, a.leased) }

// knows reports whether a browser was seen with the pass in a network.
func (a *account) knows(p *spravka.Pass, net uint64) bool {
	return net == 0 || net == p.Net || slices.Contains(a.places[:], net)
}

// price is what a bill costs the account now.
func (a *account) price(p *spravka.Pass, b *Bill, c *Tariff) uint32 {
	if a.covers(b.Is, c, a.spent) {
		return 0
	}
	if a.knows(p, b.Net) {
		return b.Cost
	}
	return b.Cost + min(uint32(c.Move), a.limit/cheapMove) //nolint:gosec // validated to be small
}

// cheapMove caps the price of a move at this part of the allowance: a visitor who earned a small pass and changes
// networks is not asked again because of that.
const cheapMove = 25

// covers reports whether one more part or call is included in the given number of paid units. Some are included even
// with none: the page that the pass was earned for has parts.
func (a *account) covers(is Kind, c *Tariff, units uint32) bool {
	had, most := a.calls, c.Calls
	switch is {
	case Part:
		had, most = a.parts, c.Parts
	case Call:
	default:
		return false
	}
	return uint64(had) < uint64(most)*(uint64(units)+1) //nolint:gosec // validated to be small and positive
}

// note counts a paid bill.
func (a *account) note(p *spravka.Pass, b *Bill, cost uint32) {
	switch {
	case cost == 0 && b.Is == Part:
		a.parts++
	case cost == 0 && b.Is == Call:
		a.calls++
	case cost > 0 && !a.knows(p, b.Net):
		a.places[a.turn%maxPlaces] = b.Net
		a.turn++
	}
}
