//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/problem"
	"antirobot/rules/requestrules"
)

// TestBadFiles: each file of testdata/bad begins with the problems that must be named.
func TestBadFiles(t *testing.T) {
	files := glob(t, "testdata/bad/*.yaml", 15)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Read(file, nil)
			if err == nil {
				t.Fatal("it loads")
			}
			text := err.Error()
			wanted := 0
			for line := range strings.Lines(string(data)) {
				want, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: ")
				if !ok {
					continue
				}
				wanted++
				if !strings.Contains(text, want) {
					t.Errorf("does not say: %s", want)
				}
			}
			if wanted == 0 {
				t.Error("no line begins with # want:")
			}
			if strings.Contains(text, "SECRET") {
				t.Error("repeats a secret")
			}
			if otherNotation.MatchString(text) {
				t.Error("has a path such as a.0.b")
			}
			if strings.Contains(text, "unconvertible") || strings.Contains(text, "decoding") || strings.Contains(text, "map[") {
				t.Error("speaks like a library")
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

var otherNotation = regexp.MustCompile(`(?m)^ *[a-z_.\[\]0-9]*\.\d+[.:]`)

// TestGoodFiles loads each file of testdata/good.
func TestGoodFiles(t *testing.T) {
	for _, file := range glob(t, "testdata/good/*.yaml", 4) {
		if _, err := Read(file, nil); err != nil {
			t.Error(err)
		}
	}
}

func good(t *testing.T, name string) *Config {
	t.Helper()
	cfg, err := Read(filepath.Join("testdata/good", name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestAddressesAlone: a listener may be written as its address alone, beside others.
func TestAddressesAlone(t *testing.T) {
	l := good(t, "addresses.yaml").Listen
	if len(l) != 3 || l[0].Address != "127.0.0.1:8080" || !l[1].ProxyProtocol || l[2].Address != ":8081" {
		t.Errorf("%+v", l)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestInheritance: built-in, defaults, service, path; sections are merged, lists replaced.
func TestInheritance(t *testing.T) {
	cfg := good(t, "inheritance.yaml")
	one, two := cfg.Resolved[0], cfg.Resolved[1]
	builtin := defaultService()
	equal(t, "the service's own mode", one.Verdict.Mode, "enforce")
	equal(t, "a mode of defaults", two.Verdict.Mode, "observe")
	equal(t, "a threshold of defaults", one.Verdict.Threshold, 0.7)
	equal(t, "built-in limits", one.Verdict.Limits, builtin.Verdict.Limits)
	equal(t, "an own list", one.Captcha.CORSOrigins, []string{"https://c.example"})
	equal(t, "a list of defaults", two.Captcha.CORSOrigins, []string{"https://a.example", "https://b.example"})
	equal(t, "own addresses", one.Upstream.URLs, []string{"http+unix:///run/one.sock"})
	equal(t, "a limit of defaults beside own addresses", one.Upstream.MaxConns, 64)
	equal(t, "addresses of defaults", two.Upstream.URLs, []string{"http://127.0.0.1:3000"})

	if len(one.Resolved) != 1 || len(two.Resolved) != 1 {
		t.Fatalf("%d and %d paths", len(one.Resolved), len(two.Resolved))
	}
	api := one.Resolved[0]
	equal(t, "a path", api.Prefix, "/api")
	equal(t, "the path's mode is its service's", api.Verdict.Mode, "enforce")
	equal(t, "the path's own threshold", api.Verdict.Threshold, 0.9)
	equal(t, "the path's own empty list", len(api.Verdict.Limits), 0)
	equal(t, "the path's list of its service", api.Captcha.CORSOrigins, []string{"https://c.example"})
	static := two.Resolved[0]
	equal(t, "a path of defaults", static.Prefix, "/static")
	equal(t, "its mode", static.Verdict.Mode, "off")
	equal(t, "its service's setting", static.Captcha.AJAX, "inline")
}

func TestSizesAndTimes(t *testing.T) {
	cfg := good(t, "sizes-and-times.yaml")
	equal(t, "minutes and seconds", cfg.Drain, 90*time.Second)
	equal(t, "MB", cfg.HTTP.MaxBodyBytes, 20_000_000)
	equal(t, "bytes", cfg.HTTP.MaxBodiesBytes, 1<<20)
	equal(t, "kib", cfg.HTTP.MaxHeaderBytes, 32<<10)
	equal(t, "1e5", cfg.HTTP.MaxConns, 100_000)
	equal(t, "days", cfg.Captcha.Pass.Lifetime, 14*24*time.Hour)
	equal(t, "1_000", cfg.Identity.IPerHour, 1_000)
}

func TestAliasesAndMerges(t *testing.T) {
	cfg := good(t, "aliases.yaml")
	equal(t, "an alias", cfg.Resolved[0].Upstream.MaxConns, 64)
	equal(t, "a merge's own key", cfg.Resolved[1].Upstream.MaxConns, 8)
	equal(t, "a merge's other key", cfg.Resolved[1].Upstream.URLs, []string{"http://127.0.0.1:3000"})
}

// TestEveryKeyIsReadStrictly gives every key of the configuration a value of a wrong kind, and no value: both must be
// said of that key, in an operator's words.
func TestEveryKeyIsReadStrictly(t *testing.T) {
	wrong := func(t reflect.Type) string {
		switch {
		case isSection(t) || t.Kind() == reflect.Slice:
			return "12"
		case t.Kind() == reflect.Bool:
			return `"perhaps"`
		case t.Kind() == reflect.String:
			return "{a: 1}"
		}
		return `"TOPSECRET"`
	}
	n := 0
	var walk func(section reflect.Type, path string)
	walk = func(section reflect.Type, path string) {
		for _, k := range keysOf(section) {
			if section == serviceType && slices.Contains([]string{"name", "hosts", "prefixes", "paths"}, k.name) {
				continue
			}
			at := problem.Below(path, k.name)
			n++
			_, problems := Parse([]byte(nested(at, wrong(k.typ))), nil)
			if !slices.ContainsFunc(problems, func(p string) bool {
				return strings.HasPrefix(p, at+": ") && strings.HasSuffix(p, " (line "+lastLine(at)+")")
			}) {
				t.Errorf("%s: %s is taken, or refused as %q", at, wrong(k.typ), problems)
			}
			if isSection(k.typ) {
				walk(k.typ, at)
				continue
			}
			_, problems = Parse([]byte(nested(at, "")), nil)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, at+": has no value") }) {
				t.Errorf("%s: may be without a value: %q", at, problems)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	if n < 200 {
		t.Errorf("only %d keys", n)
	}
}

// nested writes a.b.c as YAML of one line a key.
func nested(path, value string) string {
	var b strings.Builder
	steps := strings.Split(path, ".")
	for i, s := range steps {
		b.WriteString(strings.Repeat("  ", i) + s + ":")
		if i < len(steps)-1 {
			b.WriteString("\n")
		}
	}
	return b.String() + " " + value + "\n"
}

func lastLine(path string) string { return string(rune('1' + strings.Count(path, "."))) }

func TestConfigFileThatIsNone(t *testing.T) {
	f := func(file, want string) {
		t.Helper()
		if _, err := Read(file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
	f("testdata/good/absent.yaml", "testdata/good/absent.yaml: no such file")
	f("testdata/good", "is a directory")
	big := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(big, bytes.Repeat([]byte("# long\n"), 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f(big, "the file has more than 16 MiB")
}

// TestAliasBomb: a few lines that stand for billions of values are refused at once.
func TestAliasBomb(t *testing.T) {
	data := "lists:\n  block: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		ref := fmt.Sprintf("*a%d", i)
		data += fmt.Sprintf("  key%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(ref+", ", 10), ", "))
	}
	_, problems := Parse([]byte(data), nil)
	if len(problems) != 1 || !strings.Contains(problems[0], "more than 2000000 values") {
		t.Errorf("got %d problems, the first %.200q", len(problems), problems)
	}
}

// TestThousandServices: a large file loads, and the log says how long it took.
func TestThousandServices(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults: {upstream: {urls: [http://127.0.0.1:3000]}}\nservices:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - {name: s%d, hosts: [s%[1]d.example], paths: [{prefix: /a, verdict: {mode: observe}}]}\n", i)
	}
	began := time.Now()
	cfg := mustParse(t, []byte(b.String()))
	equal(t, "services", len(cfg.Resolved), 1000)
	t.Logf("a thousand services were read in %v", time.Since(began))
}

// TestManyProblemsAreCutShort: a list of a thousand bad entries does not fill the screen.
func TestManyProblemsAreCutShort(t *testing.T) {
	data := "lists:\n  block:\n" + strings.Repeat("    - nonsense\n", 1000)
	_, problems := Parse([]byte(data), nil)
	text := (&Error{File: "f", Problems: problems}).Error()
	if n := strings.Count(text, "\n"); n > maxProblems+2 || !strings.Contains(text, "and 901 more") {
		t.Errorf("%d lines, the last: %s", n, text[strings.LastIndex(text, "\n")+1:])
	}
}

func TestSuggest(t *testing.T) {
	f := func(section reflect.Type, name, want string) {
		t.Helper()
		if got := suggest(section, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	root := reflect.TypeFor[Config]()
	f(root, "listeners", "listen")
	f(root, "listn", "listen")
	f(root, "LISTN", "listen")
	f(root, "data-dir", "data_dir")
	f(root, "trusted_proxies", "identity.trusted_proxies")
	f(root, "upstream", "defaults.upstream")
	f(root, "zebra", "")
	f(serviceType, "urls", "upstream.urls")
	f(serviceType, "host", "hosts")
	f(serviceType, "prefix", "captcha.prefix")
	f(root, strings.Repeat("x", 1000), "")
}

// FuzzConfig: whatever is in a file, reading it ends, and what it says is bounded.
func FuzzConfig(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../config.example.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("a: &a {<<: *a}"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Add([]byte("services: [{paths: [{prefix: {}}]}]"))
	f.Add([]byte("\"\\n: x\": 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems := Parse(data, nil)
		if len(problems) == 0 {
			if err := cfg.Validate(); err != nil || len(cfg.Resolved) == 0 {
				t.Fatalf("taken, but not valid: %v", err)
			}
			cfg.Warnings()
			return
		}
		text := (&Error{File: "f", Problems: problems}).Error()
		if len(text) > (maxProblems+2)*(2048+len(data)) {
			t.Fatalf("%d bytes about %d bytes", len(text), len(data))
		}
	})
}

// TestRulesAreReplaced: the rules of a path stand for those of its service, whichever way either gives them.
func TestRulesAreReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.rules")
	if err := os.WriteFile(file, []byte("stop as A"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, problems := Parse([]byte(`
defaults: {upstream: {urls: ["http://127.0.0.1:1"]}, rules: {text: stop as T, otherwise: mark}}
services:
  - name: a
    RULES: {FILE: `+file+`}
    paths:
      - {prefix: /b, rules: {text: stop as B}}
      - {prefix: /c, rules: {time: 5ms}}
      - {prefix: /d, rules: {file: ""}}
`), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := &cfg.Resolved[0]
	for i, want := range []requestrules.ServiceConfig{
		{File: file, Otherwise: "mark"},
		{Text: "stop as B", Otherwise: "mark"},
		{File: file, Otherwise: "mark"},
		{Otherwise: "mark"},
	} {
		got := s.Rules
		if i > 0 {
			got = s.Resolved[i-1].Rules
		}
		if got.Text != want.Text || got.File != want.File || got.Otherwise != want.Otherwise {
			t.Errorf("%d: %q %q %s", i, got.Text, got.File, got.Otherwise)
		}
	}
}

// TestSettingsThatCannotBeMeant: what is valid and means nothing, or everything, is warned of.
func TestSettingsThatCannotBeMeant(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		cfg := mustParse(t, []byte(text))
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		got := cfg.Warnings()
		for _, w := range want {
			if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, w) }) {
				t.Errorf("%q is not among the warnings: %q", w, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d warnings, wanted %d: %q", len(got), len(want), got)
		}
	}
	const up = "upstream: {urls: ['http://127.0.0.1:3000']}"
	f("defaults: {" + up + ", paths: [{prefix: /static}]}\nlists: {white: ['198.51.100.7 the monitoring', '10.0.0.0/8', '2001:db8::/32']}")
	f("defaults: {"+up+", paths: [{prefix: '/static/*', verdict: {mode: 'off'}}]}", "defaults.paths[0].prefix: the * in /static/* ")
	f("services: [{name: a, prefixes: ['/a/*'], "+up+", requests: {ajax_paths: [/api, '/ajax/*'], health_paths: ['/ping*']}}]",
		"services[0].prefixes[0]: ", "services[0].requests.ajax_paths[1]: ", "services[0].requests.health_paths[0]: ")
	f("defaults: {"+up+"}\nlists: {white: ['0.0.0.0/0', '::/0 everybody', '0.0.0.0-255.255.255.255'], patterns: [{name: a, flag: white, path: '/img/*'}],\n"+
		"  lists: [{name: l, flag: white, entries: ['128.0.0.0/1']}]}",
		"lists.white[0]: 0.0.0.0/0 is wider", "lists.white[1]: ::/0 is wider", "lists.white[2]: ", "lists.patterns[0].path: the * in /img/*", "lists.lists[0].entries[0]: ")
}
