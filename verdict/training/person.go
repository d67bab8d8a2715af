package training

import (
	"time"

	"antirobot/identity"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
)

// The sources of labels, beside those of package label. Signed in: by a login or a cookie that the service signed.
const (
	sourceSolved   = "solved"
	sourceFailed   = "failed"
	sourceIgnored  = "ignored"
	sourceListed   = "list"
	sourceCrawler  = "crawler"
	sourceDeclared = "declared"
	sourceHoneypot = "honeypot"
	sourceSignedIn = "signed-in"
)

// ignoredAfter is how old the last challenge must be before no answer is expected any more.
const ignoredAfter = 10 * time.Minute

// manyAgents is from how many User-Agents on an address is more than one client.
const manyAgents = 3

// person is what became known of a subject.
type person struct {
	shown, solved, worked, failed, listed, crawler, trapped int

	lastShown int64 // unix milliseconds
	cut       int64 // when the gateway first answered itself; 0: never

	operator     label.Mark // the last word of one
	operatorAt   int64
	human, robot label.Source // what a service has said

	// What the rows show.
	declared, undeclared bool    // rows in which it declares itself a robot, and others
	agents               float32 // most User-Agents
	keepsCookies         bool
	loadsParts           bool
}

func (p *person) note(at int64, o outcome) {
	if m, ok := o.mark(); ok {
		p.mark(at, m)
		return
	}
	switch o &^ cut {
	case outcomeShown:
		p.shown++
		p.lastShown = max(p.lastShown, at)
	case outcomeSolved:
		p.solved++
	case outcomeWorked:
		p.worked++
	case outcomeFailed:
		p.failed++
	case outcomeListed:
		p.listed++
	case outcomeCrawler:
		p.crawler++
	case outcomeTrapped:
		p.trapped++
	}
	if o&cut != 0 && (p.cut == 0 || at < p.cut) {
		p.cut = at
	}
}

func (p *person) mark(at int64, m label.Mark) {
	switch {
	case m.Source == label.Operator:
		if at >= p.operatorAt {
			p.operator, p.operatorAt = m, at
		}
	case m.Label == label.Human:
		p.human = m.Source
	case m.Label == label.Robot:
		p.robot = m.Source
	}
}

// see takes what a row shows.
func (p *person) see(r *record) {
	is := func(name string, least float32) bool {
		i, ok := r.place[name]
		return ok && r.x[i] >= least // not if unknown
	}
	if is("agent_robot", 1) || is("agent_headless", 1) {
		p.declared = true
	} else {
		p.undeclared = true
	}
	if i, ok := r.place["agents"]; ok {
		p.agents = max(p.agents, r.x[i])
	}
	p.keepsCookies = p.keepsCookies || is("cookie_share", 0.5) || r.subject != identity.KindIP && r.subject != identity.KindAuth
	p.loadsParts = p.loadsParts || is("parts_per_page", 0.5)
}

// label weighs what is known: what an operator says, then evidence that a robot can't avoid, then evidence that it can.
// A subject of whom a service says that it is a person, and other evidence that it is a robot, has no label.
func (p *person) label(kind identity.Kind, now int64) (formula.Label, string) {
	crowd := kind == identity.KindIP && p.agents >= manyAgents // what one did there says nothing of the others
	trapped := p.trapped > 0 && !crowd
	switch {
	case p.operator.Label == label.Robot:
		return formula.Robot, p.operator.Source.String()
	case p.operator.Label == label.Human:
		return formula.Person, p.operator.Source.String()
	case p.crawler > 0:
		return formula.Robot, sourceCrawler
	case p.human != 0 && (trapped || p.listed > 0 || p.robot != 0):
		return formula.Unlabelled, ""
	case p.listed > 0:
		return formula.Robot, sourceListed
	case p.robot != 0:
		return formula.Robot, p.robot.String()
	case trapped:
		return formula.Robot, sourceHoneypot
	case p.human != 0:
		return formula.Person, p.human.String()
	case kind.SignedIn():
		return formula.Person, sourceSignedIn
	case p.declared && !p.undeclared && !crowd:
		return formula.Robot, sourceDeclared
	case p.solved > 0:
		return formula.Person, sourceSolved
	case p.worked > 0: // neither ignored nor read by a person
		return formula.Unlabelled, ""
	case p.failed >= 3:
		return formula.Robot, sourceFailed
	case p.ignored(now):
		return formula.Robot, sourceIgnored
	}
	return formula.Unlabelled, ""
}

// ignored reports whether it took no notice of challenges, as programs do. People leave, too: who keeps cookies and
// loads the parts of pages may be one of them.
func (p *person) ignored(now int64) bool {
	return p.failed == 0 && p.shown >= 3 && now-p.lastShown >= ignoredAfter.Milliseconds() && !(p.keepsCookies && p.loadsParts)
}
