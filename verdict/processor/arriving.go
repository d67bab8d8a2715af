package processor

import (
	"antirobot/verdict"
	"antirobot/verdict/cohorts"
)

// arrive takes a page for the cohorts of first requests.
func (p *Processor) arrive(e *verdict.Event, r *rates, known bool) {
	if !known {
		var news cohorts.News
		r.people.cohorts.Page(e, r.Group, &news)
		p.publish(e, &news)
	}
}

// loads takes a subresource for the cohorts of first requests.
func (p *Processor) loads(e *verdict.Event, r *rates) {
	var news cohorts.News
	r.people.cohorts.Part(e, &news)
	p.publish(e, &news)
}

// answer takes a solved challenge.
func (p *Processor) answer(e *verdict.Event, r *rates) {
	var news cohorts.News
	r.people.cohorts.Solved(e, &news)
	p.publish(e, &news)
}

// unmask takes a ban.
func (p *Processor) unmask(e *verdict.Event) {
	p.keeper.Mistrust(e.Subjects[e.N-1].ID)
	if r := p.service(e.Service); r != nil {
		var news cohorts.News
		r.people.cohorts.Banned(e, r.Group, &news)
		p.publish(e, &news)
	}
}

// publish tells gateways of a cohort whose challenges begin or end, and where people were met.
func (p *Processor) publish(e *verdict.Event, news *cohorts.News) {
	if news.Person {
		p.keeper.Meet(e.Subjects[e.N-1].ID, e.At)
	}
	if news.Changes {
		x := news.Campaign // a copy, so that nothing is allocated where there is nothing to publish
		p.keeper.AskArrivals(&x)
	}
}
