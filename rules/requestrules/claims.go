package requestrules

import (
	"context"
	"errors"
	"strings"

	"antirobot/rules"
	"antirobot/verdict"
)

// A request may claim another method than its own, and services differ in which they believe. If rules read the method, it
// is judged as each of them, and the strictest ruling counts; what it adds to counters it adds once.

// errClaims is why rules that read the method can't judge.
var errClaims = errors.New("the request claims more methods than can be judged")

// readsMethod reports whether a rule of p looks at the method; it may say so of rules that do not.
func readsMethod(p *rules.Program) bool {
	if p == nil {
		return false
	}
	for _, s := range p.Script().Statements {
		for _, a := range s.Params {
			for name := range strings.SplitSeq(a.Value.Text, ",") {
				if strings.TrimSpace(name) == "method" {
					return true
				}
			}
		}
	}
	return false
}

// judgeClaims replaces r by the ruling over a method that the request claims, if that is stricter.
func (s *Ruleset) judgeClaims(ctx context.Context, r *verdict.Ruling, j *run) {
	other := new(verdict.Ruling)
	keep := func(err error) {
		s.conclude(other, err)
		if other.Action > r.Action {
			*r, *other = *other, *r
		}
	}
	for _, m := range j.view.Claims {
		j.method = m
		j.once.Again()
		err := s.program.Run(ctx, &j.env, &j.run)
		other.Take(s.program, &j.run)
		keep(err)
	}
	if j.view.Overclaims {
		keep(errClaims)
	}
}
