package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// run runs a command, and takes no notice of what it prints.
func run(args ...string) error {
	root := rootCommand()
	root.SetOut(&bytes.Buffer{})
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(args)
	return root.Execute()
}

// TestMistakesEmptyNoTable: tables of an earlier run stay as they are until nothing is wrong any more with what the next one is told.
func TestMistakesEmptyNoTable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	log := write("access.log", "192.0.2.1 - - [04/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 10\n")
	wrong := write("wrong.yaml", "nothing: of the kind\n")
	scored := write("scored.yaml", fmt.Sprintf("defaults: {upstream: {urls: [\"http://127.0.0.1:1\"]}}\nformula: {model: %q}\n", write("card.yaml", "version: mine\nbias: -4\nfactors: []\n")))
	f := func(kept bool, args ...string) {
		t.Helper()
		scores, factors := write("scores.csv", "earlier"), write("factors.csv", "earlier")
		if err := run(append(args, log, "-q", "--factors", factors, "--scores", scores)...); (err != nil) != kept {
			t.Errorf("%q: %v", args, err)
		}
		for _, name := range []string{factors, scores} {
			if got, _ := os.ReadFile(name); (string(got) == "earlier") != kept || len(got) == 0 {
				t.Errorf("%q: %s has %.40q", args, filepath.Base(name), got)
			}
		}
	}
	f(true, "replay", "--config", wrong)
	f(true, "replay")
	f(true, "replay", "--config", scored, "--against", wrong)
	f(true, "replay", "--config", scored, "--ranges", "nobody="+log)
	f(true, "replay", "--config", scored, "--ranges", "googlebot="+filepath.Join(dir, "none"))
	f(true, "replay", "--config", scored, "--labels", filepath.Join(dir, "none"))
	f(false, "replay", "--config", scored)
}

// TestReplayCollectsEarly: a long log of many visitors must not take twice the memory of what is kept of them.
func TestReplayCollectsEarly(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [04/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("replay", log); err != nil {
		t.Fatal(err)
	}
	if is := debug.SetGCPercent(100); is != replayGarbage {
		t.Errorf("garbage is collected at %d %%", is)
	}
}
