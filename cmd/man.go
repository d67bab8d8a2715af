package cmd

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manDate is on every page, so that the same program always writes the same pages.
var manDate = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command",
		Long: `Write the manual pages of all commands into DIR, which is made if it is not there: antirobot.1, antirobot-serve.1
and so on. Packages have them in /usr/share/man/man1. Completions for shells are written by antirobot completion.`,
		Example: `  antirobot man man1 && man -l man1/antirobot-serve.1
  antirobot completion bash > /etc/bash_completion.d/antirobot`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are public
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			head := doc.GenManHeader{
				Title: "ANTIROBOT", Section: "1", Source: "antirobot", Manual: "Antirobot",
				Date: &manDate,
			}
			if err := doc.GenManTree(root, &head, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}
