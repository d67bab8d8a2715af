package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/alarm"
	"antirobot/config"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/words"
)

// watched is the answer of /api/alarms.
type watched struct {
	Items    []admin.Alarm
	Webhooks []alarm.HookState
	Gateways []admin.GatewayState
}

func alarmsCommand() *cobra.Command {
	var c, test client
	cmd := c.command("alarms", "Which alarms last, and which webhooks report them",
		"  antirobot alarms\n  antirobot alarms test", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			return show(&c, cmd, http.MethodGet, "/api/alarms"+everywhere, nil, func(w io.Writer, is *watched) error {
				if len(is.Items) == 0 {
					fmt.Fprintln(w, "no alarm")
				}
				printAlarms(w, is.Items)
				printHooks(w, is.Webhooks)
				noteLost(cmd.ErrOrStderr(), is.Gateways)
				return nil
			})
		})
	cmd.AddCommand(test.command("test", "Send a test to every webhook, and print what each answered",
		"  antirobot alarms test", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			return show(&test, cmd, http.MethodPost, "/api/alarms/test", nil, func(w io.Writer, is *watched) error {
				if len(is.Webhooks) == 0 {
					return errors.New("no webhook is configured: see alarms.webhooks in config.example.yaml")
				}
				if failed := printHooks(w, is.Webhooks); failed > 0 {
					return errors.New(counted("%d of %d {webhook|webhooks} failed", failed, len(is.Webhooks)))
				}
				return nil
			})
		}))
	return cmd
}

func printAlarms(w io.Writer, all []admin.Alarm) {
	paint := painter(w)
	for _, a := range all {
		var on []string
		for _, g := range a.Gateways {
			if g.Value != "" && g.Value != a.Value {
				g.Name += " (" + g.Value + ")"
			}
			on = append(on, g.Name)
		}
		where := ""
		if len(on) > 0 {
			where = ", on " + strings.Join(on, ", ")
		}
		fmt.Fprintf(w, "alarm    %s%s, since %s\n         do: %s\n", paint(red, a.Text), where, inUTC(a.Since), a.Action)
	}
}

func printHooks(w io.Writer, hooks []alarm.HookState) (failed int) {
	for _, h := range hooks {
		if h.Error == "" {
			fmt.Fprintf(w, "webhook  %s\n", h.Host)
			continue
		}
		fmt.Fprintf(w, "webhook  %s fails: %s\n", h.Host, h.Error)
		failed++
	}
	return failed
}

// gatewayState is the answer of /api/status.
type gatewayState struct {
	Gateway  string
	Version  string
	Uptime   float64 `json:"uptime_seconds"`
	Ready    bool
	Checks   []struct{ Name, Detail string }
	Services []struct {
		Name, Mode string
		Upstreams  []struct {
			Address string
			Healthy bool
		}
	}
	Lists *struct {
		Sources []struct {
			Name, Error string
			Entries     int
		}
	}
	Store *struct {
		Backend string
		Healthy bool
		Error   string
	}
	Stream *streamState
}

// streamState is the connection between gateways and processors.
type streamState struct {
	Role       string
	Healthy    bool
	Error      string
	Partitions int
	Lag        float64 `json:"lag_seconds"`
}

func (s *streamState) String() string {
	switch {
	case !s.Healthy:
		return s.Role + ": " + s.Error
	case s.Role == config.RoleProcessor:
		return counted("processor, judges %d {partition|partitions}, ", s.Partitions) + fmt.Sprintf("%.3g s behind", s.Lag)
	}
	return "gateway, processors judge its events"
}

func statusCommand() *cobra.Command {
	var c client
	return c.command("status", "How the gateway is, what it stops and why, in a few lines", "  antirobot status",
		cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			type states struct {
				gatewayState
				Others   []gatewayState
				Gateways []admin.GatewayState
			}
			return show(&c, cmd, http.MethodGet, "/api/status"+everywhere, nil, func(w io.Writer, s *states) error {
				printState(w, &s.gatewayState)
				for i := range s.Others {
					printState(w, &s.Others[i])
				}
				var attack admin.AttackState
				if c.get(cmd, "/api/attack", &attack) == nil && attack.On {
					fmt.Fprintf(w, "attack   %s\n", painter(w)(yellow, attackWords(&attack)))
				}
				c.printHour(cmd, w)
				var is watched
				if c.get(cmd, "/api/alarms"+everywhere, &is) == nil {
					printAlarms(w, is.Items)
				}
				noteLost(cmd.ErrOrStderr(), s.Gateways)
				return nil
			})
		})
}

// printState prints the state of a gateway, its services, lists and store.
func printState(w io.Writer, s *gatewayState) {
	paint := painter(w)
	ready := paint(green, "ready")
	if !s.Ready {
		ready = paint(red, "not ready")
		for _, c := range s.Checks {
			if c.Detail != "" {
				ready += ", " + c.Name + ": " + c.Detail
			}
		}
	}
	if s.Gateway != "" {
		ready = s.Gateway + " " + ready
	}
	fmt.Fprintf(w, "gateway  %s, version %s, up for %s\n", ready, s.Version,
		time.Duration(s.Uptime*float64(time.Second)).Round(time.Second))
	for _, v := range s.Services {
		line := v.Name + ", mode " + v.Mode
		if v.Mode != verdict.Enforce.String() {
			line = v.Name + ", " + paint(yellow, "mode "+v.Mode+": it stops nobody yet")
		}
		for _, u := range v.Upstreams {
			if !u.Healthy {
				line += paint(red, ", "+u.Address+" does not answer")
			}
		}
		fmt.Fprintf(w, "service  %s\n", line)
	}
	if s.Lists != nil {
		for _, l := range s.Lists.Sources {
			if l.Error != "" {
				fmt.Fprintf(w, "list     %s, %s: %s\n", l.Name, counted("%d {entry|entries}", l.Entries), paint(yellow, l.Error))
			}
		}
	}
	if s.Store != nil && !s.Store.Healthy {
		fmt.Fprintf(w, "store    %s: %s\n", s.Store.Backend, paint(red, s.Store.Error))
	}
	if s.Stream != nil {
		text := s.Stream.String()
		if !s.Stream.Healthy {
			text = paint(red, text)
		}
		fmt.Fprintf(w, "stream   %s\n", text)
	}
}

// printHour prints the figures of the last hour, if there is a journal.
func (c *client) printHour(cmd *cobra.Command, w io.Writer) {
	to := time.Now().UTC()
	var f struct{ Items []journal.Figures }
	if c.get(cmd, "/api/journal/figures?"+url.Values{
		"by": {"minute"}, "from": {to.Add(-time.Hour).Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "gateways": {"all"},
	}.Encode(), &f) != nil {
		return
	}
	sum, paint := journal.Sum(f.Items), painter(w)
	var parts []string
	for _, v := range []string{"human", "unsure", "robot", "blocked"} {
		parts = append(parts, fmt.Sprintf("%s %.0f", paint(verdictColours[v], v), sum.Requests[v]))
	}
	fmt.Fprintf(w, "hour     %s; challenges shown %.0f, solved %.0f\n", strings.Join(parts, ", "),
		sum.Challenges["shown"], sum.Challenges["passed"])
	var top struct{ Items []journal.Count }
	if c.get(cmd, "/api/journal/top?"+url.Values{
		"by": {"reason"}, "q": {"verdict:robot,blocked,unsure since:1h"}, "limit": {"3"}, "gateways": {"all"},
	}.Encode(), &top) != nil {
		return
	}
	for _, n := range top.Items {
		if n.Name != "" {
			fmt.Fprintf(w, "because  %d %s\n", n.Entries, words.Reason(words.English, n.Name))
		}
	}
}

func topCommand() *cobra.Command {
	var c client
	var by, query, since string
	cmd := c.command("top", "Who is stopped most, by subject, ip, network, path, agent, cause, service or reason",
		"  antirobot top --by network\n  antirobot top --by agent --query 'path:/api' --since 1d", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			path := "/api/journal/top?" + url.Values{"by": {by}, "q": {query + " since:" + since}, "gateways": {"all"}}.Encode()
			type counts struct {
				Items    []journal.Count
				Gateways []admin.GatewayState
			}
			return show(&c, cmd, http.MethodGet, path, nil, func(w io.Writer, out *counts) error {
				t := table(w)
				for _, n := range out.Items {
					fmt.Fprintf(t, "%d\t%s\n", n.Entries, words.Reason(words.English, n.Name))
				}
				noteEmpty(cmd, len(out.Items), "nothing was found")
				noteLost(cmd.ErrOrStderr(), out.Gateways)
				return t.Flush()
			})
		})
	cmd.Flags().StringVar(&by, "by", "subject", "`WHAT` to count by")
	cmd.Flags().StringVar(&query, "query", "verdict:robot,blocked,unsure", "`QUERY` as in the console")
	cmd.Flags().StringVar(&since, "since", "1h", "`TIME` to look back over, such as 10m or 2d")
	return cmd
}

// tailOverlap is how far back each further query of tail reaches: an entry is written after its answer, on each gateway
// by itself, and its ID has the time of its request.
const tailOverlap = 10 * time.Second

// mostFollowed bounds the entries of a further query.
const mostFollowed = 5000

type tail struct {
	client
	query string
	seen  map[string]bool // printed entries of the overlap
	last  time.Time       // of the newest entry
	from  time.Time       // of the oldest entry printed at first: no older one follows
	lost  string          // the gateways that did not answer the last time
}

func tailCommand() *cobra.Command {
	var t tail
	var follow bool
	var lines int
	cmd := t.command("tail [QUERY]", "Print the latest decisions of all gateways, and follow them",
		"  antirobot tail\n  antirobot tail 'verdict:robot path:/api' --follow=false --lines 50", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			t.query = strings.Join(args, " ")
			for limit := lines; ; limit = mostFollowed {
				if err := t.next(cmd, limit); err != nil || !follow {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		})
	cmd.Long = `Print the latest entries of the journals of all gateways, and follow them: requests, challenges, bans, and
what operators did. Of requests that were simply human a sample is there (journal.humans, one in a hundred
by default), so nothing may come for a while though there are visitors; the log has them all.

The query is that of the console: kind, verdict, cause, mode, service, method, path, subject, ip, agent, ja4,
status, reason, by, trace, since and until, each with : and a value; - before one says that it must not hold.`
	cmd.Flags().BoolVar(&follow, "follow", true, "go on until it is stopped")
	cmd.Flags().IntVar(&lines, "lines", 20, "`N` decisions to begin with")
	return cmd
}

func (t *tail) next(cmd *cobra.Command, limit int) error {
	q := url.Values{"q": {t.query}, "limit": {fmt.Sprint(limit)}, "gateways": {"all"}}
	if !t.last.IsZero() {
		after := request.NewID(t.last.Add(-tailOverlap))
		clear(after[6:]) // the first of that millisecond
		q.Set("after", after.String())
	}
	var found struct {
		journal.Found
		Gateways []admin.GatewayState
	}
	if err := t.get(cmd, "/api/journal?"+q.Encode(), &found); err != nil {
		return err
	}
	if err := t.print(cmd.OutOrStdout(), t.fresh(found.Entries)); err != nil {
		return err
	}
	var lost strings.Builder
	if noteLost(&lost, found.Gateways); lost.String() != t.lost {
		t.lost = lost.String()
		fmt.Fprint(cmd.ErrOrStderr(), t.lost)
	}
	return nil
}

// fresh returns the entries that were not printed, and remembers those of the overlap.
func (t *tail) fresh(all []journal.Entry) (some []journal.Entry) {
	for i := range all {
		if all[i].At.After(t.last) {
			t.last = all[i].At
		}
	}
	seen := map[string]bool{}
	for i := range all {
		e := &all[i]
		key := e.ID + e.Kind
		if !t.seen[key] && !e.At.Before(t.from) {
			some = append(some, *e)
		}
		if !e.At.Before(t.last.Add(-tailOverlap)) {
			seen[key] = true
		}
	}
	if len(all) > 0 {
		t.seen = seen
	}
	if t.from.IsZero() && len(some) > 0 {
		t.from = some[len(some)-1].At
	}
	return some
}

// print prints entries, the oldest first.
func (t *tail) print(w io.Writer, all []journal.Entry) error {
	paint := painter(w)
	for i := len(all) - 1; i >= 0; i-- {
		e := &all[i]
		if t.raw {
			if err := json.NewEncoder(w).Encode(e); err != nil {
				return err
			}
			continue
		}
		what := e.Verdict
		if e.Kind != "request" {
			what = e.Kind
		}
		why := e.Reason
		if why == "" && e.Cause != "" && e.Cause != "none" {
			why = verdict.CauseWords(e.Cause)
		}
		if e.By != "" {
			why = strings.TrimSpace(why + " by " + e.By)
		}
		_, err := fmt.Fprintf(w, "%s %s %-21s %s %s  %s  %s\n", e.At.Format(time.TimeOnly),
			paint(verdictColours[what], fmt.Sprintf("%-8s", what)),
			e.Subject, e.Method, e.Path, words.Reason(words.English, why), strings.TrimSpace(e.ID+" "+e.Gateway))
		if err != nil {
			return err
		}
	}
	return nil
}
