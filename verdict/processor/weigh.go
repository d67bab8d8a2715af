package processor

import (
	"errors"
	"fmt"
	"math"
	"time"

	"antirobot/verdict/formula"
)

// VisitConfig is the section processor.visit: how the scores of a visit add up. A score describes a moment. A subject
// is judged by a mean of the log-odds of its scores that begins at the formula's bias, follows what the pages say, and
// covers the last third of them. So one odd minute of a long visit is no verdict, weak evidence needs many pages, and
// strong evidence few. After a long absence it gradually starts over, in weight and in length.
type VisitConfig struct {
	Least float64       `mapstructure:"pages_least"` // pages that the mean covers, at least …
	Most  float64       `mapstructure:"pages_most"`  // … and at most; 0: each moment counts by itself
	Rest  time.Duration `mapstructure:"rest"`        // absence after which a third of it is left
}

// defaultVisitConfig covers a page and a half at first, and sixteen from the 48th on.
func defaultVisitConfig() VisitConfig { return VisitConfig{Least: 1.5, Most: 16, Rest: 12 * time.Hour} }

// Validate returns every problem at once.
func (c *VisitConfig) Validate() error {
	var errs []error
	if !(c.Most >= 0 && c.Most <= 1000) {
		errs = append(errs, fmt.Errorf("visit.pages_most: %v is not between 0 and 1000", c.Most))
	}
	if !(c.Least >= 0 && c.Least <= c.Most) {
		errs = append(errs, fmt.Errorf("visit.pages_least: %v is not between 0 and visit.pages_most", c.Least))
	}
	if c.Rest < time.Minute || c.Rest > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("visit.rest: %v is not between 1m and 720h", c.Rest))
	}
	return errors.Join(errs...)
}

const (
	weighPart  = 3  // one over the part of a visit that its mean covers
	weighBound = 12 // log-odds beyond which a moment does not count any further
)

// weigh returns the log-odds of a visit including those of a moment, after the pages that came since the last one, and
// the pages that it is a mean of.
func (s *session) weigh(c *VisitConfig, m *formula.Model, raw float32, at time.Time) (weight, span float32) {
	pages := float32(max(s.pages, s.judgedAt+1) - s.judgedAt)
	if c.Most == 0 {
		return raw, pages
	}
	bias := m.Bias()
	weight, span = s.weight, s.span
	if s.judgedAt == 0 {
		weight, span = bias, 0
	}
	if away := float64(at.Unix() - int64(s.weighedAt)); s.weighedAt != 0 && away > 3600 {
		left := float32(math.Exp(-away / c.Rest.Seconds()))
		weight, span = bias+(weight-bias)*left, span*left
	}
	span += pages
	back := min(max(float64(span)/weighPart, c.Least), c.Most)
	raw = min(max(raw, -weighBound), weighBound)
	return weight + (raw-weight)*float32(1-math.Exp(-float64(pages)/max(back, 1e-3))), span
}

// add records the log-odds of a visit, and the pages that they are a mean of.
func (s *session) add(weight, span float32, at time.Time) {
	s.weight, s.span, s.judgedAt, s.weighedAt = weight, span, max(s.pages, 1), uint32(at.Unix())
}
