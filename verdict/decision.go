package verdict

import (
	"time"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
)

// Decision is a verdict and everything that led to it. It is reused from request to request, holds no part of the View,
// and belongs to one goroutine at a time. The zero value is ready for Decide.
type Decision struct {
	Verdict  Verdict
	Cause    Cause // the deciding step; kept when a pass paid, to show what the pass paid for
	Mode     Mode
	Subject  identity.Subject // the subject that the request is charged to
	Entry    *cbb.Entry       // the list entry, for the causes that name one; immutable
	Score    float32          // for CauseJudge, and for CauseBan of the processor
	Ban      bans.Ban         // for CauseBan
	Excess   Excess           // for CauseQuota
	Doubt    Doubt            // the visitor may be a robot, also where that stops nothing; without a subject: no doubt
	Campaign Campaign         // for CauseCampaign
	Wait     time.Duration    // for CauseLimit: until the next request is within the limit
	Step     Step             // for CauseDoubt, CauseAttack and CauseCampaign: how the visitor is asked
	Own      bool             // the ban is on an identity of the request itself, not on its address alone
	Excused  identity.Subject // the identity that a ban on a weaker one, or on the address, did not stop; without a kind: none
	Waived   Waiver           // why the cause has no consequence
	Busy     bool             // the request is asked because the service is busy
	Paid     bool             // a pass paid (in mode observe: would have paid; nothing was taken)
	Cost     int              // what it paid
	Left     uint32           // what this node believes the pass has left
	PassID   [16]byte         // which pass
	Demand   bool             // the client demanded the captcha: nothing is spent or counted
	// Degraded: decided while the store was failing, so bans of other nodes may be missing, or a pass could not be
	// accounted for.
	Degraded bool

	Rules   *Ruling // what the service's rules said; nil: they were not run
	Message *Ruling // what the rules of a message route said; nil: there is no message

	// Trace is set by whoever traces the request, before the decision is recorded.
	Trace Trace

	kept   keptAt
	match  cbb.Match
	claims *client.Table
	facts  client.Facts // with agent; known says that they have been read
	agent  uint64
	known  bool
	rooms  [2]*Ruling // kept from request to request
}

// Stops reports whether the gateway answers the request instead of the service.
func (d *Decision) Stops() bool { return d.Mode == Enforce && d.Verdict != Human }

// Told is the verdict that the service is told: Unsure also where a doubt stops nothing.
func (d *Decision) Told() Verdict {
	if d.Waived != NotWaived {
		if d.unsure() {
			return Unsure
		}
		return Robot
	}
	if d.Verdict == Human && !d.Paid && d.Doubt.Subject.Kind != identity.KindNone {
		return Unsure
	}
	return d.Verdict
}

// unsure reports whether the cause is no reason to call the visitor a robot.
func (d *Decision) unsure() bool {
	return d.Cause == CauseDoubt || d.Cause == CauseAttack || d.Cause == CauseCampaign
}

// Checks reports whether the visitor is asked for no more than a silent check, where the ladder does not lead higher: by a doubt, or because
// of what its network reads, which says nothing of the visitor.
func (d *Decision) Checks() bool {
	return (d.Step == StepCheck || d.Step == StepPress) && (d.Verdict == Unsure || d.Verdict == Robot && d.Cause == CauseQuota)
}

// methodOf returns the first letter of a method; of one that begins like GET or HEAD and is neither, zero: services that know
// no such method may answer it like any other.
func methodOf(method []byte) uint8 {
	switch {
	case len(method) == 0:
		return 0
	case method[0] == 'G' && string(method) != "GET", method[0] == 'H' && string(method) != "HEAD":
		return 0
	}
	return method[0]
}

// reset forgets the last request.
func (d *Decision) reset(id *identity.Identity, mode Mode) {
	*d = Decision{Mode: mode, Subject: id.Winner(), rooms: d.rooms}
}

// room returns memory for a ruling: 0 of the request, 1 of its message.
func (d *Decision) room(n int) *Ruling {
	if d.rooms[n] == nil {
		d.rooms[n] = new(Ruling)
	}
	return d.rooms[n]
}

// RuleMessage returns the ruling on the request's message, to be filled in; Settle draws the conclusion from it.
func (d *Decision) RuleMessage() *Ruling {
	d.Message = d.room(1)
	*d.Message = Ruling{Fired: d.Message.Fired[:0], Stop: -1}
	return d.Message
}

// Settle sets the verdict on a request that is human to what the ruling on its message says.
func (d *Decision) Settle() {
	switch {
	case d.Message.Action == RuleRobot:
		d.say(Robot, CauseMessage, nil)
	case d.Message.Action >= RuleQueue:
		d.say(Blocked, CauseMessage, nil)
	}
}

// Quarantine returns the ruling that puts the request into quarantine; nil if none does.
func (d *Decision) Quarantine() *Ruling { return d.stopped(RuleQuarantine) }

// Queue returns the ruling that lets the message wait for a person; nil if none does.
func (d *Decision) Queue() *Ruling { return d.stopped(RuleQueue) }

// Throttle returns the ruling that says that the request comes too fast; nil if none does.
func (d *Decision) Throttle() *Ruling { return d.stopped(RuleThrottle) }

// Program reports whether the client says itself that it is no browser: a tool, a library, an app, a robot, or nothing. What calls
// itself a browser is judged as one.
func (d *Decision) Program(v *request.View, id *identity.Identity) bool {
	f, _ := d.read(v, id)
	return f.Program()
}

// Limit stops the request because its program asks too often: it may try again after a wait.
func (d *Decision) Limit(wait time.Duration) { d.Verdict, d.Cause, d.Wait = Robot, CauseLimit, wait }

// limited is what a program waits that is stopped for what it reads or how often, unless an end is known, and the bounds of what it is
// told.
const (
	limitedFor = time.Minute
	mostWait   = time.Hour
)

// RetryAfter returns how long a program that is stopped should wait before another try, from a second to an hour; 0: it is refused,
// and another try would be refused, too. An operator's entry or ban, a rule's refusal, what a message says, and a client that lies
// about who it is end in a refusal; everything else is a limit.
func (d *Decision) RetryAfter(at time.Time) time.Duration {
	wait := limitedFor
	switch {
	case d.Verdict == Blocked || d.match.Liar:
		return 0
	case d.Cause == CauseBanList, d.Cause == CauseMessage, d.Cause == CauseBan && d.Ban.Source == bans.SourceAPI:
		return 0
	case d.Cause == CauseBan:
		wait = d.Ban.Until.Sub(at)
	case d.Cause == CauseLimit:
		wait = d.Wait
	case d.Cause == CauseQuota:
		wait = d.Excess.Until.Sub(at)
	case d.Cause == CauseCampaign:
		wait = d.Campaign.Until.Sub(at)
	case d.Cause == CauseDoubt:
		wait = d.Doubt.Until.Sub(at)
	}
	return min(max(wait, time.Second), mostWait)
}

// stopped returns the ruling that stopped the request with an action.
func (d *Decision) stopped(with RuleAction) *Ruling {
	if r := d.Ruling(); d.Verdict == Blocked && r != nil && r.Action == with {
		return r
	}
	return nil
}

// Ruling returns the ruling that decided; nil if something else did.
func (d *Decision) Ruling() *Ruling {
	switch d.Cause {
	case CauseRule:
		return d.Rules
	case CauseMessage:
		return d.Message
	}
	return nil
}

// OneClient reports whether only one client of the address is stopped, and its neighbours are not.
func (d *Decision) OneClient() bool {
	return d.Cause == CauseQuota && d.Excess.Client != 0 || d.Cause == CauseBan && d.Ban.Only != 0
}

// Judged reports whether the request becomes an event for the slow half. So does one that is white only while a
// crawler's address is being looked up: a lie about who one is must not hide the pace.
func (d *Decision) Judged() bool {
	return (d.Cause != CauseWhite || d.Entry.Provisional) && d.Cause != CauseOff && !d.Demand
}

// Crawler reports whether the request comes from a verified crawler. It is not judged, but training data may still be
// learnt from it.
func (d *Decision) Crawler() bool {
	return d.Cause == CauseWhite && !d.Entry.Provisional && d.Entry.List == cbb.ListCrawlers
}

// read returns the facts of the request and the hash of its User-Agent. They are read once.
func (d *Decision) read(v *request.View, id *identity.Identity) (*client.Facts, uint64) {
	if !d.known {
		d.agent, d.known = d.facts.Read(v, id, d.claims), true
	}
	return &d.facts, d.agent
}

// Event fills e with what is known of the request once it has been decided. The caller sets Static and Kind, and calls
// Answered when the answer has been written.
func (d *Decision) Event(e *Event, v *request.View, id *identity.Identity, s *Settings) {
	*e = Event{
		At: v.At, Service: s.Index, Verdict: d.Verdict, Cause: d.Cause, Mode: d.Mode, Paid: d.Paid, Own: d.Own, Crawler: d.Crawler(),
		Subjects: id.Subjects, N: uint8(id.N), Young: id.Young(),
	}
	e.Path, e.PathShape = pathsOf(d.claims.Key(), v)
	e.Method = methodOf(v.Method)
	f, agent := d.read(v, id)
	e.Facts, e.Agent = *f, agent
	e.Client = clientOf(id, v)
	if d.Cause == CauseWhite && d.Entry.Provisional {
		e.Cause = CauseNone
	}
	e.Liar = d.match.Liar
}
