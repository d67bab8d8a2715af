package lab

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// entry judges an entry of the journal twice.
func (r *run) entry(e *journal.Entry) {
	sub, err := identity.ParseSubject(e.Subject)
	if err != nil || e.Kind != "request" && e.Kind != "solved" {
		return
	}
	s := r.of(r.Visits.Who(sub), sub.Kind)
	if s == nil {
		return
	}
	if s.name == "" {
		s.name, s.request = e.Subject, e.ID
		if !s.robot && !s.person && r.Established(sub) {
			s.person, s.ground = true, "established"
		}
	}
	if e.Kind == "solved" {
		if !s.robot && !s.person {
			s.person, s.ground = true, "solved"
		}
		return
	}
	before, after := r.before.at(e.Service, e.Path), r.after.at(e.Service, e.Path)
	if before == nil || after == nil || e.Mode == "off" {
		return
	}
	weight := 1.0
	if e.Share > 0 {
		weight = 1 / float64(e.Share)
	}
	was, would := r.judge(e, s, before, after)
	switch {
	case !was && would:
		s.stop += weight
	case was && !would:
		s.free += weight
	}
}

// judge says whether a request is stopped with the settings before and after.
func (r *run) judge(e *journal.Entry, s *subject, before, after *verdict.Settings) (was, would bool) {
	switch e.Cause {
	case verdict.CauseNone.String():
		would = s.stopped[0] == 0 && s.stopped[1] != 0 && e.At.UnixMilli() >= s.stopped[1] // it has passed
	case verdict.CauseBan.String(), verdict.CauseDoubt.String():
		d := r.decided(e)
		if d.other {
			return true, true // an operator's ban
		}
		was, would = d.would(before), d.would(after)
		if !d.pace && r.before.Model != r.after.Model {
			if !s.rows {
				r.notes[noteUnsampled] = true
				return was, was
			}
			would = s.stopped[1] != 0
		}
		s.told = s.told || was != would
	case verdict.CauseRule.String():
		was, would = true, true
	default:
		return true, true // a list, a budget: nothing that is changed here
	}
	if before.Rules != nil || after.Rules != nil {
		ruled, wouldRule := r.rules(e, before), r.rules(e, after)
		if ruled != wouldRule {
			r.notes[noteRules] = true
			s.told = true
			if e.Cause == verdict.CauseRule.String() {
				would = wouldRule
			}
			would = would || wouldRule
		}
	}
	return was, would
}

// banKey names a ban, or a doubt, that many requests met.
type banKey struct{ subject, reason, cause string }

// decided is what a ban or a doubt was made of.
type decided struct {
	other bool // nothing that the settings decide
	pace  bool
	score float32

	counted string  // the factor: pages or calls, and the window
	seen    float32 // so many
	times   float32 // by which the limit was multiplied for the subject
}

// decided returns what stopped a request, or left it in doubt.
func (r *run) decided(e *journal.Entry) decided {
	key := banKey{e.Subject, e.Reason, e.Cause}
	if d, ok := r.bans[key]; ok {
		return d
	}
	d := decided{other: true}
	if id, ok := request.ParseID(e.ID); ok {
		if told, ok, err := r.Journal.Get(id); err == nil && ok && told.Story != nil {
			d = ofStory(told.Story)
		}
	}
	if len(r.bans) < maxSubjects {
		r.bans[key] = d
	}
	return d
}

func ofStory(s *verdict.Story) decided {
	switch {
	case s.Doubt != nil:
		return decided{score: s.Doubt.Score}
	case s.Ban == nil || s.Ban.Source != bans.SourceProcessor.String():
		return decided{other: true}
	}
	d := decided{score: s.Ban.Score, times: 1}
	limit, pace := s.Ban.Factors["limit"]
	var most float32
	if _, err := fmt.Sscanf(s.Ban.Reason, "pace: more than %g", &most); !pace || err != nil {
		return d
	}
	d.pace, d.times = true, max(limit/max(most, 1), 1)
	for name, v := range s.Ban.Factors {
		if strings.HasPrefix(name, "pages_") || strings.HasPrefix(name, "calls_") {
			d.counted, d.seen = name, v
		}
	}
	return d
}

// would reports whether the settings would have stopped it.
func (d *decided) would(s *verdict.Settings) bool {
	if !d.pace {
		return d.score > s.Threshold
	}
	for _, l := range s.Limits {
		switch d.counted {
		case "pages_" + l.Window.String():
			return d.seen > float32(l.Requests)*d.times
		case "calls_" + l.Window.String():
			return d.seen > float32(l.Requests)*max(s.CallFactor, 1)*d.times
		}
	}
	return false
}

// rules reports whether the rules of a place stop a request, as far as the journal knows it.
func (r *run) rules(e *journal.Entry, s *verdict.Settings) bool {
	if s.Rules == nil {
		return false
	}
	v := &request.View{
		At: e.At, Method: []byte(e.Method), Target: []byte(e.Path), Path: []byte(e.Path), JA4: []byte(e.JA4),
		Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte(e.Agent)}},
	}
	var id identity.Identity
	if addr, err := netip.ParseAddr(e.Address); err == nil {
		id.Addr = addr.Unmap()
		id.Net = identity.NetOf(id.Addr)
		id.Subjects[0], id.N = identity.AddrSubject(id.Addr), 1
	}
	if sub, err := identity.ParseSubject(e.Subject); err == nil && (id.N == 0 || sub != id.Subjects[0]) {
		id.Subjects[1], id.Subjects[0] = id.Subjects[0], sub
		id.N++
	}
	r.ruling = verdict.Ruling{}
	s.Rules.Judge(&r.ruling, v, &id, s, verdict.Human)
	return r.ruling.Action >= verdict.RuleRobot
}

// sum adds up what was found.
func (r *run) sum() *Rehearsal {
	out := &r.out
	out.Subjects = len(r.all)
	out.Stopped.Grounds, out.Free.Grounds = map[string]int{}, map[string]int{}
	for _, s := range r.all {
		if s.stop > 0 || s.stopped[0] == 0 && s.stopped[1] != 0 {
			if s.stop == 0 {
				s.stop = math.Max(1, float64(s.pages-s.pagesAt))
			}
			out.Stopped.add(s, s.stop, out.Sample)
		}
		if s.free > 0 || s.stopped[0] != 0 && s.stopped[1] == 0 && !s.told && s.rows {
			if s.free == 0 {
				s.free = math.Max(1, float64(s.pages-s.pagesAt))
			}
			out.Free.add(s, s.free, out.Sample)
		}
	}
	out.Stopped.sort()
	out.Free.sort()
	out.Notes = []string{}
	for name := range r.notes {
		out.Notes = append(out.Notes, name)
	}
	slices.Sort(out.Notes)
	return out
}

func (g *Group) add(s *subject, pages, sample float64) {
	g.Subjects++
	g.Pages += pages
	if s.told || sample == 0 {
		g.About++
	} else {
		g.About += 1 / sample
	}
	switch {
	case s.person:
		g.People++
		g.PeoplePages += pages
		g.Grounds[s.ground]++
	case s.robot:
		g.Robots++
		g.RobotPages += pages
	}
	g.Examples = append(g.Examples, Example{
		Subject: s.name, Request: s.request, Kind: s.kind.String(), Ground: s.ground, Person: s.person, Before: s.score[0], After: s.score[1], Pages: pages,
	})
	if len(g.Examples) == 64*maxExamples {
		g.sort()
	}
}

// sort keeps the first examples: people, then who asks for most.
func (g *Group) sort() {
	slices.SortFunc(g.Examples, func(a, b Example) int {
		switch {
		case a.Person != b.Person && a.Person:
			return -1
		case a.Person != b.Person:
			return 1
		}
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Subject, b.Subject))
	})
	g.Examples = append([]Example{}, g.Examples[:min(len(g.Examples), maxExamples)]...)
}
