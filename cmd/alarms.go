package cmd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/alarm"
	"antirobot/verdict/words"
)

type watched struct {
	Items    []admin.Alarm
	Webhooks []alarm.HookState
	Gateways []admin.GatewayState
}

func alarmsCommand() *cobra.Command {
	var o operator
	cmd := o.command("alarms", "What somebody should look at, and who is told of it",
		"  antirobot alarms\n  antirobot alarms test", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			var is watched
			printed, err := o.call(cmd, http.MethodGet, "/api/alarms"+everywhere, nil, &is)
			if err != nil || printed {
				return err
			}
			w := cmd.OutOrStdout()
			if len(is.Items) == 0 {
				fmt.Fprintln(w, "no alarm")
			}
			printAlarms(w, coloured(w), is.Items)
			for _, h := range is.Webhooks {
				printHook(w, h)
			}
			sayLost(cmd.ErrOrStderr(), is.Gateways)
			return nil
		})
	var test operator
	cmd.AddCommand(test.command("test", "Tell every webhook that this is a test, and print what each answered",
		"  antirobot alarms test", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			var is watched
			printed, err := test.call(cmd, http.MethodPost, "/api/alarms/test", nil, &is)
			if err != nil || printed {
				return err
			}
			if len(is.Webhooks) == 0 {
				return errors.New("no webhook is configured: see alarms.webhooks in config.example.yaml")
			}
			failed := 0
			for _, h := range is.Webhooks {
				printHook(cmd.OutOrStdout(), h)
				if h.Error != "" {
					failed++
				}
			}
			if failed > 0 {
				return errors.New(words.Sprintf(words.English, "%d of %d {webhook|webhooks} failed", failed,
					len(is.Webhooks)))
			}
			return nil
		}))
	return cmd
}

func printAlarms(w io.Writer, colours bool, all []admin.Alarm) {
	for _, a := range all {
		var on []string
		for _, g := range a.Gateways {
			if g.Value != "" && g.Value != a.Value {
				g.Name += " (" + g.Value + ")"
			}
			on = append(on, g.Name)
		}
		who := ""
		if len(on) > 0 {
			who = ", on " + strings.Join(on, ", ")
		}
		fmt.Fprintf(w, "alarm    %s%s, since %s\n         do: %s\n", paint(colours, red, a.Text), who, inUTC(a.Since),
			a.Action)
	}
}

func printHook(w io.Writer, h alarm.HookState) {
	if h.Error != "" {
		fmt.Fprintf(w, "webhook  %s fails: %s\n", h.Host, h.Error)
		return
	}
	fmt.Fprintf(w, "webhook  %s\n", h.Host)
}
