package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/words"
)

// operator is what the commands of every day share: short for people, JSON for programs.
type operator struct {
	apiClient
	raw bool
}

func (o *operator) command(use, short, example string, args cobra.PositionalArgs,
	run func(cmd *cobra.Command, args []string) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: args, RunE: run}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

// call asks the gateway; with --json it prints the answer and tells to say nothing else.
func (o *operator) call(cmd *cobra.Command, method, path string, body, out any) (printed bool, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return false, err
		}
	}
	answer, err := o.ask(cmd, method, path, text)
	if err != nil {
		return false, err
	}
	if o.raw {
		_, err = cmd.OutOrStdout().Write(answer)
		return true, err
	}
	return false, readAnswer(answer, out)
}

// whom turns a bare address into a subject.
func whom(s string) string {
	s = strings.TrimSpace(s)
	if _, err := netip.ParseAddr(s); err == nil {
		return "ip:" + s
	}
	if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is6() && p.Bits() == 64 {
		return "ip:" + s
	}
	return s
}

// isNetwork reports whether s is a network that is no subject: a list has these, and they have no ban.
func isNetwork(s string) bool {
	s = strings.TrimSpace(s)
	_, err := netip.ParsePrefix(s)
	return err == nil && whom(s) == s
}

// behind returns the subject of a request's ID, or whom.
func (o *operator) behind(cmd *cobra.Command, s string) (string, error) {
	id, ok := request.ParseID(strings.TrimSpace(s))
	if !ok {
		return whom(s), nil
	}
	answer, err := o.get(cmd, "/api/decisions/"+id.String()+everywhere)
	if err != nil {
		return "", err
	}
	var story verdict.Story
	if err := readAnswer(answer, &story); err != nil {
		return "", err
	}
	if story.Ban != nil {
		return story.Ban.Subject, nil
	}
	return story.Subject, nil
}

func banCommand() *cobra.Command {
	var o operator
	var ttl, reason, service string
	cmd := o.command("ban SUBJECT|ADDRESS|NETWORK|REQUEST-ID", "Ask somebody for a captcha for a time",
		"  antirobot ban 203.0.113.7 --for 1h --reason \"copies prices\"\n  antirobot ban 203.0.113.0/24 --for 1h",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			if isNetwork(args[0]) {
				return o.enlist(cmd, "ban", "is asked for a captcha", map[string]string{
					"entry": strings.TrimSpace(args[0]), "ttl": ttl, "reason": reason,
					"service": service,
				})
			}
			subject, err := o.behind(cmd, args[0])
			if err != nil {
				return err
			}
			var b bans.Story
			body := map[string]string{"subject": subject, "ttl": ttl, "reason": reason, "service": service}
			printed, err := o.call(cmd, http.MethodPost, "/api/bans", body, &b)
			if err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is banned %s\n", b.Subject, untilWords(b.Until))
			return o.whetherStops(cmd)
		})
	cmd.Flags().StringVar(&ttl, "for", "1h", "how long: a `TTL` such as 10m, 12h or 7d")
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, in a line")
	cmd.Flags().StringVar(&service, "service", "", "on the service `NAME` alone")
	return cmd
}

func unbanCommand() *cobra.Command {
	var o operator
	return o.command("unban SUBJECT|ADDRESS|NETWORK|REQUEST-ID", "Lift all bans of somebody",
		"  antirobot unban 203.0.113.7\n  antirobot unban 01KAJ4T0Q8ZV1X8C9E7N5M3B2D", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			if isNetwork(args[0]) {
				return o.unlist(cmd, "ban", "is not asked any more", strings.TrimSpace(args[0]), "")
			}
			subject, err := o.behind(cmd, args[0])
			if err != nil {
				return err
			}
			var out struct {
				Subject string
				Lifted  int
			}
			printed, err := o.call(cmd, http.MethodDelete, "/api/bans?"+url.Values{
				"subject": {subject},
				"service": {"*"},
			}.Encode(), nil, &out)
			if err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is not banned any more\n", out.Subject)
			return nil
		})
}

// listCommand makes allow and block, which put an entry on a list.
func listCommand(use, short, list, usual, done, example string) *cobra.Command {
	var o operator
	var ttl, reason, service string
	cmd := o.command(use, short, example, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		entry := strings.TrimSpace(args[0])
		if _, ok := request.ParseID(entry); ok {
			var err error
			if entry, err = o.behind(cmd, entry); err != nil {
				return err
			}
		}
		return o.enlist(cmd, list, done, map[string]string{
			"entry": strings.TrimPrefix(entry, "ip:"), "ttl": ttl,
			"reason": reason, "service": service,
		})
	})
	cmd.Flags().StringVar(&ttl, "for", usual, "how long: a `TTL` such as 10m, 12h or 7d; empty: until it is removed")
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, in a line")
	cmd.Flags().StringVar(&service, "service", "", "on the service `NAME` alone")
	return cmd
}

func (o *operator) enlist(cmd *cobra.Command, list, done string, body map[string]string) error {
	for k, v := range body {
		if v == "" {
			delete(body, k)
		}
	}
	var out struct {
		Entry string
		Until time.Time
	}
	printed, err := o.call(cmd, http.MethodPost, "/api/lists/"+list, body, &out)
	if err != nil || printed {
		return err
	}
	until := "until it is removed"
	if !out.Until.IsZero() {
		until = untilWords(out.Until)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", out.Entry, done, until)
	if list == "white" {
		return o.whetherBlocked(cmd, out.Entry)
	}
	return o.whetherStops(cmd)
}

func allowCommand() *cobra.Command {
	return listCommand("allow ADDRESS|NETWORK|SUBJECT|REQUEST-ID",
		"Let somebody through, whatever else is known but a block of your own", "white", "7d", "is let through",
		"  antirobot allow 203.0.113.7 --for 30d --reason \"our monitoring\"")
}

func blockCommand() *cobra.Command {
	return listCommand("block ADDRESS|NETWORK|SUBJECT|REQUEST-ID", "Refuse somebody with a 403", "block", "1h",
		"is blocked", "  antirobot block 203.0.113.0/24 --for 1h")
}

// whetherBlocked says which blocks that an operator made cover an entry: they stand above the white list.
func (o *operator) whetherBlocked(cmd *cobra.Command, entry string) error {
	blocks, err := o.covering(cmd, "block", entry)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		fmt.Fprintf(cmd.OutOrStdout(),
			"note: your own block of %s stands above it; antirobot unblock %s removes that\n", b, b)
	}
	return nil
}

func networkOf(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(s)
	return n, err == nil
}

// whetherStops says which services do not stop anybody yet.
func (o *operator) whetherStops(cmd *cobra.Command) error {
	answer, err := o.get(cmd, "/api/status")
	if err != nil {
		return err
	}
	var s struct{ Services []struct{ Name, Mode string } }
	if err := readAnswer(answer, &s); err != nil {
		return err
	}
	for _, v := range s.Services {
		if v.Mode != verdict.Enforce.String() {
			fmt.Fprintf(cmd.OutOrStdout(), "note: service %s is in mode %s: it stops nobody yet\n", v.Name, v.Mode)
		}
	}
	return nil
}

// everywhere asks for what all gateways that share the store know.
const everywhere = "?gateways=all"

func sayLost(w io.Writer, all []admin.GatewayState) {
	for _, g := range all {
		if g.Error != "" {
			fmt.Fprintf(w, "note: not all is here; the gateway %s: %s\n", g.Name, g.Error)
		}
	}
}

// sayNone says on the standard error that a list is empty, so that programs read an empty one.
func sayNone(cmd *cobra.Command, n int, what string) {
	if n == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), what)
	}
}

func topCommand() *cobra.Command {
	var o operator
	var by, query, since string
	cmd := o.command("top", "Who is stopped most, by subject, ip, network, path, agent, cause, service or reason",
		"  antirobot top --by network\n  antirobot top --by agent --query 'path:/api' --since 1d", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Items    []journal.Count
				Gateways []admin.GatewayState
			}
			printed, err := o.call(cmd, http.MethodGet, "/api/journal/top?"+url.Values{
				"by": {by},
				"q":  {query + " since:" + since}, "gateways": {"all"},
			}.Encode(), nil, &out)
			if err != nil || printed {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range out.Items {
				fmt.Fprintf(t, "%d\t%s\n", c.Entries, words.Reason(words.English, c.Name))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			sayNone(cmd, len(out.Items), "nothing was found")
			sayLost(cmd.ErrOrStderr(), out.Gateways)
			return nil
		})
	cmd.Flags().StringVar(&by, "by", "subject", "`WHAT` to count by")
	cmd.Flags().StringVar(&query, "query", "verdict:robot,blocked,unsure", "`QUERY` as in the console")
	cmd.Flags().StringVar(&since, "since", "1h", "`TIME` to look back over, such as 10m or 2d")
	return cmd
}
