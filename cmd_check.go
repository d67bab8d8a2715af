package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration file and say everything that is wrong in it",
		Long: `Check a configuration file without starting anything. All problems are printed at once, each with
the path of its key. Warnings do not fail the check: they name what is allowed but deserves a
second thought.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := readConfig(args[0], nil)
			if err != nil {
				return err
			}
			if err := cfg.checkFiles(); err != nil {
				return &ConfigError{File: args[0], Err: err}
			}
			for _, w := range cfg.warnings() {
				fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %d service(s)\n", args[0], len(cfg.resolved))
			return nil
		},
	}
}
