package cmd

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/gateway"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// everywhere asks for the answer of all gateways that share the store.
const everywhere = "?gateways=all"

// noteLost names the gateways that did not answer.
func noteLost(w io.Writer, all []admin.GatewayState) {
	for _, g := range all {
		if g.Error != "" {
			fmt.Fprintf(w, "note: not all is here; the gateway %s: %s\n", g.Name, g.Error)
		}
	}
}

// subjectOf turns a bare address, or an IPv6 /64, into a subject.
func subjectOf(s string) string {
	s = strings.TrimSpace(s)
	if _, err := netip.ParseAddr(s); err == nil {
		return "ip:" + s
	}
	if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is6() && p.Bits() == 64 {
		return "ip:" + s
	}
	return s
}

// isNetwork reports whether s is a network that is no subject: networks stand on lists, and have no ban.
func isNetwork(s string) bool {
	s = strings.TrimSpace(s)
	_, err := netip.ParsePrefix(s)
	return err == nil && subjectOf(s) == s
}

// behind returns the subject of a request's ID, or subjectOf.
func (c *client) behind(cmd *cobra.Command, s string) (string, error) {
	id, ok := request.ParseID(strings.TrimSpace(s))
	if !ok {
		return subjectOf(s), nil
	}
	var story verdict.Story
	if err := c.get(cmd, "/api/decisions/"+id.String()+everywhere, &story); err != nil {
		return "", err
	}
	if story.Ban != nil {
		return story.Ban.Subject, nil
	}
	return story.Subject, nil
}

// entryOf returns the entry of a list that an argument names.
func (c *client) entryOf(cmd *cobra.Command, arg string) (string, error) {
	entry := strings.TrimSpace(arg)
	if _, ok := request.ParseID(entry); ok {
		var err error
		if entry, err = c.behind(cmd, entry); err != nil {
			return "", err
		}
	}
	return strings.TrimPrefix(entry, "ip:"), nil
}

// action is what a ban and an entry of a list have in common.
type action struct {
	client
	ttl, reason, service string
}

func (a *action) registerAction(cmd *cobra.Command, usual, usage string) *cobra.Command {
	cmd.Flags().StringVar(&a.ttl, "for", usual, usage)
	cmd.Flags().StringVar(&a.reason, "reason", "", "`WHY`, in a line")
	cmd.Flags().StringVar(&a.service, "service", "", "on the service `NAME` alone")
	return cmd
}

func banCommand() *cobra.Command {
	var a action
	cmd := a.command("ban SUBJECT|ADDRESS|NETWORK|REQUEST-ID", "Challenge a client for a time",
		"  antirobot ban 203.0.113.7 --for 1h --reason \"copies prices\"\n  antirobot ban 203.0.113.0/24 --for 1h",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			if isNetwork(args[0]) {
				return a.enlist(cmd, "ban", "is challenged", strings.TrimSpace(args[0]))
			}
			subject, err := a.behind(cmd, args[0])
			if err != nil {
				return err
			}
			body := map[string]string{"subject": subject, "ttl": a.ttl, "reason": a.reason, "service": a.service}
			return show(&a.client, cmd, http.MethodPost, "/api/bans", body, func(w io.Writer, b *bans.Story) error {
				fmt.Fprintf(w, "%s is banned %s\n", b.Subject, untilWords(b.Until))
				return a.noteModes(cmd)
			})
		})
	return a.registerAction(cmd, "1h", "how long: a `TTL` such as 10m, 12h or 7d")
}

func unbanCommand() *cobra.Command {
	var c client
	return c.command("unban SUBJECT|ADDRESS|NETWORK|REQUEST-ID", "Lift all bans of a client",
		"  antirobot unban 203.0.113.7\n  antirobot unban 01KAJ4T0Q8ZV1X8C9E7N5M3B2D", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			if isNetwork(args[0]) {
				return c.unlist(cmd, "ban", "is not challenged any more", strings.TrimSpace(args[0]), "")
			}
			subject, err := c.behind(cmd, args[0])
			if err != nil {
				return err
			}
			path := "/api/bans?" + url.Values{"subject": {subject}, "service": {"*"}}.Encode()
			return show(&c, cmd, http.MethodDelete, path, nil, func(w io.Writer, out *struct{ Subject string }) error {
				_, err := fmt.Fprintf(w, "%s is not banned any more\n", out.Subject)
				return err
			})
		})
}

// listVerb is a command that changes a list.
type listVerb struct {
	use, short, list, done, example string
	usual                           string // how long an entry stays; of commands that add one
}

const anyClient = " ADDRESS|NETWORK|SUBJECT|REQUEST-ID"

var (
	allowVerb = listVerb{
		"allow", "Let a client pass, whatever else is known except a block of your own", "white", "passes",
		"  antirobot allow 203.0.113.7 --for 30d --reason \"our monitoring\"", "7d",
	}
	blockVerb = listVerb{
		"block", "Refuse a client with a 403", "block", "is blocked",
		"  antirobot block 203.0.113.0/24 --for 1h", "1h",
	}
	unallowVerb = listVerb{
		"unallow", "Take an entry off the white list", "white", "is judged again",
		"  antirobot unallow 203.0.113.7", "",
	}
	unblockVerb = listVerb{
		"unblock", "Take an entry off the list of blocks", "block", "is not blocked any more",
		"  antirobot unblock 203.0.113.0/24", "",
	}
)

// addCommand makes allow and block.
func addCommand(v listVerb) *cobra.Command {
	var a action
	cmd := a.command(v.use+anyClient, v.short, v.example, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		entry, err := a.entryOf(cmd, args[0])
		if err != nil {
			return err
		}
		return a.enlist(cmd, v.list, v.done, entry)
	})
	return a.registerAction(cmd, v.usual, "how long: a `TTL` such as 10m, 12h or 7d; empty: until it is removed")
}

// removeCommand makes unallow and unblock.
func removeCommand(v listVerb) *cobra.Command {
	var c client
	var service string
	cmd := c.command(v.use+anyClient, v.short, v.example, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		entry, err := c.entryOf(cmd, args[0])
		if err != nil {
			return err
		}
		return c.unlist(cmd, v.list, v.done, entry, service)
	})
	cmd.Flags().StringVar(&service, "service", "", "the entry of the service `NAME` alone")
	return cmd
}

func (a *action) enlist(cmd *cobra.Command, list, done, entry string) error {
	body := map[string]string{"entry": entry}
	for name, value := range map[string]string{"ttl": a.ttl, "reason": a.reason, "service": a.service} {
		if value != "" {
			body[name] = value
		}
	}
	type added struct {
		Entry string
		Until time.Time
	}
	return show(&a.client, cmd, http.MethodPost, "/api/lists/"+list, body, func(w io.Writer, out *added) error {
		until := "until it is removed"
		if !out.Until.IsZero() {
			until = untilWords(out.Until)
		}
		fmt.Fprintf(w, "%s %s %s\n", out.Entry, done, until)
		if list != "white" {
			return a.noteModes(cmd)
		}
		blocks, err := a.covering(cmd, "block", out.Entry)
		for _, b := range blocks {
			fmt.Fprintf(w, "note: your own block of %s stands above it; antirobot unblock %s removes that\n", b, b)
		}
		return err
	})
}

func (c *client) unlist(cmd *cobra.Command, list, done, entry, service string) error {
	path := "/api/lists/" + list + "?" + url.Values{"entry": {entry}, "service": {service}}.Encode()
	err := show(c, cmd, http.MethodDelete, path, nil, func(w io.Writer, out *struct{ Removed string }) error {
		_, err := fmt.Fprintf(w, "%s %s\n", out.Removed, done)
		return err
	})
	if err == nil {
		return nil
	}
	if have, lost := c.covering(cmd, list, entry); lost == nil && len(have) > 0 {
		return fmt.Errorf("%w; the list has %s", err, strings.Join(have, ", "))
	}
	return err
}

// covering returns the entries of a list, made at run time, that equal an entry or overlap with it.
func (c *client) covering(cmd *cobra.Command, list, entry string) (have []string, err error) {
	var all struct {
		Items []struct{ Entry, Service string }
	}
	if err := c.get(cmd, "/api/lists/"+list+"?limit=1000", &all); err != nil {
		return nil, err
	}
	whose, ok := networkOf(entry)
	for _, e := range all.Items {
		n, isNet := networkOf(e.Entry)
		if e.Entry != entry && !(ok && isNet && n.Overlaps(whose)) {
			continue
		}
		text := e.Entry
		if e.Service != "" {
			text += " --service " + e.Service
		}
		have = append(have, text)
	}
	return have, nil
}

func networkOf(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(s)
	return n, err == nil
}

// noteModes names the services that do not stop anyone yet.
func (c *client) noteModes(cmd *cobra.Command) error {
	var s struct{ Services []struct{ Name, Mode string } }
	err := c.get(cmd, "/api/status", &s)
	for _, v := range s.Services {
		if v.Mode != verdict.Enforce.String() {
			fmt.Fprintf(cmd.OutOrStdout(), "note: service %s is in mode %s: it stops nobody yet\n", v.Name, v.Mode)
		}
	}
	return err
}

func attackCommand() *cobra.Command {
	var c client
	var length string
	cmd := c.command("attack [on|off]", "Say that the site is under attack, or that it is not any more",
		"  antirobot attack on --for 30m\n  antirobot attack off", cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		func(cmd *cobra.Command, args []string) error {
			method, body := http.MethodGet, any(nil)
			switch {
			case len(args) == 1 && args[0] == "off":
				method = http.MethodDelete
			case len(args) == 1:
				method, body = http.MethodPost, map[string]string{"for": length}
			}
			return show(&c, cmd, method, "/api/attack", body, func(w io.Writer, s *admin.AttackState) error {
				text := "not under attack"
				switch off := method == http.MethodDelete; {
				case off && s.On:
					text = "switched off; it eases off " + untilWords(s.Until)
				case off:
					text = "switched off"
				case s.On:
					text = attackWords(s)
				}
				_, err := fmt.Fprintln(w, text)
				return err
			})
		})
	cmd.ValidArgs = []string{"on", "off"}
	cmd.Long = `Under attack the gateway challenges every visitor whom the site does not know: a check of the browser that goes
on by itself, or what verdict.attack.then says. Visitors with a pass, a login or a signed cookie, those of earlier
days, verified crawlers and white lists are not challenged. It grows over a minute and eases off as slowly, and it
ends by itself. Several gateways that share a store switch together.

Without an argument it prints the present state. SIGUSR1 and SIGUSR2 to the process do the same as on and off.`
	cmd.Flags().StringVar(&length, "for", "", "how long, a `TIME` such as 30m (default: verdict.attack.for)")
	return cmd
}

// attackWords says how long a switch stays on, and which share of visitors it concerns: not all at once.
func attackWords(s *admin.AttackState) string {
	if s.Easing {
		return fmt.Sprintf("easing off %s: %.0f %% of the visitors whom the site does not know are still challenged",
			untilWords(s.Until), 100*s.Share)
	}
	text := fmt.Sprintf("under attack %s: %.0f %% of the visitors whom the site does not know are challenged",
		untilWords(s.Until), 100*s.Share)
	if s.Share < 1 {
		text += " now, and more and more until all of them are"
	}
	return text
}

func backupCommand() *cobra.Command {
	var c client
	cmd := c.command("backup DIR", "Write a consistent copy of a running gateway's data directory",
		`  antirobot backup /var/lib/antirobot/backup-1 && tar -C /var/lib/antirobot -czf - backup-1 | ssh elsewhere 'cat > backup-1.tgz'`,
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			body := map[string]string{"dir": dir}
			return show(&c, cmd, http.MethodPost, "/api/backup", body, func(w io.Writer, _ *struct{}) error {
				_, err := fmt.Fprintf(w, "%s: done; it holds keys, so keep it as a secret\n", dir)
				return err
			})
		})
	cmd.Long = `Ask the gateway on this machine to write a consistent copy of its data directory into DIR, while it goes on:
the key ring, the token, the store with bans and spent passes, the counters, the journal, the restart log and the
training log. DIR must not exist, and must lie in the file system of the data directory: the store's tables are
linked, not copied, so that the copy takes a moment and little room. Copy DIR to another machine afterwards, as a
secret, and remove it. With a shared store (Redis) the copy has only the data of this machine.`
	return cmd
}

func restoreCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Put a backup into the place of a data directory",
		Long: `Copy a backup into the data directory of a gateway that does not run. The data directory must not exist or be
empty: nothing is overwritten. Passes that were spent since the backup can be spent again, up to their allowance,
and bans made since then are gone.`,
		Example: `  systemctl stop antirobot && mv /var/lib/antirobot /var/lib/antirobot.old
  antirobot restore /root/backup-1 --data-dir /var/lib/antirobot
  chown -R antirobot: /var/lib/antirobot && systemctl start antirobot`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := gateway.Restore(args[0], dataDir); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: restored from %s; the gateway's user must own it\n", dataDir, args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir),
		"the data `DIR` to restore into")
	return cmd
}
