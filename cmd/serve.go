package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"antirobot/config"
	"antirobot/gateway"
	"antirobot/problem"
)

var flagKeys = map[string]string{
	"role": "role", "listen": "listen", "admin": "admin.listen", "upstream": "defaults.upstream.urls",
	"store":       "store.url",
	"secret-file": "keys.secret_file", "data-dir": "data_dir", "trusted-proxies": "identity.trusted_proxies",
	"domain": "tls.acme.hosts", "captcha-test-answer": "captcha.test_answer", "log-level": "log.level",
}

// registerServeFlags adds the flags that `serve` and `check-config` share; the help of each names its key.
func registerServeFlags(p *pflag.FlagSet) {
	p.StringP("config", "c", "", "configuration `FILE` (YAML); without it ./antirobot.yaml or "+
		"/etc/antirobot/antirobot.yaml, if there is one")
	p.String("role", "all", "`ROLE` of this process: gateway, processor, or all in one (role)")
	p.StringSliceP("listen", "l", nil, "`ADDR` to serve visitors on, e.g. :8080; may be repeated (listen)")
	p.StringSlice("domain", nil, "`HOST` to serve with a certificate of its own, obtained and renewed by ACME; "+
		"visitors are served on :443, and :80 leads there; may be repeated (tls.acme.hosts)")
	p.String("admin", "", "`ADDR` of the private listener, e.g. 127.0.0.1:8081 (admin.listen)")
	p.StringSliceP("upstream", "u", nil, "`URL` of the service, e.g. http://127.0.0.1:3000; may be repeated "+
		"(defaults.upstream.urls)")
	p.String("store", "", "`URL` of the store: empty for the one in the data directory, memory:, redis://HOST, "+
		"rediss://HOST or redis-cluster://HOST,HOST (store.url)")
	p.String("secret-file", "", "`FILE` with the secret that wraps the key ring in a shared store (keys.secret_file)")
	p.String("data-dir", "", "`DIR` for keys, the store and copies of lists (data_dir)")
	p.StringSlice("trusted-proxies", nil, "`NETWORKS`, with commas between them, whose X-Forwarded-For is believed "+
		"(identity.trusted_proxies)")
	p.String("captcha-test-answer", "", "every challenge asks for these `DIGITS`: for end-to-end tests only "+
		"(captcha.test_answer)")
	p.String("log-level", "", "`LEVEL`: debug, info, warn or error (log.level)")
}

// keyFlags returns the flags of p by the key that they set.
func keyFlags(p *pflag.FlagSet) map[string]*pflag.Flag {
	flags := map[string]*pflag.Flag{}
	for name, key := range flagKeys {
		flags[key] = p.Lookup(name)
	}
	return flags
}

// sourcesOf returns where the configuration of a command line comes from: its flags, the environment, and the file that
// it names or that is found. named overrides --config.
func sourcesOf(p *pflag.FlagSet, named string) (*config.Sources, error) {
	if named == "" {
		named = p.Lookup("config").Value.String()
	}
	file, err := config.Find(named)
	if err != nil {
		return nil, err
	}
	return &config.Sources{File: file, Environment: true, Flags: keyFlags(p)}, nil
}

// checkUpstreams reports problems with the services of a command line without a file.
func checkUpstreams(p *pflag.FlagSet, s *config.Sources) error {
	urls, err := p.GetStringSlice("upstream")
	if err != nil {
		return err
	}
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			return misused("--upstream: %q has no scheme; did you mean http://%s?", u, u)
		}
	}
	if s.File != "" || len(urls) > 0 || os.Getenv(config.VariableOf("services")) != "" ||
		os.Getenv(config.VariableOf("defaults.upstream.urls")) != "" {
		return nil
	}
	return errors.New("nothing to protect: give --upstream URL (one service, all defaults) or --config FILE; see " +
		"`antirobot serve --help`")
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway in front of one service or many.

Without a file, one service is protected, for every host, with all defaults:

  antirobot serve --listen :8080 --upstream http://127.0.0.1:3000 --data-dir /var/lib/antirobot

To look first, without stopping anybody:

  antirobot serve --observe --upstream http://127.0.0.1:3000

On the internet without anything before it, with a certificate that it obtains and renews by itself:

  antirobot serve --domain www.example.com --upstream http://127.0.0.1:3000 --data-dir /var/lib/antirobot

Behind a balancer, set whose X-Forwarded-For is to be believed:

  antirobot serve --config antirobot.yaml --trusted-proxies 10.0.0.0/8

Several gateways in front of one service share their state in Redis, and their keys by means of a secret:

  antirobot serve --config antirobot.yaml --store redis://10.0.0.5 --secret-file /etc/antirobot/secret

Large sites let other machines judge what their gateways see; both kinds share the store:

  antirobot serve --role gateway --config antirobot.yaml
  antirobot serve --role processor --config antirobot.yaml

Every key of the file can be set in the environment: ANTIROBOT_ADMIN_LISTEN is admin.listen. Flags override
the environment, and the environment overrides the file; ANTIROBOT_CONFIG names the file.

Keys and the token of the private listener are generated on the first start and kept in the data directory.
SIGHUP reloads the configuration; SIGTERM and SIGINT drain and stop. SIGUSR1 says that the site is under
attack, SIGUSR2 that it is not any more (see attack --help).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("serve takes no arguments; did you mean --config %s?", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := sourcesOf(cmd.Flags(), "")
			if err != nil {
				return err
			}
			if err := checkUpstreams(cmd.Flags(), sources); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			observe, err := cmd.Flags().GetBool("observe")
			if err != nil {
				return err
			}
			return serve(ctx, sources, observe)
		},
	}
	registerServeFlags(cmd.Flags())
	cmd.Flags().Bool("observe", false, "stop nobody, whatever the configuration says: decide, log and count only")
	return cmd
}

// serve runs the gateway until ctx ends, and reloads it on SIGHUP. SIGUSR1 and SIGUSR2 turn the switch "under attack".
// With observe, services that would stop visitors only look at them.
func serve(ctx context.Context, sources *config.Sources, observe bool) error {
	read := func(pushed map[string]any) (*config.Config, error) {
		cfg, err := sources.ReadOver(pushed)
		if err == nil && observe {
			cfg.Observe()
		}
		return cfg, err
	}
	cfg, err := read(nil)
	if err != nil {
		return err
	}
	a, err := gateway.New(cfg, gateway.Deps{Version: version(), Reread: read})
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(hup)
	return whoListens(a.Run(ctx, hup, func() { welcome(os.Stderr, a, observe) }))
}

// whoListens says of an address that can't be had what to do, and which flag names another.
func whoListens(err error) error {
	var l *gateway.ListenError
	if !errors.As(err, &l) {
		return err
	}
	key, _, _ := strings.Cut(strings.TrimSuffix(l.Key, ".address"), "[")
	how := config.VariableOf(key) + ", or " + key + " in the file"
	for name, sets := range flagKeys {
		if sets == key {
			how = "--" + name + " ADDR, " + how
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: another program listens on %s already; end it, or choose another address with %s", l.Key,
			l.Address, how)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %s needs the right to listen on ports below 1024: give the program "+
			"CAP_NET_BIND_SERVICE, or choose another port with %s", l.Key, l.Address, how)
	}
	return fmt.Errorf("%w; choose another address with %s", err, how)
}

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
	fmt.Fprintf(out, "%s: good, %s\n", name, counted("%d {service|services}", len(cfg.Resolved)))
	return nil
}
