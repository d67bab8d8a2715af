// Command simulate makes up traffic of people and robots, and measures how well a gateway tells them apart. It is no
// part of the program: simulated figures find crashes and demonstrate, and are no evidence.
//
//	go run ./traffic/simulate --profile office,slow --length 6h
//	go run ./traffic/simulate --economy --make cors,ipv6-48
//	go run ./traffic/simulate --out log --length 1h >access.log && antirobot replay access.log
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"antirobot/cbb"
	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
	"antirobot/verdict/processor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := simulate(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "simulate: "+err.Error())
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// simulate runs a command line.
func simulate(ctx context.Context, args []string, out, diag io.Writer) error {
	f := trafficFlags{cfg: traffic.DefaultConfig()}
	p := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
	f.register(p)
	if err := p.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	return f.run(ctx, out, diag)
}

// trafficFlags are the flags of `traffic`.
type trafficFlags struct {
	config, out, factors string
	profiles             []string
	cfg                  traffic.Config
	json, economy        bool
	makes                []string
	processors           int
}

func (f *trafficFlags) register(p *pflag.FlagSet) {
	var kinds []string
	for _, k := range traffic.Kinds() {
		kinds = append(kinds, string(k))
	}
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE` to judge by; without it all defaults")
	p.StringSliceVar(&f.profiles, "profile", nil, "`KINDS` of clients, all by default: "+strings.Join(kinds, ", "))
	p.StringVar(&f.out, "out", "", "write `WHAT` instead of the figures: log, visitors or events")
	p.Uint64Var(&f.cfg.Seed, "seed", f.cfg.Seed, "`NUMBER` that seeds the random generator")
	p.DurationVar(&f.cfg.Length, "length", f.cfg.Length, "`TIME` that the robots work for")
	p.DurationVar(&f.cfg.WarmUp, "warm-up", f.cfg.WarmUp, "`TIME` with only people at first, so that their cookies have aged")
	p.Float64Var(&f.cfg.Scale, "scale", f.cfg.Scale, "`FACTOR` on the number of people and addresses")
	p.StringVar(&f.factors, "factors", "", "write the factors of each evaluation as CSV to `FILE`, labelled with who it was: 1 robot, 0 human")
	p.StringVar((*string)(&f.cfg.Via), "via", "", "`WHAT` is in front of the gateway: nothing, or nginx (HTTP/1.0, lower-case field names)")
	p.StringVar((*string)(&f.cfg.Site), "site", string(f.cfg.Site), "`SITE` that is visited: shop or course")
	p.StringVar((*string)(&f.cfg.Set), "set", "", "`WHICH` of the guests and agents take part: all, tuning or held-out; all, and with --factors tuning, by default")
	p.BoolVar(&f.cfg.Hidden, "hidden", false, "robots in browsers pass silent checks, as those do that hide how they are driven")
	p.IntVar(&f.processors, "processors", 1, "among how many processors the judgement is divided, by network (docs/scaling.md), as a `NUMBER`")
	p.BoolVar(&f.economy, "economy", false, "measure instead how much of a shop harvesters get in a day")
	p.StringSliceVar(&f.makes, "make", nil, "`NAMES` of the harvesters of --economy, all by default")
	p.BoolVar(&f.json, "json", false, "print the figures as JSON")
}

func (f *trafficFlags) run(ctx context.Context, to, diag io.Writer) (err error) {
	for _, k := range f.profiles {
		f.cfg.Kinds = append(f.cfg.Kinds, traffic.Kind(k))
	}
	if f.cfg.Set == "all" {
		f.cfg.Set = traffic.Everybody
	}
	if err := f.cfg.Validate(); err != nil {
		return err
	}
	if f.economy {
		return f.runEconomy(ctx, to)
	}
	out := bufio.NewWriterSize(to, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	switch f.out {
	case "log", "visitors": // as a service without the gateway would write it
		return traffic.Run(ctx, f.cfg, nil, nil, traffic.LogWriter(out, f.out == "visitors"))
	case "", "events":
	default:
		return fmt.Errorf("--out: %q is none of log, visitors, events", f.out)
	}
	var table *factorsFile
	var observer processor.Observer
	if f.factors != "" && f.out == "" {
		if f.cfg.Set == traffic.Everybody {
			f.cfg.Set = traffic.Tuning
		}
		if table, err = createFactors(f.factors); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, table.close()) }()
		observer = table.Observe
	}
	r, err := newTrafficRehearsal(f.config, &f.cfg, replay.Deps{Observer: observer, Processors: f.processors}, func(*config.Config) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f.out == "events" {
		return traffic.Run(ctx, f.cfg, r, nil, traffic.EventWriter(out))
	}
	return f.score(ctx, r, table, out, diag)
}

// score runs the traffic, and prints what became of everybody.
func (f *trafficFlags) score(ctx context.Context, r *replay.Gateway, table *factorsFile, out, diag io.Writer) error {
	score := traffic.Score{Begin: f.cfg.Begin}
	requests, began := 0, time.Now()
	err := traffic.Run(ctx, f.cfg, r, table.label, func(q *traffic.Request, s *replay.Served) error {
		requests++
		score.Add(q, s)
		return nil
	})
	if err != nil {
		return err
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(score.Outcomes())
	}
	if err := score.Text(out); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(diag, "\n%d requests in %.1f s, %.1f µs each\n",
		requests, took.Seconds(), float64(took.Microseconds())/float64(max(requests, 1)))
	return nil
}

// newTrafficRehearsal builds the gateway for made-up traffic, with changes of its configuration: it serves whatever host that
// is to, and knows where the made-up Googlebot comes from.
func newTrafficRehearsal(file string, t *traffic.Config, d replay.Deps, edit func(*config.Config)) (*replay.Gateway, error) {
	cfg, err := config.Read(file, func(c *config.Config) {
		if file == "" { // the service is never asked, but there must be one
			c.OverrideUpstreams([]string{"http://127.0.0.1:1"})
		}
	})
	if err != nil {
		return nil, err
	}
	if file != "" {
		t.Host = cfg.FirstHost()
	}
	edit(cfg)
	err = cfg.Lists.Crawlers.Amend("googlebot", func(c *cbb.CrawlerConfig) { c.Ranges = append(c.Ranges, traffic.CrawlerRange) })
	if err != nil {
		return nil, err
	}
	d.Name, d.Log = "the defaults", zerolog.Nop()
	return replay.NewGateway(cfg, d)
}

// heldOut begins the source of rows that tools/train.py refuses.
const heldOut = "held-out-"

// label tells the table which client makes the next request. A nil table ignores it.
func (f *factorsFile) label(r *traffic.Request) {
	if f == nil {
		return
	}
	f.Source, f.Label = string(r.Kind), replay.LabelHuman
	if r.Habit != "" {
		f.Source += "-" + r.Habit
	}
	if r.Held {
		f.Source = heldOut + f.Source
	}
	if r.Kind.Robot() {
		f.Label = replay.LabelRobot
	}
}

type factorsFile struct {
	*replay.Factors
	file *os.File
	w    *bufio.Writer
}

func createFactors(name string) (*factorsFile, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--factors: %w", err)
	}
	w := bufio.NewWriterSize(file, 256<<10)
	return &factorsFile{replay.NewFactors(w, processor.FactorNames()), file, w}, nil
}

func (f *factorsFile) close() error { return errors.Join(f.Flush(), f.w.Flush(), f.file.Close()) }
