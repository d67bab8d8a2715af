package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/terminal"
)

// client calls the private listener of a running gateway.
type client struct {
	admin, dataDir, tokenFile string

	raw     bool // answers are printed unchanged
	located bool // the fields are those of the gateway that is meant, whatever flags and files say
}

// command makes a command that asks the gateway.
func (c *client) command(use, short, example string, args cobra.PositionalArgs,
	run func(cmd *cobra.Command, args []string) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: args, RunE: run}
	c.register(cmd)
	cmd.Flags().BoolVar(&c.raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

// register adds the flags that locate the gateway. Answers hold text from visitors, so they are escaped.
func (c *client) register(cmd *cobra.Command) {
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) { cmd.SetOut(terminal.Writer(cmd.OutOrStdout())) }
	p := cmd.PersistentFlags()
	p.StringVar(&c.admin, "admin", fromEnvironment("admin.listen", config.Default().Admin.Listen),
		"`ADDR` of the private listener, or its URL")
	p.StringVar(&c.dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir),
		"the data `DIR` of the gateway, where its token is")
	p.StringVar(&c.tokenFile, "token-file", "", "`FILE` with the token (default: admin.token in the data directory)")
}

// fromEnvironment returns the value that the environment sets for a key, or the default.
func fromEnvironment(key, otherwise string) string {
	if v := os.Getenv(config.VariableOf(key)); v != "" {
		return v
	}
	return otherwise
}

// locate fills in the fields that no flag gives, from the configuration of this machine's gateway.
func (c *client) locate(cmd *cobra.Command) {
	if c.located {
		return
	}
	file, err := config.Find("")
	if err != nil {
		file = ""
	}
	cfg := gatewayHere(&config.Sources{File: file, Environment: true})
	given := cmd.Flags().Changed
	if !given("admin") && cfg.Admin.Listen != "" {
		c.admin = adminURL(cfg)
	}
	if !given("data-dir") {
		c.dataDir = cfg.DataDir
		if !given("token-file") {
			c.tokenFile = cfg.Admin.TokenFile
		}
	}
}

// gatewayHere returns the configuration of the gateway on this machine: that of serve, or of the demo if it started
// last. An unreadable configuration is no error, since the running gateway may still have an earlier one.
func gatewayHere(s *config.Sources) *config.Config {
	if cfg, err := s.Read(); err == nil {
		return cfg
	}
	cfg := config.Default()
	cfg.DataDir = fromEnvironment("data_dir", cfg.DataDir)
	cfg.Admin.Listen = fromEnvironment("admin.listen", cfg.Admin.Listen)
	if s.File == "" && cfg.DataDir == config.Default().DataDir && started(demoDataDir).After(started(cfg.DataDir)) {
		cfg.DataDir = demoDataDir
	}
	return &cfg
}

// started returns when a gateway last took a data directory; the zero time if none did.
func started(dataDir string) time.Time {
	info, err := os.Stat(filepath.Join(dataDir, "store", "HOLDER"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// adminURL returns the URL of the private listener as its own machine reaches it.
func adminURL(cfg *config.Config) string {
	scheme, listen := "http://", cfg.Admin.Listen
	if cfg.Admin.TLSCert != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return scheme + listen
	}
	a, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && a.IsUnspecified() && a.Is4():
		host = "127.0.0.1"
	case err == nil && a.IsUnspecified():
		host = "::1"
	}
	return scheme + net.JoinHostPort(host, port)
}

func tokenFile(c *config.Config) string {
	if c.Admin.TokenFile != "" {
		return c.Admin.TokenFile
	}
	return filepath.Join(c.DataDir, "admin.token")
}

// show sends a request and prints the answer: unchanged with --json, by print otherwise.
func show[T any](c *client, cmd *cobra.Command, method, path string, body any, print func(w io.Writer, out *T) error) error {
	answer, err := c.ask(cmd, method, path, body)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if c.raw {
		_, err = w.Write(answer)
		return err
	}
	var out T
	if err := readAnswer(answer, &out); err != nil {
		return err
	}
	return print(w, &out)
}

// get asks for a path and reads the answer into out.
func (c *client) get(cmd *cobra.Command, path string, out any) error {
	return c.do(cmd, http.MethodGet, path, nil, out)
}

// do sends a request and reads the answer into out, unless that is nil.
func (c *client) do(cmd *cobra.Command, method, path string, body, out any) error {
	answer, err := c.ask(cmd, method, path, body)
	if err != nil || out == nil {
		return err
	}
	return readAnswer(answer, out)
}

func readAnswer(answer []byte, out any) error {
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	return nil
}

func (c *client) ask(cmd *cobra.Command, method, path string, body any) (answer []byte, err error) {
	err = c.stream(cmd, method, path, body, func(r io.Reader) (err error) {
		answer, err = io.ReadAll(io.LimitReader(r, config.MaxBytes))
		return err
	})
	return answer, err
}

// apiTimeout bounds a call; the gateway gives up after thirty seconds itself.
const apiTimeout = time.Minute

// stream sends a request, with a body as JSON unless it is nil, and calls read with the answer, which may be long.
func (c *client) stream(cmd *cobra.Command, method, path string, body any, read func(io.Reader) error) error {
	c.locate(cmd)
	file := c.tokenFile
	if file == "" {
		file = filepath.Join(c.dataDir, "admin.token")
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the token of the private listener: %w (--data-dir or --token-file say where it is)", err)
	}
	base := c.admin
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(cmd.Context(), method, base+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	calls := http.Client{Timeout: apiTimeout, Transport: &http.Transport{Proxy: nil}}
	res, err := calls.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("ask the gateway: nothing answers at %s: is it running, and is that its admin.listen? "+
			"--admin names another address", base)
	case err != nil:
		return fmt.Errorf("ask the gateway: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusal(res)
	}
	if err := read(res.Body); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	return nil
}

// refusal returns the error that an answer of the API reports.
func refusal(res *http.Response) error {
	answer, err := io.ReadAll(io.LimitReader(res.Body, config.MaxBytes))
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	var e struct {
		Error struct {
			Code, Message, Field string
			Errors               []string
		}
	}
	if json.Unmarshal(answer, &e) != nil || e.Error.Message == "" {
		return fmt.Errorf("the gateway answers %s", res.Status)
	}
	message := e.Error.Message
	if e.Error.Field != "" && !strings.HasPrefix(message, e.Error.Field+" ") {
		message = e.Error.Field + ": " + message
	}
	more := slices.DeleteFunc(e.Error.Errors, func(s string) bool { return strings.Contains(message, s) })
	err = errors.New(strings.Join(append([]string{"the gateway refuses: " + message}, more...), "\n  "))
	if e.Error.Code == "invalid_field" { // the command line is wrong
		return &usageError{err}
	}
	return err
}

func healthCommand() *cobra.Command {
	var live, raw bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the gateway on this machine whether it is ready: a probe for containers and scripts",
		Long: `Ask the private listener of the gateway on this machine for /readyz, and end with status 0 if it is ready
for visitors, else with status 1 and the reason. The address comes from where serve takes it: the flag, the
environment, the file.

With --live it asks for /healthz, which answers as long as the process does: a gateway that drains, or whose
store is away, is alive and need not be restarted.`,
		Example: `  antirobot health
  antirobot health --live --admin 127.0.0.1:8079
  antirobot health --json | jq .ready`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := sourcesOf(cmd.Flags(), "")
			if err != nil {
				sources = &config.Sources{Environment: true, Flags: keyFlags(cmd.Flags())}
			}
			cfg := gatewayHere(sources)
			for name, into := range map[string]*string{"admin": &cfg.Admin.Listen, "data-dir": &cfg.DataDir} {
				if f := cmd.Flags().Lookup(name); f.Changed {
					*into = f.Value.String()
				}
			}
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			answer, err := probe(cmd.Context(), cfg, path)
			if answer != "" && (raw || err == nil) {
				fmt.Fprintln(cmd.OutOrStdout(), answer)
			}
			return err
		},
	}
	registerServeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process answers, not whether it is ready")
	cmd.Flags().BoolVar(&raw, "json", false, "print the response of the gateway unchanged, also where it is not ready")
	return cmd
}

// probeTimeout bounds a probe; a container's runtime gives up earlier or later by itself.
const probeTimeout = 5 * time.Second

// probe asks the private listener for a path, and returns its answer, with an error unless that is 200.
func probe(ctx context.Context, cfg *config.Config, path string) (string, error) {
	if cfg.Admin.Listen == "" {
		return "", errors.New("this gateway has no private listener (admin.listen), so it cannot be asked")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL(cfg)+path, nil)
	if err != nil {
		return "", fmt.Errorf("admin.listen: %w", err)
	}
	calls := http.Client{Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate names no loopback address
	}}
	res, err := calls.Do(req)
	if err != nil {
		return "", fmt.Errorf("the gateway does not answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("the gateway's answer: %w", err)
	}
	answer := strings.TrimSpace(string(body))
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the gateway answers %s to %s: %s", res.Status, path, answer)
	}
	return answer, err
}
