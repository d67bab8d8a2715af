package cmd

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/verdict/bans"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

func subjectCommand() *cobra.Command {
	var o operator
	return o.command("subject SUBJECT|ADDRESS|REQUEST-ID", "What a running gateway knows about a subject: bans, "+
		"allowance, session",
		"  antirobot subject 203.0.113.7\n  antirobot subject spravka:6f1c0ce9a1b24f0e9d3d5b6f0c7a8e91 --json",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			subject, err := o.behind(cmd, args[0])
			if err != nil {
				return err
			}
			var s knownSubject
			printed, err := o.call(cmd, http.MethodGet, "/api/subjects/"+url.PathEscape(subject)+everywhere, nil, &s)
			if err != nil || printed {
				return err
			}
			sayLost(cmd.ErrOrStderr(), s.Gateways)
			return tellSubject(cmd.OutOrStdout(), &s, time.Now())
		})
}

type knownSubject struct {
	Subject   string
	Bans      []bans.Story
	Entries   []admin.Naming
	Exempt    bool
	Allowance *admin.Allowance
	Session   *processor.SessionView
	Gateways  []admin.GatewayState
}

// toldFactors bounds how many factors are told.
const toldFactors = 8

func tellSubject(w io.Writer, s *knownSubject, at time.Time) error {
	on := coloured(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("subject", "%s", s.Subject)
	for i := range s.Bans {
		b := &s.Bans[i]
		row("ban", "%s", paint(on, red, untilWords(b.Until)+", by the "+b.Source+parenthesis(b.Service)))
		if b.Reason != "" {
			row("", "%s", words.Reason(words.English, b.Reason))
		}
	}
	if len(s.Bans) == 0 {
		row("ban", "none")
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		end := ""
		if !e.Until.IsZero() {
			end = ", " + untilWords(e.Until)
		}
		text := e.Entry + " on the list " + e.List + parenthesis(e.Service) + end
		if e.Flag != "white" {
			text = paint(on, red, text)
		}
		row(e.Flag, "%s", text)
		if e.Reason != "" {
			row("", "%s", words.Reason(words.English, e.Reason))
		}
	}
	if s.Exempt {
		row("exempt", "processor.exempt names it: it is judged, and never banned by that")
	}
	if a := s.Allowance; a != nil {
		row("pass", "%s", words.Sprintf(words.English, "%d of %d {page|pages} left, %s", a.Left, a.Limit,
			untilWords(a.Expires)))
	}
	if s.Session != nil {
		tellSession(row, s.Session, at)
	} else {
		row("seen", "nothing that counts of late: what is written is not counted")
	}
	if len(s.Bans) > 0 {
		row("set right", "antirobot unban %s", s.Subject)
	}
	return t.Flush()
}

func tellSession(row func(name, format string, args ...any), v *processor.SessionView, at time.Time) {
	row("seen", "%s", words.Sprintf(words.English, "first %s, last %s: %d {page|pages}, %d {part|parts} of pages",
		ago(at.Sub(v.First)), ago(at.Sub(v.Last)), v.Pages, v.Parts))
	claim := v.Claim
	if v.Version > 0 {
		claim = fmt.Sprintf("%s %d", claim, v.Version)
	}
	row("claims", "to be %s", claim)
	if v.Evaluated != nil && v.Model != "" {
		row("score", "%.3g, %s, model %s", v.Score, ago(at.Sub(*v.Evaluated)), v.Model)
	}
	if c := v.Challenges; c.Shown > 0 {
		row("captcha", "shown %d, solved %d, failed %d, ignored %d", c.Shown, c.Solved, c.Failed, c.Ignored)
	}
	all := slices.DeleteFunc(slices.Clone(v.Factors), func(f processor.FactorView) bool { return f.Amount == 0 })
	slices.SortStableFunc(all, func(a, b processor.FactorView) int {
		switch x, y := abs(a.Amount), abs(b.Amount); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for i, f := range all {
		if i == toldFactors {
			row("", "and %d more, see --json", len(all)-i)
			break
		}
		row("factor", "%s (%s = %.6g), %+.2f to the score", words.Factor(words.English, f.Name, f.Value), f.Name,
			f.Value, f.Amount)
	}
}
