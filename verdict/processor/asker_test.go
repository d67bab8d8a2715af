package processor

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

// asker is a keeper of bans that records what is asked.
type asker struct {
	bench
	questions []verdict.Question
	near      []identity.Prefix // that are near their budgets
	barely    map[identity.Prefix]float32
	listed    map[uint32]bool // clients that load no parts, as of …
	at        time.Time       // … this time
	stands    bool
	trusted   []identity.Subject
	read      []identity.Subject // who have read for long, with the parts of their pages or without
	company   int                // how many there are like each visitor of whom little is known
	proven    int                // who have read at each address for longer
	returned  int                // visitors of each address who have come back; whoever asks is one of them
}

func (a *asker) Ask(q *verdict.Question) { a.questions = append(a.questions, *q) }

func (a *asker) Near(x identity.Prefix, _ time.Time) { a.near = append(a.near, x) }

func (a *asker) Barely(x identity.Prefix, share float64, _ time.Time) {
	if a.barely == nil {
		a.barely = map[identity.Prefix]float32{}
	}
	a.barely[x] = float32(share)
}

func (a *asker) ListBare(client uint32, until time.Time) {
	if a.listed == nil {
		a.listed = map[uint32]bool{}
	}
	a.listed[client] = until.After(a.at)
}

func (a *asker) Stands(*verdict.Event) bool { return a.stands }

func (a *asker) Trust(e *verdict.Event, _ time.Time, parts bool) {
	if a.read = append(a.read, e.Subjects[0]); parts {
		a.trusted = append(a.trusted, e.Subjects[0])
	}
}

func (a *asker) Returns(*verdict.Event) bool { return a.returned > 0 }

func (a *asker) ReturnedAt([16]byte, time.Time) int { return a.returned }

func (a *asker) ProvenAt([16]byte) int { return a.proven }

func (a *asker) Company(*verdict.Event) int { return a.company }

func newAsker(t *testing.T, edit func(*Config)) (*Processor, *asker) {
	t.Helper()
	a := &asker{}
	return newProcessorFor(t, a, edit), a
}

// reading makes the nth page of a visitor, from an address that may differ each time.
func reading(at time.Time, n int, id [16]byte) *verdict.Event {
	e := event(at, 0)
	e.Subjects[0].ID = id
	e.Target, e.Path = uint64(n)*0x9e3779b97f4a7c15, uint64(n)*0x9e3779b97f4a7c15
	e.Page = true
	e.Answered(200, []byte("text/html"), 1000, 0)
	return e
}

func picture(e *verdict.Event) *verdict.Event {
	e.Static, e.Page = true, false
	e.Answered(200, []byte("image/webp"), 1000, 0)
	return e
}

// one is the address of a visitor that keeps it.
func one(int) [16]byte { return [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: 0, 14: 113, 15: 9} }
