package cmd

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

func whyCommand() *cobra.Command {
	var api apiClient
	var raw bool
	cmd := &cobra.Command{
		Use:   "why REQUEST-ID",
		Short: "Tell the whole story of a decision of a running gateway",
		Long: `Tell the whole story of a decision: who asked and which identities were refused, what lists, bans and
rules said, which pass paid, and for a ban its score, its threshold, and the factors behind it.

The request ID is on the captcha page and on the page for blocked visitors, in X-Request-Id of what the
gateway answers itself and of what the service receives, and in the log. The latest decisions are in the
gateway's memory (verdict.decisions), and what was not simply human is in its journal for days. Gateways that
share a store are all asked.`,
		Example: `  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D
  antirobot why 01KAJ4T0Q8ZV1X8C9E7N5M3B2D --data-dir /var/lib/antirobot --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("which request? antirobot why REQUEST-ID")
			}
			if _, ok := request.ParseID(strings.TrimSpace(args[0])); !ok {
				return fmt.Errorf("%.60q is not a request id: it has 26 letters and digits, as the captcha page and "+
					"X-Request-Id show them", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, _ := request.ParseID(strings.TrimSpace(args[0])) // checked
			answer, err := api.get(cmd, "/api/decisions/"+id.String()+everywhere)
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
	cmd.Flags().BoolVar(&raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

type standingNow struct {
	Bans      []bans.Story     `json:"bans"`
	Allowance *admin.Allowance `json:"allowance"`
}

// present asks for the current state of the ban and of the pass. It is left out if the gateway does not know.
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
		if answer, err := c.get(cmd, "/api/subjects/"+url.PathEscape(sub)+everywhere); err == nil &&
			readAnswer(answer, &is) == nil {
			now[sub] = is
		}
	}
	return now
}
