//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"antirobot/problem"
)

// TestEveryKeyHasAVariable sets each key alone to what can't be read: it is said of the key and of its variable, which
// no other key shares.
func TestEveryKeyHasAVariable(t *testing.T) {
	taken := map[string]string{}
	for _, k := range leaves(reflect.TypeFor[Config](), "") {
		name := VariableOf(k.name)
		if first := taken[name]; first != "" {
			t.Errorf("%s and %s share %s", first, k.name, name)
		}
		taken[name] = k.name
		wrong := "12 apples"
		switch {
		case k.typ.Kind() == reflect.Slice:
			wrong = "[a"
		case k.typ.Kind() == reflect.String:
			continue // each text means something else
		}
		t.Setenv(name, wrong)
		s := Sources{Environment: true, Values: map[string]any{}}
		_, err := s.Read()
		if !slices.ContainsFunc(problem.Lines(err), func(p string) bool {
			return strings.HasPrefix(p, k.name+": ") && strings.HasSuffix(p, " ("+name+")")
		}) {
			t.Errorf("%s=%s: got %v", name, wrong, err)
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	if len(taken) < 150 {
		t.Errorf("only %d keys", len(taken))
	}
}

// TestSourcesStandAboveOneAnother: flag, environment, file, default; sections are merged, lists replaced.
func TestSourcesStandAboveOneAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	if err := os.WriteFile(file, []byte(`
listen: [{address: ":1"}, {address: ":2"}]
log: {level: warn}
captcha: {pass: {allowance: 50, lifetime: 3d}}
keys: {secret_env: NOWHERE}
services: [{name: a, upstream: {urls: ["http://127.0.0.1:1"]}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANTIROBOT_LISTEN", ":3")
	t.Setenv("ANTIROBOT_LOG_LEVEL", "error")
	t.Setenv("ANTIROBOT_CAPTCHA_PASS_LIFETIME", "5d")
	t.Setenv("ANTIROBOT_DATA_DIR", "")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("log-level", "info", "")
	flags.String("secret-file", "", "")
	flags.StringSlice("upstream", nil, "")
	flags.String("data-dir", "elsewhere", "")
	if err := flags.Parse([]string{"--log-level", "debug", "--secret-file", "s", "--upstream", "http://127.0.0.1:7"}); err != nil {
		t.Fatal(err)
	}
	s := Sources{File: file, Environment: true, Flags: map[string]*pflag.Flag{
		"log.level": flags.Lookup("log-level"), "keys.secret_file": flags.Lookup("secret-file"), "data_dir": flags.Lookup("data-dir"),
		"defaults.upstream.urls": flags.Lookup("upstream"),
	}}
	cfg, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the flag", cfg.Log.Level, "debug")
	equal(t, "the variable", cfg.Listen, []Listener{{Address: ":3"}})
	equal(t, "the variable's key", cfg.Captcha.Pass.Lifetime, 5*24*time.Hour)
	equal(t, "the file's key beside it", cfg.Captcha.Pass.Allowance, int64(50))
	equal(t, "an empty variable, and a flag that was not given", cfg.DataDir, Default().DataDir)
	equal(t, "the secret's other place", cfg.Keys.SecretEnv, "")
	equal(t, "the upstream of the command line", cfg.Resolved[0].Upstream.URLs, []string{"http://127.0.0.1:7"})
	equal(t, "the file", cfg.File, file)
	var told []string
	for _, o := range cfg.Origins {
		told = append(told, o.String())
	}
	equal(t, "what is told", told, []string{
		"listen is set by ANTIROBOT_LISTEN, over the file",
		"keys.secret_file is set by --secret-file",
		"log.level is set by --log-level, over ANTIROBOT_LOG_LEVEL and the file",
		"captcha.pass.lifetime is set by ANTIROBOT_CAPTCHA_PASS_LIFETIME, over the file",
		"defaults.upstream.urls is set by --upstream",
	})
}

// TestFind: the file that is named, then that of the environment, then those of the search path.
func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(named, want string) {
		t.Helper()
		if got, err := Find(named); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", named, got, err, want)
		}
	}
	if _, err := os.Stat(SearchPath[1]); err == nil {
		t.Skipf("this machine has %s", SearchPath[1])
	}
	f("", "")
	if err := os.WriteFile("antirobot", []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	f("", "")
	if err := os.WriteFile("antirobot.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f("", "./antirobot.yaml")
	t.Setenv(fileVariable, "theirs.yaml")
	f("", "theirs.yaml")
	f("mine.yaml", "mine.yaml")
}

// FuzzVariable: whatever is in a variable, reading it ends with a value or an error.
func FuzzVariable(f *testing.F) {
	for _, s := range []string{"a, b", "[{name: a}]", "[", "90s", "1_000", "{a: &a [*a]}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range []reflect.Type{durationType, serviceType, reflect.TypeFor[[]string](), reflect.TypeFor[[]Listener](), reflect.TypeFor[int](), reflect.TypeFor[bool]()} {
			if v, err := readText(text, k); err != nil && v != nil {
				t.Errorf("%q: %v with %v", text, v, err)
			}
		}
	})
}

// TestPushedKeys: a misspelt section is refused although it is empty.
func TestPushedKeys(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if err := CheckPushed(values); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	f("lists: {block: [192.0.2.66]}\nservices: [{name: shop, upstream: {urls: [http://127.0.0.1:3000]}}]\ndefaults: {verdict: {threshold: 0.6}}", "")
	f("lists: {}", "")
	f("lsts: {}", "lsts: unknown key; did you mean lists?")
	f("keys: {file: a}", "keys: is of each gateway's own file, and can't be pushed")
}
