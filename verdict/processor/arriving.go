package processor

import (
	"antirobot/verdict"
	"antirobot/verdict/newcomers"
)

// arrive takes a page for what is learnt of newcomers.
func (p *Processor) arrive(e *verdict.Event, r *rates, known bool) {
	var t newcomers.Told
	is := newcomers.Arriving{Known: known, Placed: !known && e.Nameless() && p.keeper.KnowsPlace(e.Subjects[e.N-1].ID, e.At), Parts: r.people.parts()}
	r.people.newcomers.Page(e, r.Group, is, &t)
	p.tell(e, &t)
}

// loads takes a part of a page for what is learnt of newcomers.
func (p *Processor) loads(e *verdict.Event, r *rates) {
	var t newcomers.Told
	r.people.newcomers.Part(e, &t)
	p.tell(e, &t)
}

// answer takes a right answer to a question.
func (p *Processor) answer(e *verdict.Event, r *rates) {
	var t newcomers.Told
	r.people.newcomers.Solved(e, r.people.parts(), &t)
	p.tell(e, &t)
}

// unmask takes a ban.
func (p *Processor) unmask(e *verdict.Event) {
	p.keeper.Mistrust(e.Subjects[e.N-1].ID)
	if r := p.service(e.Service); r != nil {
		var t newcomers.Told
		r.people.newcomers.Banned(e, r.Group, &t)
		p.tell(e, &t)
	}
}

// tell tells of a campaign that begins, changes or is over, and where people were met.
func (p *Processor) tell(e *verdict.Event, t *newcomers.Told) {
	if t.Met {
		p.keeper.Meet(e.Subjects[e.N-1].ID, e.At)
	}
	if t.Changes {
		x := t.Campaign // a copy, so that nothing is allocated where there is nothing to tell
		x.Salt = p.secret
		p.keeper.AskArrivals(&x)
	}
}
