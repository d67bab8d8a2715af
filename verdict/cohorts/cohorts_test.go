package cohorts

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"

// first is the first request of client n, in a network of its own, with one fingerprint.
func first(at time.Time, n int) *verdict.Event {
	e := &verdict.Event{At: at, Status: 200, Method: 'G', Agent: 7, PathShape: 9, N: 1}
	e.Subjects[0] = identity.AddrSubject(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}))
	e.Claim, e.Referer, e.Page, e.Shape, e.Language = client.ParseClaim([]byte(firefox)), client.RefererNone, true, 5, 3
	return e
}

func otherBrowser(e *verdict.Event) *verdict.Event {
	e.Agent, e.Shape = 8, 6
	return e
}

// site is a service under test, with its campaigns.
type site struct {
	Service
	campaigns map[uint64]verdict.Campaign
}

func newSite() *site { return &site{campaigns: map[uint64]verdict.Campaign{}} }

func (s *site) news(f func(n *News)) {
	var n News
	if f(&n); n.Changes {
		s.campaigns[n.Campaign.Mark] = n.Campaign
	}
}

func (s *site) arrives(e *verdict.Event) { s.news(func(n *News) { s.Page(e, 1, n) }) }

// robot arrives, and is banned two minutes later.
func (s *site) robot(e *verdict.Event) {
	s.arrives(e)
	e.At = e.At.Add(2 * time.Minute)
	s.news(func(n *News) { s.Banned(e, 1, n) })
}

// person arrives, and follows a link with the cookie that it was given.
func (s *site) person(e *verdict.Event) {
	s.arrives(e)
	e.At, e.Cookies, e.Referer = e.At.Add(20*time.Second), client.CookieOurs, client.RefererSame
	s.arrives(e)
}

func (s *site) challenges(e *verdict.Event) bool {
	mark, _ := e.Arrival(1)
	return s.campaigns[mark].Until.After(e.At)
}

// TestCohortOfRobots: once some first requests of several networks that are alike turned out to be robots', the next ones are
// challenged; those with another browser are not; and that ends when no more come.
func TestCohortOfRobots(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	s := newSite()
	for i := range 2 {
		at = at.Add(time.Minute)
		s.robot(first(at, 1000+i))
		s.person(otherBrowser(first(at, 2000+i)))
	}
	if s.challenges(first(at, 1)) {
		t.Fatal("two are enough")
	}
	for i := range 20 {
		at = at.Add(time.Minute)
		s.robot(first(at, 3000+i))
	}
	if !s.challenges(first(at, 1)) || s.challenges(otherBrowser(first(at, 1))) {
		t.Errorf("challenged %v, with another browser %v", s.challenges(first(at, 1)), s.challenges(otherBrowser(first(at, 1))))
	}
	if at = at.Add(4 * time.Hour); s.challenges(first(at, 1)) {
		t.Error("hours after it has ended it goes on")
	}
}

// TestCohortsOfPeopleAreNotChallenged: if one in three turns out to be a person, if robots are a small part of those who arrive so, or
// are all in one network.
func TestCohortsOfPeopleAreNotChallenged(t *testing.T) {
	for name, arrive := range map[string]func(s *site, at time.Time, i int){
		"people": func(s *site, at time.Time, i int) {
			if i%3 == 0 {
				s.person(first(at, 1000+i))
			} else {
				s.robot(first(at, 1000+i))
			}
		},
		"guests": func(s *site, at time.Time, i int) {
			if i%5 == 0 {
				s.robot(first(at, 1000+i))
			} else {
				s.arrives(first(at, 1000+i))
			}
		},
		"one network": func(s *site, at time.Time, i int) {
			e := first(at, 1000)
			e.Subjects[0].ID[15] = byte(i)
			s.robot(e)
		},
	} {
		at := time.Unix(1.8e9, 0)
		s := newSite()
		for i := range 100 {
			if at = at.Add(time.Minute); i == 0 {
				at = at.Add(time.Hour)
			}
			arrive(s, at, i)
			if i > 3 && s.challenges(first(at, 1)) {
				t.Errorf("%s: challenged after %d", name, i)
				break
			}
		}
	}
}

// TestPeopleEndChallenges: whoever solves a challenge, or loads subresources, is a person; whoever is banned later was none.
func TestPeopleEndChallenges(t *testing.T) {
	for name, proves := range map[string]func(s *site, e *verdict.Event){
		"solves": func(s *site, e *verdict.Event) { s.news(func(n *News) { s.Solved(e, n) }) },
		"loads subresources": func(s *site, e *verdict.Event) {
			e.Referer = client.RefererSame
			for range personParts {
				s.news(func(n *News) { s.Part(e, n) })
			}
		},
	} {
		at := time.Unix(1.8e9, 0)
		s := newSite()
		for i := range 40 {
			at = at.Add(time.Minute)
			s.robot(first(at, 1000+i))
		}
		for i := range 10 {
			e := first(at, 2000+i)
			s.arrives(e)
			proves(s, e)
		}
		if s.challenges(first(at, 1)) {
			t.Errorf("%s: ten do, and others are challenged", name)
		}
		for i := range 10 {
			s.news(func(n *News) { s.Banned(first(at, 2000+i), 1, n) })
		}
		if !s.challenges(first(at, 1)) {
			t.Errorf("%s: those are robots, and nobody is challenged", name)
		}
	}
}
