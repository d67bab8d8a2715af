package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/admin"
)

func tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Make tokens of the private listener for people and programs",
	}
	var role, expires string
	var asJSON bool
	made := &cobra.Command{
		Use:   "make NAME",
		Short: "Make a token with a name and a role",
		Long: `Make a token of the private listener, with the name that the journal shows. It prints the token, once, and the
entry for admin.tokens of the configuration, which keeps its hash alone. It is good after a restart.`,
		Example: "  antirobot tokens make anna --role operator --expires 2027-12-31\n  antirobot tokens make scraper --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, hash := admin.MakeToken()
			cfg := admin.DefaultConfig()
			cfg.Tokens = []admin.TokenConfig{{Name: args[0], Role: role, Hash: hash, Expires: expires}}
			if err := cfg.Validate(); err != nil {
				return &usageError{errors.New(strings.ReplaceAll(err.Error(), "tokens[0].", "--"))}
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(w).Encode(madeToken{args[0], role, expires, hash, token})
			}
			fmt.Fprintf(w, "The token of %s (keep it secret; it is not shown again):\n\n  %s\n\n", args[0], token)
			fmt.Fprintf(w, "Its entry in the configuration:\n\nadmin:\n  tokens:\n    - name: %s\n      role: %s\n   "+
				"   hash: %q\n", strconv.Quote(args[0]), role, hash)
			if expires != "" {
				fmt.Fprintf(w, "      expires: %q\n", expires)
			}
			return nil
		},
	}
	made.Flags().StringVar(&role, "role", admin.Viewer.String(),
		"`ROLE`: viewer sees, operator acts, admin also reloads and revokes")
	made.Flags().StringVar(&expires, "expires", "", "the last `DAY`, such as 2027-12-31; empty: never")
	made.Flags().BoolVar(&asJSON, "json", false, "print JSON: the keys of the entry, and token")
	cmd.AddCommand(made)
	return cmd
}

type madeToken struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Expires string `json:"expires,omitempty"`
	Hash    string `json:"hash"`
	Token   string `json:"token"`
}
