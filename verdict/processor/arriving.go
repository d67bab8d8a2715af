package processor

import "antirobot/verdict"

// arriving is what else must be known of a page load.
type arriving struct {
	known  bool // the site knows the visitor
	placed bool // the site knows people at the address
	parts  bool // the site's pages have parts
	shown  bool // its parts would be loaded
	deep   bool // … and hardly anybody comes by it
}

// toldCampaigns is what is to be told once no lock is held.
type toldCampaigns struct {
	met  bool // the newcomer of the event is a person
	n    int
	list [6 * verdict.Likenesses]verdict.Campaign
}

func (t *toldCampaigns) add(x *verdict.Campaign) {
	t.list[t.n] = *x
	t.n++
}

// arrive takes a page for what is learnt of newcomers. deep says that hardly anybody comes in by it.
func (p *Processor) arrive(e *verdict.Event, r *rates, known, deep bool) {
	var t toldCampaigns
	is := arriving{known: known, placed: !known && e.Nameless() && p.keeper.KnowsPlace(e.Subjects[e.N-1].ID, e.At), parts: r.people.parts()}
	read := e.Verdict == verdict.Human || e.Mode != verdict.Enforce
	is.shown = is.parts && (read && e.Status < 400 || e.Cause == verdict.CauseCampaign)
	is.deep = deep && is.shown
	if r.people.newcomers.page(e, r.Group, is, &t) {
		r.people.attempt(e)
	}
	p.arrived(e, r)
	p.tell(e, &t)
}

// loads takes a part of a page for what is learnt of newcomers.
func (p *Processor) loads(e *verdict.Event, r *rates) {
	var t toldCampaigns
	r.people.newcomers.part(e, &t)
	p.tell(e, &t)
}

// answer takes a right answer to a question.
func (p *Processor) answer(e *verdict.Event, r *rates) {
	var t toldCampaigns
	r.people.newcomers.solved(e, r.people.parts(), &t)
	p.tell(e, &t)
}

// unmask takes a ban.
func (p *Processor) unmask(e *verdict.Event) {
	p.keeper.Mistrust(e.Subjects[e.N-1].ID)
	if r := p.service(e.Service); r != nil {
		var t toldCampaigns
		r.people.newcomers.banned(e, r.Group, &t)
		p.renewals.put(e)
		p.tell(e, &t)
	}
}

// tell tells of campaigns that begin, change or are over, and where people were met.
func (p *Processor) tell(e *verdict.Event, t *toldCampaigns) {
	if t.met {
		p.keeper.Meet(e.Subjects[e.N-1].ID, e.At)
	}
	for i := range t.n {
		x := t.list[i] // a copy, so that nothing is allocated where there is nothing to tell
		x.Salt = p.secret
		p.keeper.AskArrivals(&x)
	}
}
