package cmd

import (
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/gateway"
)

func backupCommand() *cobra.Command {
	var o operator
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Write a consistent copy of a running gateway's data directory",
		Long: `Ask the gateway on this machine to write a consistent copy of its data directory into DIR, while it goes on:
the key ring, the token, the store with bans and spent passes, the counters, the journal, the restart log and the
training log. DIR must not exist, and must lie in the file system of the data directory: the store's tables are linked, not copied, so that
the copy takes a moment and little room. Copy DIR to another machine afterwards, as a secret, and remove it.

With a shared store (Redis) the copy has what is on this machine alone.`,
		Example: `  antirobot backup /var/lib/antirobot/backup-1 && tar -C /var/lib/antirobot -czf - backup-1 | ssh elsewhere 'cat > backup-1.tgz'`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			printed, err := o.call(cmd, http.MethodPost, "/api/backup", map[string]string{"dir": dir}, new(struct{}))
			if err != nil || printed {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: done; it holds keys, so keep it as a secret\n", dir)
			return err
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

func restoreCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Put a backup into the place of a data directory",
		Long: `Copy what antirobot backup wrote into the data directory of a gateway that does not run. The data directory must
not exist or be empty: nothing is overwritten. Passes that were spent since the backup can be spent again, up to
their allowance, and bans made since then are gone.`,
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
	cmd.Flags().StringVar(&dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir), "the data `DIR` to restore into")
	return cmd
}
