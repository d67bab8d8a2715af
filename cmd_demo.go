package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"antirobot/demo"
	"antirobot/spravka"
)

func demoCommand() *cobra.Command {
	f := serveFlags{listen: []string{"127.0.0.1:8080"}, admin: "127.0.0.1:9090", dataDir: "var/demo"}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the gateway before a small built-in site, and try everything",
		Long: `Run the gateway before a small built-in site: pages, a form, a script's list, a WebSocket clock, an
event stream, pictures, an XML search, and a page on which you play robot and watch what each kind
of client gets. Nothing outside of this machine can reach it by default.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return runDemo(ctx, &f)
		},
	}
	p := cmd.Flags()
	p.StringSliceVarP(&f.listen, "listen", "l", f.listen, "`ADDR` to serve visitors on")
	p.StringVar(&f.admin, "admin", f.admin, "`ADDR` of the private listener")
	p.StringVar(&f.dataDir, "data-dir", f.dataDir, "`DIR` for keys and the store")
	p.StringVar(&f.testAnswer, "captcha-test-answer", "", "every challenge asks for these `DIGITS`")
	p.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// The demo's partner of the XML search, and the cookie that the site signs for its visitors.
const (
	demoPartnerKey = "demo-partner-key"
	demoCookie     = "demo_user"
)

// demoSettings is the configuration of the demo over the defaults: what the site's pages show.
func demoSettings(upstream string, key []byte) map[string]any {
	return map[string]any{
		"identity": map[string]any{"trusted_proxies": []any{"127.0.0.1", "::1"}},
		"services": []any{map[string]any{
			"name":     "demo",
			"upstream": map[string]any{"urls": []any{upstream}},
			"requests": map[string]any{"xml_paths": []any{"/xmlsearch"}},
			// who has blocked themselves for a try can still take it back
			"paths": []any{map[string]any{"prefix": "/play", "verdict": map[string]any{"mode": "off"}}},
			"captcha": map[string]any{
				"ajax":     "inline",
				"work":     true,
				"partners": []any{map[string]any{"name": "demo", "key": demoPartnerKey}},
			},
			"cookies": map[string]any{"service_cookie": map[string]any{
				"name": demoCookie, "keys": []any{map[string]any{"key": string(key)}},
			}},
		}},
	}
}

func runDemo(ctx context.Context, f *serveFlags) error {
	site, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := fmt.Appendf(nil, "%x", spravka.NewID())
	f.read = func() (*Config, error) {
		return decodeConfig(demoSettings("http://"+site.Addr().String(), key), f.override)
	}
	cfg, err := f.read()
	if err != nil {
		return err
	}
	a, err := newApp(cfg, f)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	ready := func() {
		go func() {
			served <- demo.Serve(ctx, site, demo.Options{
				GatewayURL: func() string { return "http://" + a.visitorAddrs[0] },
				AdminURL:   func() string { return "http://" + a.adminAddr },
				Token:      a.token,
				XMLQuery:   "key=" + demoPartnerKey,
				CookieName: demoCookie,
				SignCookie: func(name, value string, made time.Time) (string, error) {
					return spravka.SignService(name, value, made, key)
				},
				Log: a.part("demo"),
			})
		}()
		printDemo(a)
	}
	err = a.run(ctx, nil, ready)
	stop()
	return errors.Join(err, <-served)
}

func printDemo(a *app) {
	fmt.Printf(`
  Antirobot demo

    the site, behind the gateway   http://%[1]s/
    play robot                     http://%[1]s/play
    metrics                        http://%[2]s/metrics
    the API's token                %[3]s/admin.token

  Try: open the site, turn into a robot on the play page, solve the captcha, and go on as a human.
  From a shell, ban yourself for a minute and ask again:

    curl -H "Authorization: Bearer $(cat %[3]s/admin.token)" -H 'Content-Type: application/json' \
      -d '{"subject":"ip:127.0.0.1","ttl":"1m","reason":"try"}' http://%[2]s/api/bans
    curl -i http://%[1]s/

  Stop it with Ctrl-C.

`, a.visitorAddrs[0], a.adminAddr, a.cfg.DataDir)
}
