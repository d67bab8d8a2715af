package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/problem"
	"antirobot/verdict/words"
)

func checkConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check-config [FILE]",
		Short: "Check a configuration and report everything that is wrong in it",
		Long: `Check a configuration without starting anything: the file, together with the environment and the flags
that serve would get. All problems are printed at once, each with the path of its key and its line,
variable or flag; the exit status is then 1. Certificates, keys, logos and page directories that it
refers to are read too. For each key that is set outside the file, it prints where.

Warnings do not fail the check: they point out what is allowed but deserves a second look.`,
		Example: `  antirobot check-config antirobot.yaml
  ANTIROBOT_LISTEN=:80 antirobot check-config --config /etc/antirobot/config.yaml --log-level debug`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && cmd.Flags().Changed("config") {
				return errors.New("one file at a time: antirobot check-config FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			named := ""
			if len(args) == 1 {
				named = args[0]
			}
			sources, err := sourcesOf(cmd.Flags(), named)
			if err != nil {
				return err
			}
			if checkUpstreams(cmd.Flags(), sources) != nil && sources.File == "" {
				return misused("which file? antirobot check-config FILE; there is none at %s",
					strings.Join(config.SearchPath, " or "))
			}
			return checkConfig(cmd, sources)
		},
	}
	registerServeFlags(cmd.Flags())
	return cmd
}

func checkConfig(cmd *cobra.Command, sources *config.Sources) error {
	cfg, err := sources.Read()
	if err != nil {
		return err
	}
	name := sources.File
	if name == "" {
		name = "the configuration"
	}
	if err := cfg.CheckFiles(); err != nil {
		return &config.Error{File: name, Problems: problem.Lines(err)}
	}
	out := cmd.OutOrStdout()
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, o := range cfg.Origins {
		fmt.Fprintln(out, o)
	}
	fmt.Fprintf(out, "%s: good, %s\n", name, words.Sprintf(words.English, "%d {service|services}", len(cfg.Resolved)))
	return nil
}
