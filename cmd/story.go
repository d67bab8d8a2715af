package cmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/words"
)

// tellStory prints a story for people to read.
func tellStory(w io.Writer, s *verdict.Story, now map[string]standingNow, at time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("request", "%s at %s UTC, %s", s.RequestID, s.At.Format("2006-01-02 15:04:05.000"), ago(at.Sub(s.At)))
	row("", "%s %s, service %s, mode %s", s.Method, s.Path, s.Service, s.Mode)
	row("verdict", "%s: %s", paint(coloured(w), verdictColours[s.Verdict], answerWords(s)), causeWords(s))
	row("who", "charged to %s", s.Subject)
	if len(s.Considered) > 1 {
		row("", "considered: %s", strings.Join(s.Considered, ", "))
	}
	for _, r := range s.Refused {
		row("", "refused: %s (%s)", r.Kind, identity.RefusalWords(r.Reason))
	}
	if s.Excused != "" {
		row("", "not stopped by a ban on its address or on something weaker, thanks to %s", s.Excused)
	}
	if p := s.Place; p != nil {
		row("where", "%s", geo.Place(*p))
	}
	tellHandshake(row, s.Handshake)
	tellTrace(row, s)
	if e := s.Entry; e != nil {
		row("list", "%s: %s%s", e.List, e.Text, parenthesis(e.Reason))
		if e.Until != nil {
			row("", "%s", untilWords(*e.Until))
		}
	} else {
		row("list", "no entry spoke")
	}
	tellRules(row, "rules", s.Rules)
	tellRules(row, "message", s.Message)
	tellJudgement(row, s, now, at)
	if c := s.Counted; c != nil {
		row("counted", "as %s: %s", c.As, c.Why)
	}
	tellPass(row, s, now)
	if s.Required != "" {
		row("asked", "the service asked for %s itself (X-Antirobot-Require): its answer was withheld", s.Required)
	}
	if s.Waived != "" {
		row("asked", "not now: %s", s.Waived)
	}
	if s.Degraded {
		row("store", "was failing: bans of other gateways may have been missing")
	}
	if s.Mode == verdict.Enforce.String() && s.Verdict != verdict.Human.String() {
		row("set right", "%s", remedy(s))
	}
	return t.Flush()
}

// tellJudgement says what the gateway itself concluded: a ban, a question, a doubt, or a score alone.
func tellJudgement(row func(name, format string, args ...any), s *verdict.Story, now map[string]standingNow, at time.Time) {
	switch x, d := s.Excess, s.Doubt; {
	case s.Ban != nil:
		tellBan(row, s, now, at)
	case x != nil:
		row("over quota", "%s: %d pages within %s, %d allowed; %s %s", x.Scope, x.Read, x.Window, x.Most, whoExceeds(x), untilWords(x.Until))
	case d != nil:
		row("doubt", "about %s, score %.3g, %s", d.Subject, d.Score, untilWords(d.Until))
		tellFactors(row, d.Factors, d.Amounts)
	case s.Score > 0:
		row("score", "%.3g", s.Score)
	}
}

// remedy is the command that lets this visitor through.
func remedy(s *verdict.Story) string {
	if e := s.Entry; e != nil && s.Cause == verdict.CauseOwnBlock.String() { // stands above the white list
		switch e.List {
		case "api":
			if e.Service != "" {
				return "antirobot unblock " + e.Text + " --service " + e.Service
			}
			return "antirobot unblock " + e.Text
		case "inline", "patterns":
			return "take " + e.Text + " out of lists in the configuration, and reload"
		}
		return "take " + e.Text + " off the list " + e.List
	}
	if s.Ban != nil {
		return "antirobot unban " + s.RequestID
	}
	return "antirobot allow " + s.RequestID + " --for 7d"
}

// tellTrace names the trace that a request is part of, and where to look at it.
func tellTrace(row func(name, format string, args ...any), s *verdict.Story) {
	if s.Trace != "" {
		row("trace", "%s", s.Trace)
	}
	if s.TracePage != "" {
		row("", "%s", s.TracePage)
	}
}

// tellHandshake says how the client began its connection.
func tellHandshake(row func(name, format string, args ...any), h *verdict.StoryHello) {
	if h == nil {
		return
	}
	words := ""
	switch {
	case h.Contradicts:
		words = fmt.Sprintf(": of %s, which contradicts the browser that it claims to be", h.Software)
	case h.Software != "":
		words = fmt.Sprintf(": of %s", h.Software)
	}
	if h.JA4 != "" {
		row("handshake", "JA4 %s%s", h.JA4, words)
	}
	if h.HTTP2 != "" {
		row("", "HTTP/2 begins with %s", h.HTTP2)
	}
	if h.Behind != nil {
		row("", "answers come %.0f ms later than its connection's end would answer", *h.Behind)
	}
}

func tellBan(row func(name, format string, args ...any), s *verdict.Story, now map[string]standingNow, at time.Time) {
	b := s.Ban
	row("ban", "on %s by the %s, from %s to %s UTC", b.Subject, b.Source, b.Made.Format(time.DateTime), b.Until.Format(time.DateTime))
	if b.Reason != "" {
		row("", "%s", words.Reason(words.English, b.Reason))
	}
	if b.Service != "" {
		row("", "of service %s alone", b.Service)
	}
	if b.OneClient {
		row("", "of one client there alone")
	}
	if b.Model != "" {
		row("", "score %.3g over the threshold %.3g, model %s", b.Score, b.Threshold, b.Model)
	}
	tellFactors(row, b.Factors, b.Amounts)
	if is, ok := now[b.Subject]; ok {
		switch lasts := slices.ContainsFunc(is.Bans, func(o bans.Story) bool { return o.Until.After(at) }); {
		case lasts:
			row("now", "%s is banned", b.Subject)
		default:
			row("now", "%s is not banned any more", b.Subject)
		}
	}
}

// tellFactors prints the factors of a score, the largest contribution first.
func tellFactors(row func(name, format string, args ...any), factors, amounts map[string]float32) {
	names := slices.Sorted(maps.Keys(factors))
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(abs(amounts[y]), abs(amounts[x])) })
	for _, name := range names {
		amount := ""
		if a, ok := amounts[name]; ok {
			amount = fmt.Sprintf(", %+.2f to the score", a)
		}
		row("factor", "%s (%s = %.6g)%s", words.Factor(words.English, name, factors[name]), name, factors[name], amount)
	}
}

func abs(f float32) float32 {
	if f < 0 {
		return -f
	}
	return f
}

func tellPass(row func(name, format string, args ...any), s *verdict.Story, now map[string]standingNow) {
	if p := s.Pass; p != nil {
		row("pass", "%s paid %d, %d left", p.ID, p.Cost, p.Left)
		return
	}
	none := true
	for _, sub := range s.Considered {
		if !strings.HasPrefix(sub, "spravka:") {
			continue
		}
		none = false
		if a := now[sub].Allowance; a != nil {
			row("pass", "%s did not pay; now %d of %d left", sub, a.Left, a.Limit)
		} else {
			row("pass", "%s did not pay", sub)
		}
	}
	if none {
		row("pass", "none was shown")
	}
}

// answerWords say what the client got.
func answerWords(s *verdict.Story) string {
	switch {
	case s.Pass != nil && s.Verdict == verdict.Human.String():
		return "human, because a pass paid"
	case s.Doubtful():
		return "unsure, and let through"
	case s.Verdict != verdict.Human.String() && s.Mode == verdict.Observe.String():
		return s.Verdict + ", but let through (mode observe)"
	case s.Answered != 0 && s.Verdict != verdict.Human.String():
		text := fmt.Sprintf("%s, refused with a %d", s.Verdict, s.Answered)
		if s.RetryAfter > 0 {
			text += fmt.Sprintf(", Retry-After %d", s.RetryAfter)
		}
		return text
	case s.Verdict == verdict.Robot.String() && s.Mode == verdict.Enforce.String():
		return "robot, asked for a captcha"
	case s.Verdict == verdict.Unsure.String() && s.Mode == verdict.Enforce.String():
		return "unsure, and so asked"
	case s.Verdict == verdict.Blocked.String() && s.Mode == verdict.Enforce.String():
		if r := spoke(s); r != nil && r.Action == verdict.RuleQuarantine.String() {
			return "blocked with a 409, quarantine"
		}
		if r := spoke(s); r != nil && r.Action == verdict.RuleQueue.String() {
			return "kept for a person, answered with 202"
		}
		return "blocked with a 403"
	}
	return s.Verdict
}

// spoke returns the ruling that made the verdict; nil if it was something else.
func spoke(s *verdict.Story) *verdict.StoryRules {
	switch s.Cause {
	case verdict.CauseRule.String():
		return s.Rules
	case verdict.CauseMessage.String():
		return s.Message
	}
	return nil
}

// tellRules prints what the rules of a service, or of a message route, said.
func tellRules(row func(name, format string, args ...any), name string, r *verdict.StoryRules) {
	if r == nil {
		return
	}
	route := ""
	if r.Route != "" {
		route = " on " + r.Route
	}
	switch {
	case r.Error != "":
		row(name, "no decision%s: %s", route, r.Error)
	case r.Decision == "":
		row(name, "no rule stopped%s; action %s", route, r.Action)
	default:
		row(name, "%s%s, action %s, score %.3g", r.Decision, route, r.Action, r.Score)
	}
	if r.Line > 0 {
		row("", "line %d: %s", r.Line, r.Rule)
	}
	if len(r.Tags) > 0 {
		row("", "marks: %s", strings.Join(r.Tags, ", "))
	}
	for _, f := range r.Fired {
		row("", "fired in line %d: %s", f.Line, f.Rule)
	}
	if r.Solved {
		row("", "a captcha had been solved for it")
	}
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
		return words.Sprintf(words.English, "%d {second|seconds} ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return words.Sprintf(words.English, "%d {minute|minutes} ago", int(d.Minutes()))
	}
	return words.Sprintf(words.English, "%d {hour|hours} ago", int(d.Hours()))
}

// causeWords says what decided.
func causeWords(s *verdict.Story) string {
	switch {
	case s.Doubtful():
		return verdict.CauseWords(verdict.CauseDoubt.String())
	case s.Excess != nil:
		return words.Reason(words.English, s.Excess.Short())
	}
	return verdict.CauseWords(s.Cause)
}

// untilWords says when something ends.
func untilWords(t time.Time) string { return "until " + inUTC(t) }

// inUTC is how a time is shown.
func inUTC(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// whoExceeds says which clients an excess concerns.
func whoExceeds(x *verdict.StoryExcess) string {
	if x.OneClient {
		return "this client is checked"
	}
	return "clients of " + x.Network + " that have not loaded subresources are checked"
}
