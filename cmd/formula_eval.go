package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

type evalFlags struct {
	model, data, html string
	sources           []string
	threshold         float64
	fpr               float64
	by                string
	asJSON            bool
}

func formulaEvalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure a model on labelled factors: ROC, precision and recall, a suggested threshold",
		Long: `Scores the labelled rows of a CSV file (of events export, of replay --factors or of traffic --factors)
and shows how well the scores tell robots from people: the area under the ROC curve, precision and recall
by threshold, and the lowest threshold at which no more than the desired share of people is banned.

If the file names subjects, subjects are counted, by the mean of their scores in log-odds, the second of
which counts twice, the third three times and so on, as more and more is known; with --by highest, by
their highest one. Rows of a subject are in the order of time. No threshold is suggested if the
scores are no better than chance. Measure a model on subjects that it was not trained with.`,
		Example: `  antirobot formula eval --model model.json --data labelled.csv --fpr 0.001 --html report.html`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.OutOrStdout()) },
	}
	p := cmd.Flags()
	p.StringVar(&f.model, "model", "", "`FILE` of the model")
	p.StringVar(&f.data, "data", "", "`FILE` with labelled factors in CSV; - is standard input")
	p.StringVar(&f.html, "html", "", "write a self-contained report with plots to `FILE`")
	p.StringSliceVar(&f.sources, "source", nil, "count only labels from these `SOURCES`")
	p.Float64Var(&f.threshold, "threshold", 0, "evaluate this `THRESHOLD` instead of suggesting one")
	p.Float64Var(&f.fpr, "fpr", 0.001, "the false positive `RATE` to suggest a threshold for")
	p.StringVar(&f.by, "by", byMean, "`WHICH` of a subject's scores counts: mean or highest")
	p.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

type formulaReport struct {
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
	Chance     bool                `json:"no_better_than_chance"` // Suggested then says what one half does
	Suggested  formula.Suggestion  `json:"suggested"`
	Given      bool                `json:"-"` // the threshold came from the command line
	Sources    []sourceFigures     `json:"sources"`
	Clients    []clientFigures     `json:"clients"`
	Importance []importance        `json:"importance"`
}

// sourceFigures is the effect of the threshold on the subjects whose label comes from one source.
type sourceFigures struct {
	Source string `json:"source"`
	Robot  bool   `json:"robots"`
	Count  int    `json:"count"`
	Banned int    `json:"banned"`
}

func (f *evalFlags) run(out io.Writer) error {
	if f.data == "" {
		return misused("which data? give --data FILE with labelled factors")
	}
	if f.model == "" {
		return misused("which model? give --model FILE")
	}
	if f.by != byMean && f.by != byHighest {
		return misused("--by: %q is neither mean nor highest", f.by)
	}
	if f.fpr < 0 || f.fpr > 1 || f.threshold < 0 || f.threshold > 1 {
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
	if f.html != "" {
		if err := writeReport(f.html, r); err != nil {
			return err
		}
	}
	if f.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

// judged is what is counted: a subject, or a row.
type judged struct {
	formula.Sample
	source string
	client string
	mixed  bool
	mean   formula.Mean
}

// counted are the subjects that are counted, in the order of the file.
type counted struct {
	list    []*judged
	subject map[string]*judged
}

func newCounted() *counted { return &counted{subject: map[string]*judged{}} }

// add counts a row for its subject. A subject is a robot if one of its rows is.
func (c *counted) add(row *formula.Row, client string, s formula.Sample) {
	name := row.Kind + ":" + row.Subject
	j := c.subject[name]
	if j == nil || row.Subject == "" {
		j = &judged{Sample: s, source: row.Source, client: client}
		c.subject[name] = j
		c.list = append(c.list, j)
	}
	j.mixed = j.mixed || j.Robot != s.Robot
	j.Score, j.Robot = max(j.Score, s.Score), j.Robot || s.Robot
	p := min(max(float64(s.Score), 1e-7), 1-1e-7)
	j.mean.Add(math.Log(p / (1 - p)))
}

func (c *counted) samples(by string) []formula.Sample {
	all := make([]formula.Sample, 0, len(c.list))
	for _, j := range c.list {
		if by == byMean && j.mean.N > 1 {
			j.Score = float32(probability(float32(j.mean.LogOdds())))
		}
		all = append(all, j.Sample)
	}
	return all
}

func (c *counted) rowsOnly() bool { return len(c.subject) == 1 && c.subject[":"] != nil }

func (f *evalFlags) evaluate(m *formula.Model) (*formulaReport, error) {
	in := os.Stdin
	if f.data != "-" {
		file, err := os.Open(f.data)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	r := &formulaReport{Model: m.Version(), Kind: m.Kind(), Size: m.Size(), Data: f.data, By: "subjects", Scores: f.by, Importance: importances(m)}
	var rows []formula.Sample
	who := newCounted()
	lacks, _, err := formula.ReadRows(in, processor.FactorNames(), func(row *formula.Row) error {
		r.Rows++
		if row.Label == formula.Unlabelled || len(f.sources) > 0 && !slices.Contains(f.sources, row.Source) {
			r.Unlabelled++
			return nil
		}
		s := formula.Sample{Score: m.Score(row.Factors), Robot: row.Label == formula.Robot}
		rows = append(rows, s)
		who.add(row, clientOf(row.Factors), s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.data, err)
	}
	for _, name := range m.Needs() {
		if slices.Contains(lacks, name) {
			r.Lacks = append(r.Lacks, name)
		}
	}
	if who.rowsOnly() {
		r.By = "rows"
	} else {
		r.ByRow = formula.Evaluate(rows)
	}
	return r, f.conclude(r, who)
}

func (f *evalFlags) conclude(r *formulaReport, who *counted) error {
	for _, j := range who.list {
		if j.mixed {
			r.Mixed++
		}
	}
	samples := who.samples(f.by)
	r.Total = formula.Evaluate(samples)
	if r.Total.Robots == 0 || r.Total.People == 0 {
		return errors.New(words.Sprintf(words.English, "%s has %d {robot|robots} and %d {person|people} with labels: both are needed", f.data, r.Total.Robots, r.Total.People))
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
	r.Sources = bySource(who.list, r.Suggested.Threshold)
	r.Clients = byClient(who.list, r.Suggested.Threshold)
	return nil
}

func bySource(list []*judged, threshold float32) []sourceFigures {
	var out []sourceFigures
	for _, j := range list {
		i := slices.IndexFunc(out, func(s sourceFigures) bool { return s.Source == j.source && s.Robot == j.Robot })
		if i < 0 {
			i = len(out)
			out = append(out, sourceFigures{Source: j.source, Robot: j.Robot})
		}
		out[i].Count++
		if j.Score > threshold {
			out[i].Banned++
		}
	}
	slices.SortStableFunc(out, func(a, b sourceFigures) int { return b.Count - a.Count })
	return out[:min(len(out), 40)]
}

func (r *formulaReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s (%s, %s) on %s\n", r.Model, r.Kind, r.Size, r.Data)
	fmt.Fprintln(out, words.Sprintf(words.English, "%d {row|rows}, %d without label; %d {robot|robots} and %d {person|people} by %s", r.Rows, r.Unlabelled, r.Total.Robots, r.Total.People, r.By))
	if len(r.Lacks) > 0 {
		fmt.Fprintf(out, "the data lacks factors that the model needs, they count as unknown: %s\n", strings.Join(r.Lacks, ", "))
	}
	if r.Mixed > 0 {
		fmt.Fprintln(out, words.Sprintf(words.English, "%d {subject has|subjects have} rows with both labels and {counts as a robot|count as robots}", r.Mixed))
	}
	t := r.Total
	fmt.Fprintf(out, "\nROC AUC %.4f (95 %%: %.4f to %.4f), log loss %.4f, Brier score %.4f\n", t.AUC, t.Low, t.High, t.LogLoss, t.Brier)
	fmt.Fprintf(out, "average precision %.4f (95 %%: %.4f to %.4f); a score is wrong by %s on average\n\n",
		t.Average, t.AverageLow, t.AverageHigh, percent(t.CalibrationError))
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "threshold\tprecision\trecall\tfalse positives\trate\t")
	for _, p := range t.Points {
		fmt.Fprintf(w, "%.3f\t%s\t%s\t%d\t%s\t\n", p.Threshold, percent(p.Precision), percent(p.Recall), p.Wronged, percent(p.FPR))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", r.suggestion())
	w = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nlabel\tsource\tcount\tabove the threshold")
	for _, s := range r.Sources {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", s.label(), s.Source, s.Count, s.Banned)
	}
	r.printClients(w)
	r.printCalibration(w)
	return w.Flush()
}

func (s sourceFigures) label() string {
	if s.Robot {
		return "robot"
	}
	return "human"
}

func (r *formulaReport) suggestion() string {
	s := r.Suggested
	what := fmt.Sprintf("Suggested threshold for a false positive rate of at most %s: %.4f", percent(formula.Figure(s.Wanted)), s.Threshold)
	if r.Chance && !r.Given {
		return words.Sprintf(words.English, "The scores are no better than chance on %d {robot|robots} and %d {person|people}: no threshold is suggested. "+
			"More labels, or other factors, are needed.", r.Total.Robots, r.Total.People)
	}
	if r.Given {
		what = fmt.Sprintf("A threshold of %.4f", s.Threshold)
	}
	return words.Sprintf(words.English, "%s. It bans %d of %d {robot|robots} (%s) and %d of %d {person|people} (%s; with so many people the true rate is under %s, 95 %%).",
		what, s.Banned, r.Total.Robots, percent(s.Recall), s.Wronged, r.Total.People, percent(s.FPR), percent(s.Bound))
}

func percent(f formula.Figure) string {
	if math.IsNaN(float64(f)) {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(f))
}

func probability(raw float32) float64 { return 1 / (1 + math.Exp(-float64(raw))) }
