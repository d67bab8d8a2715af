package cmd

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"antirobot/servertest"
)

func TestVersionOf(t *testing.T) {
	f := func(module, revision, modified, want string) {
		t.Helper()
		info := &debug.BuildInfo{Main: debug.Module{Version: module}}
		if revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
		}
		if got := versionOf(info); got != want {
			t.Errorf("module %q, revision %q, modified %s: got %q, want %q", module, revision, modified, got, want)
		}
	}
	f("(devel)", "0123456789abcdef0123456789abcdef01234567", "false", "1.0.0+0123456789ab")
	f("v1.2.3", "0123456789abcdef0123456789abcdef01234567", "true", "1.0.0+0123456789ab.dirty")
	f("v0.0.0-20260101000000-0123456789ab", "", "", "1.0.0+0123456789ab")
	f("v0.0.0-20260101000000-0123456789ab+dirty", "", "", "1.0.0+0123456789ab.dirty")
	f("(devel)", "", "", "1.0.0")
	f("", "", "", "1.0.0")
}

// TestHeapGrowsFirst: garbage is first collected once a start has grown the heap, then as usual, or as chosen meanwhile.
func TestHeapGrowsFirst(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usualGOGC))
	percent := func() int {
		is := debug.SetGCPercent(usualGOGC)
		debug.SetGCPercent(is)
		return is
	}
	growFirst()
	if is := percent(); is != startedGOGC {
		t.Fatalf("garbage is collected at %d %% at the start", is)
	}
	servertest.Eventually(t, "garbage is collected as ever after the first time", func() bool {
		runtime.GC()
		return percent() == usualGOGC
	})
	growFirst()
	debug.SetGCPercent(40)
	for range 20 {
		runtime.GC()
		runtime.Gosched()
	}
	if is := percent(); is != 40 {
		t.Errorf("garbage is collected at %d %%, where 40 was chosen", is)
	}
	t.Setenv("GOGC", "40")
	growFirst()
	if is := percent(); is != 40 {
		t.Errorf("GOGC in the environment is 40, and garbage is collected at %d %%", is)
	}
}

func TestProgressLine(t *testing.T) {
	f := func(n, of int64, took time.Duration, want string) {
		t.Helper()
		if got := progressLine(n, of, took); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f(0, 100e6, 0, "[..............................]   0 %  0.0 of 100.0 MB, 0.0 MB/s")
	f(50e6, 100e6, 10*time.Second, "[###############...............]  50 %  50.0 of 100.0 MB, 5.0 MB/s, 10s left")
	f(120e6, 100e6, 10*time.Second, "[##############################] 100 %  120.0 of 100.0 MB, 12.0 MB/s, 0s left") // a log that grows meanwhile
	f(3e6, -1, time.Second, "3.0 MB, 3.0 MB/s")
}

// TestProgressIsForTerminals: what is no terminal gets no bar.
func TestProgressIsForTerminals(t *testing.T) {
	var out bytes.Buffer
	startProgress(&out, false, func() (int64, int64) { return 1, 2 })()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

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
