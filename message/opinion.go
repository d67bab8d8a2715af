package message

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"antirobot/message/learn"
	"antirobot/rules/skeleton"
)

// Opinion is a model's judgement of a text.
type Opinion struct {
	Score   float64 // 0 to 1; more than 0.5 is bad
	By      string
	Reasons []string // the strongest first; positive numbers for bad
}

// Bad says whether the text is bad.
func (o Opinion) Bad() bool { return o.Score > 0.5 }

func (o Opinion) String() string {
	return fmt.Sprintf("the text scores %.3f by %s: %s", o.Score, o.By, strings.Join(o.Reasons, ", "))
}

// Values of Opinion.By, besides learn.StartName.
const (
	byModel   = "model"   // it knows enough
	byTaught  = "taught"  // similar to a text that was taught as bad
	byNothing = "nothing" // it knows too little, and there is no start
)

const maxReasons = 5

var readers = sync.Pool{New: func() any { return new(skeleton.Reader) }}

func printOf(text string) (p learn.Print, ok bool) {
	r, is := readers.Get().(*skeleton.Reader)
	if !is {
		panic("BUG: the pool holds something else")
	}
	defer readers.Put(r)
	return learn.PrintOf(r, text)
}

func (m *Model) score(text string) (score float64, by string) {
	l := *m.learner.Load()
	switch {
	case l.Ready():
		score, by = l.Score(text), byModel
	case m.start != nil:
		score, by = m.start.Score(text), learn.StartName
	default:
		score, by = 0.5, byNothing
	}
	if like := m.like(text); like > 0 && taughtScore(like) > score {
		return taughtScore(like), byTaught
	}
	return score, by
}

// Good is Classify without reasons.
func (m *Model) Good(text string) bool {
	score, _ := m.score(text)
	return score <= 0.5
}

func (m *Model) like(text string) float64 {
	if m.taught.Len() == 0 {
		return 0
	}
	p, ok := printOf(text)
	if !ok {
		return 0
	}
	return m.taught.Find(&p, m.now())
}

func taughtScore(like float64) float64 { return 0.5 + like/2 }

// Classify returns the model's opinion with reasons.
func (m *Model) Classify(text string) Opinion {
	o := Opinion{}
	o.Score, o.By = m.score(text)
	var spoke []learn.Spoke
	switch o.By {
	case byTaught:
		o.Reasons = append(o.Reasons, fmt.Sprintf("like a text that was taught as bad (%.0f %%)", 100*m.like(text)))
		return o
	case byNothing:
		size := m.Size()
		o.Reasons = append(o.Reasons,
			fmt.Sprintf("the model knows too little to judge: %d good and %d bad texts, of at least %d and %d",
				size.Good, size.Bad, learn.LeastGood, learn.LeastBad))
		return o
	case byModel:
		spoke = (*m.learner.Load()).Explain(text)
	default:
		spoke = m.start.Explain(text)
	}
	for _, s := range spoke[:min(maxReasons, len(spoke))] {
		o.Reasons = append(o.Reasons, fmt.Sprintf("%s %+.2f", strings.TrimSpace(s.Token), s.Weight))
	}
	return o
}

func (m *Model) printKey(p learn.Print) []byte {
	return []byte(m.prefix + "taught/" + hex.EncodeToString(p.AppendBytes(nil)))
}

func (m *Model) keepPrint(ctx context.Context, r trainRecord, at time.Time) error {
	p, ok := printOf(r.Text)
	if !ok {
		return nil
	}
	if !r.Good {
		return m.store.Put(ctx, m.printKey(p), nil, taughtFor)
	}
	for _, gone := range m.taught.Remove(&p, at) {
		if err := m.store.Delete(ctx, m.printKey(gone)); err != nil {
			return fmt.Errorf("forget a bad text: %w", err)
		}
	}
	return nil
}

func (m *Model) applyPrint(r trainRecord) {
	p, ok := printOf(r.Text)
	switch {
	case !ok:
	case r.Good:
		m.taught.Remove(&p, m.now())
	default:
		m.taught.Add(p, m.now().Add(taughtFor))
	}
}

func (m *Model) loadPrints(ctx context.Context) error {
	prefix := []byte(m.prefix + "taught/")
	return m.store.Scan(ctx, prefix, func(k, _ []byte, left time.Duration) error {
		raw, _ := hex.DecodeString(string(k[len(prefix):]))
		if p, ok := learn.ReadPrint(raw); ok {
			m.taught.Add(p, m.now().Add(left))
		}
		return nil
	})
}
