package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/replay"
	"antirobot/verdict/formula"
	"antirobot/verdict/learn"
)

// replayLearner learns from a log how usual its visitors are for the site.
type replayLearner struct {
	file   string        // the card is written there
	people replay.Labels // of --known; nil: the log says who is signed in
	labels replay.Labels // of --labels, to measure with
	pick   func([]float32) []float32

	visitors map[identity.Subject]*learner
	serving  string
	signed   bool
}

// learner is a visitor of the log.
type learner struct {
	name     string
	client   string
	known    bool
	fromHere bool          // known from its first vector on: there is none from before
	vectors  learn.Vectors // from before it was known
}

// maxLearners bounds the visitors of a log.
const maxLearners = 50_000

// newReplayLearner reads the flags; nil: nothing is learnt.
func (f *replayFlags) newReplayLearner(r *replay.Runner) (*replayLearner, error) {
	switch {
	case !f.learn && (f.known != "" || f.card != ""):
		return nil, misused("--known and --card: what for? add --learn")
	case !f.learn:
		return nil, nil
	case f.known == "":
		return nil, misused("--learn: who is known? --known FILE with people, or where the log has a name if " +
			"the visitor is signed in: --known user, cookie:NAME or column:KEY")
	case f.json || f.against != "" || f.html != "" || f.factors != "" || f.scores != "":
		return nil, misused("--learn prints the card: leave out --json, --against, --html, --factors and --scores")
	}
	l := &replayLearner{file: f.card, labels: r.Labels, pick: learnPick(), visitors: map[identity.Subject]*learner{}}
	if !f.knownIsPlace() {
		var err error
		if l.people, err = readReplayLabels("--known", f.known); err != nil {
			return nil, err
		}
	}
	r.Serving = func(visitor string, signed bool) { l.serving, l.signed = visitor, signed }
	return l, nil
}

// knownIsPlace reports whether --known is a place in the log, and not a file.
func (f *replayFlags) knownIsPlace() bool {
	return f.known == "user" || strings.HasPrefix(f.known, "cookie:") || strings.HasPrefix(f.known, "column:")
}

// Observe takes an evaluation; it is a processor.Observer.
func (l *replayLearner) Observe(sub identity.Subject, _ uint16, _ time.Time, x []float32, _ float32) {
	v := l.visitors[sub]
	known := l.signed || l.people[l.serving].Label == replay.LabelHuman
	if v == nil {
		if len(l.visitors) == maxLearners {
			return
		}
		v = &learner{name: strings.Clone(l.serving), client: clientOf(x), fromHere: known}
		l.visitors[sub] = v
	}
	v.known = v.known || known
	if !v.known || v.fromHere {
		v.vectors.Add(l.pick(x))
	}
}

// finish learns, and prints how well.
func (l *replayLearner) finish(ctx context.Context, out io.Writer) error {
	var samples []learn.Sample
	var of []*learner
	for sub, v := range l.visitors {
		samples = append(samples, learn.Sample{Subject: nameHash(sub.String()), Known: v.known, Vectors: v.vectors})
		of = append(of, v)
	}
	card, scores, err := learn.Fit(ctx, samples, learn.Options{At: time.Now()})
	if errors.Is(err, learn.ErrFew) {
		return fmt.Errorf("--learn: at least ten people must be known, and ten other visitors must be there: %w", err)
	}
	if err != nil {
		return err
	}
	if l.file != "" {
		if err := os.WriteFile(l.file, card.Text(), 0o644); err != nil { //nolint:gosec // names nobody
			return fmt.Errorf("--card: %w", err)
		}
	}
	c := &card.Learnt
	fmt.Fprintln(out, counted("%d known {person|people} and %d {other|others}", c.Known, c.Others))
	fmt.Fprintf(out, "area of the known people against the others, cross-validated: %.3f (from %.3f)\n", c.Area, c.Low)
	if !card.Opinion() {
		fmt.Fprintln(out, "a gateway would have no opinion: it needs known people in 200 networks and an area from 0.6")
	}
	if err := printCard(out, card); err != nil {
		return err
	}
	return l.measure(out, of, scores)
}

// measure prints how well the visitors who are not known are told apart, by their labels.
func (l *replayLearner) measure(out io.Writer, of []*learner, scores []float32) error {
	all := newTally()
	for i, v := range of {
		is := l.labels[v.name].Label
		if v.known || is == replay.LabelUnknown {
			continue
		}
		row := formula.Row{Subject: v.name, Source: l.labels[v.name].Source}
		all.add(&row, v.client, formula.Sample{Score: float32(probability(scores[i])), Robot: is == replay.LabelRobot})
	}
	if len(all.list) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nof those who are not known, by --labels:")
	_, err := printLearntLabels(out, all)
	return err
}
