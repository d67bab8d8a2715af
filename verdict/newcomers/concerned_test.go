package newcomers

import (
	"math"
	"testing"
	"time"

	"antirobot/verdict"
)

// from is a newcomer who has another program, of a language of its own.
func from(at time.Time, n, program int) *verdict.Event {
	e := newcomer7(at, n)
	e.Agent, e.Shape, e.Language = 100+uint64(program), 100+uint64(program), uint32(100+program)
	return e
}

// TestWhoConcernsFewPeopleIsAskedFirst: as long as few people may be asked, ways by which more of them arrive for each robot give way to
// those by which fewer do, whichever was known first.
func TestWhoConcernsFewPeopleIsAskedFirst(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	c := newCrowd(int(math.Ceil(5/askedPeople)), at) // five people may be asked
	arrive := func(program, robots, people int) {
		for i := range robots {
			c.robot(from(at, 1000*program+i, program))
		}
		for i := range people {
			c.person(from(at, 1000*program+500+i, program))
		}
	}
	asked := func(program int) bool { return c.asked(from(at, 1, program))[verdict.LikeProgram] > 0 }
	arrive(1, 60, 4)
	if !asked(1) {
		t.Fatal("robots are not asked although few people arrive so")
	}
	arrive(2, 120, 4) // eight would be too many: the others give way with their next newcomer
	if !asked(2) {
		t.Error("robots are not asked although few people arrive so, as others are asked among whom there are more")
	}
	c.robot(from(at, 1, 1))
	if asked(1) {
		t.Error("more people are asked than may be")
	}
	arrive(3, 10, 0)
	if !asked(3) {
		t.Error("robots are not asked by whose way nobody arrives")
	}
}

// TestWhereTheyAreKnownPeopleAreNotConcerned: people at whose address the site knows others are never asked, and so don't keep robots from being asked
// who arrive as they do.
func TestWhereTheyAreKnownPeopleAreNotConcerned(t *testing.T) {
	f := func(placed bool) bool {
		at := time.Unix(1.8e9, 0)
		c := newCrowd(4000, at)
		for i := range 60 {
			at = at.Add(time.Minute)
			if i%3 == 0 {
				c.comesBack(newcomer7(at, 1000+i), placed)
			} else {
				c.robot(newcomer7(at, 1000+i))
			}
		}
		return c.asked(newcomer7(at, 1))[verdict.LikeProgram] > 0
	}
	if f(false) {
		t.Error("asked although one in three is a person nobody knows")
	}
	if !f(true) {
		t.Error("not asked although all people who arrive so are known where they are")
	}
}

// TestWhoArrivesInSeveralWaysCountsOnce: people who arrive in a way that is asked, and so in a wider one, don't keep that from being asked.
func TestWhoArrivesInSeveralWaysCountsOnce(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	c := newCrowd(int(math.Ceil(5/askedPeople)), at) // five people may be asked
	named := func(n, agent int) *verdict.Event {
		e := from(at, n, 1)
		e.Agent = 500 + uint64(agent)
		return e
	}
	for i := range 60 {
		c.robot(named(1000+i, 0))
	}
	for i := range 3 {
		c.person(named(2000+i, 0))
	}
	for i := range 60 {
		c.robot(named(3000+i, 1+i))
	}
	if share := c.asked(named(1, 0)); share[verdict.LikeProgram] == 0 || share[verdict.LikeLibrary] == 0 {
		t.Errorf("of those who arrive so %v are asked", share)
	}
}
