package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/tally"
)

// fullOffice is an office where so many browsers have loaded a page with its parts.
func fullOffice(t *testing.T, people uint32) *office {
	t.Helper()
	o := newOffice(t)
	for n := range people {
		o.browses(colleagues+n, 4)
	}
	return o
}

// address returns what is known of the office's address.
func (o *office) address(t *testing.T) session {
	t.Helper()
	sub := reading(o.at, 1, one(0)).Subjects[0]
	sh, h := o.p.sessions.Lock(sub)
	defer sh.Unlock()
	s := sh.Find(h, sub)
	if s == nil {
		t.Fatal("nothing is known of the address")
	}
	return *s
}

// stops lets a client be stopped, led to the captcha, and leave it.
func (o *office) stops(client uint32) {
	o.n++
	o.at = o.at.Add(time.Second)
	o.a.at = o.at
	for _, kind := range []verdict.EventKind{verdict.EventRequest, verdict.EventShown} {
		e := reading(o.at, o.n, one(0))
		e.Kind, e.Client, e.Browser, e.Verdict = kind, client, client, verdict.Robot
		o.p.Process(e)
	}
}

// convicted is a ban on the office's address, and whether it became a question.
func (o *office) convicted() (b bans.Ban, asked bool) {
	e := reading(o.at, 1, one(0))
	b = bans.Ban{Subject: e.Subjects[0], Until: o.at.Add(time.Hour), Reason: "formula: parts_missing"}
	return b, o.p.askCrowd(&b, e, o.p.service(e.Service))
}

// TestCrowdIsAsked: where many browsers load parts of pages, strangers are asked for as long as the address would have been banned, and what it
// did until then is forgotten; an address of few browsers is banned.
func TestCrowdIsAsked(t *testing.T) {
	o := fullOffice(t, 40)
	b, asked := o.convicted()
	if q := o.last(); !asked || q.Only != 0 || q.All || q.Young || !q.Until.Equal(b.Until) || q.Reason != b.Reason || !q.Prefix.Household() {
		t.Errorf("asked: %v, %+v", asked, q)
	}
	if s := o.address(t); s.pages != 0 || s.browsers == 0 {
		t.Errorf("of the address are known %d pages, and its browsers as %b", s.pages, s.browsers)
	}
	sub := b.Subject
	sh, h := o.p.sessions.Lock(sub)
	sh.Find(h, sub).lastBan.offences = 2
	sh.Unlock()
	if _, asked := o.convicted(); asked {
		t.Error("it is asked, and not banned, once more")
	}
	few := fullOffice(t, 3)
	for range 20 {
		few.browses(colleagues, 4)
	}
	if _, asked := few.convicted(); asked {
		t.Errorf("a family is asked: %+v", few.last())
	}
}

// TestCrowdOfRobotsIsBannedByName: where clients that are listed read nearly all that was read barely, the crowd beside them is not asked.
func TestCrowdOfRobotsIsBannedByName(t *testing.T) {
	o := fullOffice(t, 40)
	for n := range uint32(4 * robots) {
		o.browses(1+n%robots, 0)
	}
	if _, asked := o.convicted(); asked {
		t.Errorf("everybody is asked: %+v", o.last())
	}
}

// TestStopsInACrowdAreHeldAgainstNobody: who is asked with others and leaves does not speak against them; who goes on is listed by that.
func TestStopsInACrowdAreHeldAgainstNobody(t *testing.T) {
	o := fullOffice(t, 40)
	if _, asked := o.convicted(); !asked {
		t.Fatal("nobody is asked")
	}
	before := o.address(t)
	for n := range uint32(40) {
		o.stops(colleagues + n)
	}
	for range 3 {
		o.stops(7)
	}
	if s := o.address(t); s.pages != before.pages || s.shown != before.shown || s.ignored != before.ignored {
		t.Errorf("of the address are known %d pages, %d challenges and %d ignored, before %d, %d and %d", s.pages, s.shown, s.ignored, before.pages, before.shown, before.ignored)
	}
	if !o.a.listed[7] || o.a.listed[colleagues] {
		t.Errorf("listed: %v", o.a.listed)
	}
	few := fullOffice(t, 3)
	for range 20 {
		few.stops(7)
	}
	if s := few.address(t); s.ignored < 19 {
		t.Errorf("in a family %d challenges were ignored", s.ignored)
	}
}

// TestPartsAnswerNothing: who was stopped again and again is listed as long as it has not answered, whatever it loads.
func TestPartsAnswerNothing(t *testing.T) {
	o := fullOffice(t, 40)
	for range 4 {
		o.stops(7)
	}
	for range 12 {
		o.browses(7, 4)
	}
	if !o.a.listed[7] {
		t.Error("it is listed no longer")
	}
	o.n++
	e := reading(o.at, o.n, one(0))
	e.Client, e.Browser, e.Paid = 7, 7, true
	o.p.Process(e)
	if o.a.listed[7] {
		t.Error("it still is, and has answered")
	}
}

// TestCacheExcusesLittleBesideRobots: who loads a quarter of the parts is not listed, but for some pages where robots are asked by themselves.
func TestCacheExcusesLittleBesideRobots(t *testing.T) {
	o := fullOffice(t, 40)
	quarter := func() {
		for n := range 40 {
			o.browses(7, 4*tally.One(n%4 == 0))
		}
	}
	quarter()
	if o.a.listed[7] {
		t.Fatal("it is listed where nobody else is")
	}
	for n := range uint32(600) {
		o.browses(colleagues+n%40, 4)
		if robot := 20 + n%robots; len(o.a.questions) == 0 || !o.a.listed[robot] {
			o.browses(robot, 0)
		}
	}
	if q := o.last(); q.Only != verdict.OnlyBare {
		t.Fatalf("the robots are not asked: %+v", q)
	}
	quarter()
	if !o.a.listed[7] {
		t.Error("it is not listed beside robots that are")
	}
}

// TestPartsThatNobodyHasShown: as long as nobody has shown how many parts a page has, one that a client of a crowd opens without them is one page; of
// few browsers it is several, and where it is known.
func TestPartsThatNobodyHasShown(t *testing.T) {
	for _, x := range []struct {
		name   string
		people uint32
		median uint64
		asked  bool
	}{
		{"a crowd", 40, 0, false}, {"a crowd where pages have three parts", 40, 301, true}, {"a family", 3, 0, true},
	} {
		o := fullOffice(t, x.people)
		o.p.service(0).people.median.Store(x.median)
		for n := range uint32(120) {
			o.browses(1000+n, 0)
		}
		if asked := len(o.a.questions) > 0; asked != x.asked {
			t.Errorf("%s: asked: %v", x.name, asked)
		}
	}
}

// TestCrowdIsBannedWherePeopleAreKnown: a site that knows its people judges those of a crowd by themselves, and bans what is left.
func TestCrowdIsBannedWherePeopleAreKnown(t *testing.T) {
	o := fullOffice(t, 40)
	for n := range o.p.cfg.Budget.KnownFrom {
		o.p.service(0).people.met(tally.Fold(uint64(n+1), 0x9e3779b97f4a7c15), o.at)
	}
	if _, asked := o.convicted(); asked {
		t.Error("it is asked")
	}
}

// TestSixteenBrowsersAreACrowd: whatever their cookies are called; six are none.
func TestSixteenBrowsersAreACrowd(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	for n := range 1000 {
		var few, many loaders
		for i := range 16 {
			e := verdict.Event{At: at}
			e.Browser = uint32(tally.Fold(uint64(n*16+i+1), 0xd1b54a32d192ed03)) //nolint:gosec // a part of a hash
			if many.see(&e); i < 6 {
				few.see(&e)
			}
		}
		if few.crowd() || !many.crowd() {
			t.Errorf("%d: six are a crowd: %v, sixteen: %v", n, few.crowd(), many.crowd())
		}
	}
}
