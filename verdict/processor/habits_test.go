package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
)

// browses is reads by a browser that keeps our cookie.
func (o *office) browses(client uint32, parts int) {
	o.n++
	o.at = o.at.Add(time.Second)
	o.a.at = o.at
	e := reading(o.at, o.n, one(0))
	e.Client, e.Browser = client, client
	o.p.Process(e)
	for i := range parts {
		part := picture(reading(o.at, 1_000_000+o.n*parts+i, one(0)))
		part.Client, part.Browser = client, client
		o.p.Process(part)
	}
}

const (
	colleagues = 100 // the first of the clients of people
	robots     = 20
)

// TestRobotsInAnOfficeAreAskedAlone: twenty robots that keep cookies are asked by themselves, and banned by themselves, as soon as they have read
// what a household may; whoever loads the parts of pages is not one of them.
func TestRobotsInAnOfficeAreAskedAlone(t *testing.T) {
	o := newOffice(t)
	for n := range uint32(30) {
		o.browses(colleagues+n, 4)
	}
	read := 0
	for n := range uint32(600) {
		o.browses(colleagues+n%50, 4)
		if robot := 1 + n%robots; len(o.a.questions) == 0 || !o.a.listed[robot] {
			o.browses(robot, 0)
			read++
		}
	}
	for n := range uint32(robots) {
		if !o.a.listed[1+n] {
			t.Errorf("robot %d is not listed", n)
		}
	}
	for n := range uint32(50) {
		if o.a.listed[colleagues+n] {
			t.Errorf("colleague %d is listed", n)
		}
	}
	if len(o.a.questions) == 0 || read > 3*robots {
		t.Errorf("%d questions, the robots read %d pages", len(o.a.questions), read)
	}
	for _, q := range o.a.questions {
		if q.Only != verdict.OnlyBare || q.All {
			t.Errorf("asked: %+v", q)
		}
	}
	if b, asked := o.bans(); !asked || o.last().Only != verdict.OnlyBare {
		t.Errorf("everybody is banned: %+v, %+v", b, o.last())
	}
}

// TestOneRobotIsTheHeavyOneStill: a robot without cookies among colleagues of whom one had its pages in a cache is asked and banned as that
// client, not those that are listed.
func TestOneRobotIsTheHeavyOneStill(t *testing.T) {
	o := newOffice(t)
	for n := range uint32(100) {
		o.browses(colleagues+n%20, 4)
	}
	for range 5 {
		o.browses(colleagues+50, 0)
	}
	for range 200 {
		o.reads(1, 0)
	}
	o.asksTheRobotAlone(t)
	if b, asked := o.bans(); !asked {
		t.Errorf("everybody is banned: %+v", b)
	}
	o.asksTheRobotAlone(t)
}

// TestRobotsBeforeTheOfficeAreBannedAlone: where robots with cookies are alone at an address, the ban is on them, not on whoever comes later; those that
// come again while they are stopped are listed, too.
func TestRobotsBeforeTheOfficeAreBannedAlone(t *testing.T) {
	o := newOffice(t)
	for n := range uint32(2 * robots) {
		o.browses(1+n%robots, 0)
	}
	for n := range uint32(3 * robots) {
		o.at = o.at.Add(time.Second)
		o.a.at = o.at
		e := reading(o.at, o.n, one(0))
		e.Client, e.Browser, e.Verdict = 1+n%robots, 1+n%robots, verdict.Robot
		o.p.Process(e)
	}
	if b, asked := o.bans(); asked || b.Only != verdict.OnlyBare {
		t.Errorf("the ban: %+v", b)
	}
}

// TestCookiesBuyAQuarter: who takes another cookie as soon as the first is listed gets everybody asked soon, among colleagues or without.
func TestCookiesBuyAQuarter(t *testing.T) {
	alone := newOffice(t)
	for len(alone.a.questions) == 0 {
		alone.browses(1, 0)
	}
	o, name := newOffice(t), uint32(1)
	for o.n < 1000 && (len(o.a.questions) == 0 || o.last().Only != 0) {
		if o.a.listed[name] && len(o.a.questions) > 0 {
			name++
		}
		o.browses(name, 0)
	}
	if o.n > alone.n+alone.n/4+1 || name < 2 {
		t.Errorf("asked for good after %d pages by %d cookies, one cookie after %d", o.n, name, alone.n)
	}
}

// TestWhoLoadsPartsAgainIsListedNoLonger: a browser that opened some tabs before it loaded anything, or had everything in its cache.
func TestWhoLoadsPartsAgainIsListedNoLonger(t *testing.T) {
	o := newOffice(t)
	for range 12 {
		o.browses(colleagues, 4)
	}
	for range 12 {
		o.browses(7, 0)
	}
	if !o.a.listed[7] {
		t.Fatal("it is not listed")
	}
	for range 24 {
		o.browses(7, 4)
	}
	if o.a.listed[7] {
		t.Error("it still is")
	}
}
