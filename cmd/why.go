package cmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/request"
	"antirobot/settings"
	"antirobot/verdict"
)

func whyCommand() *cobra.Command {
	var api apiClient
	var raw bool
	cmd := &cobra.Command{
		Use:   "why REQUEST-ID",
		Short: "Tell the whole story of a decision of a running gateway",
		Long: `Tell the whole story of a decision: who asked and which identities were refused, what lists, bans and
rules said, which pass paid, and for a ban its score, its threshold, and the factors that made it.

The request id stands on the captcha page and on the page for blocked visitors, in X-Request-Id of each
answer, and in the log. A gateway keeps the last decisions in memory (verdict.decisions); it is asked
over its private listener.`,
		Example: `  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D
  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D --data-dir /var/lib/antirobot --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("which request? antirobot why REQUEST-ID")
			}
			if _, ok := request.ParseID(strings.TrimSpace(args[0])); !ok {
				return fmt.Errorf("%q is no request id: it has 26 letters and digits, as the captcha page and X-Request-Id show them", settings.Clip(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, _ := request.ParseID(strings.TrimSpace(args[0])) // checked
			answer, err := api.get(cmd, "/api/decisions/"+id.String())
			if err != nil {
				return err
			}
			if raw {
				_, err := cmd.OutOrStdout().Write(answer)
				return err
			}
			var s verdict.Story
			if err := readAnswer(answer, &s); err != nil {
				return err
			}
			return tellStory(cmd.OutOrStdout(), &s, api.present(cmd, &s), time.Now())
		},
	}
	api.register(cmd)
	cmd.Flags().BoolVar(&raw, "json", false, "print the answer of the gateway as it came")
	return cmd
}

func subjectCommand() *cobra.Command {
	var api apiClient
	cmd := &cobra.Command{
		Use:   "subject KIND:ID",
		Short: "Print what a running gateway knows of a subject, as JSON: bans, allowance, session",
		Example: `  antirobot subject ip:203.0.113.7
  antirobot subject spravka:6f1c0ce9a1b24f0e9d3d5b6f0c7a8e91`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := api.get(cmd, "/api/subjects/"+url.PathEscape(args[0]))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(answer)
			return err
		},
	}
	api.register(cmd)
	return cmd
}

// standing is what the gateway says of a subject now.
type standingNow struct {
	Bans      []verdict.StoryBan `json:"bans"`
	Allowance *admin.Allowance   `json:"allowance"`
}

// present asks for what has become of the ban and of the pass since. A gateway that does not say leaves it out.
func (c *apiClient) present(cmd *cobra.Command, s *verdict.Story) map[string]standingNow {
	var ask []string
	if s.Ban != nil {
		ask = append(ask, s.Ban.Subject)
	}
	for _, sub := range s.Considered {
		if strings.HasPrefix(sub, "spravka:") && !slices.Contains(ask, sub) {
			ask = append(ask, sub)
		}
	}
	now := map[string]standingNow{}
	for _, sub := range ask {
		var is standingNow
		if answer, err := c.get(cmd, "/api/subjects/"+url.PathEscape(sub)); err == nil && readAnswer(answer, &is) == nil {
			now[sub] = is
		}
	}
	return now
}

// causeWords say in words which step of the decision spoke.
func causeWords(cause string) string {
	words := map[string]string{
		"none": "nothing spoke against it", "own-block": "the operator's own block entry", "white": "white-listed",
		"block-list": "a block list", "rule": "a rule", "ban-list": "a ban list", "ban": "a live ban", "judge": "the judge, before the answer",
		"demand": "the client asked for the captcha", "off": "the service's mode is off",
		"message": "the rules of a message route", "budget": "its network has read more than the people of the site explain: a question, no ban",
	}
	if w, ok := words[cause]; ok {
		return w
	}
	return cause
}

// tellStory prints a story for people to read.
func tellStory(w io.Writer, s *verdict.Story, now map[string]standingNow, at time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("request", "%s at %s UTC, %s", s.RequestID, s.At.Format("2006-01-02 15:04:05.000"), ago(at.Sub(s.At)))
	row("", "%s %s, service %s, mode %s", s.Method, s.Path, s.Service, s.Mode)
	row("verdict", "%s: %s", answerWords(s), causeWords(s.Cause))
	row("who", "charged to %s", s.Subject)
	if len(s.Considered) > 1 {
		row("", "considered: %s", strings.Join(s.Considered, ", "))
	}
	for _, r := range s.Refused {
		row("", "refused: %s (%s)", r.Kind, refusalWords(r.Reason))
	}
	if s.Excused != "" {
		row("", "not stopped by a ban on the address, thanks to %s", s.Excused)
	}
	if e := s.Entry; e != nil {
		row("list", "%s: %s%s", e.List, e.Text, parenthesis(e.Reason))
		if e.Until != nil {
			row("", "until %s UTC", e.Until.Format(time.DateTime))
		}
	} else {
		row("list", "no entry spoke")
	}
	if s.Rule != "" {
		row("rule", "%s", s.Rule)
	}
	if s.Ban != nil {
		tellBan(row, s, now, at)
	} else if s.Score > 0 {
		row("score", "%.3g", s.Score)
	}
	tellPass(row, s, now)
	if s.Degraded {
		row("store", "was failing: bans of other gateways may have been missing")
	}
	return t.Flush()
}

func tellBan(row func(name, format string, args ...any), s *verdict.Story, now map[string]standingNow, at time.Time) {
	b := s.Ban
	row("ban", "on %s by the %s, from %s to %s UTC", b.Subject, b.Source, b.Made.Format(time.DateTime), b.Until.Format(time.DateTime))
	if b.Reason != "" {
		row("", "%s", b.Reason)
	}
	if b.Service != "" {
		row("", "of service %s alone", b.Service)
	}
	if b.Source != verdict.SourceAPI.String() {
		model := ""
		if b.Model != "" {
			model = ", model " + b.Model
		}
		row("", "score %.3g over the threshold %.3g%s", b.Score, b.Threshold, model)
	}
	for _, name := range factorsOf(b) {
		amount := ""
		if a, ok := b.Amounts[name]; ok {
			amount = fmt.Sprintf(", %+.2f to the score", a)
		}
		row("factor", "%s = %.6g%s", name, b.Factors[name], amount)
	}
	if is, ok := now[b.Subject]; ok {
		switch lasts := slices.ContainsFunc(is.Bans, func(o verdict.StoryBan) bool { return o.Until.After(at) }); {
		case lasts:
			row("now", "%s is banned", b.Subject)
		default:
			row("now", "%s is not banned any more", b.Subject)
		}
	}
}

// factorsOf returns the names of a ban's factors, those that added most first.
func factorsOf(b *verdict.StoryBan) []string {
	names := slices.Sorted(maps.Keys(b.Factors))
	slices.SortStableFunc(names, func(x, y string) int {
		switch ax, ay := abs(b.Amounts[x]), abs(b.Amounts[y]); {
		case ax > ay:
			return -1
		case ax < ay:
			return 1
		}
		return 0
	})
	return names
}

func abs(f float32) float32 {
	if f < 0 {
		return -f
	}
	return f
}

func tellPass(row func(name, format string, args ...any), s *verdict.Story, now map[string]standingNow) {
	if p := s.Pass; p != nil {
		row("pass", "%s paid %d, then %d were left", p.ID, p.Cost, p.Left)
		return
	}
	none := true
	for _, sub := range s.Considered {
		if !strings.HasPrefix(sub, "spravka:") {
			continue
		}
		none = false
		if a := now[sub].Allowance; a != nil {
			row("pass", "%s did not pay; now %d of %d are left", sub, a.Left, a.Limit)
		} else {
			row("pass", "%s did not pay", sub)
		}
	}
	if none {
		row("pass", "none was shown")
	}
}

func answerWords(s *verdict.Story) string {
	switch {
	case s.Pass != nil && s.Verdict == "human":
		return "human, because a pass paid"
	case s.Verdict == "robot" && s.Mode == "enforce":
		return "robot, asked for a captcha"
	case s.Verdict == "blocked" && s.Mode == "enforce":
		return "blocked with a 403"
	case s.Verdict != "human" && s.Mode == "observe":
		return s.Verdict + ", but let through (mode observe)"
	}
	return s.Verdict
}

// refusalWords say in words why an identity was not accepted.
func refusalWords(reason string) string {
	words := map[string]string{
		"seal": "its seal does not open", "expired": "it has expired", "young": "it is too young", "domain": "it was made for another domain or service",
		"revoked": "it was revoked", "unseen": "it is not known for a day yet", "malformed": "it can't be read",
		"unearned": "it was not earned by a captcha and is not a day old", "too many": "too many cookies of its kind",
		"crowded": "its network made too many of them",
	}
	if w, ok := words[reason]; ok {
		return w
	}
	return reason
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "in the future of this machine"
	case d < 2*time.Minute:
		return config.Count(int(d.Seconds()), "second") + " ago"
	case d < 2*time.Hour:
		return config.Count(int(d.Minutes()), "minute") + " ago"
	}
	return config.Count(int(d.Hours()), "hour") + " ago"
}
