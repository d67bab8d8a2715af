package replay

import (
	"cmp"
	"slices"
	"time"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/verdict"
)

// Bounds on what a report tracks separately; anything beyond is counted together.
const (
	maxSubjects = 1_000_000
	maxStops    = 100_000
	maxReasons  = 1000
	maxUsers    = 10_000
	maxClaims   = 1000
	maxAgent    = 200 // bytes kept of a User-Agent
)

// Report is what a configuration would have done to the recorded traffic. All counts are of requests unless stated
// otherwise.
type Report struct {
	Config   string    `json:"config"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Requests uint64    `json:"requests"`
	Pages    uint64    `json:"pages"` // requests that are not parts of pages
	Bytes    uint64    `json:"bytes"`
	Subjects int       `json:"subjects"` // at most a million are distinguished
	Unrouted uint64    `json:"unrouted"` // for hosts that no service is configured for
	White    uint64    `json:"white"`    // white-listed, including verified crawlers

	Stopped         uint64 `json:"stopped"` // captcha and blocked
	Captcha         uint64 `json:"captcha"`
	Blocked         uint64 `json:"blocked"`
	StoppedPages    uint64 `json:"stopped_pages"`
	StoppedBytes    uint64 `json:"stopped_bytes"`
	StoppedSubjects int    `json:"stopped_subjects"`
	DeclaredRobots  int    `json:"stopped_declared_robots"` // of the stopped subjects, those whose User-Agent says so

	Reasons  []Reason  `json:"reasons,omitempty"`
	Who      []Stop    `json:"who,omitempty"` // the most stopped first
	Crawlers []Crawler `json:"crawlers,omitempty"`
	// who was signed in and would have been stopped, the most stopped first
	People   []Person `json:"people,omitempty"`
	SignedIn int      `json:"signed_in"` // people who were signed in
	Series   Series   `json:"series"`
	Notes    []string `json:"notes,omitempty"`
}

// Reason is why requests would have been stopped.
type Reason struct {
	Verdict  string `json:"verdict"`
	Cause    string `json:"cause"`
	Reason   string `json:"reason"`
	Requests uint64 `json:"requests"`
	Subjects int    `json:"subjects"` // first stopped for this reason
}

// Stop is one subject that would have been stopped.
type Stop struct {
	Subject  string    `json:"subject"`
	First    time.Time `json:"first"` // when it would first have been stopped
	Last     time.Time `json:"last"`
	Before   uint64    `json:"before"`   // requests until then
	Requests uint64    `json:"requests"` // that would have been stopped
	Total    uint64    `json:"total"`    // requests of the subject in total
	Verdict  string    `json:"verdict"`
	Cause    string    `json:"cause"`
	Reason   string    `json:"reason"`
	Score    float32   `json:"score,omitempty"`
	Model    string    `json:"model,omitempty"`
	Factors  []Factor  `json:"factors,omitempty"` // the strongest first
	Service  string    `json:"service"`
	Agent    string    `json:"agent,omitempty"` // User-Agent of the first stopped request
	Declared bool      `json:"declared_robot"`  // by the User-Agent
	Crawler  string    `json:"crawler,omitempty"`
	User     string    `json:"user,omitempty"` // who was signed in
	Request  string    `json:"request"`        // the first stopped one

	of  identity.Subject
	why *Reason // of the last request
}

// Factor is a number that counted towards a ban.
type Factor struct {
	Name   string  `json:"name"`
	Value  float32 `json:"value"`
	Amount float32 `json:"amount,omitempty"` // its part of the score, in log-odds
}

// Crawler is what would have happened to clients that declare one of the configuration's crawlers.
type Crawler struct {
	Name            string `json:"name"`
	Verified        uint64 `json:"verified"` // from published ranges
	VerifiedStopped uint64 `json:"verified_stopped"`
	Unknown         uint64 `json:"unknown"` // no ranges available; a live gateway asks DNS
	UnknownStopped  uint64 `json:"unknown_stopped"`
	Outside         uint64 `json:"outside"` // outside the published ranges
	OutsideStopped  uint64 `json:"outside_stopped"`
}

// Person is a signed-in user.
type Person struct {
	User     string    `json:"user"`
	Requests uint64    `json:"requests"`
	Stopped  uint64    `json:"stopped"`
	First    time.Time `json:"first,omitzero"` // when first stopped
	Reason   string    `json:"reason,omitempty"`
}

type tally struct {
	report   Report
	gateway  *Gateway
	describe func(d *verdict.Decision, addr string) string
	subjects map[identity.Subject]uint64
	stops    map[identity.Subject]*Stop
	reasons  map[Reason]*Reason
	crawlers map[string]*Crawler
	people   map[string]*Person
	apart    uint64 // requests whose address stood for all clients
	referers uint64 // requests with a Referer
	unread   uint64 // requests with captured headers of unknown names
	named    uint64 // requests of clients with a name instead of an address
	agents   uint64 // requests with a User-Agent
	typed    uint64 // requests for which the type of the answer is known
	asks     bool   // Options.Identity is set
	who      uint64 // requests for which the log names the visitor
	busiest  uint64
	busy     identity.Subject
}

func newTally(g *Gateway) *tally {
	t := &tally{
		gateway: g, subjects: map[identity.Subject]uint64{}, stops: map[identity.Subject]*Stop{},
		reasons: map[Reason]*Reason{}, crawlers: map[string]*Crawler{}, people: map[string]*Person{},
	}
	t.report.Config = g.Name
	t.describe = func(d *verdict.Decision, addr string) string {
		switch {
		case d.Entry != nil:
			text := d.Entry.List + ": " + g.judge.Cacher.Decisions().Describe(d.Entry, addr)
			if d.Entry.Reason != "" {
				text += " (" + d.Entry.Reason + ")"
			}
			return text
		case d.Ruling() != nil:
			return d.Ruling().Why()
		case d.Ban.Reason != "":
			return d.Ban.Reason
		}
		return d.Cause.String()
	}
	return t
}

// add counts one served request. crawler says that it declares to be a crawler that the configuration knows.
func (t *tally) add(a *asked, crawler bool, s *Served) {
	r, p := a.Record, &t.report
	if p.Requests == 0 {
		p.From = r.At
	}
	p.To = r.At
	p.Requests++
	p.Bytes += r.Answer.Bytes
	t.known(a)
	if s.Service == nil {
		p.Unrouted++
		p.Series.add(r.At, verdict.Human)
		return
	}
	page := !s.Static
	if page {
		p.Pages++
	}
	if s.Decision.Cause == verdict.CauseWhite {
		p.White++
	}
	winner := s.Identity.Winner()
	n := t.count(winner)
	if crawler {
		t.crawler(a, s)
	}
	person := t.person(r)
	if !s.Stopped {
		p.Series.add(r.At, verdict.Human)
		return
	}
	p.Series.add(r.At, s.Decision.Verdict)
	p.Stopped++
	p.StoppedBytes += r.Answer.Bytes
	if page {
		p.StoppedPages++
	}
	if s.Decision.Verdict == verdict.Blocked {
		p.Blocked++
	} else {
		p.Captcha++
	}
	t.stop(a, s, winner, n, person)
}

func (t *tally) known(r *asked) {
	if r.apart {
		t.apart++
	}
	if r.unread {
		t.unread++
	}
	if r.named {
		t.named++
	}
	if r.agent != nil {
		t.agents++
	}
	if r.get(nameReferer) != nil {
		t.referers++
	}
	if len(r.Answer.ContentType) > 0 {
		t.typed++
	}
	if len(r.Who) > 0 {
		t.who++
	}
}

// count returns how many requests the subject has made, including this one; 0 if it is beyond the bound.
func (t *tally) count(s identity.Subject) uint64 {
	n, known := t.subjects[s]
	if !known && len(t.subjects) >= maxSubjects {
		return 0
	}
	n++
	t.subjects[s] = n
	if n > t.busiest {
		t.busiest, t.busy = n, s
	}
	return n
}

func (t *tally) stop(a *asked, s *Served, winner identity.Subject, n uint64, person *Person) {
	r, d := a.Record, s.Decision
	why := d.Ban.Reason
	st := t.stops[winner]
	if st != nil && d.Cause != verdict.CauseBan && st.Cause == d.Cause.String() {
		why = st.Reason // looking it up again is slow
	} else if why == "" {
		why = t.describe(d, "ip:"+s.Identity.Addr.String())
	}
	reason := t.reason(st, d, why)
	reason.Requests++
	if person != nil {
		if person.Stopped++; person.Stopped == 1 {
			person.First, person.Reason = r.At, why
		}
	}
	if st == nil {
		if len(t.stops) >= maxStops {
			return
		}
		name, _ := t.gateway.crawler(a.agent, s.Identity.Addr)
		st = &Stop{
			of: winner, Subject: nameOf(winner, r), First: r.At, Before: max(n, 1) - 1, Verdict: d.Verdict.String(),
			Cause:  d.Cause.String(),
			Reason: why, Score: d.Score, Model: d.Ban.Model, Service: s.Service.Verdict.Name,
			Agent:    clip(a.agent, maxAgent),
			Declared: declaresRobot(a.agent), Crawler: name, User: clip(r.User, maxAgent),
			Request: clip(a.view.Method, 16) + " " + clip(a.view.Path, maxAgent),
		}
		for _, f := range d.Ban.Factors {
			if f.Name != "" {
				st.Factors = append(st.Factors, Factor(f))
			}
		}
		t.stops[winner] = st
		reason.Subjects++
	}
	st.Requests++
	st.Last, st.why = r.At, reason
}

// nameOf prints a subject; a user by the name in the log.
func nameOf(s identity.Subject, r *Record) string {
	if s.Kind == identity.KindL && len(r.Who) > 0 {
		return "L:" + clip(r.Who, maxAgent)
	}
	return s.String()
}

// reason returns the place of a reason, which is mostly that of the subject's last stop. st may be nil.
func (t *tally) reason(st *Stop, d *verdict.Decision, why string) *Reason {
	if st != nil && st.why.Reason == why && st.why.Verdict == d.Verdict.String() && st.why.Cause == d.Cause.String() {
		return st.why
	}
	k := Reason{Verdict: d.Verdict.String(), Cause: d.Cause.String(), Reason: why}
	r := t.reasons[k]
	if r == nil {
		if len(t.reasons) >= maxReasons {
			k = Reason{Verdict: k.Verdict, Cause: k.Cause, Reason: "other"}
			if r = t.reasons[k]; r != nil {
				return r
			}
		}
		r = &Reason{Verdict: k.Verdict, Cause: k.Cause, Reason: k.Reason}
		t.reasons[k] = r
	}
	return r
}

func (t *tally) crawler(a *asked, s *Served) {
	name, is := t.gateway.crawler(a.agent, s.Identity.Addr)
	if is == cbb.ClaimNone {
		return
	}
	c := t.crawlers[name]
	if c == nil {
		if len(t.crawlers) >= maxClaims {
			return
		}
		c = &Crawler{Name: name}
		t.crawlers[name] = c
	}
	all, stopped := &c.Unknown, &c.UnknownStopped
	switch is {
	case cbb.ClaimVerified:
		all, stopped = &c.Verified, &c.VerifiedStopped
	case cbb.ClaimOutside:
		all, stopped = &c.Outside, &c.OutsideStopped
	}
	*all++
	if s.Stopped {
		*stopped++
	}
}

func (t *tally) person(r *Record) *Person {
	if len(r.User) == 0 {
		return nil
	}
	p := t.people[string(r.User)]
	if p == nil {
		if len(t.people) >= maxUsers {
			return nil
		}
		p = &Person{User: clip(r.User, maxAgent)}
		t.people[string(r.User)] = p
	}
	p.Requests++
	return p
}

func (t *tally) finish() *Report {
	p := &t.report
	p.Subjects, p.StoppedSubjects, p.SignedIn = len(t.subjects), len(t.stops), len(t.people)
	for _, s := range t.stops {
		s.Total = max(t.subjects[s.of], s.Requests)
		if s.Declared = s.Declared && t.agents > 0; s.Declared {
			p.DeclaredRobots++
		}
		p.Who = append(p.Who, *s)
	}
	slices.SortFunc(p.Who, func(a, b Stop) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), a.First.Compare(b.First), cmp.Compare(a.Subject, b.Subject))
	})
	for _, r := range t.reasons {
		p.Reasons = append(p.Reasons, *r)
	}
	slices.SortFunc(p.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Reason, b.Reason))
	})
	for _, c := range t.crawlers {
		p.Crawlers = append(p.Crawlers, *c)
	}
	slices.SortFunc(p.Crawlers, func(a, b Crawler) int { return cmp.Compare(a.Name, b.Name) })
	for _, u := range t.people {
		if u.Stopped > 0 {
			p.People = append(p.People, *u)
		}
	}
	slices.SortFunc(p.People, func(a, b Person) int {
		return cmp.Or(cmp.Compare(b.Stopped, a.Stopped), cmp.Compare(a.User, b.User))
	})
	t.notes()
	return p
}
