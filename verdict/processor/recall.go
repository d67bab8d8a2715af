package processor

import (
	"context"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

// recallTask is to look in the store for a ban that memory lost. It is done in a goroutine of its own, so that a slow store delays no judgement.
type recallTask struct {
	sub     identity.Subject
	service string
}

const (
	recallQueue = 4096
	recallTime  = 5 * time.Second // for the store to answer
)

// runRecalls runs the tasks until stop, and then those that are still waiting.
func (p *Processor) runRecalls() {
	for {
		select {
		case a := <-p.recalls:
			p.recall(a)
		case <-p.stopErrands:
			for len(p.recalls) > 0 {
				p.recall(<-p.recalls)
			}
			return
		}
	}
}

// recall looks in the store for the bans of a subject that memory had no room for.
func (p *Processor) recall(a recallTask) {
	ctx, cancel := context.WithTimeout(context.Background(), recallTime)
	defer cancel()
	n, err := p.keeper.Recall(ctx, a.sub, a.service)
	if err != nil {
		p.askErrors.Inc()
	}
	p.recalled.Add(n)
}

// recallBan has the store asked for a ban of the subject; when too many are waiting, it waits with an event of the past, or else the task is
// dropped and counted.
func (p *Processor) recallBan(e *verdict.Event, r *rates) {
	if !p.running.Load() {
		return
	}
	a := recallTask{sub: e.Subjects[0], service: r.Name}
	if e.Past {
		select {
		case p.recalls <- a:
		case <-p.stop:
		}
		return
	}
	select {
	case p.recalls <- a:
	default:
		p.dropped.Inc()
	}
}

// mayBeBanned reports whether the store may have a ban of the subject that memory forgot; once an hour. The caller holds the lock of the session.
func (s *session) mayBeBanned(e *verdict.Event, fresh, forgot bool) bool {
	lost := fresh || int64(s.lastBan.until) > e.At.Unix()
	if !forgot || !lost || s.flags&flagRecalled != 0 || e.Verdict != verdict.Human || e.Paid {
		return false
	}
	s.flags |= flagRecalled
	return true
}
