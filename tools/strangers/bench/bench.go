// Package bench measures with simulated logs how well antirobot tells robots from people: each log is written in the forms in
// which servers write them, replayed by the program itself, and each visitor's scores are held against who it is.
package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"antirobot/tools/strangers/sim"
)

// By what a service judges unless its configuration says otherwise (config.example.yaml).
const (
	Threshold = 0.5 // verdict.threshold
	Unsure    = 0.3 // verdict.unsure.above
)

// Options say what to measure with which logs.
type Options struct {
	Antirobot string // the program
	Sites     []string
	Seeds     []uint64
	Threshold float64   // a visitor above it is banned
	Unsure    float64   // above it, and not banned: somebody who may be a robot
	AtOnce    int       // logs
	Progress  io.Writer // a line for each log that is done
}

// visitor is one that was judged: those who asked for one page only are not.
type visitor struct {
	sort  string
	robot bool
	score float64 // mean of its moments
	most  float64 // by what it would be stopped
}

// measured are the visitors of a site in one form of log, for each seed.
type measured struct {
	site string
	form form
	logs [][]visitor
}

// Run makes the logs in a temporary directory, which is gone afterwards, and replays them.
func Run(ctx context.Context, o Options) (*Report, error) {
	program, err := usable(o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "strangers-")
	if err != nil {
		return nil, fmt.Errorf("no place for the logs, TMPDIR names one: %w", err)
	}
	defer os.RemoveAll(dir)

	report := &Report{options: o}
	for _, site := range o.Sites {
		for _, f := range forms {
			report.measured = append(report.measured, measured{site, f, make([][]visitor, len(o.Seeds))})
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := progress{to: o.Progress, of: len(o.Sites) * len(o.Seeds)}
	turns := make(chan struct{}, o.AtOnce)
	errs := make([]error, p.of)
	var running sync.WaitGroup
	for k, seed := range o.Seeds {
		for i, site := range o.Sites {
			running.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				began := time.Now()
				judged, err := run(ctx, program, filepath.Join(dir, fmt.Sprint(site, "-", seed)), site, seed)
				if err != nil {
					errs[k*len(o.Sites)+i] = err
					stop() // what runs or waits would be in vain
					return
				}
				for f := range forms {
					report.measured[i*len(forms)+f].logs[k] = judged[f]
				}
				p.done(site, seed, time.Since(began))
			})
		}
	}
	running.Wait()
	return report, first(errs)
}

// usable is the path of the program, unless what is asked for can't be done.
func usable(o Options) (string, error) {
	switch {
	case len(o.Seeds) == 0 || len(o.Sites) == 0:
		return "", errors.New("nothing to measure: give at least one seed")
	case o.AtOnce < 1:
		return "", errors.New("-at-once: at least 1 log has to run")
	case o.Unsure > o.Threshold:
		return "", errors.New("-unsure has to be below -threshold")
	}
	program, err := filepath.Abs(o.Antirobot)
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("make build makes the program, and -antirobot names it: %w", err)
	}
	return program, nil
}

// first is the error to tell of: what was ended because of another is none.
func first(errs []error) error {
	var ended error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		ended = cmp.Or(ended, err)
	}
	return ended
}

// run makes the log of a site and replays it in each form.
func run(ctx context.Context, program, dir, site string, seed uint64) ([][]visitor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := sim.Play(site, seed)
	if err != nil {
		return nil, err
	}
	labels := filepath.Join(dir, "labels.csv")
	if err := l.WriteLabels(labels); err != nil {
		return nil, err
	}
	lines := l.Lines()
	var judged [][]visitor
	for _, f := range forms {
		log := filepath.Join(dir, f.name)
		if err := f.file(log, lines); err != nil {
			return nil, err
		}
		visitors, err := replay(ctx, program, log, f, labels, l.Subjects)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d, %s: %w", site, seed, f.name, err)
		}
		if err := os.Remove(log); err != nil {
			return nil, err
		}
		judged = append(judged, visitors)
	}
	return judged, nil
}

// replay lets the program judge a log.
func replay(ctx context.Context, program, log string, f form, labels string, known map[string]sim.Subject) ([]visitor, error) {
	scores := log + ".scores.csv"
	cmd := exec.CommandContext(ctx, program, "replay", log, "--identity", f.identity, "--labels", labels, "--scores", scores, "--quiet")
	cmd.Dir = filepath.Dir(log) // without what a configuration and its data here might change
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("antirobot replay: %w: %s", err, strings.TrimSpace(said.String()))
	}
	file, err := os.Open(scores)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file, known)
}

// read reads a table of scores.
func read(r io.Reader, known map[string]sim.Subject) ([]visitor, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("the table of scores is empty")
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, name := range []string{"visitor", "score", "judged_most"} {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("the table of scores has no column %s, only %s: build antirobot of the same commit (make build)", name, strings.Join(rows[0], ", "))
		}
	}
	var visitors []visitor
	for _, row := range rows[1:] {
		who, ok := known[row[column["visitor"]]]
		if !ok {
			return nil, fmt.Errorf("visitor %q has no label: --identity found another column", row[column["visitor"]])
		}
		score, err := strconv.ParseFloat(row[column["score"]], 64)
		if err != nil {
			return nil, err
		}
		most, err := strconv.ParseFloat(row[column["judged_most"]], 64)
		if err != nil {
			return nil, err
		}
		visitors = append(visitors, visitor{who.Sort, who.Label == 1, score, most})
	}
	return visitors, nil
}

// progress says which logs are done.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	n, of int
}

func (p *progress) done(site string, seed uint64, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	fmt.Fprintf(p.to, "%d of %d: %s, seed %d, made and replayed %d times in %.0f s\n", p.n, p.of, site, seed, len(forms), took.Seconds())
}
