package cmd

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config/pushed"
)

func pushCommand() *cobra.Command {
	var c, status client
	var note string
	var back bool
	var to uint64
	cmd := c.command("push FILE", "Give all gateways of a store one configuration, or the one before",
		"  antirobot push site.yaml --note \"a new model\"\n  antirobot push --rollback\n  antirobot push status",
		cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
			switch given := cmd.Flags().Changed("to"); {
			case back && len(args) == 0 && given:
				return rollback(&c, cmd, &to)
			case back && len(args) == 0:
				return rollback(&c, cmd, nil)
			case given && !back:
				return misused("--to goes with --rollback: antirobot push --rollback --to N")
			case back:
				return misused("--rollback, with or without --to, goes without a file")
			case len(args) == 0:
				return misused("give the file that is to be pushed, or --rollback, or status")
			}
			return push(&c, cmd, args[0], note)
		})
	cmd.Long = `Give all gateways that share a store one configuration.

The file has what a reload takes over: services, defaults, lists, captcha, formula and so on. It stands over the
gateways' own files, which keep what is theirs: listeners, the store, the private listener, secrets. The files that
it names relative to itself (lists, models, pages) go along. The gateway that is asked checks all of it, and refuses
what it could not run; then it is kept as the next version, and the others take it within seconds. One that can't
keeps the last good one, and push status says so.

The keys of passes need no push: gateways that share a store share its ring.`
	cmd.Flags().StringVar(&note, "note", "", "`WHY`, in a line")
	cmd.Flags().BoolVar(&back, "rollback", false, "put the version before in force again; before the first one, the "+
		"gateways' own files")
	cmd.Flags().Uint64Var(&to, "to", 0, "with --rollback, this `VERSION`; 0 is none")
	cmd.AddCommand(status.command("status", "Show which versions there are, and which gateway runs which",
		"  antirobot push status", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			return show(&status, cmd, http.MethodGet, "/api/push", nil, printPushed)
		}))
	return cmd
}

func push(c *client, cmd *cobra.Command, file, note string) error {
	b, err := pushed.Pack(file)
	if err != nil {
		return err
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	body := map[string]any{"note": note, "bundle": text}
	return show(c, cmd, http.MethodPost, "/api/push", body, func(w io.Writer, v *pushed.Version) error {
		_, err := fmt.Fprintln(w, counted("version %d, with %d {file|files}, is in force", v.Number, len(b.Files)))
		return err
	})
}

func rollback(c *client, cmd *cobra.Command, to *uint64) error {
	type result struct {
		InForce uint64 `json:"in_force"`
	}
	body := map[string]any{"to": to}
	return show(c, cmd, http.MethodPost, "/api/push/rollback", body, func(w io.Writer, out *result) error {
		text := "nothing that was pushed is in force: the gateways' own files are"
		if out.InForce != 0 {
			text = fmt.Sprintf("version %d is in force", out.InForce)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

func printPushed(out io.Writer, s *admin.PushState) error {
	w := table(out)
	fmt.Fprintln(w, "VERSION\tBY\tWHEN\tNOTE")
	for _, v := range s.Versions {
		mark := ""
		if v.Number == s.InForce {
			mark = " (in force)"
		}
		fmt.Fprintf(w, "%d%s\t%s\t%s\t%s\n", v.Number, mark, v.By, v.At.UTC().Format(time.DateTime), v.Note)
	}
	if s.InForce == 0 {
		fmt.Fprintln(w, "nothing that was pushed is in force\t\t\t")
	}
	fmt.Fprintln(w, "\nGATEWAY\tRUNS\tREPORTED\tPROBLEM")
	for _, n := range s.Gateways {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", n.Name, n.Version, n.At.UTC().Format(time.DateTime), n.Error)
	}
	return w.Flush()
}
