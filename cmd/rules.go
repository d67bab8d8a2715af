package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/identity/geo"
	"antirobot/message"
	"antirobot/rules"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/verdict/formula"
)

func rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Describe, check and try out rules for messages and requests",
		Long: `Describe, check and try out rules for messages and requests, without a gateway. docs/rules.md explains
the language, docs/messages.md how clients set rules and ask about messages, docs/request-rules.md how
services judge their requests.`,
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
	var requests bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check rules and report mistakes with their position",
		Long: `Check the syntax of rules, and their names and parameters. The exit status is 1 if there is a mistake.
FILE may be - for standard input. Warnings do not fail the check. Names of lists and formulas belong to a
configuration; check-config checks them.`,
		Example: `  antirobot rules check comments.rules
  antirobot rules check --requests shop.rules`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := rules.DefaultOptions()
			if requests {
				o.Parts, o.Attributes = requestrules.Parts, requestrules.KnownAttribute
			}
			p, _, err := readRules(cmd, args[0], o)
			if err != nil {
				return err
			}
			for _, w := range p.Warnings() {
				fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", ruleProblem(args[0], &w))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %s\n", args[0],
				counted("%d {statement|statements}", len(p.Script().Statements)))
			return nil
		},
	}
	cmd.Flags().BoolVar(&requests, "requests", false, "they are rules for requests, without models and logs")
	return cmd
}

func printOutcome(w io.Writer, o *message.Outcome) {
	fmt.Fprintf(w, "decision: %s\n", o.Decision)
	if len(o.Tags) > 0 {
		fmt.Fprintf(w, "tags: %s\n", strings.Join(o.Tags, ", "))
	}
	if o.Score != 0 {
		fmt.Fprintf(w, "score: %g\n", o.Score)
	}
}

func rulesRunCommand() *cobra.Command {
	var fields []string
	var trace bool
	var files, where []string
	var r triedRequest
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Judge a message or a request by rules and print the decision",
		Long: `Judge a message, or with --request a request, by rules and print the decision, its tags and its score.
The rules run in isolation, set up like the default configuration: storages, counters, lists, log and
model are empty.`,
		Example: `  antirobot rules run comments.rules --message text='Cheap pills' --message from=34 --trace
  antirobot rules run shop.rules --request 'GET /prices?page=7' --ip 192.0.2.7 --header 'User-Agent: curl/8.5' --trace`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o message.Outcome
			formulas, err := formulaFiles(files)
			if err != nil {
				return err
			}
			options := rules.DefaultOptions()
			options.Formulas = formulas
			places, err := placesOf(where)
			if err != nil {
				return err
			}
			_, text, err := readRules(cmd, args[0], options)
			if err != nil {
				return err
			}
			switch {
			case r.line != "" && len(fields) > 0:
				return misused("give one of --message and --request")
			case r.line != "":
				o, err = r.judge(text, formulas, places, trace)
			default:
				var values map[string]any
				if values, err = messageValues(fields); err == nil {
					o, err = judgeOnce(cmd.Context(), text, formulas, places, values, trace)
				}
			}
			fmt.Fprint(cmd.OutOrStdout(), o.Log)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			printOutcome(cmd.OutOrStdout(), &o)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&fields, "message", "m", nil, "an attribute of the message, `NAME=VALUE`: text, from (a "+
		"number) or ip; repeatable")
	f.BoolVar(&trace, "trace", false, "print what each statement did")
	f.StringArrayVar(&files, "formula", nil, "a model for formulaCheck, `NAME=FILE`; repeatable")
	f.StringArrayVar(&where, "geo", nil, "a `FILE` that says where addresses are, as in geo.files: country and asn; "+
		"repeatable")
	f.StringVar(&r.line, "request", "", "a request instead of a message, `'METHOD /path?query'`")
	f.StringArrayVar(&r.headers, "header", nil, "a header field of the request, `'Name: value'`; repeatable")
	f.StringVar(&r.host, "host", "localhost", "`HOST` of the request")
	f.StringVar(&r.ip, "ip", "127.0.0.1", "`ADDRESS` of the client")
	f.StringVar(&r.subject, "subject", "", "`SUBJECT` that asks, as kind:id; else the address")
	f.StringVar(&r.service, "service", "default", "`NAME` of the service")
	f.StringVar(&r.verdict, "verdict", "human", "`VERDICT` so far: human or robot")
	return cmd
}

// placesOf reads the files of the command line that say where addresses are; nil without any.
func placesOf(files []string) (rules.Places, error) {
	if len(files) == 0 {
		return nil, nil //nolint:nilnil // nothing is known of addresses
	}
	cfg := geo.DefaultConfig()
	cfg.Files = files
	var said strings.Builder // problems of a file, which a gateway logs and ignores
	p, err := geo.New(cfg, geo.Deps{Log: zerolog.New(&said).Level(zerolog.WarnLevel)})
	if err != nil {
		return nil, fmt.Errorf("--geo: %w", err)
	}
	if said.Len() > 0 {
		var wrong struct{ File, Error string }
		line, _, _ := strings.Cut(said.String(), "\n")
		_ = json.Unmarshal([]byte(line), &wrong) // the log's own lines
		return nil, fmt.Errorf("--geo %s: %s", wrong.File, wrong.Error)
	}
	return p, nil
}

// formulaFiles reads the models of the command line.
func formulaFiles(files []string) (*sources.Formulas, error) {
	var named []formula.NamedConfig
	for _, f := range files {
		name, file, ok := strings.Cut(f, "=")
		if !ok {
			return nil, misused("--formula %.60s: write NAME=FILE", f)
		}
		named = append(named, formula.NamedConfig{Name: name, File: file})
	}
	return sources.LoadFormulas(named)
}

// maxRulesFile bounds the size of a file, far above the bound of rules.
const maxRulesFile = 4 << 20

func readRules(cmd *cobra.Command, file string, o rules.Options) (*rules.Program, string, error) {
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
			return nil, misused("--message %.60s: write NAME=VALUE", f)
		}
		switch name {
		case "text":
			values[name] = value
		case "from":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, misused("--message from: %.60q is not a whole number", value)
			}
			values[name] = n
		case "ip":
			a, err := netip.ParseAddr(value)
			if err != nil {
				return nil, misused("--message ip: %.60q is not an address", value)
			}
			values[name] = a
		default:
			return nil, misused("--message %.60s: the attributes are text, from and ip", name)
		}
	}
	return values, nil
}
