package cmd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
)

func eventsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "Export what the gateway has seen, to train models with"}
	cmd.AddCommand(eventsExportCommand())
	return cmd
}

type exportFlags struct {
	client
	out        string
	since      time.Duration // 0: all
	labels     string
	running    bool
	unlabelled bool
}

func eventsExportCommand() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write factors of subjects with labels, as CSV",
		Long: `Writes the training log as CSV: one row for each time that a subject of the sample was evaluated, with
all factors (an empty field is unknown), a label (1 robot, 0 human) and where the label comes from:

  own         of the file that --labels names              1, 0
  operator    of antirobot label, or of the API            1, 0
  crawler     a verified crawler of a search engine       1
  list        on a ban list, or stopped by a rule         1
  honeypot    has opened a path that no person finds      1
  customer    the service says so in X-Antirobot-Label;   0
              also paid, posted, signed-in; service is    1, 0
              its robot or human
  signed-in   known by a login or the service's cookie    0
  declared    has always declared itself a robot          1
  solved      solved a captcha                            0
  failed      gave three wrong answers and no correct one 1
  ignored     was shown three captchas and tried none,    1
              and does not load pages as browsers do

--labels joins labels of your own: CSV with the columns subject (as ip:203.0.113.7, L:alice or
service:NAME=VALUE), label (human or robot) and perhaps source.

Rows recorded after the gateway first answered a subject itself are left out, since their factors
reflect that answer. Subjects are hashes: the log contains no address, cookie or login.

It reads the log in the data directory; if the gateway is running, the last seconds may be missing. With
--running it asks the gateway, over its private listener.`,
		Example: `  antirobot events export --data-dir /var/lib/antirobot --out labelled.csv
  antirobot events export --running --since 7d --out labelled.csv
  antirobot events export --labels customers.csv --out labelled.csv
  tools/train.py --data labelled.csv --out model.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, time.Now()) },
	}
	f.register(cmd)
	p := cmd.Flags()
	p.StringVar(&f.out, "out", "-", "write to `FILE`; - is standard output")
	timeVar(p, &f.since, "since", 0, "only rows from the last `TIME`, e.g. 12h or 7d; 0 is all")
	p.StringVar(&f.labels, "labels", "", "join the labels of `FILE`, which outweigh all others")
	p.BoolVar(&f.running, "running", false, "ask the running gateway at --admin instead of reading --data-dir")
	p.BoolVar(&f.unlabelled, "unlabelled", false, "write rows without a label, too")
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command, now time.Time) (err error) {
	var since time.Time
	if f.since != 0 {
		since = now.Add(-f.since)
	}
	f.locate(cmd)
	own, err := f.ownLabels()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if f.out != "-" {
		file := &lateFile{name: f.out}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	if f.running {
		return f.ask(cmd, w, since)
	}
	done, err := training.Export(config.TrainingDir(f.dataDir), processor.FactorNames(), w,
		training.ExportOptions{Unlabelled: f.unlabelled, Since: since, Labels: own}, now)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), counted("%d {row|rows}: %d of robots, %d of people; %d without a label, %d left out "+
		"from after the gateway's own answers", done.Rows, done.Robots, done.People, done.Unlabelled, done.Late))
	return nil
}

func (f *exportFlags) ask(cmd *cobra.Command, w io.Writer, since time.Time) error {
	path := "/api/events?unlabelled=" + fmt.Sprint(f.unlabelled)
	if !since.IsZero() {
		path += "&since=" + since.UTC().Format(time.RFC3339)
	}
	return f.stream(cmd, http.MethodGet, path, nil, func(body io.Reader) error {
		_, err := io.Copy(w, body)
		return err
	})
}

func (f *exportFlags) ownLabels() (training.OwnLabels, error) {
	if f.labels == "" {
		return nil, nil
	}
	if f.running {
		return nil, misused("--labels needs the training log's secret, which the gateway does not give away: read " +
			"--data-dir instead of --running, or set the labels with antirobot label")
	}
	file, err := os.Open(f.labels)
	if err != nil {
		return nil, fmt.Errorf("--labels: %w", err)
	}
	defer file.Close()
	own, err := training.ReadOwnLabels(file, config.TrainingDir(f.dataDir))
	if err != nil {
		return nil, fmt.Errorf("--labels: %s: %w", f.labels, err)
	}
	return own, nil
}
