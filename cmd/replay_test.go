package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// TestReplayCollectsEarly: a long log of many visitors must not take twice the memory of what is kept of them.
func TestReplayCollectsEarly(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [04/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := rootCommand()
	root.SetOut(&bytes.Buffer{})
	root.SetErr(&bytes.Buffer{})
	root.SetArgs([]string{"replay", log})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if is := debug.SetGCPercent(100); is != replayGarbage {
		t.Errorf("garbage is collected at %d %%", is)
	}
}
