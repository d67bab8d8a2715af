package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"antirobot/spelling"
)

// Main runs the command line of the process and returns its exit status.
func Main() int {
	growFirst()
	if err := execute(rootCommand()); err != nil {
		fmt.Fprintln(os.Stderr, "antirobot: "+err.Error())
		var usage *usageError
		if errors.As(err, &usage) {
			return exitUsage
		}
		return 1
	}
	return 0
}

// execute runs a command line. Of a word that is no command cobra says no more than what it may have been, on lines of their own.
func execute(root *cobra.Command) error {
	err := root.Execute()
	if err == nil || !strings.HasPrefix(err.Error(), "unknown command") {
		return err
	}
	what, rest, _ := strings.Cut(err.Error(), "\n")
	if like := strings.Fields(strings.TrimPrefix(strings.TrimSpace(rest), "Did you mean this?")); len(like) > 0 {
		return misused("%s; did you mean %s?", what, strings.Join(like, " or "))
	}
	if strings.Contains(what, ": it is ") || strings.Contains(what, "--help") {
		return misused("%s", what)
	}
	return misused("%s; see `%s --help`", what, root.Name())
}

// exitUsage is the exit status after a command line that can't be understood.
const exitUsage = 2

// usageError is a command line that can't be understood.
type usageError struct{ error }

// Unwrap returns what is wrong with it.
func (e *usageError) Unwrap() error { return e.error }

// misused makes one, as fmt.Errorf makes errors.
func misused(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// markUsage lets a command, and those below it, say that their arguments are wrong as a usageError.
// A command that only has commands below it refuses what is none of them.
func markUsage(cmd *cobra.Command) {
	if cmd.HasParent() && !cmd.Runnable() {
		cmd.Args = oneOfCommands
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{argsError(cmd, args, err)}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		markUsage(c)
	}
}

// oneOfCommands refuses a word that is no command below, and names those.
func oneOfCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.CommandPath()[len(cmd.Root().Name())+1:])
	}
	return fmt.Errorf("unknown command %q for %q: it is %s", args[0], cmd.CommandPath(), strings.Join(names, " or "))
}

// argsError says what a command takes where cobra counts arguments. What a command says by itself is left alone.
func argsError(cmd *cobra.Command, args []string, err error) error {
	use := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	said := err.Error()
	switch {
	case strings.HasPrefix(said, "unknown command") && cmd.HasSubCommands():
		return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	case strings.HasPrefix(said, "unknown command"):
		return fmt.Errorf("%s takes no arguments, and got %q; see `%[1]s --help`", cmd.CommandPath(), args[0])
	case strings.HasPrefix(said, "accepts"), strings.HasPrefix(said, "requires"):
		return fmt.Errorf("usage: %s; see `%s --help`", use, cmd.CommandPath())
	case strings.HasPrefix(said, "invalid argument"):
		return fmt.Errorf("%w: %s; see `%s --help`", err, use, cmd.CommandPath())
	}
	return err
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "antirobot",
		Short: "A gateway that tells humans from robots in front of web services",
		Long: `Antirobot sits in front of web services and decides, for every request and before the
service sees it, whether it comes from a human or a robot. Humans pass, robots are asked to
solve a captcha, and listed clients are blocked.

Try it:       antirobot demo
Protect one:  antirobot serve --listen :8080 --upstream http://127.0.0.1:3000
Protect many: antirobot serve --config antirobot.yaml`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(serveCommand(), demoCommand(), checkConfigCommand(), keysCommand(), tokensCommand(), rulesCommand(),
		formulaCommand(), eventsCommand(), labelCommand(), learnCommand(), replayCommand(),
		banCommand(), unbanCommand(), addCommand(allowVerb), removeCommand(unallowVerb), addCommand(blockVerb),
		removeCommand(unblockVerb), attackCommand(), queueCommand(),
		whyCommand(), subjectCommand(), statusCommand(), topCommand(), tailCommand(), alarmsCommand(), doctorCommand(),
		healthCommand(), pushCommand(), backupCommand(), restoreCommand(), manCommand(), licencesCommand(), versionCommand())
	markUsage(root)
	return root
}

// flagError says what may have been meant by a flag that does not exist, and where the flags are described.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		best := spelling.Nearest(unknown.GetSpecifiedName(), names)
		if best != "" && unknown.GetSpecifiedShortnames() == "" {
			return misused("%w; did you mean --%s? See `%s --help`", err, best, cmd.CommandPath())
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if kind := flagKinds[invalid.GetFlag().Value.Type()]; kind != "" {
			err = fmt.Errorf("--%s: %.60q is %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		}
	}
	return &usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
}

// flagKinds says of a value what it should have been, by the type of the flag.
var flagKinds = map[string]string{
	"int": "no whole number", "uint64": "no whole number from 0 on", "float64": "no number such as 0.5", "bool": "neither true nor false",
	"duration": "no time such as 90s, 10m, 1h30m or 7d",
}
