package requestrules

import (
	"context"
	"errors"
	"strings"

	"antirobot/rules"
	"antirobot/verdict"
)

// A request may claim another method, and services differ in which one they believe. Rules that read the method
// judge each of them; the strictest ruling counts, and counters are added to once.

var errClaims = errors.New("the request claims more methods than can be judged")

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
