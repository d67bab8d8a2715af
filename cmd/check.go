package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/settings"
)

func checkConfigCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration file and say everything that is wrong in it",
		Long: `Check a configuration file without starting anything. All problems are printed at once, each with
the path of its key and its line; the exit status is then 1. Certificates, keys, logos and page
directories that it names are read too.

Warnings do not fail the check: they name what is allowed but deserves a second thought.`,
		Example: `  antirobot check-config antirobot.yaml
  antirobot check-config --config /etc/antirobot/config.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && file == "":
				file = args[0]
			case len(args) > 0:
				return errors.New("one file at a time: antirobot check-config FILE")
			case file == "":
				return errors.New("which file? antirobot check-config FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return checkConfig(cmd, file) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the `FILE`, as for serve")
	return cmd
}

func checkConfig(cmd *cobra.Command, file string) error {
	cfg, err := config.Read(file, nil)
	if err != nil {
		return err
	}
	if err := cfg.CheckFiles(); err != nil {
		return &config.Error{File: file, Problems: settings.Problems(err)}
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %s\n", file, config.Count(len(cfg.Resolved), "service"))
	return nil
}
