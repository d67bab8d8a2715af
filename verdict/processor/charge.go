package processor

import "antirobot/verdict"

// charge is what an event costs.
type charge struct {
	is           verdict.Count
	base         float32 // documents that it is worth
	weight, bare float32 // what each counts as if it comes with its parts, or without
	whole        float32 // the first of them where nobody vouches for another
	cover        float32 // documents that a part stands for
	repeat       float32
	target       uint64
	at           int64
	known, again bool       // they have come back, see charged; it was read a moment ago
	young, many  bool       // … and have not read for long; more of such belong to their address than a family has
	youth        [2]float32 // what such have read at the address over the hour and the day, if they are many; see youth
	votes        bool       // they are established, and show how much people call
	plain        bool       // its weight is fixed
	alone        bool       // it neither needs parts nor pays for them
	paid         bool       // a pass paid
	client       uint32
	settled      bool    // the site knows its people
	parts        bool    // pages have parts here, see habitual
	pays         bool    // the client has loaded more parts than its pages so far want
	owes         bool    // … or fewer, by several pages
	listed       bool    // the client is one of those that load none, see habit …
	turned, owed float32 // … from now on, with so many documents, of which so many came without
	from         int64   // … and has read since then, in unix seconds
	cost         cost    // what it has cost
}

// ofStranger makes it the charge of somebody of whom nothing is known.
func (ch *charge) ofStranger() { ch.known, ch.young, ch.many, ch.votes = false, false, false, false }

// cost is what a document has cost: what it is worth, how often that counts, whether it may come with its parts, and whether it did; zero: nothing.
type cost struct {
	base, weight float32
	page, whole  bool
}

// charged is what is known about whom a charge is for: whether they are established, whether they have come back from an earlier
// day (verdict.Cacher.Returns), whether they made the call recently, and, if they have not read for long, how many there are like them.
type charged struct {
	known, back, polled bool
	company             int
}
