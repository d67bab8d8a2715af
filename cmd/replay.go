package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/cbb"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/replay"
	"antirobot/request"
	"antirobot/verdict/processor"
)

type replayFlags struct {
	config, against, format, host, html, factors string
	identity, labels, scores                     string
	known, card                                  string
	learn                                        bool
	captures                                     []string
	ranges                                       []string
	window                                       time.Duration
	top                                          int
	json, quiet                                  bool
}

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay LOG…",
		Short: "Judge recorded traffic, and report who would have been stopped",
		Long: `Run access logs through the code that judges live traffic, and report who would have been stopped, when
and why, how much of the traffic that is, and which crawlers and signed-in people would have been affected.

Logs may be in the common or combined format, JSON from nginx, Caddy, Traefik or Cloudflare, in the W3C
extended format of IIS and CloudFront, from HAProxy, from load balancers of AWS or Google Cloud, or from Envoy,
as text or JSON; with or without gzip. - is standard input, and of a directory all files are read, also those in
directories below it. The format is detected line by line. Several logs are merged by time.

A log has the address, the time, the request, and at most some header fields: cookies and passes are
missing, so everybody is identified by their address, unless --identity names the place in the log that
says who asked. The network is not used: crawlers are verified by their published ranges, from --ranges,
from the configuration, or from the copies in its data directory.
docs/replay.md explains how to read the result.`,
		Example: `  antirobot replay /var/log/nginx/access.log /var/log/nginx/access.log.*.gz
  antirobot replay access.log --config antirobot.yaml --html report.html
  antirobot replay access.json --identity cookie:session
  antirobot replay access.log --config antirobot.yaml --against stricter.yaml
  zcat access.log.gz | antirobot replay - --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misused("which log? antirobot replay access.log, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return f.run(ctx, cmd, args)
		},
	}
	p := cmd.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE` as for serve; without it, one service with all "+
		"defaults")
	p.StringVar(&f.against, "against", "", "a second configuration `FILE`: show who it would newly stop, and who "+
		"would no longer be stopped")
	p.StringVar(&f.format, "format", "auto", "`FORMAT` of all lines: "+replay.FormatNames())
	p.StringSliceVar(&f.captures, "captures", nil, "`HEADERS` of requests that HAProxy's lines have in braces, as "+
		"they stand in its configuration: Host,Referer,User-Agent")
	p.StringVar(&f.identity, "identity", "address", "who asked, `FROM` address, user (who was signed in), "+
		"cookie:NAME, column:KEY (JSON logs) or column:NUMBER (other logs)")
	p.StringVar(&f.host, "host", "", "`HOST` of requests whose log line has none (default: the first in the "+
		"configuration, or else the one that Referers show)")
	p.StringArrayVar(&f.ranges, "ranges", nil, "published ranges of a crawler, `NAME=FILE`, e.g. "+
		"googlebot=googlebot.json; may be repeated")
	timeVar(p, &f.window, "window", replay.DefaultWindow, "`TIME` by which a line may be out of order")
	p.IntVar(&f.top, "top", 20, "`N` lines of each table; 0 is all")
	p.StringVar(&f.html, "html", "", "write a report with plots to `FILE` too")
	p.StringVar(&f.factors, "factors", "", "write the factors of each evaluation as CSV to `FILE`; the label is 1 if "+
		"the User-Agent declares a robot")
	p.StringVar(&f.scores, "scores", "", "write each visitor's score as CSV to `FILE`: the mean of its moments, of "+
		"which later ones count more, and the highest")
	p.StringVar(&f.labels, "labels", "", "CSV `FILE` with columns visitor (as --identity finds it, or ip:ADDRESS) "+
		"and label (human or robot), for --factors, --scores and --learn")
	p.BoolVar(&f.learn, "learn", false, "learn from the log how usual its visitors are for the site, and print that alone")
	p.StringVar(&f.known, "known", "", "for --learn, the known people: CSV `FILE` as for --labels; or where the log has a "+
		"name if the visitor is signed in, as for --identity")
	p.StringVar(&f.card, "card", "", "write the card that --learn learns to `FILE`")
	p.BoolVar(&f.json, "json", false, "print the whole result as JSON")
	p.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, and no summary of the time taken")
	return cmd
}

// replayGarbage is how much garbage may gather before it is collected, in percent of what is in use. What is in use are
// tables without pointers, and reading a line makes hardly any garbage: collecting early costs nothing that can be
// measured.
const replayGarbage = 15

func (f *replayFlags) run(ctx context.Context, cmd *cobra.Command, files []string) (err error) {
	opts, err := f.options()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(replayGarbage)
	}
	runner := replay.Runner{}
	if f.host != "" {
		if runner.Host = request.HostName([]byte(f.host)); runner.Host == nil {
			return misused("--host %.60s: no host", f.host)
		}
	}
	inputs, err := openInputs(files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	log, err := replay.Open(ctx, inputs, opts)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if f.against != "" {
		cfg, err := readRehearsed(f.against)
		if err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		second, err := f.rehearse(f.against, cfg, nil)
		if err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		defer func() { _ = second.Close() }()
		runner.Against = second
	}
	cfg, err := readRehearsed(f.config)
	if err != nil {
		return err
	}
	tables, err := f.makeTables(&runner, cfg)
	if err != nil {
		return err
	}
	learner, err := f.newReplayLearner(&runner)
	if err != nil {
		return err
	}
	observer := tables.observer()
	if learner != nil {
		observer = learner.Observe
	}
	first, err := f.rehearse(f.config, cfg, observer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	if err := tables.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tables.close()) }()
	runner.Gateway = first
	began := time.Now()
	stop := startProgress(cmd.ErrOrStderr(), f.quiet, log.Progress)
	res, err := runner.Run(ctx, log)
	stop()
	sayWhere(cmd.ErrOrStderr(), res, err)
	if err != nil && res.Report.Requests == 0 && !errors.Is(err, context.Canceled) {
		return err
	}
	if learner != nil {
		return errors.Join(learner.finish(ctx, cmd.OutOrStdout()), briefly(err, res, len(inputs)))
	}
	return errors.Join(f.write(cmd.OutOrStdout(), cmd.ErrOrStderr(), res, time.Since(began)),
		briefly(err, res, len(inputs)))
}

// briefly returns the error of a run whose unread logs sayWhere has named.
func briefly(err error, res *replay.Result, logs int) error {
	n := len(res.Log.Unread)
	if n == 0 || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New(counted("%d of %d {log|logs} could not be read to {its end|their ends}: "+
		"see above", n, logs))
}

func (f *replayFlags) options() (o replay.Options, err error) {
	if o.Format, err = replay.ParseFormat(f.format); err != nil {
		return o, misused("--format: %w", err)
	}
	if f.window <= 0 || f.window > 24*time.Hour {
		return o, misused("--window: %s is not between 0 and 24h", shortTime(f.window))
	}
	o.Window, o.Now, o.Captures = f.window, time.Now(), f.captures
	o.Identity, err = replay.ParseIdentity(f.identity)
	if err == nil && !o.Format.Named() {
		err = o.Identity.Unnamed()
	}
	if err != nil {
		return o, misused("--identity: %w", err)
	}
	if !f.knownIsPlace() {
		return o, nil
	}
	if o.Signed, err = replay.ParseIdentity(f.known); err == nil && !o.Format.Named() {
		err = o.Signed.Unnamed()
	}
	if err != nil {
		return o, misused("--known: %w", err)
	}
	return o, nil
}

// sayWhere says how far a run came that ended early.
func sayWhere(w io.Writer, res *replay.Result, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "interrupted: what follows is about the lines until here")
	case err != nil && res.Report.Requests == 0:
		for _, p := range res.Log.Problems {
			fmt.Fprintf(w, "%s:%d %s\n", p.Input, p.Line, p.What)
		}
	case err != nil:
		fmt.Fprintf(w, "%v\nwhat follows is about everything else\n", err)
	}
}

// readRehearsed reads a configuration that traffic is run through; without a file it has one service.
func readRehearsed(file string) (*config.Config, error) {
	return config.Read(file, func(c *config.Config) {
		if file == "" { // the service is never asked, but there must be one
			c.OverrideUpstreams([]string{"http://127.0.0.1:1"})
		}
	})
}

// rehearse builds the gateway of a configuration that was read from a file.
func (f *replayFlags) rehearse(file string, cfg *config.Config, observer processor.Observer) (*replay.Gateway, error) {
	name := "the defaults"
	if file != "" {
		name = filepath.Base(file)
	}
	for _, r := range f.ranges {
		crawler, path, ok := strings.Cut(r, "=")
		if !ok {
			return nil, misused("--ranges %.60s: write NAME=FILE", r)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--ranges: %w", err)
		}
		err := cfg.Lists.Crawlers.Amend(crawler, func(c *cbb.CrawlerConfig) {
			c.RangeFiles = append(c.RangeFiles, path)
		})
		if err != nil {
			return nil, fmt.Errorf("--ranges: %w", err)
		}
	}
	return replay.NewGateway(cfg, replay.Deps{Name: name, Observer: observer, Log: zerolog.Nop()})
}

func openInputs(files []string, stdin io.Reader) ([]replay.Input, error) {
	var inputs []replay.Input
	var errs []error
	piped := false
	for _, name := range files {
		if name == "-" && piped {
			errs = append(errs, errors.New("standard input can be read once"))
			continue
		}
		piped = piped || name == "-"
		in, err := replay.Files(name, stdin)
		inputs, errs = append(inputs, in...), append(errs, err)
	}
	return replay.Distinct(inputs), errors.Join(errs...)
}

func (f *replayFlags) write(out, diag io.Writer, res *replay.Result, took time.Duration) error {
	if f.html != "" {
		file, err := os.Create(f.html)
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		if err := errors.Join(res.HTML(file), file.Close()); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(res)
	}
	if err := res.Text(out, f.top); err != nil {
		return err
	}
	if !f.quiet {
		fmt.Fprintln(diag, counted("\n%d {line|lines} in %.1f s, %.0f {line|lines} a second",
			res.Log.Lines, took.Seconds(), float64(res.Log.Lines)/took.Seconds()))
	}
	return nil
}

// replayTables are the tables that `replay` writes with its report. No file is touched before open.
type replayTables struct {
	factors    *replay.Factors
	factorsOut *lateFile
	buffer     *bufio.Writer // before factorsOut
	visitors   *replay.Visitors
	scoresOut  *lateFile
}

// makeTables reads the labels and prepares the tables that the flags ask for.
func (f *replayFlags) makeTables(r *replay.Runner, cfg *config.Config) (t *replayTables, err error) {
	if f.labels != "" && f.factors == "" && f.scores == "" && !f.learn {
		return nil, misused("--labels: what for? add --factors FILE, --scores FILE, or --learn")
	}
	if f.labels != "" {
		if r.Labels, err = readReplayLabels("--labels", f.labels); err != nil {
			return nil, err
		}
	}
	t = &replayTables{}
	if f.scores != "" {
		if cfg.Formula.Model == "" {
			return nil, misused("--scores: by which formula? name one in formula.model (--config FILE)")
		}
		model, err := config.LoadModel(cfg.Formula.Model)
		if err != nil {
			return nil, err
		}
		t.scoresOut = &lateFile{name: f.scores}
		t.visitors = &replay.Visitors{Model: model, Labels: r.Labels}
		r.Visitors = t.visitors
	}
	if f.factors != "" {
		t.factorsOut = &lateFile{name: f.factors}
		t.buffer = bufio.NewWriterSize(t.factorsOut, 256<<10)
		t.factors = replay.NewFactors(t.buffer, processor.FactorNames())
		r.Factors = t.factors
	}
	return t, nil
}

func readReplayLabels(flag, name string) (replay.Labels, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	labels, err := replay.ReadLabels(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, name, err)
	}
	return labels, nil
}

// open makes the files, or empties those of an earlier run.
func (t *replayTables) open() error {
	if t.scoresOut != nil {
		if err := t.scoresOut.open(); err != nil {
			return fmt.Errorf("--scores: %w", err)
		}
	}
	if t.factorsOut != nil {
		if err := t.factorsOut.open(); err != nil {
			return fmt.Errorf("--factors: %w", err)
		}
	}
	return nil
}

// observer writes an evaluation into all tables; nil: there is none.
func (t *replayTables) observer() processor.Observer {
	if t.visitors == nil && t.factors == nil {
		return nil
	}
	return func(s identity.Subject, service uint16, at time.Time, x []float32, score float32) {
		if t.factors != nil {
			t.factors.Observe(s, service, at, x, score)
		}
		if t.visitors != nil {
			t.visitors.Observe(s, service, at, x, score)
		}
	}
}

func (t *replayTables) close() error {
	var errs []error
	if t.factors != nil {
		if err := errors.Join(t.factors.Flush(), t.buffer.Flush(), t.factorsOut.Close()); err != nil {
			errs = append(errs, fmt.Errorf("--factors: %w", err))
		}
	}
	if t.visitors != nil {
		w := bufio.NewWriter(t.scoresOut)
		if err := errors.Join(t.visitors.Write(w), w.Flush(), t.scoresOut.Close()); err != nil {
			errs = append(errs, fmt.Errorf("--scores: %w", err))
		}
	}
	return errors.Join(errs...)
}
