package processor

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/newcomers"
	"antirobot/verdict/tally"
)

const (
	pictures  = 2         // enough parts of a page to be a person's
	allButFew = 1 - 1./64 // of those who arrive alike are asked, where all may be
)

// street is a site at which newcomers arrive. Nobody is ever judged to be a robot.
type street struct {
	p    *Processor
	told *teller
	at   time.Time
	n    int // who has come so far, each from another network
}

// teller keeps what was last told of each way to arrive.
type teller struct {
	bench
	asks   map[uint64]verdict.Campaign
	back   map[uint32]verdict.Campaign
	silent bool
}

func (a *teller) AskArrivals(x *verdict.Campaign) {
	switch {
	case a.silent:
	case x.Client != 0:
		a.back[x.Client] = *x
	default:
		a.asks[x.Mark] = *x
	}
}

// newStreet is a site at which 150 people have arrived, with twenty browsers, by fifty doors; loads says how many in ten have loaded
// the parts of their page.
func newStreet(t testing.TB, parts bool, loads int) *street {
	s := &street{told: &teller{asks: map[uint64]verdict.Campaign{}, back: map[uint32]verdict.Campaign{}}, at: time.Unix(1.8e9, 0)}
	s.p = newProcessorFor(t, s.told, nil)
	if parts {
		for i := range fewVotes {
			s.p.service(0).people.vote(vote{network: uint64(1 + i), at: s.at.Unix(), established: true, value: 5})
		}
	}
	for i := range 150 {
		e := s.comes(100+i%20, i%50, time.Minute)
		back := *e // somebody of the same network whom the site knows
		back.Cookies |= client.CookieOurs
		s.p.service(0).people.newcomers.Page(&back, s.p.service(0).Group, newcomers.Arriving{Known: true}, new(newcomers.Told))
		if i%10 < loads {
			s.loads(e)
		}
	}
	return s
}

// comes lets somebody come who has a browser, after some time.
func (s *street) comes(browser, door int, after time.Duration) *verdict.Event {
	s.n++
	s.at = s.at.Add(after)
	e := newcomer7(s.at, s.n)
	e.Client = uint32(s.n) //nolint:gosec // few come
	e.Agent, e.Shape, e.Path = uint64(browser), uint64(browser), uint64(hash32(door))
	e.Answered(200, []byte("text/html"), 1000, 0)
	s.p.Process(e)
	return e
}

// loads lets somebody load parts of the page.
func (s *street) loads(of *verdict.Event) {
	for range pictures {
		s.at = s.at.Add(time.Second)
		e := *of
		e.At, e.Referer = s.at, client.RefererSame
		s.p.Process(picture(&e))
	}
}

// follows lets somebody follow a link.
func (s *street) follows(of *verdict.Event) {
	s.at = s.at.Add(time.Second)
	e := *of
	e.At, e.Referer, e.Path = s.at, client.RefererSame, e.Path+1
	s.p.Process(&e)
}

// asks is the share of those with a browser who are asked when they arrive.
func (s *street) asks(browser int) (share float32) {
	e := newcomer7(s.at, 0)
	e.Agent, e.Shape = uint64(browser), uint64(browser)
	a, _ := e.Arrival(s.p.service(0).Group)
	for _, mark := range a {
		if x := s.told.asks[mark]; x.Until.After(s.at) {
			share = max(share, x.Share)
		}
	}
	return share
}

// TestBareNewcomersAreAsked: of newcomers with one browser who open pages that nobody else comes by, and load nothing, the next ones
// are asked before any was judged; others are not; and that ends.
func TestBareNewcomersAreAsked(t *testing.T) {
	s := newStreet(t, true, 9)
	for i := range 5 {
		s.comes(7, 1000+i, 20*time.Second)
	}
	if share := s.asks(7); share != 0 {
		t.Errorf("of five, %v are asked", share)
	}
	for i := range 10 {
		s.comes(7, 2000+i, 20*time.Second)
	}
	if share := s.asks(7); share != allButFew {
		t.Errorf("of fifteen, %v are asked", share)
	}
	if share := s.asks(101); share != 0 {
		t.Errorf("of the site's people %v are asked", share)
	}
	for i := range 10 {
		s.loads(s.comes(7, 3000+i, 20*time.Second))
	}
	if share := s.asks(7); share != 0 {
		t.Errorf("although ten are people, %v are asked", share)
	}
}

// TestOneBanSaysWhatBareOnesAre: where others who arrive less alike are robots, and of those with one browser a few load their page, and more load
// nothing, the next ones are asked once one of these was banned; not before, and not if those are of one network, or as few as is usual.
func TestOneBanSaysWhatBareOnesAre(t *testing.T) {
	f := func(bare, networks, load int) (before, after float32) {
		s := newStreet(t, true, 9)
		var robot *verdict.Event
		for i := range 400 {
			e := s.comes(300+i%5, 3000+i, 20*time.Second)
			if robot != nil {
				s.p.unmask(robot)
			}
			robot = e
		}
		for i := range bare {
			s.n = 5000 + i%networks
			robot = s.comes(7, 1000+i, 20*time.Second)
		}
		s.n = 6000
		for i := range load {
			s.loads(s.comes(7, 2000+i, 20*time.Second))
		}
		s.comes(101, 3000, time.Minute)
		a, _ := robot.Arrival(s.p.service(0).Group)
		asks := func() float32 {
			x := s.told.asks[a[verdict.LikeProgram]]
			return x.Share * float32(tally.One(x.Until.After(s.at)))
		}
		before = asks()
		s.p.unmask(robot)
		return before, asks()
	}
	if before, after := f(5, 5, 1); before != 0 || after == 0 {
		t.Errorf("before the ban %v are asked, after it %v", before, after)
	}
	if _, after := f(5, 1, 1); after != 0 {
		t.Errorf("although they are of one network, %v are asked", after)
	}
	if _, after := f(3, 3, 12); after != 0 {
		t.Errorf("although hardly more load nothing than is usual, %v are asked", after)
	}
}

// TestWhoPassesTheCheckIsAlive: somebody who is asked, answers, and loads the parts with the pass is not bare; who answers and loads
// nothing is.
func TestWhoPassesTheCheckIsAlive(t *testing.T) {
	f := func(loads bool) float32 {
		s := newStreet(t, true, 9)
		for i := range 20 {
			s.comes(7, 1000+i, 20*time.Second)
		}
		if share := s.asks(7); share != allButFew {
			t.Fatalf("%v are asked", share)
		}
		for i := range 10 {
			e := s.comes(7, 2000+i, 20*time.Second)
			e.Kind = verdict.EventSolved
			s.p.Process(e)
			e.Kind = verdict.EventRequest
			e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], identity.Subject{Kind: identity.KindSpravka, ID: [16]byte{byte(i)}}, 2
			if e.Paid = true; loads {
				s.loads(e)
			}
		}
		return s.asks(7)
	}
	if share := f(true); share != 0 {
		t.Errorf("although ten have loaded the page, %v are asked", share)
	}
	if share := f(false); share != allButFew {
		t.Errorf("although nobody has loaded anything, %v are asked", share)
	}
}

// TestWhomPeopleFollowIsNotAsked: what opens a link before a person does is at a place of people.
func TestWhomPeopleFollowIsNotAsked(t *testing.T) {
	s := newStreet(t, true, 9)
	looks := func(i int) *verdict.Event {
		s.n = 6000
		return s.comes(7, 1000+i, 30*time.Minute)
	}
	for i := range 12 {
		at := s.n
		looks(i)
		s.n = at + 1
		s.loads(s.comes(101, 1000+i, 20*time.Second))
	}
	if e := looks(100); !s.told.met[e.Subjects[0].ID] {
		t.Error("it is nobody's")
	}
}

// BenchmarkBareNewcomer is the page of a robot that arrives like many.
func BenchmarkBareNewcomer(b *testing.B) {
	s := newStreet(b, true, 9)
	s.told.silent = true
	b.ReportAllocs()
	for i := range b.N {
		s.n %= 1 << 15
		s.comes(7, 1000+i, 10*time.Millisecond)
	}
}

// TestWhereTheyAreKnownPeopleSayNothingOfBareOnes: people at whose address the site knows others don't keep bare newcomers from being asked who arrive as
// they do.
func TestWhereTheyAreKnownPeopleSayNothingOfBareOnes(t *testing.T) {
	f := func(placed bool) float32 {
		s := newStreet(t, true, 9)
		s.told.known = map[[16]byte]bool{}
		for i := range 12 {
			s.told.known[newcomer7(s.at, s.n+1).Subjects[0].ID] = placed
			s.loads(s.comes(7, 900+i, 20*time.Second))
			s.comes(7, 1000+i, 20*time.Second)
		}
		return s.asks(7)
	}
	if share := f(false); share != 0 {
		t.Errorf("although every second one is a person nobody knows, %v are asked", share)
	}
	if share := f(true); share == 0 {
		t.Error("nobody is asked although all people who arrive so are known where they are")
	}
}

// TestFewBareNewcomersAreEnoughAmongRobots: where others who arrive less alike turned out to be robots, four bare newcomers of as many networks
// are asked for; where nothing is known of others they are not.
func TestFewBareNewcomersAreEnoughAmongRobots(t *testing.T) {
	f := func(robots int) float32 {
		s := newStreet(t, true, 9)
		var last *verdict.Event
		for i := range robots {
			e := s.comes(300+i%5, 3000+i, 20*time.Second)
			if last != nil {
				s.p.unmask(last)
			}
			last = e
		}
		s.at = s.at.Add(3 * time.Hour)
		for i := range 5 {
			s.comes(7, 1000+i, 20*time.Second)
		}
		return s.asks(7)
	}
	if share := f(0); share != 0 {
		t.Errorf("of four, %v are asked", share)
	}
	if share := f(400); share == 0 {
		t.Error("although others are robots, nobody is asked")
	}
}
