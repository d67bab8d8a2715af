package replay

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/verdict/formula"
	"antirobot/verdict/training"
	"antirobot/verdict/words"
)

// Visitors collects the scores of each visitor of a log, as many as a report tells apart. Model says what a moment's
// score is in log-odds.
type Visitors struct {
	Model  *formula.Model
	Labels Labels // may be nil

	of      map[identity.Subject]*visited
	serving *Record // whose request it is
}

type visited struct {
	who           string
	mean          formula.Mean
	most          float64 // of the log-odds
	highest, last float32 // of the scores that it was judged by
}

// Observe counts an evaluation; it is a processor.Observer.
func (v *Visitors) Observe(sub identity.Subject, _ uint16, _ time.Time, factors []float32, score float32) {
	if v.of == nil {
		v.of = map[identity.Subject]*visited{}
	}
	s := v.of[sub]
	if s == nil {
		if len(v.of) >= maxSubjects {
			return
		}
		s = &visited{who: v.serving.visitor(), most: math.Inf(-1)}
		v.of[sub] = s
	}
	raw := float64(v.Model.Raw(factors))
	s.mean.Add(raw)
	s.most = max(s.most, raw)
	s.highest, s.last = max(s.highest, score), score
}

// Write writes a line of CSV for each visitor, the least human first: how many moments were scored, the mean of their
// scores (formula.Mean), the highest, and by what it was judged at the most and at last.
func (v *Visitors) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	errs := []error{out.Write([]string{
		"visitor", "subject", "label", "moments", "score", "highest", "judged_most",
		"judged_last",
	})}
	subjects := slices.SortedFunc(maps.Keys(v.of), func(a, b identity.Subject) int {
		x, y := v.of[a], v.of[b]
		return cmp.Or(cmp.Compare(y.mean.LogOdds(), x.mean.LogOdds()), cmp.Compare(a.String(), b.String()))
	})
	for _, sub := range subjects {
		s := v.of[sub]
		errs = append(errs, out.Write([]string{
			s.who, sub.String(), v.Labels[s.who].Label.column(), strconv.Itoa(s.mean.N),
			number32(v.Model.Share(float32(s.mean.LogOdds()))), number32(v.Model.Share(float32(s.most))),
			number32(s.highest), number32(s.last),
		}))
	}
	out.Flush()
	return errors.Join(append(errs, out.Error())...)
}

// column is how tables of factors say it.
func (l Label) column() string {
	switch l {
	case LabelRobot:
		return "1"
	case LabelHuman:
		return "0"
	}
	return ""
}

// visitor is by what name a file of labels calls whoever made the request: what the log has where --identity looks, or
// else the address, as ip:203.0.113.7.
func (r *Record) visitor() string {
	if len(r.Who) > 0 {
		return string(r.Who)
	}
	return identity.AddrSubject(r.Addr).String()
}

// Labels are what a file says of visitors, by name.
type Labels map[string]Known

// meet notes that the log has a labelled visitor.
func (l Labels) meet(r *Record, met map[string]bool) {
	if len(met) == len(l) {
		return
	}
	if name := r.visitor(); l[name] != (Known{}) {
		met[name] = true
	}
}

// notMet says of how many the log has nothing, which is so of all where names are not written as the log has them.
func (l Labels) notMet(met int) []string {
	switch met {
	case len(l):
		return nil
	case 0:
		return []string{words.Sprintf(words.English, "none of the %d {visitor|visitors} of --labels is in the log: "+
			"name them as the log has them where --identity looks, or as ip:ADDRESS", len(l))}
	}
	return []string{fmt.Sprintf("%d of the %d visitors of --labels are in the log", met, len(l))}
}

// Known is what a visitor is, and who says so.
type Known struct {
	Label  Label
	Source string
}

// ReadLabels reads labels as training.ReadLabels does: a visitor is what the log has where Identity looks, or an
// address as ip:203.0.113.7, in the column visitor. Of several lines about one the last one holds. There may be a
// million.
func ReadLabels(r io.Reader) (Labels, error) {
	labels := Labels{}
	err := training.ReadLabels(r, "visitor", func(name string, l training.OwnLabel) error {
		if len(labels) >= maxSubjects {
			return fmt.Errorf("more than %d visitors", maxSubjects)
		}
		k := Known{Label: LabelHuman, Source: l.Source}
		if l.Label == formula.Robot {
			k.Label = LabelRobot
		}
		labels[strings.Clone(name)] = k
		return nil
	})
	if err != nil {
		return nil, err
	}
	return labels, nil
}
