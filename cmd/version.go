package cmd

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// release is the version of the program. The Makefile reads it for packages and images.
const release = "1.0.0"

// version is the release with the commit that it was built from, as in 1.0.0+0123456789ab or 1.0.0+0123456789ab.dirty.
// A build without version control, or in a linked worktree of git, knows no commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit, dirty := settings["vcs.revision"], settings["vcs.modified"] == "true"
	if commit == "" { // a module that was fetched: v0.0.0-20260101000000-0123456789ab
		if parts := strings.Split(info.Main.Version, "-"); len(parts) > 2 {
			commit, _, dirty = strings.Cut(parts[len(parts)-1], "+dirty")
		}
	}
	switch {
	case commit == "":
		return release
	case dirty:
		return release + "+" + commit[:min(len(commit), 12)] + ".dirty"
	}
	return release + "+" + commit[:min(len(commit), 12)]
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version with its commit, the Go version and the platform",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "antirobot %s %s %s/%s\n", version(), runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

const (
	firstHeap   = 256 << 20 // bytes that are in use when garbage is collected for the first time
	leastHeap   = 4 << 20   // the same of a Go program that does not say; it grows with GOGC
	usualGOGC   = 100
	startedGOGC = usualGOGC * firstHeap / leastHeap
)

// growFirst lets the heap grow to firstHeap before garbage is collected, unless GOGC in the environment says otherwise:
// what a start makes is nearly all kept, and looking through it at every doubling from four megabytes on takes a
// quarter of a start's time. After the first collection all is as usual. Go's compiler does the same.
func growFirst() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(startedGOGC)
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		if is := debug.SetGCPercent(usualGOGC); is != startedGOGC { // it was changed meanwhile
			debug.SetGCPercent(is)
		}
	}, struct{}{})
}

// manDate is on every page, so that the same program always writes the same pages.
var manDate = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command",
		Long: `Write the manual pages of all commands into DIR, which is made if it is not there: antirobot.1, antirobot-serve.1
and so on. Packages have them in /usr/share/man/man1. Completions for shells are written by antirobot completion.`,
		Example: `  antirobot man man1 && man -l man1/antirobot-serve.1
  antirobot completion bash > /etc/bash_completion.d/antirobot`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are public
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			head := doc.GenManHeader{
				Title: "ANTIROBOT", Section: "1", Source: "antirobot", Manual: "Antirobot",
				Date: &manDate,
			}
			if err := doc.GenManTree(root, &head, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}

// licences are the licences of all modules in the program and of Go itself, compressed. They are collected by
// `go test ./cmd -run TestLicences -update`; the test says when they are out of date.
//
//go:embed licences.txt.gz
var licences []byte

func licencesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "licences",
		Short: "Print the licences of everything that is inside this program",
		Long: `Print the name, the version and the licence of every library that is inside this program, and of Go itself.
Libraries with the same text stand together.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := gzip.NewReader(bytes.NewReader(licences))
			if err != nil {
				return fmt.Errorf("licences: %w", err)
			}
			_, err = io.Copy(cmd.OutOrStdout(), text) //nolint:gosec // the archive is part of the program
			return err
		},
	}
}
