package processor

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// atOffice lets cookies of an address read in turn, each time with parts or without, until somebody is asked, and returns the question and
// after how many pages; none: 0.
func atOffice(p *Processor, a *asker, at time.Time, pages int, parts bool) (verdict.Question, int) {
	a.questions = nil
	for n := range pages {
		e := reading(at.Add(time.Duration(n)*time.Second), int(at.Unix()%86400)+n, one(n))
		e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(n%20), 2
		p.Process(e)
		for i := range 3 * tally.One(parts) {
			x := picture(reading(e.At, 1_000_000+i, one(n)))
			x.Subjects[1], x.Subjects[0], x.N = x.Subjects[0], cookie(n%20), 2
			p.Process(x)
		}
		for _, q := range a.questions {
			if q.Prefix.Bits == 128 {
				return q, n + 1
			}
		}
	}
	return verdict.Question{}, 0
}

// withCompany is a site that knows its people, and an address to which so many visitors have come back that are like each other.
func withCompany(t *testing.T, company int) (*Processor, *asker) {
	t.Helper()
	p, a := newAsker(t, nil)
	a.returned, a.company = 100, company
	return p, a
}

// TestYoungShareABudget: those who were here before, and of whom little more is known, are one household at an address if they are many, and are
// asked by themselves; few of them, and who has read for longer, are not.
func TestYoungShareABudget(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	f := func(name string, company, least, most int) {
		t.Helper()
		p, a := withCompany(t, company)
		q, n := atOffice(p, a, at, 400, false)
		if n < least || n > most || n > 0 && (!q.Young || q.All) {
			t.Errorf("%s: asked after %d pages, want %d to %d: %+v", name, n, least, most, q)
		}
	}
	f("twenty of a farm", 20, 40, 60)
	f("a family", fewYoung, 0, 0)
	f("people who have read for longer", 0, 0, 0)
}

// TestYoungReadWhatTheyHaveShown: pages with their parts that were read at an address on an earlier day are read there again without a question.
func TestYoungReadWhatTheyHaveShown(t *testing.T) {
	at := time.Unix(1.8e9, 0).Truncate(24 * time.Hour).Add(10 * time.Hour)
	for _, before := range []int{0, 150} {
		p, a := withCompany(t, 20)
		p.cfg.Budget.KnownFrom = 0
		r := p.service(0)
		r.people.median.Store(301)
		a.returned, a.company = 0, 0 // the day before they are strangers
		atOffice(p, a, at.Add(-24*time.Hour), before, true)
		a.returned, a.company = 100, 20
		_, n := atOffice(p, a, at, 700, true)
		if want := 180 + max(before-youthFrom, 0); n < want-10 || n > want+20 {
			t.Errorf("after %d pages on the day before: asked after %d, want about %d", before, n, want)
		}
	}
}

// TestStrangersAndYoungAreAskedTogether: a question for one of them does not hide what the others read.
func TestStrangersAndYoungAreAskedTogether(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	p, a := withCompany(t, 20)
	a.proven = 5
	if q, n := atOffice(p, a, at, 200, false); n == 0 || q.Both {
		t.Fatalf("cookies: after %d pages %+v", n, q)
	}
	a.returned, a.company = 0, 0
	a.questions = nil
	for n := range 200 {
		e := reading(at.Add(100*time.Second+time.Duration(n)*time.Second/10), 5000+n, one(n))
		e.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: one(n)}
		p.Process(e)
	}
	both := false
	for _, q := range a.questions {
		both = both || q.Both && q.Prefix.Bits == 128
	}
	if !both {
		t.Errorf("strangers are not asked beside them: %+v", a.questions)
	}
}
