package cmd

import (
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config/pushed"
	"antirobot/verdict/words"
)

func pushCommand() *cobra.Command {
	var o operator
	var note string
	var back bool
	var to uint64
	cmd := o.command("push FILE", "Give all gateways of a store one configuration, or the one before",
		"  antirobot push site.yaml --note \"a new model\"\n  antirobot push --rollback\n  antirobot push status",
		cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
			switch given := cmd.Flags().Changed("to"); {
			case back && len(args) == 0 && given:
				return o.rollback(cmd, &to)
			case back && len(args) == 0:
				return o.rollback(cmd, nil)
			case given && !back:
				return misused("--to goes with --rollback: antirobot push --rollback --to N")
			case back:
				return misused("--rollback, with or without --to, goes without a file")
			case len(args) == 0:
				return misused("give the file that is to be pushed, or --rollback, or status")
			}
			return o.push(cmd, args[0], note)
		})
	cmd.Long = `Give all gateways that share a store one configuration.

The file has what a reload takes over: services, defaults, lists, captcha, formula and so on. It stands over the gateways' own
files, which keep what is theirs: listeners, the store, the private listener, secrets. The files that it names relative to
itself (lists, models, pages) go along. The gateway that is asked checks all of it, and refuses what it could not run; then it is kept as the next
version, and the others take it within seconds. One that can't keeps the last good one, and push status says so.
The keys of passes need no push: gateways that share a store share its ring.`
	cmd.Flags().StringVar(&note, "note", "", "`WHY`, in a line")
	cmd.Flags().BoolVar(&back, "rollback", false, "put the version before in force again; before the first one, the "+
		"gateways' own files")
	cmd.Flags().Uint64Var(&to, "to", 0, "with --rollback, this `VERSION`; 0 is none")
	cmd.AddCommand(pushStatusCommand())
	return cmd
}

func (o *operator) push(cmd *cobra.Command, file, note string) error {
	b, err := pushed.Pack(file)
	if err != nil {
		return err
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	var v pushed.Version
	body := map[string]any{"note": note, "bundle": text}
	printed, err := o.call(cmd, http.MethodPost, "/api/push", body, &v)
	if err != nil || printed {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), words.Sprintf(words.English, "version %d, with %d {file|files}, is in force",
		v.Number, len(b.Files)))
	return nil
}

func (o *operator) rollback(cmd *cobra.Command, to *uint64) error {
	var out struct {
		InForce uint64 `json:"in_force"`
	}
	printed, err := o.call(cmd, http.MethodPost, "/api/push/rollback", map[string]any{"to": to}, &out)
	if err != nil || printed {
		return err
	}
	if out.InForce == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing that was pushed is in force: the gateways' own files are")
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "version %d is in force\n", out.InForce)
	return nil
}

func pushStatusCommand() *cobra.Command {
	var o operator
	return o.command("status", "Show which versions there are, and which gateway runs what", "  antirobot push status",
		cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			var s admin.PushState
			printed, err := o.call(cmd, http.MethodGet, "/api/push", nil, &s)
			if err != nil || printed {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
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
			fmt.Fprintln(w, "\nGATEWAY\tRUNS\tTOLD\tPROBLEM")
			for _, n := range s.Gateways {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", n.Name, n.Version, n.At.UTC().Format(time.DateTime), n.Error)
			}
			return w.Flush()
		})
}
