package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
)

// mixed is a street at which for each person who loads a page two robots come with the same browser, load nothing, and are found out: too
// few for all who come so to be asked.
func mixed(t *testing.T) *street {
	s := newStreet(t, true, 9)
	for i := range 20 {
		s.loads(s.comes(7, 900+i, 20*time.Second))
		robots := []*verdict.Event{s.comes(7, 1000+i, 20*time.Second), s.comes(7, 2000+i, 20*time.Second)}
		s.loads(s.comes(101, 3000+i, 20*time.Second))
		for _, e := range robots {
			s.p.unmask(e)
		}
	}
	if share := s.asks(7); share != 0 {
		t.Fatalf("of all who come so %v are asked", share)
	}
	return s
}

// isAsked reports whether a client is asked when it comes back.
func (s *street) isAsked(e *verdict.Event) bool { return s.told.back[e.Client].Until.After(s.at) }

// TestBareNewcomersAreAskedWhenTheyComeBack: where many robots and many people arrive alike, those who load nothing are asked, and nobody
// else; who answers, or loads the page later, is not asked any more.
func TestBareNewcomersAreAskedWhenTheyComeBack(t *testing.T) {
	s := mixed(t)
	bare, other := s.comes(7, 5000, 20*time.Second), s.comes(103, 5001, time.Second)
	loads := s.comes(7, 5002, time.Second)
	s.loads(loads)
	if s.isAsked(bare) {
		t.Fatal("asked before it is known that it loads nothing")
	}
	answers, late := s.comes(7, 5003, time.Second), s.comes(7, 5004, time.Second)
	for i := range 9 {
		s.loads(s.comes(101, 6000+i, 5*time.Second))
	}
	if !s.isAsked(bare) || !s.isAsked(answers) || !s.isAsked(late) {
		t.Error("one who loads nothing is not asked")
	}
	if s.isAsked(loads) || s.isAsked(other) {
		t.Error("one who loads the page, or comes with another browser, is asked")
	}
	e := *answers
	e.Kind = verdict.EventSolved
	s.p.Process(&e)
	if s.loads(late); s.isAsked(answers) || s.isAsked(late) {
		t.Error("one who has answered, or loads the page now, is asked")
	}
}

// TestWhoIsBareIsAskedLaterToo: what is learnt after it has arrived counts: its way was nobody's then.
func TestWhoIsBareIsAskedLaterToo(t *testing.T) {
	s := newStreet(t, true, 9)
	first := s.comes(7, 5000, time.Minute)
	var robots []*verdict.Event
	for i := range 6 {
		s.loads(s.comes(7, 900+i, 20*time.Second))
		robots = append(robots, s.comes(7, 1000+i, 20*time.Second), s.comes(7, 2000+i, 20*time.Second))
	}
	if s.isAsked(first) {
		t.Fatal("asked although nothing is known of who comes so")
	}
	for _, e := range robots {
		s.p.unmask(e)
	}
	for i := range 9 {
		s.loads(s.comes(101, 6000+i, 5*time.Second))
	}
	if !s.isAsked(first) {
		t.Error("not asked although others were robots")
	}
}

// TestNobodyIsAskedWherePeopleAnswer: if those who are asked when they come back turn out to answer, nobody else is.
func TestNobodyIsAskedWherePeopleAnswer(t *testing.T) {
	s := mixed(t)
	comes := func(door int) *verdict.Event {
		e := s.comes(7, door, 20*time.Second)
		for i := range 3 {
			s.loads(s.comes(101, door+100+i, 10*time.Second))
		}
		return e
	}
	e := comes(5000)
	if !s.isAsked(e) {
		t.Fatal("the first one is not asked")
	}
	solves := *e
	solves.Kind = verdict.EventSolved
	s.p.Process(&solves) // one of 200 visits is more than two in a thousand
	if e = comes(5001); s.isAsked(e) {
		t.Error("asked although the one who was has answered")
	}
}
