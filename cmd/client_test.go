package cmd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
		want client
	}{
		{nil, client{admin: "http://127.0.0.1:7000", dataDir: "/srv/robots", tokenFile: "/etc/token"}},
		{[]string{"--admin", "10.0.0.1:1"}, client{admin: "10.0.0.1:1", dataDir: "/srv/robots", tokenFile: "/etc/token"}},
		{[]string{"--data-dir", "/other"}, client{admin: "http://127.0.0.1:7000", dataDir: "/other"}},
	} {
		var got client
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
		var got client
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

// TestWhatIsRefused: what the gateway does not understand of a command line is a wrong use of it, as what the command itself does not
// understand is; what is not there is none. Nothing is said twice.
func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		status            int
		code, field, says string
		want              string
		usage             bool
		errors            string
	}{
		{400, "invalid_field", "ttl", `\"soon\" is not a duration`, `the gateway refuses: ttl: "soon" is not a duration`, true, `null`},
		{400, "invalid_field", "subject", `subject \"x\": must be kind:id`, `the gateway refuses: subject "x": must be kind:id`, true, `null`},
		{404, "not_found", "", "ip:203.0.113.7 has no ban", "the gateway refuses: ip:203.0.113.7 has no ban", false, `null`},
		{422, "config_invalid", "", "mend what errors lists", "the gateway refuses: mend what errors lists\n  x: 1\n  y: 2", false, `["x: 1", "y: 2"]`},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprintf(w, `{"error": {"code": %q, "field": %q, "message": "%s", "errors": %s}}`, c.code, c.field, c.says, c.errors)
		}))
		defer s.Close()
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		var api client
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			return api.get(cmd, "/api/x", nil)
		}}
		api.register(cmd)
		cmd.SetArgs([]string{"--admin", s.URL, "--token-file", token})
		err := cmd.ExecuteContext(t.Context())
		var usage *usageError
		if err == nil || err.Error() != c.want || errors.As(err, &usage) != c.usage {
			t.Errorf("%v (usage: %v), want %s", err, errors.As(err, &usage), c.want)
		}
	}
}

// TestWrongUse: whatever of a command line can't be understood is a wrong use of it, for the exit status, and says what to write.
func TestWrongUse(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(rules, []byte("stop as OK"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"frobnicate":      "see `antirobot --help`",
		"statu":           "did you mean status?",
		"keys frobnicate": "it is keys list or keys make or keys rotate",
		"formula eval":    "give --data FILE",
		"formula eval --model x --data x --by median":             "neither mean nor highest",
		"rules run " + rules + " --request nonsense":              "write 'METHOD /path?query'",
		"rules run " + rules + " --request GET_/ --ip nonsense":   "is not an address",
		"rules run " + rules + " --message text":                  "write NAME=VALUE",
		"replay x --identity nonsense":                            "--identity: ",
		"keys rotate --keep soon":                                 "--keep: ",
		"keys list --store redis://127.0.0.1:1":                   "--store needs --secret-file",
		"serve --upstream 127.0.0.1:3000 --data-dir /nonexistent": "did you mean http://127.0.0.1:3000?",
	} {
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_/", " /")
		}
		root.SetArgs(args)
		err := execute(root)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (usage: %v), want %s", line, err, errors.As(err, &usage), want)
		}
	}
}

// TestEmptyListsSaySo: people read that a list is empty; programs, which read the standard output, get an empty one.
func TestEmptyListsSaySo(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[],"total":0}`)
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(cmd *cobra.Command, want string, args ...string) {
		t.Helper()
		var out, said strings.Builder
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		cmd.SetArgs(append(args, "--admin", s.URL, "--token-file", token))
		if err := cmd.ExecuteContext(t.Context()); err != nil || out.String() != "" || said.String() != want+"\n" {
			t.Errorf("%v: %q, %q", err, out.String(), said.String())
		}
	}
	f(topCommand(), "nothing was found")
	f(queueCommand(), "no message", "list")
	f(labelCommand(), "there is no label", "list")
}

// TestUnseenLabelled: that a subject was not seen of late is said, as its name may be written wrong, and of one that was nothing is.
func TestUnseenLabelled(t *testing.T) {
	for session, want := range map[string]string{"": "note: ip:203.0.113.7 was not seen of late; if it is written wrong, antirobot label remove ip:203.0.113.7\n", `,"session":{"pages":7}`: ""} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				fmt.Fprint(w, `{"subject":"ip:203.0.113.7","label":"human"}`)
				return
			}
			fmt.Fprintf(w, `{"subject":"ip:203.0.113.7","bans":[]%s}`, session)
		}))
		defer s.Close()
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := labelCommand()
		var out, said strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		cmd.SetArgs([]string{"203.0.113.7", "human", "--admin", s.URL, "--token-file", token})
		if err := cmd.ExecuteContext(t.Context()); err != nil || out.String() != "ip:203.0.113.7 is labelled human\n" || said.String() != want {
			t.Errorf("%v: %q, %q", err, out.String(), said.String())
		}
	}
}
