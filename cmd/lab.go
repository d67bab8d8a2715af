package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/lab"
	"antirobot/verdict/words"
)

func labCommand() *cobra.Command {
	var o operator
	root := o.command("lab", "Try other settings on this gateway: rehearse them, let them judge beside those in force, apply them, take them back",
		"  antirobot lab\n  antirobot lab rehearse --service shop --threshold 0.6 --since 7d\n  antirobot lab look --service shop --threshold 0.6\n  antirobot lab apply", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error { return o.showLab(cmd) })
	root.Long = "Without a further word: what the lab has put into force, what it looks at, and whom that would newly stop and newly let through.\n\n" +
		"A gateway has a lab of its own, and what is applied there concerns it alone."
	root.AddCommand(rehearseCommand(), lookCommand(), applyCommand(),
		labAct("over", "Look no longer", http.MethodDelete, "/api/lab/shadow", "nothing is looked at any more"),
		labAct("takeback", "Put into force what was before the last change", http.MethodPost, "/api/lab/takeback", "taken back"))
	return root
}

// labWish is a change as flags say it.
type labWish struct {
	service, threshold, unsure, model, card, rules string
	limits                                         []string
}

func (w *labWish) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.service, "service", "default", "the service `NAME`, whose settings are changed")
	f.StringVar(&w.threshold, "threshold", "", "verdict.threshold: a score above this `SCORE` is a robot's")
	f.StringVar(&w.unsure, "unsure", "", "verdict.unsure.above: a score above this `SCORE` is in doubt")
	f.StringArrayVar(&w.limits, "limit", nil, "one of verdict.limits, as `WINDOW=PAGES:BAN` such as 1m=300:10m; those that are given replace all")
	f.StringVar(&w.rules, "rules", "", "`FILE` with the rules of the service")
	f.StringVar(&w.model, "model", "", "`MODEL` in the place of formula.model, built in or named in the configuration")
	f.StringVar(&w.card, "card", "", "`FILE` with a score card in the place of formula.model")
}

// change reads the files that are named.
func (w *labWish) change() (c lab.Change, err error) {
	var s lab.Service
	if s.Threshold, err = scoreFlag("threshold", w.threshold); err != nil {
		return c, err
	}
	if s.Unsure, err = scoreFlag("unsure", w.unsure); err != nil {
		return c, err
	}
	if len(w.limits) > 0 {
		limits := []lab.Limit{}
		for _, text := range w.limits {
			window, rest, _ := strings.Cut(text, "=")
			pages, ban, ok := strings.Cut(rest, ":")
			n, err := strconv.Atoi(pages)
			if err != nil || !ok {
				return c, misused("--limit: %q is not of the form 1m=300:10m", text)
			}
			limits = append(limits, lab.Limit{Window: window, Requests: n, Ban: ban})
		}
		s.Limits = &limits
	}
	if w.rules != "" {
		text, err := readBounded(nil, w.rules)
		if err != nil {
			return c, fmt.Errorf("--rules: %w", err)
		}
		rules := string(text)
		s.Rules = &rules
	}
	if s != (lab.Service{}) {
		c.Services = map[string]lab.Service{w.service: s}
	}
	c.Model = w.model
	if w.card != "" {
		text, err := readBounded(nil, w.card)
		if err != nil {
			return c, fmt.Errorf("--card: %w", err)
		}
		c.Card = string(text)
	}
	return c, nil
}

func scoreFlag(name, text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, misused("--%s: %q is no number", name, text)
	}
	return &n, nil
}

func rehearseCommand() *cobra.Command {
	var o operator
	var w labWish
	var since string
	cmd := o.command("rehearse", "Whom a change would have newly stopped and newly let through", "  antirobot lab rehearse --threshold 0.6 --since 7d", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			c, err := w.change()
			if err != nil {
				return err
			}
			var out lab.Rehearsal
			printed, err := o.call(cmd, http.MethodPost, "/api/lab/rehearse", struct {
				*lab.Change
				Since string `json:"since"`
			}{&c, since}, &out)
			if err != nil || printed {
				return err
			}
			to := cmd.OutOrStdout()
			fmt.Fprintln(to, words.Sprintf(words.English, "since    %s: %d {entry|entries} of the journal, %d {row|rows} of the training log, %d {visitor|visitors}",
				inUTC(out.Since), out.Entries, out.Rows, out.Subjects))
			printDifference(to, &out.Stopped, &out.Free)
			printNotes(to, out.Notes)
			return nil
		})
	w.register(cmd)
	cmd.Flags().StringVar(&since, "since", "3d", "`TIME` to look back over, such as 12h or 7d")
	return cmd
}

func lookCommand() *cobra.Command {
	var o operator
	var w labWish
	cmd := o.command("look", "Let a change judge beside the settings in force, and stop nobody", "  antirobot lab look --threshold 0.6\n  antirobot lab", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			c, err := w.change()
			if err != nil {
				return err
			}
			if printed, err := o.call(cmd, http.MethodPost, "/api/lab/shadow", &c, &lab.VersionView{}); err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "it judges beside and stops nobody: %s; ask `antirobot lab` in some hours\n", strings.Join(c.Changes(), "; "))
			return nil
		})
	w.register(cmd)
	return cmd
}

func applyCommand() *cobra.Command {
	var o operator
	var w labWish
	cmd := o.command("apply", "Put a change into force: the one that the flags say, or without any the one that is looked at",
		"  antirobot lab apply\n  antirobot lab apply --threshold 0.6", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			c, err := w.change()
			if err != nil {
				return err
			}
			if len(c.Changes()) == 0 {
				var v lab.View
				if answer, err := o.get(cmd, "/api/lab"); err != nil || readAnswer(answer, &v) != nil || v.Shadow == nil {
					return errors.Join(errors.New("nothing is looked at; say with flags what is to be applied"), err)
				}
				c.Settings = v.Shadow.Settings
			}
			var v lab.VersionView
			if printed, err := o.call(cmd, http.MethodPost, "/api/lab/apply", &c, &v); err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "in force on this gateway: %s; antirobot lab takeback undoes it\n", strings.Join(v.Changes, "; "))
			return nil
		})
	w.register(cmd)
	return cmd
}

// labAct makes a command without a change.
func labAct(use, short, method, path, done string) *cobra.Command {
	var o operator
	return o.command(use, short, "  antirobot lab "+use, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		var v lab.VersionView
		if printed, err := o.call(cmd, method, path, nil, &v); err != nil || printed {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s; in force on this gateway: %s\n", done, changesOf(v.Changes))
		return nil
	})
}

func changesOf(all []string) string {
	if len(all) == 0 {
		return "as the file says"
	}
	return strings.Join(all, "; ")
}

// showLab says what the lab has changed, and what it looks at.
func (o *operator) showLab(cmd *cobra.Command) error {
	var s admin.LabState
	printed, err := o.call(cmd, http.MethodGet, "/api/lab"+everywhere, nil, &s)
	if err != nil || printed {
		return err
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "applied  %s; model %s\n", changesOf(s.Applied.Changes), s.Model)
	for i := range s.Others {
		x := &s.Others[i]
		fmt.Fprintf(w, "         on the gateway %s: %s; model %s\n", x.Gateway, changesOf(x.Applied.Changes), x.Model)
	}
	if s.Shadow != nil {
		fmt.Fprintf(w, "beside   %s, by %s\n", strings.Join(s.Shadow.Changes, "; "), s.Shadow.By)
	}
	if b := s.Beside; b != nil {
		fmt.Fprintln(w, words.Sprintf(words.English, "         since %s, model %s; %d {evaluation was|evaluations were} made twice, %d {visitor is|visitors are} stopped either way",
			inUTC(b.Since), b.Model, b.Judged, b.Both))
		printDifference(w, &b.Stopped, &b.Free)
		printNotes(w, b.Notes)
	}
	sayLost(cmd.ErrOrStderr(), s.Gateways)
	return nil
}

func printDifference(w io.Writer, stopped, free *lab.Group) {
	for _, g := range []struct {
		name string
		*lab.Group
	}{{"stopped", stopped}, {"free", free}} {
		fmt.Fprintln(w, words.Sprintf(words.English, "%-8s newly %d {visitor|visitors} (about %.0f), %d of them known people, %d known robots; %.0f {request|requests}, %.0f of people",
			g.name, g.Subjects, g.About, g.People, g.Robots, g.Pages, g.PeoplePages))
		for _, e := range g.Examples[:min(len(g.Examples), shownExamples)] {
			name := e.Subject
			if name == "" {
				name = "of the training log"
			}
			if e.Ground != "" {
				name += ", " + e.Ground
			}
			fmt.Fprintln(w, words.Sprintf(words.English, "         %s: %.3f, would be %.3f; %.0f {request|requests}", name, e.Before, e.After, e.Pages))
		}
	}
}

func printNotes(w io.Writer, all []string) {
	for _, n := range all {
		fmt.Fprintf(w, "note     %s\n", cmp.Or(labNotes[n], n))
	}
}

// shownExamples is how many of a group are named; --json has more.
const shownExamples = 3

// labNotes are what the notes of the lab mean.
var labNotes = map[string]string{
	"window":        "limits of other windows than 1s, 10s, 1m, 10m, 1h and 24h could not be rehearsed on the training log",
	"no-log":        "there is no training log (processor.training.sample is 0): who was not stopped could not be judged again",
	"no-journal":    "there is no journal: only the training log was judged",
	"unsampled":     "visitors that the training log lacks could not be judged by another model",
	"rules":         "rules saw what the journal keeps: neither the query nor fields but User-Agent",
	"full":          "there were more visitors than can be counted: the figures are too low",
	"time":          "time ran out: the figures are too low",
	"raised":        "who a higher limit frees may go on up to it: the figures are an upper bound",
	"beside-full":   "there were more visitors than can be kept: the figures are too low",
	"beside-rules":  "rules and doubts are not judged beside: rehearse them on what came since",
	"beside-window": "a limit of another window than those in force is not counted beside: rehearse it on what came since",
}
