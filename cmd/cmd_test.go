//go:build !race

// The commands are processes, and a process with the race detector takes seconds to start: what they run has race tests of
// its own.

package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this test binary as antirobot.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"antirobot": func() { os.Exit(Main()) }})
}

// TestCommands runs the scripts of testdata/script: the commands as a person types them.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			wd, err := filepath.Abs("..")
			if err != nil {
				return err
			}
			env.Setenv("SOURCE", wd)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"mode": checkMode,
		},
	})
}

// checkMode is the command `mode FILE 0600`.
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mode FILE MODE")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	got := info.Mode().Perm().String()
	if (got == args[1]) == neg {
		ts.Fatalf("%s has mode %s", args[0], got)
	}
}
