package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/replay"
	"antirobot/traffic"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// ranked is a client of the traffic and how it was scored.
type ranked struct {
	kind    traffic.Kind
	habit   string
	held    bool
	judged  float32 // the highest score by which it was judged
	highest float64 // of the log-odds of its moments
	mean    formula.Mean
	decayed float64 // a mean of the last ones
	pages   int
	found   int // pages until its score was above the threshold; 0: never
	doubted int // pages until its score was above that of the unsure, or above the threshold; 0: never
}

// auc is how well scores part robots from people.
type auc struct {
	Who     string              `json:"who"`
	Robot   bool                `json:"robot"`
	Held    bool                `json:"held_out"`
	Clients int                 `json:"clients"`
	Judged  *formula.Evaluation `json:"judged"`
	Highest *formula.Evaluation `json:"highest"`
	Mean    *formula.Evaluation `json:"mean"`
	Decayed *formula.Evaluation `json:"decayed"`
	Over    int                 `json:"above_threshold"`
	Thirty  int                 `json:"above_threshold_by_30_pages"`

	Unsure       int `json:"unsure"` // or above the threshold
	UnsureThirty int `json:"unsure_by_30_pages"`
}

// runAUC runs the traffic without stopping anybody, and compares ways to summarise the scores of a visit: the score
// that the gateway judges by, the highest score, the mean, and a decaying mean.
func (f *trafficFlags) runAUC(ctx context.Context, out io.Writer) error {
	list, err := rank(ctx, f.config, f.cfg)
	if err != nil {
		return err
	}
	table := compare(list)
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(table)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "who\tis\tscored\tjudged (95 %)\thighest\tmean\tdecayed\tabove the threshold\twithin 30 pages\tunsure or above\twithin 30 pages")
	for i := range table {
		a := &table[i]
		is := "human"
		switch {
		case i < summaries:
			is = "both"
		case a.Robot:
			is = "robot"
		}
		if a.Held && i >= summaries {
			is += ", held out"
		}
		e := a.Judged
		fmt.Fprintf(w, "%s\t%s\t%d\t%.3f (%.3f to %.3f)\t%.3f\t%.3f\t%.3f\t%d\t%d\t%d\t%d\n", a.Who, is, a.Clients, e.AUC, e.Low, e.High, a.Highest.AUC, a.Mean.AUC, a.Decayed.AUC, a.Over, a.Thirty, a.Unsure, a.UnsureThirty)
	}
	return w.Flush()
}

// summaries is how many lines of the table are of more than one kind.
const summaries = 3

// forgets is how many evaluations it takes for an old one to count a third.
const forgets = 6

// rank runs the traffic in mode observe, and returns those who were scored.
func rank(ctx context.Context, file string, t traffic.Config) ([]*ranked, error) {
	cfg, err := config.Read(file, func(c *config.Config) {
		if file == "" {
			c.OverrideUpstreams([]string{"http://127.0.0.1:1"})
		}
		c.Defaults = observing(c.Defaults)
		for i := range c.Services {
			c.Services[i] = observing(c.Services[i])
		}
	})
	if err != nil {
		return nil, err
	}
	model, err := config.LoadModel(cfg.Formula.Model)
	if err != nil {
		return nil, err
	}
	of := map[traffic.Kind]map[int]*ranked{}
	var now *ranked
	observe := func(_ identity.Subject, _ uint16, _ time.Time, x []float32, score float32) {
		now.add(float64(model.Raw(x)), score)
	}
	g, err := replay.NewGateway(cfg, replay.Deps{Name: "the defaults", Observer: processor.Observer(observe), Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Close() }()
	err = traffic.Run(ctx, t, g, func(r *traffic.Request) {
		if of[r.Kind] == nil {
			of[r.Kind] = map[int]*ranked{}
		}
		if now = of[r.Kind][r.Client]; now == nil {
			now = &ranked{kind: r.Kind, habit: r.Habit, held: r.Held}
			of[r.Kind][r.Client] = now
		}
		if r.Page {
			now.pages++
		}
	}, func(*traffic.Request, *replay.Served) error { return nil })
	var list []*ranked
	for _, k := range traffic.Kinds() {
		for _, v := range of[k] {
			if v.mean.N > 0 && k != traffic.Crawler {
				list = append(list, v)
			}
		}
	}
	return list, err
}

// add counts a moment: its log-odds, and the score of the visit with it.
func (v *ranked) add(raw float64, score float32) {
	if v.mean.Add(raw); v.mean.N == 1 {
		v.highest, v.decayed = raw, raw
	}
	v.highest = max(v.highest, raw)
	v.decayed += (raw - v.decayed) / min(float64(v.mean.N), forgets)
	v.judged = max(v.judged, score)
	if score > defaultThreshold && v.found == 0 {
		v.found = max(1, v.pages)
	}
	if score > unsureAbove && v.doubted == 0 {
		v.doubted = max(1, v.pages)
	}
}

// observing is the settings of a service in mode observe.
func observing(service map[string]any) map[string]any {
	out, judge := map[string]any{}, map[string]any{}
	maps.Copy(out, service)
	if old, ok := out["verdict"].(map[string]any); ok {
		maps.Copy(judge, old)
	}
	judge["mode"] = "observe"
	out["verdict"] = judge
	return out
}

// compare has a line for all, for those that are held out, for the others, and for each kind against all of the other side.
// The log-odds become shares again: formula.Evaluate wants them so, and keeps their order.
func compare(list []*ranked) []auc {
	line := func(who string, fits func(v *ranked) bool) (a auc) {
		a.Who = who
		sample := func(score func(v *ranked) float64) *formula.Evaluation {
			var s []formula.Sample
			for _, v := range list {
				if fits(v) {
					s = append(s, formula.Sample{Score: float32(1 / (1 + math.Exp(-score(v)))), Robot: v.kind.Robot()})
				}
			}
			return formula.Evaluate(s)
		}
		a.Judged = sample(func(v *ranked) float64 { return math.Log(float64(v.judged+1e-9)) - math.Log(float64(1-v.judged)+1e-9) })
		a.Highest = sample(func(v *ranked) float64 { return v.highest })
		a.Mean = sample(func(v *ranked) float64 { return v.mean.LogOdds() })
		a.Decayed = sample(func(v *ranked) float64 { return v.decayed })
		return a
	}
	out := []auc{ // summaries
		line("all", func(*ranked) bool { return true }),
		line("held out", func(v *ranked) bool { return v.held }),
		line("not held out", func(v *ranked) bool { return !v.held }),
	}
	for i := range out {
		out[i].Clients = out[i].Judged.People + out[i].Judged.Robots
	}
	type group struct {
		kind  traffic.Kind
		habit string
	}
	var groups []group
	for _, v := range list {
		if g := (group{v.kind, v.habit}); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(slices.Index(traffic.Kinds(), a.kind)-slices.Index(traffic.Kinds(), b.kind), cmp.Compare(a.habit, b.habit))
	})
	for _, g := range groups {
		a := line(string(g.kind)+" "+g.habit, func(v *ranked) bool {
			return v.kind == g.kind && v.habit == g.habit || v.kind.Robot() != g.kind.Robot()
		})
		a.Robot, a.Held = g.kind.Robot(), traffic.IsHeldOut(g.kind, g.habit)
		for _, v := range list {
			if v.kind != g.kind || v.habit != g.habit {
				continue
			}
			a.count(v)
		}
		out = append(out, a)
	}
	return out
}

// count adds a client of the line.
func (a *auc) count(v *ranked) {
	a.Clients++
	tally := func(after int, ever, thirty *int) {
		if after > 0 {
			*ever++
		}
		if after > 0 && after <= 30 {
			*thirty++
		}
	}
	tally(v.found, &a.Over, &a.Thirty)
	tally(v.doubted, &a.Unsure, &a.UnsureThirty)
}

// defaultThreshold is what a score is compared with here, and unsureAbove from where on it is a doubt (verdict.unsure.above).
const (
	defaultThreshold = 0.5
	unsureAbove      = 0.3
)
