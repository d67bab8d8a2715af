package processor

import (
	"antirobot/verdict"
	"antirobot/verdict/label"
	"antirobot/verdict/learn"
)

// teach passes an evaluation on, for what is learnt of the service's people. What a stopped client does, and programs,
// show nothing of that.
func (p *Processor) teach(e *verdict.Event, r *rates, s *session, x []float32) {
	if p.learner == nil || e.Stopped() || e.Program() {
		return
	}
	v := learn.Visit{Subjects: e.Subjects[:e.N], Service: r.Name, At: e.At, X: x}
	if e.Subjects[0].Kind.SignedIn() || p.labels != nil && p.labels.Of(e.Subjects[0]).Label == label.Human {
		v.Evidence |= learn.Vouched
	}
	usual, loads := r.people.told(), s.loads()
	if usual >= fewParts && loads >= trustLoads && float32(s.parts) >= trustedParts*usual*loads {
		v.Evidence |= learn.Subresources
	}
	p.learner.See(&v)
}

// teachSolved passes on that digits were solved.
func (p *Processor) teachSolved(e *verdict.Event, r *rates) {
	if p.learner != nil && e.Kind == verdict.EventSolved && !e.Work {
		p.learner.See(&learn.Visit{Subjects: e.Subjects[:e.N], Service: r.Name, At: e.At, Evidence: learn.Solved})
	}
}
