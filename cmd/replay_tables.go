package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/replay"
	"antirobot/verdict/processor"
)

// replayTables are the tables that `replay` writes beside its report.
type replayTables struct {
	factors  *factorsFile
	visitors *replay.Visitors
	scores   *os.File
}

// openTables reads the labels and creates the tables that the flags ask for.
func (f *replayFlags) openTables(r *replay.Runner) (t *replayTables, err error) {
	if f.labels != "" && f.factors == "" && f.scores == "" {
		return nil, errors.New("--labels: what for? add --factors FILE, or --scores FILE")
	}
	if f.labels != "" {
		file, err := os.Open(f.labels)
		if err != nil {
			return nil, fmt.Errorf("--labels: %w", err)
		}
		defer file.Close()
		if r.Labels, err = replay.ReadLabels(file); err != nil {
			return nil, fmt.Errorf("--labels: %s: %w", f.labels, err)
		}
	}
	t = &replayTables{}
	if f.scores != "" {
		cfg, err := readRehearsed(f.config)
		if err != nil {
			return nil, err
		}
		model, err := config.LoadModel(cfg.Formula.Model)
		if err != nil {
			return nil, err
		}
		if t.scores, err = os.Create(f.scores); err != nil {
			return nil, fmt.Errorf("--scores: %w", err)
		}
		t.visitors = &replay.Visitors{Model: model, Labels: r.Labels}
		r.Visitors = t.visitors
	}
	if f.factors != "" {
		if t.factors, err = createFactors(f.factors); err != nil {
			return nil, errors.Join(err, t.close())
		}
		r.Factors = t.factors.Factors
	}
	return t, nil
}

// observer tells all tables of an evaluation; nil: there is none.
func (t *replayTables) observer() processor.Observer {
	switch {
	case t.visitors == nil && t.factors == nil:
		return nil
	case t.visitors == nil:
		return t.factors.Observe
	case t.factors == nil:
		return t.visitors.Observe
	}
	return func(s identity.Subject, service uint16, at time.Time, x []float32, score float32) {
		t.factors.Observe(s, service, at, x, score)
		t.visitors.Observe(s, service, at, x, score)
	}
}

// close completes the tables.
func (t *replayTables) close() error {
	var errs []error
	if t.factors != nil {
		errs = append(errs, t.factors.close())
	}
	if t.scores != nil {
		w := bufio.NewWriter(t.scores)
		if err := errors.Join(t.visitors.Write(w), w.Flush(), t.scores.Close()); err != nil {
			errs = append(errs, fmt.Errorf("--scores: %w", err))
		}
	}
	return errors.Join(errs...)
}
