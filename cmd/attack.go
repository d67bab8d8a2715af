package cmd

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"antirobot/admin"
)

func attackCommand() *cobra.Command {
	var api apiClient
	var length string
	var raw bool
	cmd := &cobra.Command{
		Use:   "attack [on|off]",
		Short: "Say that the site is under attack, or that it is not any more",
		Long: `Under attack the gateway asks everybody whom the site does not know: a check of the browser that goes on
by itself, or what verdict.attack.then says. Visitors with a pass, a login or a signed cookie, those who were
here on earlier days, verified crawlers and white lists are not asked. It grows over verdict.attack.ease and
eases off as slowly, and it ends by itself. Several gateways that share a store switch together.

Without an argument it prints the present state. SIGUSR1 and SIGUSR2 to the process do the same as on and off.`,
		Example: `  antirobot attack on --for 30m
  antirobot attack off`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			method, body := http.MethodGet, []byte(nil)
			switch {
			case len(args) == 1 && args[0] == "off":
				method = http.MethodDelete
			case len(args) == 1:
				method, body = http.MethodPost, fmt.Appendf(nil, `{"for": %q}`, length)
			}
			answer, err := api.ask(cmd, method, "/api/attack", body)
			if err != nil {
				return err
			}
			if raw {
				_, err := cmd.OutOrStdout().Write(answer)
				return err
			}
			var s admin.AttackState
			if err := readAnswer(answer, &s); err != nil {
				return err
			}
			switch off := method == http.MethodDelete; {
			case off && s.On:
				fmt.Fprintf(cmd.OutOrStdout(), "switched off; it eases off %s\n", untilWords(s.Until))
			case off:
				fmt.Fprintln(cmd.OutOrStdout(), "switched off")
			case s.On:
				fmt.Fprintln(cmd.OutOrStdout(), attackWords(&s))
			default:
				fmt.Fprintln(cmd.OutOrStdout(), "not under attack")
			}
			return nil
		},
	}
	api.register(cmd)
	cmd.Flags().BoolVar(&raw, "json", false, "print the response of the gateway unchanged")
	cmd.Flags().StringVar(&length, "for", "", "how long, a `TIME` such as 30m (default: verdict.attack.for)")
	return cmd
}

// attackWords says of a switch that is on until when, and how many are asked: not all at once.
func attackWords(s *admin.AttackState) string {
	if s.Easing {
		return fmt.Sprintf("easing off %s: %.0f %% of the visitors whom the site does not know are still asked",
			untilWords(s.Until), 100*s.Share)
	}
	text := fmt.Sprintf("under attack %s: %.0f %% of the visitors whom the site does not know are asked",
		untilWords(s.Until), 100*s.Share)
	if s.Share < 1 {
		text += " now, and more and more until all of them are"
	}
	return text
}
