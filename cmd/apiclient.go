package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// apiClient calls the private listener of a running gateway.
type apiClient struct {
	admin, dataDir, tokenFile string

	located bool // they are of the gateway that is meant, whatever flags and files say
}

// register adds the flags that say where the gateway is. What it answers holds what visitors have written.
func (c *apiClient) register(cmd *cobra.Command) {
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) { cmd.SetOut(terminal.Writer(cmd.OutOrStdout())) }
	p := cmd.PersistentFlags()
	p.StringVar(&c.admin, "admin", fromEnvironment("admin.listen", config.Default().Admin.Listen),
		"`ADDR` of the private listener, or its URL")
	p.StringVar(&c.dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir),
		"the data `DIR` of the gateway, where its token is")
	p.StringVar(&c.tokenFile, "token-file", "", "`FILE` with the token (default: admin.token in the data directory)")
}

// fromEnvironment returns the value that the environment sets for a key, or the default, so that a command finds a
// gateway configured that way.
func fromEnvironment(key, otherwise string) string {
	if v := os.Getenv(config.VariableOf(key)); v != "" {
		return v
	}
	return otherwise
}

func (c *apiClient) locate(cmd *cobra.Command) {
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
		c.admin = nearAddress(cfg.Admin.Listen)
		if cfg.Admin.TLSCert != "" {
			c.admin = "https://" + c.admin
		}
	}
	if !given("data-dir") {
		c.dataDir = cfg.DataDir
		if !given("token-file") {
			c.tokenFile = cfg.Admin.TokenFile
		}
	}
}

// gatewayHere returns the configuration of the gateway on this machine, as far as commands must know it to ask it: from
// where serve takes it, or that of the demo where it was started last. A configuration that can't be read is no reason
// to fail: the gateway that runs may still have the one before it, or the defaults.
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

// started returns when a gateway took a data directory last; the zero time if none did. Here only one of two runs: they
// have the same private port.
func started(dataDir string) time.Time {
	info, err := os.Stat(filepath.Join(dataDir, "store", "HOLDER"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// apiTimeout bounds a call; the gateway gives up after thirty seconds itself.
const apiTimeout = time.Minute

// post sends a body and reads the answer into out, unless that is nil.
func (c *apiClient) post(cmd *cobra.Command, path string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.ask(cmd, http.MethodPost, path, data)
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

// get asks for something and returns the answer as it came.
func (c *apiClient) get(cmd *cobra.Command, path string) ([]byte, error) {
	return c.ask(cmd, http.MethodGet, path, nil)
}

func (c *apiClient) ask(cmd *cobra.Command, method, path string, body []byte) (answer []byte, err error) {
	err = c.stream(cmd, method, path, body, func(r io.Reader) (err error) {
		answer, err = io.ReadAll(io.LimitReader(r, config.MaxBytes))
		return err
	})
	return answer, err
}

func unasked(base string, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("ask the gateway: nothing answers at %s: is it running, and is that its admin.listen? "+
			"--admin names another address", base)
	}
	return fmt.Errorf("ask the gateway: %w", err)
}

// stream calls read with the answer, which may be long.
func (c *apiClient) stream(cmd *cobra.Command, method, path string, body []byte, read func(io.Reader) error) error {
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
	req, err := http.NewRequestWithContext(cmd.Context(), method, base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: apiTimeout, Transport: &http.Transport{Proxy: nil}}
	res, err := client.Do(req)
	if err != nil {
		return unasked(base, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(io.LimitReader(res.Body, config.MaxBytes))
		if err != nil {
			return fmt.Errorf("ask the gateway: %w", err)
		}
		var e struct {
			Error struct {
				Code    string   `json:"code"`
				Message string   `json:"message"`
				Field   string   `json:"field"`
				Errors  []string `json:"errors"`
			} `json:"error"`
		}
		if json.Unmarshal(answer, &e) == nil && e.Error.Message != "" {
			message := e.Error.Message
			// some begin with the field
			if e.Error.Field != "" && !strings.HasPrefix(message, e.Error.Field+" ") {
				message = e.Error.Field + ": " + message
			}
			// some are in it
			more := slices.DeleteFunc(e.Error.Errors, func(s string) bool { return strings.Contains(message, s) })
			err := errors.New(strings.Join(append([]string{"the gateway refuses: " + message}, more...), "\n  "))
			if e.Error.Code == "invalid_field" { // the command line is wrong
				return &usageError{err}
			}
			return err
		}
		return fmt.Errorf("the gateway answers %s", res.Status)
	}
	if err := read(res.Body); err != nil {
		return fmt.Errorf("the gateway's answer: %w", err)
	}
	return nil
}
