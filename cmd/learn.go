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
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/verdict/formula"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

func learnCommand() *cobra.Command {
	var f learnFlags
	cmd := &cobra.Command{
		Use:   "learn",
		Short: "Show what was learnt of a site's visitors, take it back, or learn from labels of both kinds",
		Long: `Each night the gateway learns, for each service, how usual a visitor is for that site, from the site's
known people; docs/learning.md says how. It sets trust and never bans.

With --labels it learns instead from rows with labels of both kinds (of events export, or of replay --factors),
and prints how well the result tells robots from people that it has not seen: the area under the ROC curve, the
robots found where 0.1 and 1 % of the people are above the threshold, and the effect on each kind of client. A
model learnt this way may challenge (formula.model with verdict.unsure.above); do not let it ban.`,
		Example: `  antirobot learn show shop
  antirobot learn rollback shop
  antirobot learn --labels labelled.csv --out card.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.labels == "" {
				return cmd.Help()
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.labels, "labels", "", "`FILE` with labelled factors in CSV; - is standard input")
	p.StringVar(&f.out, "out", "", "write the card to `FILE`")
	p.StringSliceVar(&f.sources, "source", nil, "learn only from labels from these `SOURCES`")
	cmd.AddCommand(learnShowCommand(), learnRollbackCommand())
	return cmd
}

func learnShowCommand() *cobra.Command {
	var o operator
	var asCard bool
	cmd := &cobra.Command{
		Use:   "show [SERVICE]",
		Short: "Print what was learnt of each service, or the card of one",
		Long: `Prints for each service how many people are known, how many other visitors there are, and how well the
card tells them apart. With a service it prints the card: for each feature the median of the known people, and
the weight of each bin in log-odds. Positive weights are unusual.`,
		Example: `  antirobot learn show
  antirobot learn show shop
  antirobot learn show shop --card >card.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out struct {
				Items []admin.LearntStory `json:"items"`
			}
			printed, err := o.call(cmd, http.MethodGet, "/api/learn", nil, &out)
			if err != nil || printed {
				return err
			}
			if len(args) == 0 {
				sayNone(cmd, len(out.Items), "no visitor has come yet, and nothing was learnt")
				return printLearnt(cmd.OutOrStdout(), out.Items)
			}
			i := slices.IndexFunc(out.Items, func(s admin.LearntStory) bool { return s.Service == args[0] })
			if i < 0 || out.Items[i].Card == "" {
				return fmt.Errorf("nothing was learnt of %q yet", args[0])
			}
			if asCard {
				_, err := io.WriteString(cmd.OutOrStdout(), out.Items[i].Card)
				return err
			}
			card, err := learn.ReadCard([]byte(out.Items[i].Card))
			if err != nil {
				return err
			}
			if err := printLearnt(cmd.OutOrStdout(), out.Items[i:i+1]); err != nil {
				return err
			}
			return printCard(cmd.OutOrStdout(), card)
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.raw, "json", false, "print the response of the gateway unchanged")
	cmd.Flags().BoolVar(&asCard, "card", false, "print the card as a file, for formula eval and formula.shadow")
	return cmd
}

func learnRollbackCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "rollback SERVICE",
		Short: "Put the previous card of a service back into use, until the next night",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out admin.LearntStory
			in := map[string]string{"service": args[0]}
			printed, err := o.call(cmd, http.MethodPost, "/api/learn/rollback", in, &out)
			if err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: the card of %s is in use again\n", out.Service, out.Learnt.At.Format(learntAt))
			return nil
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

const learntAt = "2006-01-02 15:04"

// printLearnt prints a line for each service.
func printLearnt(out io.Writer, list []admin.LearntStory) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
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
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
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

// learnFlags are the flags of learn from labels.
type learnFlags struct {
	labels, out string
	sources     []string
}

// labelledRows are rows with labels, and their samples.
type labelledRows struct {
	rows    []*formula.Row
	samples []learn.Sample
}

func (f *learnFlags) read() (*labelledRows, error) {
	in := os.Stdin
	if f.labels != "-" {
		file, err := os.Open(f.labels)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	pick, l, robots := learnPick(), &labelledRows{}, map[uint64]bool{}
	_, _, err := formula.ReadRows(in, processor.FactorNames(), func(row *formula.Row) error {
		if row.Label == formula.Unlabelled || len(f.sources) > 0 && !slices.Contains(f.sources, row.Source) {
			return nil
		}
		name := row.Kind + ":" + row.Subject
		if row.Subject == "" { // rows of different subjects, as far as the file says
			name = strconv.Itoa(row.Line)
		}
		s := learn.Sample{Subject: nameHash(name), X: pick(row.Factors)}
		r := *row
		r.Factors = slices.Clone(row.Factors)
		l.rows, l.samples = append(l.rows, &r), append(l.samples, s)
		robots[s.Subject] = robots[s.Subject] || row.Label == formula.Robot
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.labels, err)
	}
	for i := range l.samples {
		l.samples[i].Known = !robots[l.samples[i].Subject]
	}
	return l, nil
}

// learnPick returns a func that picks the features that are learnt from.
func learnPick() func(x []float32) []float32 {
	var at []int
	names := processor.FactorNames()
	for _, f := range learn.Features {
		at = append(at, slices.Index(names, f)) // a test of package learn says that each is there
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

func (f *learnFlags) run(ctx context.Context, out io.Writer) error {
	l, err := f.read()
	if err != nil {
		return err
	}
	card, scores, err := learn.Fit(ctx, l.samples, learn.Options{At: time.Now(), Labelled: true})
	if errors.Is(err, learn.ErrFew) {
		return fmt.Errorf("%s: labels of at least ten people and ten robots are needed", f.labels)
	}
	if err != nil {
		return err
	}
	who := newCounted()
	for i, row := range l.rows {
		s := formula.Sample{Score: float32(probability(scores[i])), Robot: !l.samples[i].Known}
		who.add(row, clientOf(row.Factors), s)
	}
	if f.out != "" {
		if err := os.WriteFile(f.out, card.Text(), 0o644); err != nil { //nolint:gosec // names nobody
			return err
		}
	}
	threshold, err := printLearntLabels(out, who)
	if err == nil && threshold > 0 {
		fmt.Fprintf(out, "\nIt may challenge and must not ban. With the card as formula.model:\n"+
			"  verdict: {threshold: 0.999999, unsure: {above: %.4f, then: check}}\n", threshold)
	}
	return err
}

// printLearntLabels prints how well robots are told from people, all of them by fits that have not seen them, and
// returns the threshold that 1 % of the people exceed; 0: the scores are no better than chance.
func printLearntLabels(out io.Writer, who *counted) (threshold float32, err error) {
	samples := who.samples(byMean)
	e := formula.Evaluate(samples)
	fmt.Fprintln(out, words.Sprintf(words.English,
		"%d {robot|robots} and %d {person|people}, each scored by a fit that has not seen it", e.Robots, e.People))
	fmt.Fprintf(out, "ROC AUC %.4f (95 %%: %.4f to %.4f)\n", e.AUC, e.Low, e.High)
	if !e.BetterThanChance() {
		fmt.Fprintln(out, "The scores are no better than chance: do not use this.")
		return 0, nil
	}
	for _, share := range [...]float64{0.001, 0.01} {
		s := e.Suggest(samples, share)
		fmt.Fprintln(out, words.Sprintf(words.English, "with at most %s of the people above the threshold (%.4f): "+
			"%d of %d {robot|robots} (%s), %d of %d {person|people}; the true rate is under %s (95 %%)",
			percent(formula.Figure(share)), s.Threshold, s.Banned, e.Robots, percent(s.Recall),
			s.Wronged, e.People, percent(s.Bound)))
	}
	threshold = e.Suggest(samples, 0.01).Threshold
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	(&formulaReport{Clients: byClient(who.list, threshold)}).printClients(w)
	return threshold, w.Flush()
}
