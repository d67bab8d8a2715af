package rules

import (
	"context"
	"math"
	"slices"
)

const (
	factorScore = "score"
	factorTag   = "tag_"
	factorCount = "count_"
)

// bindFormulas binds models once all tags are known.
func (c *compiler) bindFormulas() error {
	if len(c.bind) == 0 {
		return nil
	}
	p := c.program
	p.factors = append(p.factors, factorScore)
	for _, tag := range p.tags {
		p.factors = append(p.factors, factorTag+tag)
	}
	for i := range p.code {
		if !p.code[i].counts {
			continue
		}
		for _, n := range p.code[i].marks {
			name := factorCount + p.tags[n]
			at := slices.Index(p.factors, name)
			if at < 0 {
				at = len(p.factors)
				p.factors = append(p.factors, name)
			}
			p.code[i].count = append(p.code[i].count, at)
		}
	}
	for _, bind := range c.bind {
		if err := bind(p.factors); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) beginFactors(p *Program) {
	r.factors = slices.Grow(r.factors[:0], len(p.factors))[:len(p.factors)]
	clear(r.factors[:1+len(p.tags)])
	for i := 1 + len(p.tags); i < len(r.factors); i++ {
		r.factors[i] = float32(math.NaN())
	}
}

func (r *Run) observe(n float64) { r.number, r.observed = n, true }

func buildFormulaCheck(a *arguments) (check, error) {
	limit, name := a.number("limit"), a.literals["formula"]
	var model Scorer
	formulas := a.compiler.options.Formulas
	a.compiler.bind = append(a.compiler.bind, func(factors []string) (err error) {
		if formulas == nil {
			return nil
		}
		if model, err = formulas.Bind(name.Text, factors); err != nil {
			return &SyntaxError{Pos: name.Pos, Text: "formula " + short(name.Text) + ": " + err.Error()}
		}
		return nil
	})
	return func(_ context.Context, _ *Env, r *Run) (bool, error) {
		if model == nil {
			return true, nil
		}
		r.factors[0] = float32(r.score)
		return float64(model.Score(r.factors)) <= limit, nil
	}, nil
}
