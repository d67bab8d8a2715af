package processor

import (
	"math"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Whoever has come back from an earlier day is not asked for what others of an address read. But to have been here once or twice is soon
// done: who prepares cookies has as many of them. So those who have not read for long (verdict.Cacher.Company) are one household
// together, once more of them belong to an address than a family has. What they may read beyond that is what such visitors have
// shown there before: pages with their parts, on an earlier day. When they have read more, they are asked; strangers, who have a budget of
// their own, are not where somebody has read for longer, and nor are these.

// level is whom a question concerns: a set.
type level uint8

const (
	askStrangers level = 1 << iota
	askYoung           // who has come back, but has not read for long
	askKnown           // whoever the site knows
	askEverybody = askStrangers | askYoung | askKnown
)

// fewYoung is how many of those who have not read for long may belong to an address, like a family, without sharing a budget.
const fewYoung = 8

// youth is what those have read at an address who have not read for long. Safe for use under its table's lock.
type youth struct {
	at    int64      // unix milliseconds to which the counts have faded
	read  [2]float32 // over the hour and the day, less what was shown before
	debt  float32    // documents of today that came without their parts
	day   uint16     // since 1970 …
	today uint16     // pages that came with their parts on it, to them and to strangers …
	left  uint16     // and what is left of those of earlier days
	fresh bool       // they have not read on it yet
}

const (
	youthFrom  = 48 // documents of an address in a day, from which on it is noted what is shown there
	youthsPart = 48
	youthIdle  = 4 * 86400 // seconds for which what was shown is kept: over a weekend
)

// grow counts a document or a part of those at an address who have not read for long. The caller holds the lock of the budget.
func (p *Processor) grow(b *budget, home identity.Prefix, ch *charge) {
	ch.youth = [2]float32{}
	if ch.known && !ch.young || ch.paid || !ch.many && b.docs < youthFrom {
		return
	}
	sh, h := p.youths.Lock(home)
	defer sh.Unlock()
	y, _ := p.youths.Open(sh, h, home)
	y.turn(b, ch)
	switch {
	case ch.is == verdict.CountPart:
		if ch.many {
			y.debt = max(y.debt-ch.cover, -mostCredit)
		}
	case ch.many:
		y.add(ch)
		ch.youth = y.read
	case ch.cost.whole:
		inc(&y.today)
	}
}

// turn lets the counts fade, and begins another day: with it parts that were loaded on an earlier day pay for nothing, and what strangers
// read there then may have been read by those who have come back.
func (y *youth) turn(b *budget, ch *charge) {
	gap := float64(max(ch.at-y.at, 0)) / 1000
	y.at = max(y.at, ch.at)
	for i := range y.read {
		y.read[i] *= tally.Fading(gap, budgetSpans[i].seconds)
	}
	day := uint16(ch.at / (86400 * 1000)) //nolint:gosec // until 2149
	if day > y.day {
		y.left = uint16(min(uint32(y.left/2)+uint32(y.today), math.MaxUint16)) //nolint:gosec // no more than that
		y.day, y.today, y.fresh = day, 0, true
	}
	if ch.many && y.fresh {
		y.fresh, y.debt = false, max(y.debt, 0)
		for i := range y.read {
			y.read[i] = max(y.read[i], b.heavy.others(i))
		}
	}
}

// add counts a document of theirs.
func (y *youth) add(ch *charge) {
	weight := ch.cost.weight
	if ch.cost.page {
		y.debt += ch.cost.base
		if y.debt > bareGrace {
			y.debt -= ch.cost.base
			weight = ch.bare
		} else {
			inc(&y.today)
			if weight = ch.whole; y.left > 0 {
				y.left--
				return
			}
		}
	}
	for i := range y.read {
		y.read[i] += ch.cost.base * weight
	}
}
