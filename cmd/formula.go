package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
	"antirobot/verdict/proof"
	"antirobot/verdict/words"
)

func formulaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "formula",
		Short: "Inspect a model, and measure it on labelled factors",
		Long: `A formula turns the factors of a subject into the probability that it is a robot. It is a score card
in YAML, XGBoost trees in JSON, or oblivious CatBoost trees in JSON; docs/detection.md explains how to
write or train one. None is built in: without one, the rules of "antirobot formula rules" ban alone.`,
	}
	cmd.AddCommand(formulaShowCommand(), formulaEvalCommand(), &cobra.Command{
		Use: "rules", Short: "Print the built-in rules: the proofs that ban a client", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := table(cmd.OutOrStdout())
			for i := range proof.Rules {
				fmt.Fprintf(w, "%s\t%s\n", proof.Rules[i].Name, words.Factor(words.English, proof.Rules[i].Name, 1))
			}
			return w.Flush()
		},
	}, &cobra.Command{
		Use: "factors", Short: "Print the factors that a formula may use: group, unit and meaning", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := table(cmd.OutOrStdout())
			fmt.Fprintln(w, "factor\tgroup\tunit\twhat it is")
			processor.DescribeFactors(func(name string, of processor.Group, unit, doc string) {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, of, unit, doc)
			})
			return w.Flush()
		},
	})
	return cmd
}

// importance is a factor of a model, and how far it moves the raw score.
type importance struct {
	Factor string  `json:"factor"`
	Moves  float32 `json:"moves"`
	Why    string  `json:"why,omitempty"`
}

// importances returns the factors that a model uses, the strongest first.
func importances(m *formula.Model) []importance {
	var out []importance
	needs := m.Needs()
	for i, name := range m.Names() {
		if slices.Contains(needs, name) {
			out = append(out, importance{Factor: name, Moves: m.Importance()[i], Why: m.Reason(i)})
		}
	}
	slices.SortStableFunc(out, func(a, b importance) int { return cmp.Compare(b.Moves, a.Moves) })
	return out
}

func formulaShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Describe a model: its version, the factors it needs, and how far each moves the score",
		Long: `Prints the version of a model (as recorded in bans), its size, and the factors it needs. How far a
factor moves the score is given in log-odds: for trees, the mean of the changes that its splits make; for
a score card, the distance between its lowest and its highest weight.`,
		Example: `  antirobot formula show card.yaml
  antirobot formula show model.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := config.LoadModel(args[0])
			if err != nil {
				return err
			}
			list := importances(m)
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(map[string]any{
					"version": m.Version(), "kind": m.Kind(), "size": m.Size(), "bias": m.Bias(), "factors": list,
				})
			}
			fmt.Fprintf(out, "%s: %s, %s\nwithout any evidence: %.4f\n\n", m.Version(), m.Kind(), m.Size(), probability(m.Bias()))
			w := table(out)
			fmt.Fprintln(w, "factor\tmoves\t\twhy")
			for _, f := range list {
				bar := ""
				if most := list[0].Moves; most > 0 {
					bar = strings.Repeat("█", int(f.Moves/most*20+0.5))
				}
				fmt.Fprintf(w, "%s\t%.3f\t%s\t%s\n", f.Factor, f.Moves, bar, f.Why)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// The scores of a subject that count.
const (
	byMean    = "mean"
	byHighest = "highest"
)

// rowFlags choose labelled rows.
type rowFlags struct {
	data    string
	sources []string
}

// read calls do with each chosen row, and returns how many rows there are and which factors the file lacks.
func (f *rowFlags) read(do func(row *formula.Row)) (rows int, lacks []string, err error) {
	in := os.Stdin
	if f.data != "-" {
		file, err := os.Open(f.data)
		if err != nil {
			return 0, nil, err
		}
		defer file.Close()
		in = file
	}
	lacks, _, err = formula.ReadRows(in, processor.FactorNames(), func(row *formula.Row) error {
		rows++
		if row.Label != formula.Unlabelled && (len(f.sources) == 0 || slices.Contains(f.sources, row.Source)) {
			do(row)
		}
		return nil
	})
	if err != nil {
		return rows, nil, fmt.Errorf("%s: %w", f.data, err)
	}
	return rows, lacks, nil
}

type evalFlags struct {
	rowFlags
	model     string
	threshold float64
	fpr       float64
	by        string
	asJSON    bool
}

func formulaEvalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure a model on labelled factors: ROC, precision and recall, a suggested threshold",
		Long: `Scores the labelled rows of a CSV file (of events export or of replay --factors)
and shows how well the scores tell robots from people: the area under the ROC curve, precision and recall
by threshold, and the lowest threshold at which no more than the desired share of people is banned.

If the file names subjects, subjects are counted, by the mean of their scores in log-odds, the second of
which counts twice, the third three times and so on, as more and more is known; with --by highest, by
their highest one. Rows of a subject are in the order of time. No threshold is suggested if the
scores are no better than chance. Measure a model on subjects that it was not trained with.`,
		Example: `  antirobot formula eval --model model.json --data labelled.csv --fpr 0.001`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.OutOrStdout()) },
	}
	p := cmd.Flags()
	p.StringVar(&f.model, "model", "", "`FILE` of the model")
	p.StringVar(&f.data, "data", "", "`FILE` with labelled factors in CSV; - is standard input")
	p.StringSliceVar(&f.sources, "source", nil, "count only labels from these `SOURCES`")
	p.Float64Var(&f.threshold, "threshold", 0, "evaluate this `THRESHOLD` instead of suggesting one")
	p.Float64Var(&f.fpr, "fpr", 0.001, "the false positive `RATE` to suggest a threshold for")
	p.StringVar(&f.by, "by", byMean, "`WHICH` of a subject's scores counts: mean or highest")
	p.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

type evalReport struct {
	Model      string              `json:"model"`
	Kind       formula.Kind        `json:"kind"`
	Size       string              `json:"size"`
	Data       string              `json:"data"`
	By         string              `json:"by"`     // what is counted: subjects or rows
	Scores     string              `json:"scores"` // of a subject: mean or highest
	Rows       int                 `json:"rows"`
	Unlabelled int                 `json:"rows_without_label"`
	Mixed      int                 `json:"subjects_with_both_labels"`
	Lacks      []string            `json:"factors_that_the_data_lacks,omitempty"`
	Total      *formula.Evaluation `json:"evaluation"`
	ByRow      *formula.Evaluation `json:"evaluation_by_row,omitempty"`
	Chance     bool                `json:"no_better_than_chance"` // Suggested is then at one half
	Suggested  formula.Suggestion  `json:"suggested"`
	Given      bool                `json:"-"` // the threshold came from the command line
	Sources    []sourceFigures     `json:"sources"`
	Clients    []clientFigures     `json:"clients"`
	Importance []importance        `json:"importance"`
}

func (f *evalFlags) run(out io.Writer) error {
	switch {
	case f.data == "":
		return misused("which data? give --data FILE with labelled factors")
	case f.model == "":
		return misused("which model? give --model FILE")
	case f.by != byMean && f.by != byHighest:
		return misused("--by: %q is neither mean nor highest", f.by)
	case f.fpr < 0 || f.fpr > 1 || f.threshold < 0 || f.threshold > 1:
		return misused("--fpr and --threshold are between 0 and 1")
	}
	m, err := config.LoadModel(f.model)
	if err != nil {
		return err
	}
	r, err := f.evaluate(m)
	if err != nil {
		return err
	}
	if f.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

func (f *evalFlags) evaluate(m *formula.Model) (*evalReport, error) {
	r := &evalReport{
		Model: m.Version(), Kind: m.Kind(), Size: m.Size(), Data: f.data, By: "subjects", Scores: f.by, Importance: importances(m),
	}
	var byRow []formula.Sample
	all := newTally()
	rows, lacks, err := f.read(func(row *formula.Row) {
		s := formula.Sample{Score: m.Score(row.Factors), Robot: row.Label == formula.Robot}
		byRow = append(byRow, s)
		all.add(row, clientOf(row.Factors), s)
	})
	if err != nil {
		return nil, err
	}
	r.Rows, r.Unlabelled = rows, rows-len(byRow)
	for _, name := range m.Needs() {
		if slices.Contains(lacks, name) {
			r.Lacks = append(r.Lacks, name)
		}
	}
	if all.rowsOnly() {
		r.By = "rows"
	} else {
		r.ByRow = formula.Evaluate(byRow)
	}
	for _, j := range all.list {
		if j.mixed {
			r.Mixed++
		}
	}
	samples := all.samples(f.by)
	r.Total = formula.Evaluate(samples)
	if r.Total.Robots == 0 || r.Total.People == 0 {
		return nil, fmt.Errorf("%s has %s with labels: both are needed", f.data,
			counted("%d {robot|robots} and %d {person|people}", r.Total.Robots, r.Total.People))
	}
	r.Chance = !r.Total.BetterThanChance()
	switch {
	case f.threshold > 0:
		r.Given = true
		r.Suggested = r.Total.At(samples, float32(f.threshold))
	case r.Chance:
		r.Suggested = r.Total.At(samples, 0.5)
	default:
		r.Suggested = r.Total.Suggest(samples, f.fpr)
	}
	r.Sources = bySource(all.list, r.Suggested.Threshold)
	r.Clients = byClient(all.list, r.Suggested.Threshold)
	return r, nil
}

func (r *evalReport) print(out io.Writer) error {
	t := r.Total
	fmt.Fprintf(out, "%s (%s, %s) on %s\n", r.Model, r.Kind, r.Size, r.Data)
	fmt.Fprintln(out, counted("%d {row|rows}, %d without label; %d {robot|robots} and %d {person|people} by %s",
		r.Rows, r.Unlabelled, t.Robots, t.People, r.By))
	if len(r.Lacks) > 0 {
		fmt.Fprintf(out, "the data lacks factors that the model needs, they count as unknown: %s\n", strings.Join(r.Lacks, ", "))
	}
	if r.Mixed > 0 {
		fmt.Fprintln(out, counted("%d {subject has|subjects have} rows with both labels and "+
			"{counts as a robot|count as robots}", r.Mixed))
	}
	fmt.Fprintf(out, "\nROC AUC %.4f (95 %%: %.4f to %.4f), log loss %.4f, Brier score %.4f\n", t.AUC, t.Low, t.High, t.LogLoss, t.Brier)
	fmt.Fprintf(out, "average precision %.4f (95 %%: %.4f to %.4f); a score is wrong by %s on average\n\n",
		t.Average, t.AverageLow, t.AverageHigh, percent(t.CalibrationError))
	w := table(out)
	fmt.Fprintln(w, "threshold\tprecision\trecall\tfalse positives\trate")
	for _, p := range t.Points {
		fmt.Fprintf(w, "%.3f\t%s\t%s\t%d\t%s\n", p.Threshold, percent(p.Precision), percent(p.Recall), p.Wronged, percent(p.FPR))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", r.suggestion())
	fmt.Fprintln(w, "\nlabel\tsource\tcount\tabove the threshold")
	for _, s := range r.Sources {
		label := "human"
		if s.Robot {
			label = "robot"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", label, s.Source, s.Count, s.Banned)
	}
	printClients(w, r.Clients)
	fmt.Fprintln(w, "\nscores from\tmean\tcount\trobots")
	for _, b := range t.Calibration {
		fmt.Fprintf(w, "%.1f\t%.3f\t%d\t%s\n", b.From, b.Score, b.Count, shareOf(b.Robots, b.Count))
	}
	return w.Flush()
}

func (r *evalReport) suggestion() string {
	s, t := r.Suggested, r.Total
	if r.Chance && !r.Given {
		return counted("The scores are no better than chance on %d {robot|robots} and %d {person|people}: no threshold is "+
			"suggested. More labels, or other factors, are needed.", t.Robots, t.People)
	}
	what := fmt.Sprintf("Suggested threshold for a false positive rate of at most %s: %.4f",
		percent(formula.Figure(s.Wanted)), s.Threshold)
	if r.Given {
		what = fmt.Sprintf("A threshold of %.4f", s.Threshold)
	}
	return counted("%s. It bans %d of %d {robot|robots} (%s) and %d of %d {person|people} (%s; of this many people the true "+
		"rate is under %s, 95 %%).",
		what, s.Banned, t.Robots, percent(s.Recall), s.Wronged, t.People, percent(s.FPR), percent(s.Bound))
}

func percent(f formula.Figure) string {
	if math.IsNaN(float64(f)) {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(f))
}

func shareOf(part, of int) string {
	if of == 0 {
		return ""
	}
	return percent(formula.Figure(float64(part) / float64(of)))
}

func probability(raw float32) float64 { return 1 / (1 + math.Exp(-float64(raw))) }
