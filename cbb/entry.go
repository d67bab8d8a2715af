package cbb

import (
	"fmt"
	"time"
)

// Flag is what a list says about its entries.
type Flag uint8

// The flags.
const (
	Block    Flag = iota // 403
	Ban                  // captcha
	White                // never challenged
	ForRules             // nothing: rules look it up
)

func (f Flag) String() string {
	switch f {
	case Block:
		return "block"
	case Ban:
		return "ban"
	case White:
		return "white"
	case ForRules:
		return "rules"
	default:
		return fmt.Sprintf("flag(%d)", uint8(f))
	}
}

// ParseFlag reads a flag by its name.
func ParseFlag(s string) (Flag, error) {
	for _, f := range []Flag{Block, Ban, White} {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown flag %q: block, ban or white", s)
}

// Entry is one line of a list, or what several lines of a list share. It is immutable and may be kept.
type Entry struct {
	List   string // name of the list; "api", "inline", "patterns" and "crawlers" are the gateway's
	Text   string // the entry as written; empty for networks and subjects of fetched lists, see Lists.Describe
	Reason string
	Flag   Flag
	// Service is the one service that the entry is for, empty for all.
	Service string
	// Until is when the entry ends; zero for never.
	Until time.Time
	// Own marks entries written by the operator: in the configuration, in a local file declared own, or over the API.
	Own bool
	// Provisional marks a White that applies only while a crawler's address is being looked up.
	Provisional bool
}

// live reports whether the entry applies at a given time.
func (e *Entry) live(at time.Time) bool { return e.Until.IsZero() || at.Before(e.Until) }

// Match is what Lookup found: one entry for each flag, nil if there is none. An entry made at run time is preferred to
// one of a list, a service's own to one for all services, a longer prefix to a shorter one.
type Match struct {
	OwnBlock *Entry // a block that the operator wrote
	White    *Entry
	Block    *Entry // a block of a fetched list
	Ban      *Entry
	Liar     bool // declares a crawler that it is known not to be
}

// The fields of a Match, as indices.
const (
	slotOwnBlock = iota
	slotWhite
	slotBlock
	slotBan
	slots
)

// slot is the field of a Match that the entry fills.
func (e *Entry) slot() int {
	switch e.Flag {
	case White:
		return slotWhite
	case Ban:
		return slotBan
	default:
		if e.Own {
			return slotOwnBlock
		}
		return slotBlock
	}
}

// at returns the field that a slot stands for.
func (m *Match) at(slot int) **Entry {
	switch slot {
	case slotOwnBlock:
		return &m.OwnBlock
	case slotWhite:
		return &m.White
	case slotBlock:
		return &m.Block
	default:
		return &m.Ban
	}
}

// fill puts e into its field unless something better is already there.
func (m *Match) fill(e *Entry) {
	if p := m.at(e.slot()); *p == nil {
		*p = e
	}
}

// set holds all entries that cover one prefix, or name one subject.
type set struct {
	all [slots]*Entry // entries for all services
	own []serviceSet  // entries of single services; almost always empty
}

type serviceSet struct {
	service string
	e       [slots]*Entry
}

// fill copies the set's entries for a service into the free fields of m.
func (s *set) fill(m *Match, service string) {
	for i := range s.own {
		if s.own[i].service == service {
			m.fillFrom(&s.own[i].e)
			break
		}
	}
	m.fillFrom(&s.all)
}

func (m *Match) fillFrom(e *[slots]*Entry) {
	if m.OwnBlock == nil {
		m.OwnBlock = e[slotOwnBlock]
	}
	if m.White == nil {
		m.White = e[slotWhite]
	}
	if m.Block == nil {
		m.Block = e[slotBlock]
	}
	if m.Ban == nil {
		m.Ban = e[slotBan]
	}
}

// with returns a copy of the set with e in its field.
func (s *set) with(e *Entry) set {
	t := *s
	if e.Service == "" {
		t.all[e.slot()] = e
		return t
	}
	t.own = append([]serviceSet(nil), s.own...)
	for i := range t.own {
		if t.own[i].service == e.Service {
			t.own[i].e[e.slot()] = e
			return t
		}
	}
	ss := serviceSet{service: e.Service}
	ss.e[e.slot()] = e
	t.own = append(t.own, ss)
	return t
}
