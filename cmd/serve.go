package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/gateway"
	"antirobot/settings"
)

// serveFlags are the flags that `serve` and `demo` share; each overrides the key of the file that its help names.
type serveFlags struct {
	config         string
	listen         []string
	admin          string
	upstreams      []string
	dataDir        string
	trustedProxies []string
	testAnswer     string
	logLevel       string
	store          string
	secretFile     string

	read func() (*config.Config, error) // the configuration as it stands now, under the flags
}

func (f *serveFlags) register(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE` (YAML); without it one service is protected with all defaults")
	p.StringSliceVarP(&f.listen, "listen", "l", nil, "`ADDR` to serve visitors on, e.g. :8080; may be repeated (listen)")
	p.StringVar(&f.admin, "admin", "", "`ADDR` of the private listener, e.g. 127.0.0.1:8081 (admin.listen)")
	p.StringSliceVarP(&f.upstreams, "upstream", "u", nil, "`URL` of the service, e.g. http://127.0.0.1:3000; may be repeated (defaults.upstream.urls)")
	p.StringVar(&f.store, "store", "", "`URL` of the store: empty for the one in the data directory, memory:, redis://HOST, rediss://HOST or redis-cluster://HOST,HOST (store.url)")
	p.StringVar(&f.secretFile, "secret-file", "", "`FILE` with the secret that wraps the key ring in a shared store (keys.secret_file)")
	p.StringVar(&f.dataDir, "data-dir", "", "`DIR` for keys, the store and copies of lists (data_dir)")
	p.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil, "networks, `CIDR,…`, whose X-Forwarded-For is believed (identity.trusted_proxies)")
	p.StringVar(&f.testAnswer, "captcha-test-answer", "", "every challenge asks for these `DIGITS`: for end-to-end tests only (captcha.test_answer)")
	p.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error (log.level)")
}

// override writes the flags that were given over cfg.
func (f *serveFlags) override(cfg *config.Config) {
	if len(f.listen) > 0 {
		cfg.Listen = nil
		for _, a := range f.listen {
			cfg.Listen = append(cfg.Listen, config.Listener{Address: a})
		}
	}
	if f.admin != "" {
		cfg.Admin.Listen = f.admin
	}
	if len(f.upstreams) > 0 {
		cfg.OverrideUpstreams(f.upstreams)
	}
	if f.dataDir != "" {
		cfg.DataDir = f.dataDir
	}
	if f.store != "" {
		cfg.Store.URL = f.store
	}
	if f.secretFile != "" {
		cfg.Keys.SecretFile, cfg.Keys.SecretEnv = f.secretFile, ""
	}
	if len(f.trustedProxies) > 0 {
		cfg.Identity.TrustedProxies = f.trustedProxies
	}
	if f.testAnswer != "" {
		cfg.Captcha.TestAnswer = f.testAnswer
	}
	if f.logLevel != "" {
		cfg.Log.Level = f.logLevel
	}
}

func (f *serveFlags) check() error {
	for _, c := range f.trustedProxies {
		if _, err := settings.ParseNetwork(c); err != nil {
			return fmt.Errorf("--trusted-proxies: %w", err)
		}
	}
	if f.config == "" && len(f.upstreams) == 0 {
		return fmt.Errorf("nothing to protect: give --upstream URL (one service, all defaults) or --config FILE; see `antirobot serve --help`")
	}
	for _, u := range f.upstreams {
		if !strings.Contains(u, "://") {
			return fmt.Errorf("--upstream: %q has no scheme; did you mean http://%s?", u, u)
		}
	}
	return nil
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway before one service or many.

Without a file, one service is protected for every host with all defaults:

  antirobot serve --listen :8080 --upstream http://127.0.0.1:3000 --data-dir /var/lib/antirobot

Behind a balancer, say whose X-Forwarded-For is to be believed:

  antirobot serve --config antirobot.yaml --trusted-proxies 10.0.0.0/8

Several gateways before one service share their state in Redis, and their keys by a secret:

  antirobot serve --config antirobot.yaml --store redis://10.0.0.5 --secret-file /etc/antirobot/secret

Keys and the token of the private listener are made on first start and kept in the data directory.
SIGHUP reloads the configuration; SIGTERM and SIGINT drain and stop.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("serve takes no arguments; did you mean --config %s?", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return serve(ctx, &f)
		},
	}
	f.register(cmd)
	return cmd
}

// serve runs the gateway until ctx ends, and reloads it on SIGHUP.
func serve(ctx context.Context, f *serveFlags) error {
	f.read = func() (*config.Config, error) { return config.Read(f.config, f.override) }
	cfg, err := f.read()
	if err != nil {
		return err
	}
	a, err := gateway.New(cfg, version, f.read)
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return a.Run(ctx, hup, nil)
}
