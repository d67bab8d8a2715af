package processor

import (
	"context"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/label"
)

// labelled takes what an event says for certain of its subject: what the service has said in its answer, and whether a
// honeypot was opened. An address may be many people, so a service's word needs something stronger.
func (p *Processor) labelled(e *verdict.Event, r *rates) {
	m := e.Mark
	if e.Subjects[0].Kind == identity.KindIP {
		m = label.Mark{}
	}
	if m.Label != label.None && p.labels != nil {
		p.labels.Note(e.Subjects[0], m, e.At)
	}
	if p.training == nil {
		return
	}
	p.training.Event(e)
	if m.Label != label.None {
		p.training.Mark(e.Subjects[0], e.At, m)
	}
	if r.Honeypot && opens(e) {
		p.training.Trapped(e.Subjects[0], e.At)
	}
}

// opens reports whether somebody opens what the event is for. Another site may have a browser load it as a picture, or
// link to it.
func opens(e *verdict.Event) bool {
	return e.Kind == verdict.EventRequest && e.Verdict != verdict.Blocked && e.Asked != request.KindPart && e.Site != client.SiteCross &&
		e.Referer != client.RefererForeign
}

// Label takes what an operator says of a subject. On an error other than label.ErrFull it is in force, and will be
// written later.
func (p *Processor) Label(ctx context.Context, e label.Entry) error {
	e.Source = label.Operator
	err := p.labels.Set(ctx, e)
	if p.training != nil && p.labels.Of(e.Subject) == e.Mark {
		p.training.Say(e.Subject, e.At, e.Mark)
	}
	return err
}

// Unlabel forgets the label of a subject, and reports whether there was one.
func (p *Processor) Unlabel(ctx context.Context, s identity.Subject, at time.Time) (bool, error) {
	had, err := p.labels.Remove(ctx, s)
	if had && p.training != nil {
		p.training.Say(s, at, label.Mark{Source: label.Operator})
	}
	return had, err
}

// Labels returns every label in force, in no order.
func (p *Processor) Labels() []label.Entry { return p.labels.All() }
