package verdict

import (
	"hash/maphash"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// A browser whose correct answer did not leave a cookie (cookies are blocked, or a tracking protection removes them) would
// be challenged again at the next click. For latestFor its pass is found by its address and its fields instead: the pass
// pays as if it had been sent, for latestPages documents.
const (
	latestFor   = time.Minute
	latestPages = 20
	latestMost  = 2048
)

// Passes charges requests to the passes that they bring. Safe for concurrent use.
type Passes struct {
	*clock
	*Revocations
	ledger *ledger.Ledger
	tariff ledger.Tariff
	paths  *Paths
	seed   maphash.Seed
	latest *bounded.Expiring[uint64, latestPass]
}

type latestPass struct {
	left int
	pass spravka.Pass
}

// latestKey is a browser without cookies: its address, its handshake and the fields that it sends with every request; and
// the host, for which the pass is good.
func (p *Passes) latestKey(v *request.View, id *identity.Identity) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	addr := identity.AddrSubject(id.Addr)
	_, _ = h.Write(addr.ID[:])
	for _, b := range [...][]byte{
		v.Get("User-Agent"), v.Get("Accept-Language"), v.Get("Accept-Encoding"), v.Get("Sec-CH-UA"), v.JA4, v.Host,
	} {
		_, _ = h.Write(b)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// Allowance returns what is left of a pass; false if it has paid nothing on this node.
func (p *Passes) Allowance(id [16]byte) (ledger.Allowance, bool) { return p.ledger.Allowance(id) }

// Issued tells the ledger about a new pass and who has just earned it. With a shared store it takes the first lease,
// without waiting.
func (p *Passes) Issued(pass *spravka.Pass, v *request.View, id *identity.Identity) {
	p.ledger.Issued(pass, p.passNow())
	if !id.Partner {
		p.latest.Put(p.latestKey(v, id), v.At.Add(latestFor), latestPass{latestPages, *pass})
	}
}

// holdsSpent reports whether the visitor holds a pass whose allowance is spent, in the browser that earned it: a user of
// its own, whom the processor's bans on addresses and on identities that cost nothing to create do not reach (an
// operator's bans do). A pass with something left pays.
func (p *Passes) holdsSpent(d *Decision, v *request.View, id *identity.Identity) bool {
	for i := range id.NPasses {
		pass := &id.Passes[i]
		if !pass.Earned || pass.Allowance == 0 || pass.Partner != 0 || id.Partner || p.bill(pass, v, id).Cost != 1 {
			continue
		}
		if !p.ledger.Spent(pass) {
			return false
		}
		d.Ban, d.Excused = bans.Ban{}, identity.Subject{Kind: identity.KindSpravka, ID: pass.ID}
		return true
	}
	return false
}

// pay charges the request to the first pass with enough left, or for a moment to one that was earned and did not come
// back. In mode observe it only looks.
func (p *Passes) pay(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	for i := range id.NPasses {
		pass := &id.Passes[i]
		if !pass.Earned || pass.Allowance == 0 || !p.payWith(d, pass, v, id, s) {
			continue
		}
		if p.latest.Len() > 0 && p.passTime(v.At).Unix()-pass.Born <= int64(latestFor/time.Second) {
			p.latest.Remove(p.latestKey(v, id)) // this browser keeps its cookies
		}
		return
	}
	if id.Partner || p.latest.Len() == 0 || v.Get("Cookie") != nil { // a browser that keeps others keeps its pass
		return
	}
	key := p.latestKey(v, id)
	l, until, ok := p.latest.Find(key, v.At.UnixNano())
	if !ok || l.left <= 0 || p.Revoked(l.pass.ID, l.pass.Born) || p.RevokedCampaign(l.pass.Net, l.pass.Agent, l.pass.Born) {
		return
	}
	if p.payWith(d, &l.pass, v, id, s) && d.Cost > 0 {
		l.left--
		p.latest.Put(key, until, l)
	}
}

// payWith charges the request to a pass, and reports whether it had enough left.
func (p *Passes) payWith(d *Decision, pass *spravka.Pass, v *request.View, id *identity.Identity, s *Settings) bool {
	b := p.bill(pass, v, id)
	b.Is = p.paths.goesWith(p.paths.keyOf(s, v))
	got, cost := p.ledger.Settle(pass, &b, p.passTime(v.At), s.OnStoreFailure, s.Mode != Observe)
	d.Degraded = d.Degraded || got.Degraded
	if !got.OK {
		return false
	}
	d.Verdict, d.Paid, d.PassID, d.Left = Human, true, pass.ID, got.Left
	if s.Mode != Observe {
		d.Cost = int(cost)
	}
	return true
}

// bill computes what a document costs a pass. A pass is bound to the browser that solved, and to its networks: a browser
// that moves pays once for each place, so a phone can carry on, while selling a pass to many people earns little. For a
// partner's user no browser is known.
func (p *Passes) bill(pass *spravka.Pass, v *request.View, id *identity.Identity) ledger.Bill {
	dear := uint32(p.tariff.Browser) //nolint:gosec // validated to be small
	net := id.NetKey()
	switch {
	case pass.Partner != 0 || id.Partner:
		if net != pass.Net {
			return ledger.Bill{Cost: dear}
		}
		return ledger.Bill{Cost: 1}
	case identity.AgentFamily(v.Get("User-Agent")) != pass.Agent:
		return ledger.Bill{Cost: dear, Net: net}
	case pass.Keyed(): // elsewhere it is no pass, until its browser has proved itself
		net = 0
	}
	return ledger.Bill{Cost: 1, Net: net}
}

// goesWith returns the price class of a path: a subresource, if answers prove it; a call, if answers prove data, or if they
// are unknown and visitors don't take it for a page; otherwise a document, until its answer shows something else.
func (p *Paths) goesWith(k pathKey) ledger.Kind {
	switch {
	case p.proved(k) == readingPart:
		return ledger.Part
	case p.read(k) == readingPart, p.proved(k) == readingData:
		return ledger.Call
	}
	return ledger.Document
}

// Delivered settles the payment of a pass once the service's answer is known: subresources and calls are included in the
// documents that were paid. It is not for requests that a balancer forwards itself. e already knows the answer.
func (p *Passes) Delivered(d *Decision, e *Event) {
	if d.Cost == 0 || e.Advised || e.Partner {
		return
	}
	is := ledger.Document
	switch count := e.Count(); {
	case count == CountPart, count == CountNothing: // such as a file of the page that is not there
		is = ledger.Part
	case count.Called():
		is = ledger.Call
	}
	if is != ledger.Document && p.ledger.Refund(d.PassID, is) {
		d.Cost--
		d.Left++
	}
}
