package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
)

// economyRun is a day of each make, with people who are known or not.
type economyRun struct {
	People   string            `json:"people"`
	Harvests []traffic.Harvest `json:"harvests"`
}

// harvest runs one make through a gateway of its own.
func harvest(ctx context.Context, file string, cfg traffic.Config, m traffic.Make) (h traffic.Harvest, err error) {
	r, err := newTrafficRehearsal(file, &cfg, replay.Deps{}, func(c *config.Config) {
		if m.Solves {
			c.Captcha.TestAnswer = traffic.SolverAnswer
			for i := range c.Resolved {
				c.Resolved[i].Captcha.Work = true
			}
		}
	})
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return traffic.RunHarvest(ctx, cfg, m, r)
}

// runEconomy prints how much of the shop each make gets in a day: where the gateway knows the site's people, and where
// it has just been started.
func (f *trafficFlags) runEconomy(ctx context.Context, out io.Writer) error {
	makes, err := chosenMakes(f.makes, f.cfg.Set)
	if err != nil {
		return err
	}
	runs := []economyRun{{People: fmt.Sprintf("known for %v", f.cfg.WarmUp)}, {People: "as new as the gateway"}}
	for i := range runs {
		cfg := f.cfg
		if i == 1 {
			cfg.WarmUp = 0
		}
		for _, m := range makes {
			if m.Early && cfg.WarmUp == 0 {
				continue
			}
			h, err := harvest(ctx, f.config, cfg, m)
			if err != nil {
				return err
			}
			runs[i].Harvests = append(runs[i].Harvests, h)
		}
		if f.json {
			continue
		}
		if err := runs[i].text(out); err != nil {
			return err
		}
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(runs)
	}
	return nil
}

// makeNames lists harvesters for people.
func makeNames(list []traffic.Make) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// chosenMakes returns the harvesters of the names, or all of the set: what is held out is never among those for tuning.
func chosenMakes(names []string, set traffic.Set) ([]traffic.Make, error) {
	all := append(traffic.Makes(), traffic.Solvers()...)
	switch set {
	case traffic.HeldOut:
		all = traffic.HeldMakes()
	case traffic.Tuning:
	default:
		all = append(all, traffic.HeldMakes()...)
	}
	if len(names) == 0 {
		return all, nil
	}
	var list []traffic.Make
	for _, n := range names {
		i := slices.IndexFunc(all, func(m traffic.Make) bool { return m.Name == n })
		if i < 0 {
			return nil, fmt.Errorf("--make: there is no harvester %q; there are %s", n, makeNames(all))
		}
		list = append(list, all[i])
	}
	return list, nil
}

func (r *economyRun) text(out io.Writer) error {
	fmt.Fprintf(out, "people %s\n", r.People)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "harvester\tdoes\trequests\tsolved\tpages\tof the unhindered, a day\tbar\tCPU a page\tvisits of "+
		"people\tasked\tstopped\t")
	for i := range r.Harvests {
		h := &r.Harvests[i]
		mark := ""
		if !h.Within() {
			mark = "over"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%.2f %%\t%.0f %%\t%.4f s\t%d\t%d\t%d\t%s\n", h.Name, h.Does, h.Requests,
			h.Solved, h.Delivered, 100*h.Share, 100*h.Bar, h.CPU, h.Visits, h.Asked, h.Stopped, mark)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}
