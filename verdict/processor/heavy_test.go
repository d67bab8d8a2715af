package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// office is an address at which people and a robot read.
type office struct {
	p  *Processor
	a  *asker
	at time.Time
	n  int
}

// reads lets a client read a page; people's browsers load its parts.
func (o *office) reads(client uint32, parts int) {
	o.n++
	o.at = o.at.Add(time.Second)
	e := reading(o.at, o.n, one(0))
	e.Client = client
	o.p.Process(e)
	for i := range parts {
		part := picture(reading(o.at, 1_000_000+o.n*parts+i, one(0)))
		part.Client = client
		o.p.Process(part)
	}
}

func (o *office) last() verdict.Question {
	if len(o.a.questions) == 0 {
		return verdict.Question{}
	}
	return o.a.questions[len(o.a.questions)-1]
}

// asksTheRobotAlone checks that client 1 has been asked, and nobody else.
func (o *office) asksTheRobotAlone(t *testing.T) {
	t.Helper()
	if len(o.a.questions) == 0 {
		t.Fatal("nobody is asked")
	}
	for _, q := range o.a.questions {
		if q.Only != 1 || q.All {
			t.Errorf("asked: %+v", q)
		}
	}
}

func newOffice(t *testing.T) *office {
	o := &office{at: time.Unix(1.8e9, 0)}
	o.p, o.a = newAsker(t, nil)
	return o
}

// TestRobotInAnOfficeIsAskedAlone: colleagues of a robot are not asked for what it reads.
func TestRobotInAnOfficeIsAskedAlone(t *testing.T) {
	o := newOffice(t)
	for n := range 300 {
		o.reads(uint32(10+n%20), 4)
		for range 4 { // more than the parts that the colleagues load could pay for
			o.reads(1, 0)
		}
	}
	o.asksTheRobotAlone(t)
}

// bans is what a ban on the address becomes, and whether it is a question instead.
func (o *office) bans() (b bans.Ban, asked bool) {
	e := reading(o.at, 1, one(0))
	b = bans.Ban{Subject: e.Subjects[0], Until: o.at.Add(time.Hour)}
	return b, o.p.concernsOne(&b, e)
}

// TestRobotAmongManyIsAskedAlone: the more colleagues there are, the more of their pages have their parts in a cache; these make
// nobody else the robot.
func TestRobotAmongManyIsAskedAlone(t *testing.T) {
	o := newOffice(t)
	for n := range 200 {
		o.at = o.at.Add(time.Minute)
		o.reads(uint32(10+n%101), 4)
	}
	for n := range 54 { // more than the parts that were loaded stand for
		o.reads(uint32(10+n), 0)
	}
	if len(o.a.questions) != 0 {
		t.Fatalf("people are asked: %+v", o.last())
	}
	for range 200 {
		o.reads(1, 0)
	}
	o.asksTheRobotAlone(t)
	if b, asked := o.bans(); !asked {
		t.Errorf("everybody is banned: %+v", b)
	}
}

// TestNamesBuyAQuarter: who takes another name as soon as the first is asked gets everybody asked soon, and who takes another
// for each page gets no more than one who keeps its name.
func TestNamesBuyAQuarter(t *testing.T) {
	alone := newOffice(t)
	for len(alone.a.questions) == 0 {
		alone.reads(1, 0)
	}
	budget := alone.n
	o := newOffice(t)
	name := uint32(1)
	for o.n < 1000 && (len(o.a.questions) == 0 || o.last().Only != 0) {
		if q := o.last(); q.Only == name {
			name++
		}
		o.reads(name, 0)
	}
	if o.n > budget+budget/4 || name < 2 {
		t.Errorf("asked for good after %d pages by %d names, one name after %d", o.n, name, budget)
	}
	o = newOffice(t)
	for len(o.a.questions) == 0 {
		o.reads(uint32(o.n)+1, 0)
	}
	if q := o.last(); q.Only != 0 || o.n > budget+1 {
		t.Errorf("asked after %d pages by as many names, one name after %d: %+v", o.n, budget, q)
	}
}

// TestColleaguesAreNotBannedForARobot: where people read, a robot that shares their address and has no identity of its own is
// asked instead of the address being banned; where it is alone, the ban is on it, not on whoever comes later; and with a
// name for each page it gets the address banned.
func TestColleaguesAreNotBannedForARobot(t *testing.T) {
	f := func(people int, names uint32, asked bool, only uint32) {
		t.Helper()
		o := newOffice(t)
		for n := range people {
			o.reads(uint32(10+n%20), 4)
		}
		for n := range uint32(80) {
			o.reads(1+n%names, 0)
		}
		if b, got := o.bans(); got != asked || got && o.last().Only != 1 || b.Only != only {
			t.Errorf("with %d pages of people and %d names: %v, %+v, %+v", people, names, got, o.last(), b)
		}
	}
	f(30, 1, true, 0)
	f(0, 1, false, 1)
	f(0, 80, false, 0)
}
