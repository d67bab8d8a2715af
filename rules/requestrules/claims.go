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
		j.as(m)
		err := s.program.Run(ctx, &j.env, &j.run)
		other.Take(s.program, &j.run)
		keep(err)
	}
	if j.view.Overclaims {
		keep(errClaims)
	}
}

// counted is what the runs over one request added to counters, and read there. The zero value is ready for use.
type counted struct {
	run  int // the present one
	seen map[string]reading
}

// reading is what a run was told of a counter: one number or two.
type reading struct {
	run  int
	a, b uint64
}

// as begins another run over the same request, as if it had this method.
func (r *run) as(method []byte) {
	r.method = method
	r.counted.run++
}

// once asks for a counter, unless an earlier run over the same request has asked the same: then it has the same answer. key
// says what is asked. A request that claims no method has one run, for which nothing is kept.
func (r *run) once(key func() string, ask func() (reading, error)) (reading, error) {
	if len(r.view.Claims) == 0 {
		return ask()
	}
	c, k := &r.counted, key()
	if had, ok := c.seen[k]; ok && had.run < c.run {
		return had, nil
	}
	now, err := ask()
	if err != nil {
		return now, err
	}
	if c.seen == nil {
		c.seen = make(map[string]reading)
	}
	now.run = c.run
	c.seen[k] = now
	return now, nil
}
