//go:build !race

// The simulation runs in one goroutine, and its package has tests that run with the race detector.

package cmd

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestScalingAsDocumented runs the simulations that docs/scaling.md shows, which print what it says.
func TestScalingAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```console\n$ antirobot scaling simulate")
	if len(blocks) != 4 {
		t.Fatalf("docs/scaling.md shows %d simulations, not three", len(blocks)-1)
	}
	for _, b := range blocks[1:] {
		block, _, _ := strings.Cut(b, "```")
		flags, want, _ := strings.Cut(block, "\n")
		root, got := rootCommand(), &bytes.Buffer{}
		root.SetOut(got)
		root.SetArgs(append([]string{"scaling", "simulate"}, strings.Fields(flags)...))
		if err := root.Execute(); err != nil {
			t.Fatal(flags, err)
		}
		if !shows(got.String(), want) {
			t.Errorf("antirobot scaling simulate%s prints\n%s", flags, got)
		}
	}
}

// shows reports whether a page shows an output as it is. A line of the page that is … stands for lines that it leaves out.
func shows(output, page string) bool {
	lines := strings.SplitAfter(output, "\n")
	left := false
	for want := range strings.Lines(page) {
		if want == "…\n" {
			left = true
			continue
		}
		i := slices.Index(lines, want)
		if i < 0 || i > 0 && !left {
			return false
		}
		lines, left = lines[i+1:], false
	}
	return left || strings.Join(lines, "") == ""
}
