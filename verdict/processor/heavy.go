package processor

import (
	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// heavy is the client of a network that reads most of what is read there as no browser of the site's people reads: a robot
// in an office. While the others stay within the budget by themselves, it alone is asked. Clients can have any number of
// names: whoever takes another name when it is asked makes the others exceed a small part of the budget, and everybody is
// asked. The client is found as in the algorithm of Boyer and Moore: by is a lower bound of what it has read.
type heavy struct {
	client uint32     // verdict.Event.Client; 0: nobody, or not known
	by     [2]float32 // over the hour and the day, weighted
	bare   [2]float32 // the same of all clients …
	set    [2]float32 // … but those that are listed, which read this, see habit
	debt   float32    // its own documents that came without
	since  uint32     // unix seconds since which those that are listed are asked or banned by themselves …
	until  uint32     // … and until which
}

const (
	othersShare = 4  // the others may use this part of a budget for what they read like a robot
	heavyFrom   = 16 // weighted documents from which on a client is told apart
	othersWhole = 8  // documents from which on there are people beside it
	othersBare  = 8  // documents of people with all their parts for which the others may read one like a robot: it was in a cache
)

func (h *heavy) fade(i int, f float32) {
	h.by[i] *= f
	h.bare[i] *= f
	h.set[i] *= f
}

// apart reports whether a charge concerns the client, which has debts of its own.
func (h *heavy) apart(ch *charge) bool {
	return ch.client != 0 && ch.client == h.client && h.by[len(h.by)-1] >= heavyFrom && !ch.known
}

// note notes what a client has read as no browser of people reads it.
func (h *heavy) note(client uint32, w float32) {
	for i := range h.by {
		h.bare[i] += w
		if client == h.client {
			h.by[i] += w
		} else {
			h.by[i] -= w
		}
	}
	if last := len(h.by) - 1; h.by[last] < 0 {
		h.client, h.debt = client, 0
		for i := range h.by {
			h.by[i] = min(w, h.bare[i])
		}
	}
	h.by[0] = max(h.by[0], 0)
}

// listed notes what clients that are listed have read.
func (h *heavy) listed(w float32) {
	for i := range h.set {
		h.set[i] += w
	}
}

// list makes a client one of those that are listed, with what it has read: parts that others have loaded do not pay for that. Once those are
// asked by themselves, it stays what others have read: whoever takes another cookie then makes everybody be asked.
func (b *budget) list(ch *charge) {
	w := ch.turned * ch.bare
	b.debt = max(b.debt-ch.owed, min(b.debt, 0))
	h := &b.heavy
	b.add(w-ch.turned*ch.weight, ch.known)
	if int64(h.until) > ch.at/1000 && ch.from > int64(h.since) {
		for i := range h.bare {
			h.bare[i] += ch.owed*ch.bare + (ch.turned - ch.owed) + ch.base*ch.bare
		}
		return
	}
	for i := range h.set {
		less, more := min(ch.owed*ch.bare, h.others(i)), w
		if h.client == ch.client {
			less, more = h.by[i], max(w, h.by[i])
			h.by[i] = 0
		}
		h.bare[i] -= less
		h.set[i] += more
	}
	if h.client == ch.client {
		h.client = 0
	}
}

// holds notes that those that are listed are asked or banned until some time.
func (h *heavy) holds(now, until int64) {
	if int64(h.until) <= now {
		h.since = uint32(now) //nolint:gosec // until 2106
	}
	h.until = max(h.until, uint32(until)) //nolint:gosec // until 2106
}

// others returns what the others have read in a window as no browser of people reads it.
func (h *heavy) others(i int) float32 { return h.bare[i] - h.by[i] }

// alone returns who alone is to be asked for what was read in a window, where their company has read so many whole documents: those that
// are listed, or the client, if it has read more than they have; 0: everybody.
func (h *heavy) alone(i int, read, limit, company float32) uint32 {
	if h.set[i] > h.by[i] && h.bare[i] <= limit/othersShare+company/othersBare && read-h.set[i] <= limit {
		return verdict.OnlyBare
	}
	if h.by[i] <= 0 || h.others(i) > limit/othersShare+company/othersBare || read-h.by[i] > limit {
		return 0
	}
	return h.client
}

// concernsOne narrows a ban on an address to the client whose reading led to it, if nearly all that was read there as a
// robot reads is this client's: whoever comes to that address later is somebody else. Where others already read there as
// people do, the client is asked instead, and concernsOne reports that there is no ban.
func (p *Processor) concernsOne(b *bans.Ban, e *verdict.Event) (asked bool) {
	r := p.service(e.Service)
	if b.Subject.Kind != identity.KindIP || r == nil {
		return false
	}
	x, of, mu := p.lockBudget(b.Subject.ID, r.Group)
	defer mu.Unlock()
	if x == nil {
		return false
	}
	x.fade(e.At.UnixMilli())
	v := &x.heavy
	only, now := v.mostly(x.company)
	if only == 0 {
		return false
	}
	if only == verdict.OnlyBare {
		v.holds(e.At.Unix(), b.Until.Unix())
	}
	if x.company < othersWhole || !now {
		b.Only = only
		return false
	}
	p.keeper.Ask(&verdict.Question{
		Prefix: of, Only: only, Until: b.Until, Read: uint32(x.read[0]), Most: uint32(p.cfg.Budget.Hour), Window: budgetSpans[0].name, Reason: b.Reason,
	})
	return true
}

// mostly returns who has read in the past day nearly all that was read as no browser of people reads, but for what is usual in its company,
// if that is enough, and whether so it is in the past hour; 0: nobody. It is the client, or those that are listed.
func (h *heavy) mostly(company float32) (only uint32, now bool) {
	nearly := func(by, others float32) bool {
		return by >= heavyFrom && others <= by/othersShare+company/othersBare
	}
	last := len(h.by) - 1
	switch {
	case h.set[last] > h.by[last] && nearly(h.set[last], h.bare[last]):
		return verdict.OnlyBare, nearly(h.set[0], h.bare[0])
	case h.client != 0 && nearly(h.by[last], h.others(last)+h.set[last]):
		return h.client, nearly(h.by[0], h.others(0)+h.set[0])
	}
	return 0, false
}
