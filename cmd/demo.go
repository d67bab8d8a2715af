package cmd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"antirobot/config"
	"antirobot/demo"
	"antirobot/gateway"
	"antirobot/message"
	"antirobot/spravka"
)

func demoCommand() *cobra.Command {
	var traffic time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the gateway in front of a small built-in site, to try everything",
		Long: `Run the gateway in front of a small built-in site: pages, a form, a list loaded by a script, a WebSocket
clock, an event stream, pictures, an XML search, and a page on which you act as a robot and see what each
kind of client gets. By default it can only be reached from this machine. For a minute, made-up people and robots
visit it, so that the console has something to show.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return runDemo(ctx, cmd.OutOrStdout(), keyFlags(cmd.Flags()), traffic)
		},
	}
	p := cmd.Flags()
	p.StringSliceP("listen", "l", []string{demoListen}, "`ADDR` to serve visitors on")
	p.String("admin", demoAdmin, "`ADDR` of the private listener")
	p.String("data-dir", demoDataDir, "`DIR` for keys and the store")
	p.String("captcha-test-answer", "", "every challenge asks for these `DIGITS`")
	timeVar(p, &traffic, "traffic", time.Minute, "`TIME` for which made-up people and robots visit the site; 0: they "+
		"don't")
	p.String("log-level", demoLogLevel, "`LEVEL`: debug, info, warn or error")
	return cmd
}

// Where the demo runs if nothing else is said, as in demo.yaml.
const (
	demoListen   = "127.0.0.1:8080"
	demoAdmin    = "127.0.0.1:8079"
	demoDataDir  = "var/demo"
	demoLogLevel = "warn"
)

// The demo's partner of the XML search, and the cookie that the site signs for its visitors; both are in demo.yaml.
const (
	demoPartnerKey = "demo-partner-key"
	demoCookie     = "demo_user"
)

//go:embed demo.yaml
var demoYAML []byte

// demoSettings is the demo's configuration, with the address of its site and the key of its cookie.
func demoSettings(upstream, key string) (settings map[string]any, err error) {
	if err := yaml.Unmarshal(demoYAML, &settings); err != nil {
		return nil, fmt.Errorf("BUG: demo.yaml: %w", err)
	}
	service := settings["services"].([]any)[0].(map[string]any)
	service["upstream"] = map[string]any{"urls": []any{upstream}}
	cookie := service["cookies"].(map[string]any)["service_cookie"].(map[string]any)
	cookie["keys"] = []any{map[string]any{"key": key}}
	return settings, nil
}

// teachDemo gives the model of a new data directory its first lessons.
func teachDemo(ctx context.Context, s *message.System) error {
	d, err := s.Domain(s.Partners()[0], "")
	if err != nil {
		return err
	}
	m, err := d.Model("model")
	if err != nil || m.Size().Bad > 0 {
		return err
	}
	for _, l := range demo.Lessons() {
		if err := s.Train(ctx, m, l.Text, !l.Spam); err != nil {
			return fmt.Errorf("teach the demo's model: %w", err)
		}
	}
	return nil
}

func runDemo(ctx context.Context, out io.Writer, flags map[string]*pflag.Flag, traffic time.Duration) error {
	site, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := fmt.Appendf(nil, "%x", spravka.NewID())
	read := func(pushed map[string]any) (*config.Config, error) {
		settings, err := demoSettings("http://"+site.Addr().String(), string(key))
		if err != nil {
			return nil, err
		}
		s := config.Sources{Values: settings, Environment: true, Flags: flags}
		return s.ReadOver(pushed)
	}
	cfg, err := read(nil)
	if err != nil {
		return err
	}
	a, err := gateway.New(cfg, gateway.Deps{Version: version(), Reread: read})
	if err != nil {
		return err
	}
	if s := a.MessageSystem(); s != nil {
		if err := teachDemo(ctx, s); err != nil {
			a.Close()
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	var visits sync.WaitGroup
	ready := func() {
		go func() {
			served <- demo.Serve(ctx, site, demo.Options{
				GatewayURL: func() string { return "http://" + a.VisitorAddr() },
				AdminURL:   func() string { return "http://" + a.AdminAddr() },
				Token:      a.Token,
				XMLQuery:   "key=" + demoPartnerKey,
				CookieName: demoCookie,
				SignCookie: func(name, value string, made time.Time) (string, error) {
					return spravka.SignService(name, value, made, key)
				},
				Log: a.Logger("demo"),
			})
		}()
		printDemo(out, a, traffic)
		visits.Go(func() { visitDemo(ctx, out, a, traffic) })
	}
	started := false
	err = a.Run(ctx, nil, func() { started = true; ready() })
	stop()
	visits.Wait()
	if !started {
		return whoListens(err)
	}
	return errors.Join(err, <-served)
}

// visitDemo lets made-up people and robots visit the site for a while, and says what came of it.
func visitDemo(ctx context.Context, out io.Writer, a *gateway.Server, length time.Duration) {
	if length <= 0 {
		return
	}
	sent, err := demo.Visit(ctx, a.VisitorAddr(), length)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log := a.Logger("demo")
		log.Warn().Err(err).Msg("the made-up traffic ended early")
	default:
		fmt.Fprint(out, counted("  The made-up traffic is over: %d {request|requests}, %d of "+
			"them stopped. The console says which, and why.\n\n", sent.Requests.Load(), sent.Stopped.Load()))
	}
}

func printDemo(out io.Writer, a *gateway.Server, traffic time.Duration) {
	fmt.Fprintf(out, `
  Antirobot demo

    the site, behind the gateway   http://%[1]s/
    play robot                     http://%[1]s/play
    spam the guest book            http://%[1]s/guestbook, and watch the rules at http://%[1]s/guestbook/rules
    the console: who came, and why they were stopped
                                   %[4]s (good once, for ten minutes)
    metrics                        http://%[2]s/metrics
    the API's token                %[3]s/admin.token

  Try: open the site, turn into a robot on the play page, solve the captcha, and go on as a human.
  From a shell, ban yourself for a minute and ask again. A program can solve no captcha, so curl gets a 403:

    curl -H "Authorization: Bearer $(cat %[3]s/admin.token)" -H 'Content-Type: application/json' \
      -d '{"subject":"ip:127.0.0.1","ttl":"1m","reason":"try"}' http://%[2]s/api/bans
    curl -i http://%[1]s/

  Stop it with Ctrl-C.

`, a.VisitorAddr(), a.AdminAddr(), a.Config().DataDir, a.ConsoleLink())
	if traffic > 0 {
		length := shortTime(traffic)
		if traffic == time.Minute {
			length = "a minute"
		}
		fmt.Fprintf(out, "  For %s made-up people and robots visit the site (--traffic 0: nobody does), so that the "+
			"console has something to show.\n\n", length)
	}
}
