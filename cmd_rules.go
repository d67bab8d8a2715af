package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/store"
	"antirobot/verdict/message"
	"antirobot/verdict/rules"
)

func rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Describe, check and try rules of the message firewall",
		Long: `Describe, check and try rules of the message firewall, without a gateway. docs/rules.md explains the
language, docs/messages.md how clients set rules and ask about messages.`,
	}
	cmd.AddCommand(rulesDocCommand(), rulesCheckCommand(), rulesRunCommand())
	return cmd
}

func rulesDocCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "doc",
		Short:   "Print the language and all rules with their parameters, as Markdown",
		Example: `  antirobot rules doc`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return rules.WriteDoc(cmd.OutOrStdout()) },
	}
}

func rulesCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a text of rules and say where it is wrong",
		Long: `Check a text of rules: its syntax, and the names and parameters of its rules. The exit status is 1 if
it is wrong. FILE may be - for standard input. Warnings do not fail the check.`,
		Example: `  antirobot rules check comments.rules`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, _, err := readRules(cmd, args[0])
			if err != nil {
				return err
			}
			for _, w := range p.Warnings() {
				fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", ruleProblem(args[0], &w))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %s\n", args[0], count(len(p.Script().Statements), "statement"))
			return nil
		},
	}
}

func rulesRunCommand() *cobra.Command {
	var fields []string
	var trace bool
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Judge a message by a text of rules and print the decision",
		Long: `Judge a message by a text of rules and print the decision, its tags and its score. The rules run in a
domain of their own, as the default configuration has it: storages, log and model are empty.`,
		Example: `  antirobot rules run comments.rules --message text='Cheap pills' --message from=34 --trace`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := messageValues(fields)
			if err != nil {
				return err
			}
			_, text, err := readRules(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := judgeOnce(cmd.Context(), text, values, trace)
			fmt.Fprint(cmd.OutOrStdout(), o.Log)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "decision: %s\n", o.Decision)
			if len(o.Tags) > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "tags: %s\n", strings.Join(o.Tags, ", "))
			}
			if o.Score != 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "score: %g\n", o.Score)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&fields, "message", "m", nil, "an attribute of the message, `NAME=VALUE`: text, from (a number) or ip; repeatable")
	cmd.Flags().BoolVar(&trace, "trace", false, "print what each statement did")
	return cmd
}

// maxRulesFile bounds what is read; far more than rules may have.
const maxRulesFile = 4 << 20

// readRules reads and compiles a text of rules with what a domain of messages has.
func readRules(cmd *cobra.Command, file string) (*rules.Program, string, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, "", fmt.Errorf("rules: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxRulesFile))
	if err != nil {
		return nil, "", fmt.Errorf("rules: %w", err)
	}
	o := rules.DefaultOptions()
	o.Parts = rules.PartStorages | rules.PartModels | rules.PartLogs
	p, err := rules.Compile(string(text), o)
	var wrong *rules.SyntaxError
	if errors.As(err, &wrong) {
		return nil, "", errors.New(ruleProblem(file, wrong))
	}
	return p, string(text), err
}

func ruleProblem(file string, e *rules.SyntaxError) string {
	s := fmt.Sprintf("%s:%d:%d: %s", file, e.Line, e.Col, e.Text)
	if e.Hint != "" {
		s += "; did you mean " + e.Hint + "?"
	}
	return s
}

// messageValues reads the attributes of the command line, which have the types of the default message domain.
func messageValues(fields []string) (map[string]any, error) {
	values := map[string]any{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("--message %s: write NAME=VALUE", clip(f))
		}
		switch name {
		case "text":
			values[name] = value
		case "from":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("--message from: %q is no whole number", clip(value))
			}
			values[name] = n
		case "ip":
			a, err := netip.ParseAddr(value)
			if err != nil {
				return nil, fmt.Errorf("--message ip: %q is no address", clip(value))
			}
			values[name] = a
		default:
			return nil, fmt.Errorf("--message %s: the attributes are text, from and ip", clip(name))
		}
	}
	return values, nil
}

// judgeOnce judges a message in a system that is gone afterwards.
func judgeOnce(ctx context.Context, text string, values map[string]any, trace bool) (message.Outcome, error) {
	cfg := message.DefaultConfig()
	partner := &cfg.Partners[0]
	for i := range partner.Domain.Properties {
		if p := &partner.Domain.Properties[i]; p.Class == message.ClassFirewall {
			p.Rules = text
		}
	}
	memory := store.NewMemory(nil)
	defer func() { _ = memory.Close() }()
	s, err := message.Open(ctx, cfg, message.Deps{Store: memory, Log: zerolog.Nop(), Version: version})
	if err != nil {
		return message.Outcome{}, err
	}
	defer func() { _ = s.Close() }()
	d, err := s.Domain(partner.Name, "")
	if err != nil {
		return message.Outcome{}, err
	}
	return s.Judge(ctx, d, values, trace)
}
