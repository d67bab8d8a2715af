package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

func whyCommand() *cobra.Command {
	var c client
	cmd := c.command("why REQUEST-ID", "Tell the whole story of a decision of a running gateway",
		"  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D\n"+
			"  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D --data-dir /var/lib/antirobot --json",
		func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("which request? antirobot why REQUEST-ID")
			}
			if _, ok := request.ParseID(strings.TrimSpace(args[0])); !ok {
				return fmt.Errorf("%.60q is not a request id: it has 26 letters and digits, as the captcha page and "+
					"X-Request-Id show them", args[0])
			}
			return nil
		},
		func(cmd *cobra.Command, args []string) error {
			id, _ := request.ParseID(strings.TrimSpace(args[0])) // checked
			path := "/api/decisions/" + id.String() + everywhere
			return show(&c, cmd, http.MethodGet, path, nil, func(w io.Writer, s *verdict.Story) error {
				return printStory(w, s, c.present(cmd, s), time.Now())
			})
		})
	cmd.Long = `Tell the whole story of a decision: the client and the identities that were refused, the matching lists, bans and
rules, the pass that paid, and for a ban its score, its threshold, and the factors behind it.

The request ID is on the captcha page and on the page for blocked visitors, in X-Request-Id of the gateway's own
answers and of the requests that the service receives, and in the log. The latest decisions are in the
gateway's memory, and all but the simply human ones are in its journal for days. Gateways that
share a store are all asked.`
	return cmd
}

// presentState is the current state of a subject.
type presentState struct {
	Bans      []bans.Story
	Allowance *admin.Allowance
}

// present returns the current state of the ban and of the passes of a story, as far as the gateway knows it.
func (c *client) present(cmd *cobra.Command, s *verdict.Story) map[string]presentState {
	var subjects []string
	if s.Ban != nil {
		subjects = append(subjects, s.Ban.Subject)
	}
	for _, sub := range s.Considered {
		if strings.HasPrefix(sub, "spravka:") && !slices.Contains(subjects, sub) {
			subjects = append(subjects, sub)
		}
	}
	now := map[string]presentState{}
	for _, sub := range subjects {
		var is presentState
		if c.get(cmd, "/api/subjects/"+url.PathEscape(sub)+everywhere, &is) == nil {
			now[sub] = is
		}
	}
	return now
}

// rows writes lines of a name and a text.
type rows struct{ w io.Writer }

func (r rows) add(name, format string, args ...any) {
	fmt.Fprintf(r.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// printStory prints a story for people to read.
func printStory(w io.Writer, s *verdict.Story, now map[string]presentState, at time.Time) error {
	t := table(w)
	r := rows{t}
	r.add("request", "%s at %s UTC, %s", s.RequestID, s.At.Format("2006-01-02 15:04:05.000"), ago(at.Sub(s.At)))
	r.add("", "%s %s, service %s, mode %s", s.Method, s.Path, s.Service, s.Mode)
	r.add("verdict", "%s: %s", painter(w)(verdictColours[s.Verdict], answerWords(s)), causeWords(s))
	r.add("client", "charged to %s", s.Subject)
	if len(s.Considered) > 1 {
		r.add("", "considered: %s", strings.Join(s.Considered, ", "))
	}
	for _, x := range s.Refused {
		r.add("", "refused: %s (%s)", x.Kind, identity.RefusalWords(x.Reason))
	}
	if s.Excused != "" {
		r.add("", "not stopped by a ban on its address or on something weaker, thanks to %s", s.Excused)
	}
	if s.Place != nil {
		r.add("where", "%s", geo.Place(*s.Place))
	}
	r.handshake(s.Handshake)
	if s.Trace != "" {
		r.add("trace", "%s", s.Trace)
	}
	if s.TracePage != "" {
		r.add("", "%s", s.TracePage)
	}
	if e := s.Entry; e != nil {
		r.add("list", "%s: %s%s", e.List, e.Text, parenthesis(e.Reason))
		if e.Until != nil {
			r.add("", "%s", untilWords(*e.Until))
		}
	} else {
		r.add("list", "no entry matches")
	}
	r.rules("rules", s.Rules)
	r.rules("message", s.Message)
	switch x, d := s.Excess, s.Doubt; {
	case s.Ban != nil:
		r.ban(s, now, at)
	case x != nil:
		r.add("over quota", "%s: %d pages within %s, %d allowed; %s %s", x.Scope, x.Read, x.Window, x.Most,
			excessWords(x), untilWords(x.Until))
	case d != nil:
		r.add("unsure", "about %s, score %.3g, %s", d.Subject, d.Score, untilWords(d.Until))
		r.factors(d.Factors, d.Amounts)
	case s.Score > 0:
		r.add("score", "%.3g", s.Score)
	}
	if s.Counted != nil {
		r.add("counted", "as %s: %s", s.Counted.As, s.Counted.Why)
	}
	r.pass(s, now)
	if s.Required != "" {
		r.add("required", "the service asked for %s itself (X-Antirobot-Require): its answer was withheld", s.Required)
	}
	if s.Waived != "" {
		r.add("challenge", "not now: %s", s.Waived)
	}
	if s.Degraded {
		r.add("store", "was failing: bans of other gateways may have been missing")
	}
	if s.Mode == verdict.Enforce.String() && s.Verdict != verdict.Human.String() {
		r.add("set right", "%s", remedy(s))
	}
	return t.Flush()
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

func (r rows) handshake(h *verdict.StoryHello) {
	if h == nil {
		return
	}
	software := ""
	switch {
	case h.Contradicts:
		software = fmt.Sprintf(": of %s, which contradicts the browser that it claims to be", h.Software)
	case h.Software != "":
		software = fmt.Sprintf(": of %s", h.Software)
	}
	if h.JA4 != "" {
		r.add("handshake", "JA4 %s%s", h.JA4, software)
	}
	if h.HTTP2 != "" {
		r.add("", "HTTP/2 begins with %s", h.HTTP2)
	}
	if h.Behind != nil {
		r.add("", "answers come %.0f ms later than its connection's end would answer", *h.Behind)
	}
}

func (r rows) ban(s *verdict.Story, now map[string]presentState, at time.Time) {
	b := s.Ban
	r.add("ban", "on %s by the %s, from %s to %s UTC", b.Subject, b.Source, b.Made.Format(time.DateTime), b.Until.Format(time.DateTime))
	if b.Reason != "" {
		r.add("", "%s", words.Reason(words.English, b.Reason))
	}
	if b.Service != "" {
		r.add("", "of service %s alone", b.Service)
	}
	if b.OneClient {
		r.add("", "of one client there alone")
	}
	if b.Model != "" {
		r.add("", "score %.3g over the threshold %.3g, model %s", b.Score, b.Threshold, b.Model)
	}
	r.factors(b.Factors, b.Amounts)
	if is, ok := now[b.Subject]; ok {
		state := "is not banned any more"
		if slices.ContainsFunc(is.Bans, func(o bans.Story) bool { return o.Until.After(at) }) {
			state = "is banned"
		}
		r.add("now", "%s %s", b.Subject, state)
	}
}

// factors prints the factors of a score, the largest contribution first.
func (r rows) factors(factors, amounts map[string]float32) {
	names := slices.Sorted(maps.Keys(factors))
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(abs(amounts[y]), abs(amounts[x])) })
	for _, name := range names {
		amount := ""
		if a, ok := amounts[name]; ok {
			amount = fmt.Sprintf(", %+.2f to the score", a)
		}
		r.add("factor", "%s (%s = %.6g)%s", words.Factor(words.English, name, factors[name]), name, factors[name], amount)
	}
}

func abs(f float32) float32 { return max(f, -f) }

func (r rows) pass(s *verdict.Story, now map[string]presentState) {
	if p := s.Pass; p != nil {
		r.add("pass", "%s paid %d, %d left", p.ID, p.Cost, p.Left)
		return
	}
	none := true
	for _, sub := range s.Considered {
		if !strings.HasPrefix(sub, "spravka:") {
			continue
		}
		none = false
		left := ""
		if a := now[sub].Allowance; a != nil {
			left = fmt.Sprintf("; now %d of %d left", a.Left, a.Limit)
		}
		r.add("pass", "%s did not pay%s", sub, left)
	}
	if none {
		r.add("pass", "none was shown")
	}
}

// answerWords describe the answer that the client got.
func answerWords(s *verdict.Story) string {
	human, enforced := s.Verdict == verdict.Human.String(), s.Mode == verdict.Enforce.String()
	switch {
	case s.Pass != nil && human:
		return "human, because a pass paid"
	case s.Doubtful():
		return "unsure, and let through"
	case !human && s.Mode == verdict.Observe.String():
		return s.Verdict + ", but let through (mode observe)"
	case s.Answered != 0 && !human:
		text := fmt.Sprintf("%s, refused with a %d", s.Verdict, s.Answered)
		if s.RetryAfter > 0 {
			text += fmt.Sprintf(", Retry-After %d", s.RetryAfter)
		}
		return text
	case s.Verdict == verdict.Robot.String() && enforced:
		return "robot, challenged"
	case s.Verdict == verdict.Unsure.String() && enforced:
		return "unsure, and so challenged"
	case s.Verdict == verdict.Blocked.String() && enforced:
		switch deciding(s).Action {
		case verdict.RuleQuarantine.String():
			return "blocked with a 409, quarantine"
		case verdict.RuleQueue.String():
			return "kept for a person, answered with 202"
		}
		return "blocked with a 403"
	}
	return s.Verdict
}

// deciding returns the ruling that made the verdict; the zero value if it was something else.
func deciding(s *verdict.Story) verdict.StoryRules {
	switch {
	case s.Cause == verdict.CauseRule.String() && s.Rules != nil:
		return *s.Rules
	case s.Cause == verdict.CauseMessage.String() && s.Message != nil:
		return *s.Message
	}
	return verdict.StoryRules{}
}

// rules prints the decision of the rules of a service, or of a message route.
func (r rows) rules(name string, s *verdict.StoryRules) {
	if s == nil {
		return
	}
	route := ""
	if s.Route != "" {
		route = " on " + s.Route
	}
	switch {
	case s.Error != "":
		r.add(name, "no decision%s: %s", route, s.Error)
	case s.Decision == "":
		r.add(name, "no rule stopped%s; action %s", route, s.Action)
	default:
		r.add(name, "%s%s, action %s, score %.3g", s.Decision, route, s.Action, s.Score)
	}
	if s.Line > 0 {
		r.add("", "line %d: %s", s.Line, s.Rule)
	}
	if len(s.Tags) > 0 {
		r.add("", "marks: %s", strings.Join(s.Tags, ", "))
	}
	for _, f := range s.Fired {
		r.add("", "fired in line %d: %s", f.Line, f.Rule)
	}
	if s.Solved {
		r.add("", "a captcha had been solved for it")
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
		return counted("%d {second|seconds} ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return counted("%d {minute|minutes} ago", int(d.Minutes()))
	}
	return counted("%d {hour|hours} ago", int(d.Hours()))
}

func causeWords(s *verdict.Story) string {
	switch {
	case s.Doubtful():
		return verdict.CauseWords(verdict.CauseDoubt.String())
	case s.Excess != nil:
		return words.Reason(words.English, s.Excess.Short())
	}
	return verdict.CauseWords(s.Cause)
}

// excessWords names the clients that an excess concerns.
func excessWords(x *verdict.StoryExcess) string {
	if x.OneClient {
		return "this client is checked"
	}
	return "clients of " + x.Network + " that have not loaded subresources are checked"
}

func subjectCommand() *cobra.Command {
	var c client
	return c.command("subject SUBJECT|ADDRESS|REQUEST-ID",
		"What a running gateway knows about a subject: bans, allowance, session",
		"  antirobot subject 203.0.113.7\n  antirobot subject spravka:6f1c0ce9a1b24f0e9d3d5b6f0c7a8e91 --json",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			subject, err := c.behind(cmd, args[0])
			if err != nil {
				return err
			}
			path := "/api/subjects/" + url.PathEscape(subject) + everywhere
			return show(&c, cmd, http.MethodGet, path, nil, func(w io.Writer, s *knownSubject) error {
				noteLost(cmd.ErrOrStderr(), s.Gateways)
				return printSubject(w, s, time.Now())
			})
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

func printSubject(w io.Writer, s *knownSubject, at time.Time) error {
	t, paint := table(w), painter(w)
	r := rows{t}
	r.add("subject", "%s", s.Subject)
	for i := range s.Bans {
		b := &s.Bans[i]
		r.add("ban", "%s", paint(red, untilWords(b.Until)+", by the "+b.Source+parenthesis(b.Service)))
		if b.Reason != "" {
			r.add("", "%s", words.Reason(words.English, b.Reason))
		}
	}
	if len(s.Bans) == 0 {
		r.add("ban", "none")
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		text := e.Entry + " on the list " + e.List + parenthesis(e.Service)
		if !e.Until.IsZero() {
			text += ", " + untilWords(e.Until)
		}
		if e.Flag != "white" {
			text = paint(red, text)
		}
		r.add(e.Flag, "%s", text)
		if e.Reason != "" {
			r.add("", "%s", words.Reason(words.English, e.Reason))
		}
	}
	if s.Exempt {
		r.add("exempt", "processor.exempt names it: it is judged, and never banned by that")
	}
	if a := s.Allowance; a != nil {
		r.add("pass", "%s", counted("%d of %d {page|pages} left, %s", a.Left, a.Limit, untilWords(a.Expires)))
	}
	if s.Session != nil {
		r.session(s.Session, at)
	} else {
		r.add("seen", "no counted request of late; writes are not counted")
	}
	if len(s.Bans) > 0 {
		r.add("set right", "antirobot unban %s", s.Subject)
	}
	return t.Flush()
}

// mostFactors bounds the factors that are printed.
const mostFactors = 8

func (r rows) session(v *processor.SessionView, at time.Time) {
	r.add("seen", "%s", counted("first %s, last %s: %d {page|pages}, %d {subresource|subresources}",
		ago(at.Sub(v.First)), ago(at.Sub(v.Last)), v.Pages, v.Parts))
	claim := v.Claim
	if v.Version > 0 {
		claim = fmt.Sprintf("%s %d", claim, v.Version)
	}
	r.add("claims", "to be %s", claim)
	if v.Evaluated != nil && v.Model != "" {
		r.add("score", "%.3g, %s, model %s", v.Score, ago(at.Sub(*v.Evaluated)), v.Model)
	}
	if c := v.Challenges; c.Shown > 0 {
		r.add("captcha", "shown %d, solved %d, failed %d, ignored %d", c.Shown, c.Solved, c.Failed, c.Ignored)
	}
	all := slices.DeleteFunc(slices.Clone(v.Factors), func(f processor.FactorView) bool { return f.Amount == 0 })
	slices.SortStableFunc(all, func(a, b processor.FactorView) int { return cmp.Compare(abs(b.Amount), abs(a.Amount)) })
	for i, f := range all {
		if i == mostFactors {
			r.add("", "and %d more, see --json", len(all)-i)
			break
		}
		r.add("factor", "%s (%s = %.6g), %+.2f to the score", words.Factor(words.English, f.Name, f.Value), f.Name, f.Value, f.Amount)
	}
}
