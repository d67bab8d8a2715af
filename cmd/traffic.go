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
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/cbb"
	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

// trafficFlags are the flags of `traffic`.
type trafficFlags struct {
	config, out, factors string
	profiles             []string
	cfg                  traffic.Config
	json, economy        bool
	makes                []string
	processors           int
}

func trafficCommand() *cobra.Command {
	f := trafficFlags{cfg: traffic.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "traffic",
		Short: "Make up traffic of people and robots, and measure how well they are told apart",
		Long: `Make up traffic of people and robots and judge it in simulated time: with all kinds a day
takes a minute or less. The output shows how many clients of each kind were stopped and after how many requests. The same
seed gives the same traffic.

With --out log a combined access log is written instead, to try ` + "`antirobot replay`" + ` with; with --out visitors
its last column says who made the request; with --out events each request is written with all its header fields
and who made it, as lines of JSON.
docs/measurements.md describes the kinds and has the figures at the default settings, docs/harvest.md those of --economy.`,
		Example: `  antirobot traffic
  antirobot traffic --profile office,slow --length 6h
  antirobot traffic --economy --make cors,ipv6-48
  antirobot traffic --out log --length 1h >access.log && antirobot replay access.log`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return f.run(ctx, cmd)
		},
	}
	var kinds []string
	for _, k := range traffic.Kinds() {
		kinds = append(kinds, string(k))
	}
	p := cmd.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE` to judge by; without it all defaults")
	p.StringSliceVar(&f.profiles, "profile", nil, "`KINDS` of clients, all by default: "+strings.Join(kinds, ", "))
	p.StringVar(&f.out, "out", "", "write `WHAT` instead of the figures: log, visitors or events")
	p.Uint64Var(&f.cfg.Seed, "seed", f.cfg.Seed, "`NUMBER` that seeds the random generator")
	timeVar(p, &f.cfg.Length, "length", f.cfg.Length, "`TIME` that the robots work for")
	timeVar(p, &f.cfg.WarmUp, "warm-up", f.cfg.WarmUp, "`TIME` with only people at first, so that their cookies have aged")
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
	return cmd
}

func (f *trafficFlags) run(ctx context.Context, cmd *cobra.Command) (err error) {
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
		return f.runEconomy(ctx, cmd.OutOrStdout())
	}
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	switch f.out {
	case "log", "visitors": // as a service without the gateway would write it
		return traffic.Run(ctx, f.cfg, nil, nil, traffic.LogWriter(out, f.out == "visitors"))
	case "", "events":
	default:
		return misused("--out: %q is none of log, visitors, events", f.out)
	}
	var table *factorsFile
	var observer processor.Observer
	if f.factors != "" && f.out == "" {
		if f.cfg.Set == traffic.Everybody {
			f.cfg.Set = traffic.Tuning
		}
		table = newFactors(f.factors)
		observer = table.Observe
	}
	r, err := newTrafficRehearsal(f.config, &f.cfg, replay.Deps{Observer: observer, Processors: f.processors}, func(*config.Config) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if table != nil {
		if err := table.open(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, table.close()) }()
	}
	if f.out == "events" {
		return traffic.Run(ctx, f.cfg, r, nil, traffic.EventWriter(out))
	}
	return f.score(ctx, cmd, r, table, out)
}

// score runs the traffic, and prints what became of everybody.
func (f *trafficFlags) score(ctx context.Context, cmd *cobra.Command, r *replay.Gateway, table *factorsFile, out io.Writer) error {
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
	fmt.Fprintln(cmd.ErrOrStderr(), words.Sprintf(words.English, "\n%d {request|requests} in %.1f s, %.1f µs each", requests, took.Seconds(), float64(took.Microseconds())/float64(max(requests, 1))))
	return nil
}

// newTrafficRehearsal builds the gateway for made-up traffic, with changes of its configuration: it serves whatever host that
// is to, and knows where the made-up Googlebot comes from.
func newTrafficRehearsal(file string, t *traffic.Config, d replay.Deps, edit func(*config.Config)) (*replay.Gateway, error) {
	cfg, err := readRehearsed(file)
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
