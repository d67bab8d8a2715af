package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestClientFindsItsGateway: commands ask the gateway that the configuration beside them is of, unless a flag says another.
func TestClientFindsItsGateway(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("ANTIROBOT_CONFIG", "")
	file := "data_dir: /srv/robots\nadmin: {listen: \":7000\", token_file: /etc/token}\ndefaults: {upstream: {urls: [http://127.0.0.1:1]}}\n"
	if err := os.WriteFile("antirobot.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want apiClient
	}{
		{nil, apiClient{admin: "127.0.0.1:7000", dataDir: "/srv/robots", tokenFile: "/etc/token"}},
		{[]string{"--admin", "10.0.0.1:1"}, apiClient{admin: "10.0.0.1:1", dataDir: "/srv/robots", tokenFile: "/etc/token"}},
		{[]string{"--data-dir", "/other"}, apiClient{admin: "127.0.0.1:7000", dataDir: "/other"}},
	} {
		var got apiClient
		cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
			got.locate(cmd)
			return nil
		}}
		got.register(cmd)
		cmd.SetArgs(append([]string{}, c.args...))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%v: %+v, not %+v", c.args, got, c.want)
		}
	}
}

// TestClientFindsTheDemo: in the folder where `make run` runs, commands ask the demo, unless a gateway was started there since.
func TestClientFindsTheDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("ANTIROBOT_CONFIG", "")
	f := func(want string, dirs ...string) {
		t.Helper()
		at := time.Now()
		for i, dir := range dirs { // the last one was started last
			file := filepath.Join(dir, "store", "HOLDER")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), os.Chtimes(file, at, at.Add(time.Duration(i)*time.Second))); err != nil {
				t.Fatal(err)
			}
		}
		var got apiClient
		cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
			got.locate(cmd)
			return nil
		}}
		got.register(cmd)
		cmd.SetArgs([]string{})
		if err := cmd.Execute(); err != nil || got.dataDir != want {
			t.Errorf("%v: %q, not %q: %v", dirs, got.dataDir, want, err)
		}
	}
	f("var")
	f("var/demo", "var/demo")
	f("var/demo", "var", "var/demo")
	f("var", "var/demo", "var")
}
