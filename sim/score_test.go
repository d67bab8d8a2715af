package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
)

// fate is what happened to one client.
type fate struct {
	kind     Kind
	habit    string
	number   int
	requests int
	stopped  int
	before   int  // requests before the first that was stopped
	taken    bool // for a robot; otherwise only challenged for how much is read
	checks   int  // silent checks that its browser took
	at       time.Time
	subject  string
	why      string
}

// fates counts what happens to each client.
type fates map[string]*fate

func (f fates) add(r *Request, served *replay.Served) {
	name := fmt.Sprint(r.Kind, " ", r.Client)
	one := f[name]
	if one == nil {
		one = &fate{kind: r.Kind, habit: r.Habit, number: r.Client}
		f[name] = one
	}
	one.requests++
	switch {
	case served == nil || !served.Stopped || r.Led:
		return
	case r.Check:
		one.checks++
		return
	}
	one.taken = one.taken || !served.Asked()
	if one.stopped++; one.stopped == 1 {
		d := served.Decision
		one.before, one.at, one.subject, one.why = one.requests-1, r.View.At, d.Ban.Subject.String(), served.Why()
	}
}

// hurt returns the people who were stopped.
func (f fates) hurt() (list []*fate) {
	for _, one := range f {
		if !one.kind.robot() && one.stopped > 0 {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *fate) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.number, b.number)) })
	return list
}

// outcome is what happened to several clients.
type outcome struct {
	clients, requests int
	stopped           int // clients
	challenged        int // of these, those never taken for robots
	checked           int // others, who took silent checks
	checks            int
	before            int // requests before the first that was stopped, for the median of the stopped
}

func outcomeOf(list []*fate) (o outcome) {
	var before []int
	for _, one := range list {
		o.clients++
		o.requests += one.requests
		o.checks += one.checks
		switch {
		case one.stopped > 0:
			o.stopped++
			before = append(before, one.before)
			if !one.taken {
				o.challenged++
			}
		case one.checks > 0:
			o.checked++
		}
	}
	if len(before) > 0 {
		slices.Sort(before)
		o.before = before[len(before)/2]
	}
	return o
}

// by returns what happened to the clients of each key.
func by[K comparable](f fates, key func(*fate) K) map[K]outcome {
	groups := map[K][]*fate{}
	for one := range maps.Values(f) {
		groups[key(one)] = append(groups[key(one)], one)
	}
	of := map[K]outcome{}
	for k, list := range groups {
		of[k] = outcomeOf(list)
	}
	return of
}

func byKind(f fates) map[Kind]outcome { return by(f, func(one *fate) Kind { return one.kind }) }

// fatesAt returns what becomes of the clients of made-up traffic at a server.
func fatesAt(t *testing.T, cfg Config, server Server) fates {
	t.Helper()
	f := fates{}
	err := Run(t.Context(), cfg, server, func(r *Request, s *replay.Served) error {
		f.add(r, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gatewayFor is a gateway with the defaults but for edit.
func gatewayFor(t *testing.T, cfg *Config, d replay.Deps, edit func(*config.Config)) *replay.Gateway {
	t.Helper()
	g, err := newGateway("", cfg, d, edit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}
