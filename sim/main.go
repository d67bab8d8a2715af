// Command sim makes up traffic of people and robots, and writes it as a log: to try `antirobot replay` with, to find
// crashes and to demonstrate. It is no evidence of how robots are told apart from people.
//
//	sim -length 1h >access.log
//	sim -kinds office,slow -names >access.log
//	sim -out events -config antirobot.yaml >events.json
//
// It drives antirobot's replay package, whose gateway answers at the time of the traffic; nothing waits. The same seed
// gives the same traffic. Its tests are the acceptance tests of the quota and of people who must be left in peace.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/config"
	"antirobot/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sim: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	cfg := DefaultConfig()
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	names := flags.String("kinds", "", fmt.Sprintf("`KINDS` of clients, separated by commas, of %q; by default those of a day", kinds()))
	robot := flags.String("harvester", "", "`NAME` of a harvester that takes part: one of "+strings.Join(harvesterNames(), ", "))
	what := flags.String("out", "log", "`WHAT` to write: log (combined), named (the same, with who made each request as the last column) or events (JSON)")
	file := flags.String("config", "", "configuration `FILE` of the gateway that answers if -out is events; without it the defaults")
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "`NUMBER` that seeds all draws")
	flags.DurationVar(&cfg.Length, "length", cfg.Length, "`TIME` that robots work for")
	flags.DurationVar(&cfg.WarmUp, "warm-up", cfg.WarmUp, "`TIME` with only people at first")
	flags.Float64Var(&cfg.Scale, "scale", cfg.Scale, "`FACTOR` on the number of people and addresses")
	flags.StringVar((*string)(&cfg.Via), "via", "", "`WHAT` is in front of the gateway: nothing, or nginx")
	flags.StringVar((*string)(&cfg.Site), "site", string(cfg.Site), "`SITE` that is visited: shop or course")
	flags.BoolVar(&cfg.Hidden, "hidden", false, "robots in browsers pass silent checks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there are only flags, and %q is none", flags.Arg(0))
	}
	if *names != "" {
		for k := range strings.SplitSeq(*names, ",") {
			cfg.Kinds = append(cfg.Kinds, Kind(k))
		}
	}
	if *robot != "" {
		if cfg.harvester, err = harvesterNamed(*robot); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	defer func() { err = errors.Join(err, out.Flush()) }()
	switch *what {
	case "log", "named":
		return Run(ctx, cfg, nil, logWriter(out, *what == "named"))
	case "events":
		g, err := newGateway(*file, &cfg, replay.Deps{}, nil)
		if err != nil {
			return err
		}
		return errors.Join(Run(ctx, cfg, g, eventWriter(out)), g.Close())
	}
	return fmt.Errorf("-out: %q is none of log, named, events", *what)
}

func harvesterNames() (names []string) {
	for _, h := range harvesters() {
		names = append(names, h.name)
	}
	return names
}

func harvesterNamed(name string) (*harvester, error) {
	list := harvesters()
	if i := slices.IndexFunc(list, func(h harvester) bool { return h.name == name }); i >= 0 {
		return &list[i], nil
	}
	return nil, fmt.Errorf("there is no harvester %q; there are %s", name, strings.Join(harvesterNames(), ", "))
}

// newGateway makes a gateway for made-up traffic, with changes to its configuration. It knows the made-up Googlebot.
func newGateway(file string, t *Config, d replay.Deps, edit func(*config.Config)) (*replay.Gateway, error) {
	cfg, err := config.Read(file, func(c *config.Config) {
		if file == "" { // the service is never requested, but there must be one
			c.OverrideUpstreams([]string{"http://127.0.0.1:1"})
		}
	})
	if err != nil {
		return nil, err
	}
	if file != "" {
		t.Host = cfg.FirstHost()
	}
	if edit != nil {
		edit(cfg)
	}
	err = cfg.Lists.Crawlers.Amend("googlebot", func(c *cbb.CrawlerConfig) { c.Ranges = append(c.Ranges, crawlerRange) })
	if err != nil {
		return nil, err
	}
	d.Name, d.Log = "the defaults", zerolog.Nop()
	return replay.NewGateway(cfg, d)
}
