package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/verdict/formula"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

func learnCommand() *cobra.Command {
	var f rowFlags
	var out string
	cmd := &cobra.Command{
		Use:   "learn",
		Short: "Show what was learnt of a site's visitors, take it back, or learn from labels of both kinds",
		Long: `Each night the gateway learns, for each service, how usual a visitor is for that site, from the site's
known people; docs/detection.md says how. It sets trust and never bans.

With --labels it learns instead from rows with labels of both kinds (of events export, or of replay --factors),
and prints how well the result tells robots from people that it has not seen: the area under the ROC curve, the
robots found where 0.1 and 1 % of the people are above the threshold, and the effect on each kind of client. A
model learnt this way may challenge (formula.model with verdict.unsure.above); do not let it ban.`,
		Example: `  antirobot learn show shop
  antirobot learn rollback shop
  antirobot learn --labels labelled.csv --out card.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.data == "" {
				return cmd.Help()
			}
			return learnLabels(cmd.Context(), cmd.OutOrStdout(), &f, out)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.data, "labels", "", "`FILE` with labelled factors in CSV; - is standard input")
	p.StringVar(&out, "out", "", "write the card to `FILE`")
	p.StringSliceVar(&f.sources, "source", nil, "learn only from labels from these `SOURCES`")
	var c client
	cmd.AddCommand(learnShowCommand(), c.command("rollback SERVICE",
		"Put the previous card of a service back into use, until the next night", "  antirobot learn rollback shop",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"service": args[0]}
			return show(&c, cmd, http.MethodPost, "/api/learn/rollback", in, func(w io.Writer, out *admin.LearntStory) error {
				_, err := fmt.Fprintf(w, "%s: the card of %s is in use again\n", out.Service, out.Learnt.At.Format(learntAt))
				return err
			})
		}))
	return cmd
}

func learnShowCommand() *cobra.Command {
	var c client
	var asCard bool
	cmd := c.command("show [SERVICE]", "Print what was learnt of each service, or the card of one",
		"  antirobot learn show\n  antirobot learn show shop\n  antirobot learn show shop --card >card.yaml",
		cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
			type learnt struct{ Items []admin.LearntStory }
			return show(&c, cmd, http.MethodGet, "/api/learn", nil, func(w io.Writer, out *learnt) error {
				if len(args) == 0 {
					noteEmpty(cmd, len(out.Items), "no visitor has come yet, and nothing was learnt")
					return printLearnt(w, out.Items)
				}
				i := slices.IndexFunc(out.Items, func(s admin.LearntStory) bool { return s.Service == args[0] })
				if i < 0 || out.Items[i].Card == "" {
					return fmt.Errorf("nothing was learnt of %q yet", args[0])
				}
				if asCard {
					_, err := io.WriteString(w, out.Items[i].Card)
					return err
				}
				card, err := learn.ReadCard([]byte(out.Items[i].Card))
				if err != nil {
					return err
				}
				return errors.Join(printLearnt(w, out.Items[i:i+1]), printCard(w, card))
			})
		})
	cmd.Long = `Prints for each service how many people are known, how many other visitors there are, and how well the
card tells them apart. With a service it prints the card: for each feature the median of the known people, and
the weight of each bin in log-odds. Positive weights are unusual.`
	cmd.Flags().BoolVar(&asCard, "card", false, "print the card as a file, for formula eval and formula.shadow")
	return cmd
}

const learntAt = "2006-01-02 15:04"

// printLearnt prints a line for each service.
func printLearnt(out io.Writer, list []admin.LearntStory) error {
	w := table(out)
	fmt.Fprintln(w, "service\tlearnt\tknown people\tnetworks\tothers\tarea (from)\topinion")
	for _, s := range list {
		if s.Learnt == nil {
			fmt.Fprintf(w, "%s\tnot yet\t%d\t\t%d\t\tnone\n", s.Service, s.Sample.Known, s.Sample.Others)
			continue
		}
		opinion := "none"
		if s.Opinion {
			opinion = "yes"
		}
		l := s.Learnt
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.3f (%.3f)\t%s\n",
			s.Service, l.At.Format(learntAt), l.Known, l.Networks, l.Others, l.Area, l.Low, opinion)
	}
	return w.Flush()
}

// printCard prints the weights of a card, the features that move the score most first.
func printCard(out io.Writer, c *learn.Card) error {
	moves := func(f *learn.CardFeature) float32 {
		low, high := f.Bins[0].Weight, f.Bins[0].Weight
		for _, b := range f.Bins {
			low, high = min(low, b.Weight), max(high, b.Weight)
		}
		return high - low
	}
	features := slices.Clone(c.Features)
	slices.SortStableFunc(features, func(a, b learn.CardFeature) int { return cmp.Compare(moves(&b), moves(&a)) })
	w := table(out)
	fmt.Fprintln(w, "\nfeature\tthe known people, typically\tbins and weights")
	for i := range features {
		f := &features[i]
		typical := "unknown"
		if k := slices.IndexFunc(c.Learnt.Typical, func(t learn.Typical) bool { return t.Name == f.Name }); k >= 0 {
			if v := c.Learnt.Typical[k].Value; !math.IsNaN(float64(v)) {
				typical = words.Factor(words.English, f.Name, v)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t", f.Name, typical)
		for _, b := range f.Bins {
			switch {
			case b.From == nil && b.Below != nil:
				fmt.Fprintf(w, "below %.4g: %+.2f", *b.Below, b.Weight)
			case b.From != nil:
				fmt.Fprintf(w, "; from %.4g: %+.2f", *b.From, b.Weight)
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// learnPick returns a func that picks the features that are learnt from.
func learnPick() func(x []float32) []float32 {
	var at []int
	names := processor.FactorNames()
	for _, f := range learn.Features {
		at = append(at, slices.Index(names, f)) // a test of package learn checks that each exists
	}
	return func(x []float32) []float32 {
		out := make([]float32, len(at))
		for i, k := range at {
			out[i] = x[k]
		}
		return out
	}
}

// nameHash is the same in every run: it decides in which fold a visitor is.
func nameHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// learnLabels learns from labelled rows, writes the card to a file unless that is "", and prints how good it is.
func learnLabels(ctx context.Context, out io.Writer, f *rowFlags, file string) error {
	type visitor struct {
		row    formula.Row // the last, without its factors
		client string
	}
	var visitors []visitor
	var samples []learn.Sample
	pick, places := learnPick(), map[string]int{}
	_, _, err := f.read(func(row *formula.Row) {
		name := row.Kind + ":" + row.Subject
		if row.Subject == "" { // rows of different subjects, as far as the file says
			name = strconv.Itoa(row.Line)
		}
		i, ok := places[name]
		if !ok {
			i = len(samples)
			places[name] = i
			samples = append(samples, learn.Sample{Subject: nameHash(name), Known: true})
			visitors = append(visitors, visitor{})
		}
		samples[i].Vectors.Append(pick(row.Factors))
		samples[i].Known = samples[i].Known && row.Label != formula.Robot
		visitors[i] = visitor{*row, clientOf(row.Factors)}
		visitors[i].row.Factors = nil
	})
	if err != nil {
		return err
	}
	card, scores, err := learn.Fit(ctx, samples, learn.Options{At: time.Now(), Labelled: true})
	if errors.Is(err, learn.ErrFew) {
		return fmt.Errorf("%s: labels of at least ten people and ten robots are needed", f.data)
	}
	if err != nil {
		return err
	}
	all := newTally()
	for i := range visitors {
		s := formula.Sample{Score: float32(probability(scores[i])), Robot: !samples[i].Known}
		all.add(&visitors[i].row, visitors[i].client, s)
	}
	if file != "" {
		if err := os.WriteFile(file, card.Text(), 0o644); err != nil { //nolint:gosec // it names no one
			return err
		}
	}
	threshold, err := printLearntLabels(out, all)
	if err == nil && threshold > 0 {
		fmt.Fprintf(out, "\nIt may challenge and must not ban. With the card as formula.model:\n"+
			"  verdict: {threshold: 0.999999, unsure: {above: %.4f, then: check}}\n", threshold)
	}
	return err
}

// printLearntLabels prints how well robots are told from people, each scored by a fit that has not seen it. It returns
// the threshold that 1 % of the people exceed; 0: the scores are no better than chance.
func printLearntLabels(out io.Writer, all *tally) (threshold float32, err error) {
	samples := all.samples(byMean)
	e := formula.Evaluate(samples)
	fmt.Fprintln(out, counted("%d {robot|robots} and %d {person|people}, each scored by a fit that has not seen it", e.Robots, e.People))
	fmt.Fprintf(out, "ROC AUC %.4f (95 %%: %.4f to %.4f)\n", e.AUC, e.Low, e.High)
	if !e.BetterThanChance() {
		fmt.Fprintln(out, "The scores are no better than chance: do not use this.")
		return 0, nil
	}
	for _, share := range [...]float64{0.001, 0.01} {
		s := e.Suggest(samples, share)
		threshold = s.Threshold
		fmt.Fprintln(out, counted("with at most %s of the people above the threshold (%.4f): "+
			"%d of %d {robot|robots} (%s), %d of %d {person|people}; the true rate is under %s (95 %%)",
			percent(formula.Figure(share)), threshold, s.Banned, e.Robots, percent(s.Recall), s.Wronged, e.People, percent(s.Bound)))
	}
	w := table(out)
	printClients(w, byClient(all.list, threshold))
	return threshold, w.Flush()
}
