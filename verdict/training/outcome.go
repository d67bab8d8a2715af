package training

import (
	"antirobot/verdict"
	"antirobot/verdict/label"
)

// outcome is what became known of a subject, in addition to its factors.
type outcome uint8

const (
	outcomeShown outcome = iota + 1 // a challenge
	outcomeSolved
	outcomeFailed
	outcomeListed  // by a ban entry or a rule; a blocked client reveals nothing about itself
	outcomeCrawler // a verified one
	outcomeWorked  // solved by work of the browser, which robots can do as well as people
	outcomeTrapped // has opened a path that no person finds

	outcomeMarked outcome = 0x20 // and beyond: what somebody says of it, see markOutcome
)

// cut marks that from here on the gateway answered itself: the subject's factors reflect that answer.
const cut outcome = 0x80

func outcomeOf(e *verdict.Event) outcome {
	var stopped outcome
	if e.Mode == verdict.Enforce {
		stopped = cut
	}
	switch e.Kind {
	case verdict.EventShown:
		return outcomeShown | stopped
	case verdict.EventSolved:
		if e.Work {
			return outcomeWorked | stopped
		}
		return outcomeSolved | stopped
	case verdict.EventFailed:
		return outcomeFailed | stopped
	}
	switch e.Cause {
	case verdict.CauseBanList, verdict.CauseRule:
		return outcomeListed | stopped
	}
	if e.Crawler {
		return outcomeCrawler
	}
	return 0
}

// markOutcome is how a mark stands in the log: five bits, label and source.
func markOutcome(m label.Mark) outcome {
	return outcomeMarked | outcome(m.Source)<<2 | outcome(m.Label)
}

// mark returns what markOutcome has put into an outcome; false: it is another one.
func (o outcome) mark() (label.Mark, bool) {
	m := label.Mark{Label: label.Label(o & 3), Source: label.Source(o&^outcomeMarked&^cut) >> 2}
	return m, o&outcomeMarked != 0 && int(m.Source) < label.Sources
}
