package processor

import (
	"errors"
	"io"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/training"
)

// Learns reports whether verified crawlers, which are not judged, should be offered as events for the training log.
func (p *Processor) Learns() bool { return p.training != nil }

// ExportTraining writes the training log, including what is buffered.
func (p *Processor) ExportTraining(w io.Writer, o training.ExportOptions, now time.Time) (training.Exported, error) {
	if p.training == nil {
		return training.Exported{}, errors.New("no training log is kept")
	}
	return p.training.Export(w, o, now)
}

// learn follows a verified crawler, which is not judged and not counted anywhere, for the training log alone: among
// robots it is the one whose label is certain.
func (p *Processor) learn(e *verdict.Event, r *rates) {
	sub := e.Subjects[0]
	if !e.Crawler || e.Kind != verdict.EventRequest {
		return
	}
	if !p.training.Has(sub) {
		return
	}
	sh, h := p.sessions.Lock(sub)
	s, _ := p.sessions.Open(sh, h, sub)
	due := false
	if e.Static && !e.Document {
		s.part(e)
	} else {
		s.turn(e, e.Page && !e.Type.Data())
		if due = s.due(e, false); due {
			s.plan(e)
		}
	}
	c := *s
	sh.Unlock()
	if !due {
		return
	}
	v := p.vectors.Get().(*vector)
	defer p.vectors.Put(v)
	v.scene = evidence{e: e, s: c}
	p.fill(&v.scene, r)
	p.training.Observe(sub, e.Service, e.At, v.measure(false), 0)
	v.scene.e = nil
}
