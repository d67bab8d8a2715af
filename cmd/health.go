package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/config"
)

// healthTimeout bounds one probe; a container's runtime gives up earlier or later by itself.
const healthTimeout = 5 * time.Second

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
			cfg := healthConfig(cmd)
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

func healthConfig(cmd *cobra.Command) *config.Config {
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
	return cfg
}

// probe asks the private listener for a path, and returns its answer: with an error, if that is not 200.
func probe(ctx context.Context, cfg *config.Config, path string) (string, error) {
	if cfg.Admin.Listen == "" {
		return "", errors.New("this gateway has no private listener (admin.listen), so nobody can ask it")
	}
	scheme := "http"
	if cfg.Admin.TLSCert != "" {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+nearAddress(cfg.Admin.Listen)+path, nil)
	if err != nil {
		return "", fmt.Errorf("admin.listen: %w", err)
	}
	if token, err := os.ReadFile(tokenFile(cfg)); err == nil && cfg.Admin.MetricsToken {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := http.Client{Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		//nolint:gosec // its certificate has another name than this machine's loopback
	}}
	res, err := client.Do(req)
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

// nearAddress is how a listener is reached from its own machine.
func nearAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	a, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && a.IsUnspecified() && a.Is4():
		host = "127.0.0.1"
	case err == nil && a.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

func tokenFile(c *config.Config) string {
	if c.Admin.TokenFile != "" {
		return c.Admin.TokenFile
	}
	return filepath.Join(c.DataDir, "admin.token")
}
