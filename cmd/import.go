package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/rules"
	"antirobot/rules/foreign"
	"antirobot/rules/requestrules"
	"antirobot/verdict/words"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Turn what other programs know of robots into rules",
		Long: `Turn a policy of Anubis or a robots.txt into rules for requests, which are written to standard output. What
could not be said in rules is listed on standard error. docs/request-rules.md explains how services use rules; begin
with verdict.mode: observe.`,
	}
	cmd.AddCommand(importAnubisCommand(), importRobotsCommand())
	return cmd
}

func importAnubisCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "anubis FILE",
		Short: "Turn a policy of Anubis into rules",
		Long: `Turn a policy of Anubis, YAML or JSON, into rules. Files that it imports are read as it names them; those of Anubis
itself, (data)/…, from the directory given by --data, which is the directory data of its sources.`,
		Example: `  antirobot import anubis botPolicy.yaml > shop.rules
  antirobot import anubis --data ../anubis/data botPolicy.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := readBounded(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			res, err := foreign.Anubis(src, func(name string) ([]byte, error) {
				if rest, ok := strings.CutPrefix(name, "(data)/"); ok {
					if data == "" {
						return nil, errors.New("a file of Anubis itself: --data says where its directory data is")
					}
					name = filepath.Join(data, filepath.FromSlash(rest))
				}
				return readBounded(nil, name)
			})
			return writeImported(cmd, args[0], res, err)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "the `DIR` data of Anubis's sources")
	return cmd
}

func importRobotsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "robots FILE",
		Short:   "Turn a robots.txt into rules that hold robots to it",
		Long:    `Turn a robots.txt into rules: what it forbids a robot is blocked, and Crawl-delay throttles. FILE may be - for standard input.`,
		Example: `  curl https://shop.example/robots.txt | antirobot import robots - > shop.rules`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := readBounded(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			res, err := foreign.Robots(src)
			return writeImported(cmd, args[0], res, err)
		},
	}
}

// readBounded reads a file of at most 1 MiB; - is in.
func readBounded(in io.Reader, name string) ([]byte, error) {
	const limit = 1 << 20
	if name != "-" || in == nil {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("%s: longer than 1 MiB", name)
	}
	return b, err
}

// writeImported writes rules that the gateway would take, and what they do not say.
func writeImported(cmd *cobra.Command, name string, res *foreign.Result, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := rules.DefaultOptions()
	o.Parts, o.Attributes = requestrules.Parts, requestrules.KnownAttribute
	p, err := rules.Compile(res.Rules, o)
	if err != nil {
		return fmt.Errorf("%s: the rules that it becomes are not valid: %w", name, err)
	}
	fmt.Fprint(cmd.OutOrStdout(), res.Rules)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, words.Sprintf(words.English, "%d {statement|statements}", len(p.Script().Statements)))
	for _, s := range res.Unsaid {
		fmt.Fprintf(cmd.ErrOrStderr(), "not said: %s\n", s)
	}
	return nil
}
