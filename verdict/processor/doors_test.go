package processor

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// visit opens a page from outside, and one part of it if parts is set.
func visit(p *Processor, at time.Time, addr netip.Addr, page string, parts bool) {
	e := event(at, 0)
	e.Subjects[0], e.N = identity.AddrSubject(addr), 1
	e.Type, e.Document, e.Method = verdict.TypeHTML, true, 'G'
	e.Path, e.Target = hashPath(page), hashPath(page)
	e.Claim = client.ParseClaim([]byte(firefox))
	p.Process(e)
	if !parts {
		return
	}
	part := *e
	part.At, part.Page, part.Document, part.Static, part.Type = at.Add(time.Second), false, false, true, verdict.TypePart
	p.Process(&part)
}

// TestDoors: who comes in by pages that nobody comes in by stands out from the first of them on; a page that reloads
// itself is one door, and where everybody comes in by another page, nobody stands out.
func TestDoors(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for i := range 200 { // people come in by one of ten pages, and go on
		w := &walk{p: p, n: (1000 + i) << 8, at: at.Add(time.Duration(i) * time.Minute)}
		door := fmt.Sprintf("/door/%d", i%10)
		w.load(door, "", 0)
		w.load(fmt.Sprintf("/in/%d", i), door, 10*time.Second)
		w.load(fmt.Sprintf("/in/%d", i+1), fmt.Sprintf("/in/%d", i), 10*time.Second)
	}
	at = at.Add(4 * time.Hour)
	person, list, again := &walk{p: p, n: 1, at: at}, &walk{p: p, n: 2, at: at}, &walk{p: p, n: 3, at: at}
	for i := range 4 {
		person.load(fmt.Sprintf("/door/%d", i), "", time.Minute)
		list.load(fmt.Sprintf("/list/%d", i), "", time.Minute)
		again.load("/board", "", time.Minute)
	}
	if of := person.factors(); of["entry_odd"] > -0.5 {
		t.Errorf("by the doors of others: %v", of["entry_odd"])
	}
	if of := list.factors(); of["entry_odd"] < 0.4 || of["entry_odds"] < 3*of["entry_odd"] {
		t.Errorf("by a list: %v, %v together", of["entry_odd"], of["entry_odds"])
	}
	if of := again.factors(); of["entry_odds"] > of["entry_odd"]+0.01 {
		t.Errorf("a page that reloads itself: %v, %v together", of["entry_odd"], of["entry_odds"])
	}
}

func hash32(i int) uint32 { return uint32(hashPath(fmt.Sprint("/page/", i))) }

// TestReloadEndsNoDoor: a page is a door also where it reloads itself before people go on from it.
func TestReloadEndsNoDoor(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for i := range 200 {
		w := &walk{p: p, n: (1000 + i) << 8, at: at.Add(time.Duration(i) * time.Minute)}
		door := fmt.Sprintf("/door/%d", i%10)
		w.load(door, "", 0)
		w.load(door, door, 10*time.Second)
		w.load(fmt.Sprintf("/in/%d", i), door, 10*time.Second)
	}
	w := &walk{p: p, n: 1, at: at.Add(4 * time.Hour)}
	for i := range 4 {
		w.load(fmt.Sprintf("/door/%d", i), "", time.Minute)
	}
	if odd := w.factors()["entry_odd"]; !(odd < -0.5) {
		t.Errorf("by the doors of others, whose pages reload themselves: %v", odd)
	}
}

// TestStoppedTeachesNoDoor: a page is no door because of somebody who was stopped at the next one; who goes on after all makes
// it one.
func TestStoppedTeachesNoDoor(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for i := range 100 { // people come in by one of ten pages, and go on
		w := &walk{p: p, n: (1000 + i) << 8, at: at}
		w.load(fmt.Sprintf("/door/%d", i%10), "", 0)
		w.load(fmt.Sprintf("/in/%d", i), fmt.Sprintf("/door/%d", i%10), 10*time.Second)
	}
	odd := func(n int) float32 {
		w := &walk{p: p, n: n, at: at}
		w.load("/trap", "", time.Hour)
		w.load("/in/1", "/trap", time.Second)
		w.load("/trap", "", time.Minute)
		return w.factors()["entry_odd"]
	}
	for i := range 20 {
		w := &walk{p: p, n: (2000 + i) << 8, at: at}
		w.load("/trap", "", time.Minute)
		w.verdict = verdict.Robot
		w.load("/in/1", "/trap", time.Second)
	}
	before := odd(1)
	if before < 0.3 {
		t.Errorf("a page after which everybody was stopped: %v", before)
	}
	for i := range 20 {
		w := &walk{p: p, n: (3000 + i) << 8, at: at, verdict: verdict.Robot}
		w.load("/trap", "", time.Minute)
		w.verdict = verdict.Human
		w.load("/trap", "", time.Minute)
		w.verdict = verdict.Robot
		w.load("/in/1", "/trap", time.Second)
		w.verdict = verdict.Human
		w.load("/in/1", "/trap", time.Minute)
	}
	if after := odd(2); after > before-0.5 {
		t.Errorf("a page from which people go on after all: %v, %v before", after, before)
	}
}

// TestHeralds: behind an address that opens links before people do, others open the same pages; who only opens pages
// that people happen to open, too, is no herald, nor is one after whom nobody loads parts.
func TestHeralds(t *testing.T) {
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(i >> 8), byte(i), 7}) }
	of := func(p *Processor, a netip.Addr, at time.Time) float32 {
		return p.group(groupKey{role: roleNetwork, id: identity.NetworkOf(identity.AddrSubject(a).ID)}, at).herald
	}
	for name, c := range map[string]struct {
		follows     bool // half of its pages are opened by somebody right afterwards …
		parts       bool // … who loads parts
		busy        int  // how many others open each page in an hour, at any time
		least, most float32
	}{
		"a scanner of links":   {true, true, 0, 2, 8},
		"nobody follows":       {false, true, 0, -4, 0},
		"without parts":        {true, false, 0, -4, 0},
		"pages that many open": {false, true, 30, -4, 1},
	} {
		p, _ := newProcessor(t, nil)
		at := time.Unix(1.8e9, 0)
		for i := range 40 {
			page := fmt.Sprintf("/link/%d", i)
			for k := range c.busy {
				visit(p, at.Add(time.Duration(k)*time.Minute), addr(3000+i*64+k), page, true)
			}
			at = at.Add(time.Duration(c.busy)*time.Minute + 10*time.Minute)
			visit(p, at, addr(1), page, false)
			if c.busy > 0 || c.follows && i%2 == 0 {
				visit(p, at.Add(40*time.Second), addr(10+i), page, c.parts)
			}
		}
		if got := of(p, addr(1), at); got < c.least || got > c.most {
			t.Errorf("%s: %v, want %v to %v", name, got, c.least, c.most)
		}
	}
}
