package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestTimes: times are read as configurations have them, and printed so that they can be read again.
func TestTimes(t *testing.T) {
	f := func(in, out string, want time.Duration) {
		t.Helper()
		var d time.Duration
		p := pflag.NewFlagSet("test", pflag.ContinueOnError)
		timeVar(p, &d, "for", time.Second, "")
		err := p.Parse([]string{"--for", in})
		if got := p.Lookup("for").Value.String(); err != nil || d != want || got != out {
			t.Errorf("%s: %v, printed %s, %v; wanted %v and %s", in, d, got, err, want, out)
		}
		if err := p.Parse([]string{"--for", out}); err != nil || d != want {
			t.Errorf("%s is read as %v, %v", out, d, err)
		}
	}
	f("0", "0", 0)
	f("60s", "1m", time.Minute)
	f("90s", "1m30s", 90*time.Second)
	f("10s", "10s", 10*time.Second)
	f("20m", "20m", 20*time.Minute)
	f("1d", "24h", 24*time.Hour)
	f("48h", "2d", 48*time.Hour)
	f("1h30m", "1h30m", 90*time.Minute)
	f("1h10s", "1h0m10s", time.Hour+10*time.Second)
	f("8.85µs", "8.85µs", 8850*time.Nanosecond)
	f("300ms", "300ms", 300*time.Millisecond)
	var d time.Duration
	p := pflag.NewFlagSet("test", pflag.ContinueOnError)
	timeVar(p, &d, "for", time.Minute, "")
	if p.Parse(nil) != nil || d != time.Minute || p.Parse([]string{"--for", "5"}) == nil {
		t.Errorf("by default %v", d)
	}
}

// TestNoHelpHasGosTimes: 1m0s is how Go prints a minute.
func TestNoHelpHasGosTimes(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		var help bytes.Buffer
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			if strings.Contains(line, "m0s") {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(rootCommand())
}
