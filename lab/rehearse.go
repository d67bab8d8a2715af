package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
)

// Place is how a service, or a path of one, is judged.
type Place struct {
	Prefix   string // of the paths; empty: the whole service
	Settings *verdict.Settings
}

// Regime is how all services are judged.
type Regime struct {
	Model  *formula.Model
	Places []Place
}

// at returns the place of a request; nil if there is no such service.
func (r *Regime) at(service, path string) *verdict.Settings {
	var best *Place
	for i := range r.Places {
		p := &r.Places[i]
		if p.Settings.Name == service && strings.HasPrefix(path, p.Prefix) && (best == nil || len(p.Prefix) > len(best.Prefix)) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	return best.Settings
}

// byNumber returns the place whose settings have a number.
func (r *Regime) byNumber(n uint16) *verdict.Settings {
	for i := range r.Places {
		if r.Places[i].Settings.Index == n {
			return r.Places[i].Settings
		}
	}
	return nil
}

// Journal is what a rehearsal reads of what was decided. *journal.Journal is it.
type Journal interface {
	Walk(ctx context.Context, since time.Time, f func(e *journal.Entry) bool) (reached time.Time, err error)
	Get(id request.ID) (journal.Told, bool, error)
}

// Visits is what a rehearsal reads of visits. *processor.Processor is it.
type Visits interface {
	Sample() float64
	Who(s identity.Subject) uint64
	Rows(since, now time.Time, f func(v *training.Row) error) error
	Weigh(t *processor.Tally, m *formula.Model, v *training.Row) float32
	Stops(score, threshold float32, v *training.Row) bool
	Over(limits []verdict.Limit, v *training.Row) bool
}

// Deps is what a rehearsal works with. Journal may be nil, the others are required.
type Deps struct {
	Journal     Journal
	Visits      Visits
	Established func(s identity.Subject) bool
}

// Rehearsal is what a change would have done.
type Rehearsal struct {
	Since    time.Time `json:"since"`
	Reached  time.Time `json:"reached,omitzero"` // how far back the journal was looked at, if not to since
	Entries  int       `json:"entries"`          // of the journal
	Rows     int       `json:"rows"`             // of the training log
	Subjects int       `json:"subjects"`         // of both
	Sample   float64   `json:"sample"`           // the share of the subjects that the training log has

	Stopped Group    `json:"newly_stopped"`
	Free    Group    `json:"newly_free"`
	Notes   []string `json:"notes"` // what could not be rehearsed: keys for the console's texts
}

// Group is the subjects for whom a change makes the same difference.
type Group struct {
	Subjects int            `json:"subjects"` // found
	About    float64        `json:"about"`    // found, those of a sample by what they stand for
	People   int            `json:"people"`   // of those found, known to be people
	Robots   int            `json:"robots"`   // … and known to be robots
	Grounds  map[string]int `json:"grounds"`  // on which people are known: established, signed-in, solved, or the source of a label
	Pages    float64        `json:"pages"`    // requests that would be stopped, or no longer, those of a sample by what they stand for
	Examples []Example      `json:"examples"` // people first

	PeoplePages float64 `json:"people_pages"` // of these requests, those of subjects known to be people
	RobotPages  float64 `json:"robot_pages"`  // … and of those known to be robots
}

// Example is one of a group.
type Example struct {
	Subject string  `json:"subject,omitempty"` // empty: only the training log knows of it, which has no names
	Request string  `json:"request,omitempty"` // the newest one
	Kind    string  `json:"kind"`              // of the subject
	Ground  string  `json:"ground,omitempty"`  // on which it is known to be a person, or a robot
	Person  bool    `json:"person"`
	Before  float32 `json:"before"` // the highest score with the settings that there are
	After   float32 `json:"after"`  // and with the others; 0 if unknown
	Pages   float64 `json:"pages"`
}

// The notes.
const (
	noteWindow    = "window" // a limit's window is none that the training log counts
	noteNoLog     = "no-log" // there is no training log
	noteNoJournal = "no-journal"
	noteUnsampled = "unsampled" // requests of subjects that the training log lacks could not be judged by the other model
	noteRules     = "rules"     // rules saw what the journal keeps: no query, no fields but User-Agent
	noteFull      = "full"      // there were more subjects than are counted
	noteTime      = "time"      // it was cut short
	noteRaised    = "raised"    // who is freed by a higher limit may go on up to it
)

const (
	maxSubjects = 500_000
	maxExamples = 20
)

// errTime ends what takes too long.
var errTime = errors.New("out of time")

// Rehearse judges what is remembered since a time with the settings that there are and with others.
func Rehearse(ctx context.Context, d Deps, before, after *Regime, since, now time.Time) (*Rehearsal, error) {
	r := &run{Deps: d, before: before, after: after, all: map[uint64]*subject{}, notes: map[string]bool{}, bans: map[banKey]decided{}}
	r.out.Since, r.out.Sample = since.UTC(), d.Visits.Sample()
	r.limits()
	if r.out.Sample == 0 {
		r.notes[noteNoLog] = true
	}
	err := d.Visits.Rows(since, now, func(v *training.Row) error {
		if r.out.Rows%1024 == 0 && ctx.Err() != nil {
			return errTime
		}
		r.vector(v)
		return nil
	})
	switch {
	case errors.Is(err, errTime):
		r.notes[noteTime] = true
	case err != nil:
		return nil, fmt.Errorf("rehearse on the training log: %w", err)
	}
	if d.Journal == nil {
		r.notes[noteNoJournal] = true
		return r.sum(), nil
	}
	reached, err := d.Journal.Walk(ctx, since, func(e *journal.Entry) bool {
		r.out.Entries++
		r.entry(e)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("rehearse on the journal: %w", err)
	}
	if reached.After(since) {
		r.out.Reached = reached
	}
	return r.sum(), nil
}

// subject is what is known of one while it is rehearsed.
type subject struct {
	name    string
	request string // the newest one
	kind    identity.Kind
	ground  string
	person  bool
	robot   bool
	rows    bool // the training log has it
	told    bool // the journal itself shows that the change concerns it

	visit          [2]processor.Tally // before and after
	stopped        [2]int64           // when it would first have been stopped, unix milliseconds; 0: never
	score          [2]float32         // the highest
	pagesAt, pages float32            // when the difference began, and at last
	stop, free     float64            // requests
}

// run is one rehearsal.
type run struct {
	Deps
	before, after *Regime
	all           map[uint64]*subject
	bans          map[banKey]decided
	notes         map[string]bool
	out           Rehearsal
	ruling        verdict.Ruling
}

// limits notes what of them can't be rehearsed.
func (r *run) limits() {
	for _, p := range r.after.Places {
		old := r.before.at(p.Settings.Name, p.Prefix)
		for i, l := range p.Settings.Limits {
			same := old != nil && i < len(old.Limits) && old.Limits[i] == l
			if !same && !processor.Rehearsed(l.Window) {
				r.notes[noteWindow] = true
			}
			if !same && old != nil && i < len(old.Limits) && old.Limits[i].Requests < l.Requests {
				r.notes[noteRaised] = true
			}
		}
	}
}

// of returns the record of a subject, or nil if there are too many.
func (r *run) of(who uint64, kind identity.Kind) *subject {
	s := r.all[who]
	switch {
	case s != nil:
	case len(r.all) == maxSubjects:
		r.notes[noteFull] = true
		return nil
	default:
		s = &subject{kind: kind}
		if kind.SignedIn() {
			s.person, s.ground = true, "signed-in"
		}
		r.all[who] = s
	}
	return s
}

// vector judges a row of the training log twice.
func (r *run) vector(v *training.Row) {
	r.out.Rows++
	s := r.of(v.Who, v.Kind)
	if s == nil {
		return
	}
	s.rows = true
	switch v.Label {
	case formula.Person:
		s.person, s.ground = true, v.Source
	case formula.Robot:
		s.robot, s.person, s.ground = true, false, v.Source
	}
	if v.Late {
		return
	}
	if s.pages = max(s.pages, processor.Pages(v)); s.stopped == [2]int64{} {
		s.pagesAt = s.pages
	}
	for i, regime := range [...]*Regime{r.before, r.after} {
		place := regime.byNumber(v.Service)
		if place == nil {
			continue
		}
		score := r.Visits.Weigh(&s.visit[i], regime.Model, v)
		s.score[i] = max(s.score[i], score)
		if s.stopped[i] == 0 && (r.Visits.Stops(score, place.Threshold, v) || r.Visits.Over(place.Limits, v)) {
			s.stopped[i] = v.At.UnixMilli()
		}
	}
}
