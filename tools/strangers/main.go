// Command strangers makes logs of eight web sites whose people and robots an independent author made up, and measures with
// them how antirobot tells the ones from the others:
//
//	strangers generate -site wiki -seed 1 -out DIR       a log as JSON, and who its visitors are; all sites without -site
//	strangers check DIR...                               whether such logs hold together, and what each sort of visitor does
//	strangers bench -antirobot FILE -seeds "1 2"         who is told apart, by site and by what the log has (make bench-strangers)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"antirobot/tools/strangers/bench"
	"antirobot/tools/strangers/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp): // has been printed
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "strangers: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "strangers: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: generate, check or bench")
	}
	switch args[0] {
	case "generate":
		return generate(args[1:])
	case "check":
		return check(args[1:])
	case "bench":
		return measure(ctx, args[1:])
	}
	return fmt.Errorf("%q is no command: there are generate, check and bench", args[0])
}

func generate(args []string) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	site := flags.String("site", "", "site to simulate: "+strings.Join(sim.Names(), ", ")+"; empty for all")
	seed := flags.Uint64("seed", 1, "seed of all draws")
	out := flags.String("out", "out", "directory to write to")
	if err := parse(flags, args); err != nil {
		return err
	}
	for _, name := range sites(*site) {
		l, err := sim.Play(name, *seed)
		if err != nil {
			return err
		}
		if err := l.Write(*out); err != nil {
			return err
		}
		fmt.Printf("%s seed %d: %d lines, %d visitors, %d clashes\n", name, *seed, len(l.Events), len(l.Subjects), l.Clash)
	}
	return nil
}

func check(dirs []string) error {
	faults := sim.Check(os.Stdout, dirs...)
	switch {
	case faults < 0:
		return errors.New("check: no logs there: name the directories that generate wrote to with -out")
	case faults > 0:
		return fmt.Errorf("check: %d kinds of faults, see the lines with FAULT", faults)
	}
	return nil
}

func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	o := bench.Options{Progress: os.Stderr}
	flags.StringVar(&o.Antirobot, "antirobot", "./antirobot", "the `FILE` to measure, which make build makes")
	seeds := flags.String("seeds", "1 2", "seeds of the logs, separated by blanks")
	site := flags.String("site", "", "site to simulate: "+strings.Join(sim.Names(), ", ")+"; empty for all")
	flags.Float64Var(&o.Threshold, "threshold", bench.Threshold, "score above which a visitor is taken for a robot: verdict.threshold")
	flags.Float64Var(&o.Unsure, "unsure", bench.Unsure, "score above which a visitor may be one: verdict.unsure.above")
	flags.IntVar(&o.AtOnce, "at-once", 2, "logs that are made and replayed at once")
	verbose := flags.Bool("v", false, "by sort of visitor, too")
	if err := parse(flags, args); err != nil {
		return err
	}
	o.Sites = sites(*site)
	for s := range strings.FieldsSeq(*seeds) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return fmt.Errorf("-seeds: %q is no seed: give whole numbers, separated by blanks", s)
		}
		o.Seeds = append(o.Seeds, n)
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return report.Write(os.Stdout, *verbose)
}

// parse takes flags alone.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes flags only, not %q: see strangers %s -h", flags.Name(), flags.Arg(0), flags.Name())
	}
	return nil
}

func sites(name string) []string {
	if name == "" {
		return sim.Names()
	}
	return []string{name}
}
