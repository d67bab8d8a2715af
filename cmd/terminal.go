package cmd

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"antirobot/duration"
	"antirobot/terminal"
	"antirobot/verdict/words"
)

// Colours of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

var verdictColours = map[string]string{"human": green, "unsure": yellow, "robot": red, "blocked": red}

// isTerminal reports whether w is a terminal that understands escapes.
func isTerminal(w io.Writer) bool {
	f, ok := terminal.File(w)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// painter returns a func that gives text a colour, if w is a terminal and NO_COLOR does not forbid it.
func painter(w io.Writer) func(colour, text string) string {
	on := os.Getenv("NO_COLOR") == "" && isTerminal(w)
	return func(colour, text string) string {
		if !on || colour == "" || text == "" {
			return text
		}
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
}

// table aligns columns that tabs separate.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

// counted formats numbers with nouns, as in "%d {key|keys}".
func counted(format string, args ...any) string { return words.Sprintf(words.English, format, args...) }

// noteEmpty says on the standard error that a list is empty: programs that read the standard output get an empty one.
func noteEmpty(cmd *cobra.Command, n int, what string) {
	if n == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), what)
	}
}

// untilWords says when something ends.
func untilWords(t time.Time) string { return "until " + inUTC(t) }

func inUTC(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// timeValue is the value of a flag that is a time, written as in a configuration: 90s, 12h or 7d.
type timeValue time.Duration

func timeVar(p *pflag.FlagSet, at *time.Duration, name string, usual time.Duration, usage string) {
	*at = usual
	p.Var((*timeValue)(at), name, usage)
}

// Set implements pflag.Value.
func (v *timeValue) Set(s string) error {
	d, err := duration.Parse(s)
	if err == nil {
		*v = timeValue(d)
	}
	return err
}

// String implements pflag.Value.
func (v *timeValue) String() string { return shortTime(time.Duration(*v)) }

// Type implements pflag.Value.
func (*timeValue) Type() string { return "duration" }

// shortTime writes 1m, not 1m0s.
func shortTime(d time.Duration) string {
	const day = 24 * time.Hour
	if d == 0 {
		return "0"
	}
	if d >= 2*day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// lateFile is made, or overwritten, when it is opened or first written to: an earlier failure leaves an earlier file as
// it was. Only its owner may read it.
type lateFile struct {
	name string
	file *os.File
}

func (l *lateFile) open() (err error) {
	if l.file == nil {
		l.file, err = os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	return err
}

func (l *lateFile) Write(p []byte) (n int, err error) {
	if err := l.open(); err != nil {
		return 0, err
	}
	return l.file.Write(p)
}

func (l *lateFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

const (
	progressEvery = 200 * time.Millisecond
	progressLines = 10 * time.Second // between lines where there is no terminal
	progressWidth = 30
)

// startProgress draws a bar on a terminal, or writes a line now and then elsewhere, until stop is called. read returns
// the bytes done and the total, -1 if that is unknown.
func startProgress(w io.Writer, quiet bool, read func() (n, of int64)) (stop func()) {
	if quiet {
		return func() {}
	}
	if isTerminal(w) {
		return showProgress(w, read, progressEvery, "\r", "\x1b[K", "\r\x1b[K")
	}
	return showProgress(w, read, progressLines, "", "\n", "")
}

// showProgress writes the progress between before and after, and finally erases it.
func showProgress(w io.Writer, read func() (n, of int64), every time.Duration, before, after, last string) (stop func()) {
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		began := time.Now()
		for {
			select {
			case <-end:
				fmt.Fprint(w, last)
				return
			case <-t.C:
				n, of := read()
				fmt.Fprint(w, before+progressLine(n, of, time.Since(began))+after)
			}
		}
	})
	return func() { close(end); done.Wait() }
}

func progressLine(n, of int64, took time.Duration) string {
	const mega = 1e6
	rate := float64(n) / mega / max(took.Seconds(), 0.001)
	if of <= 0 {
		return fmt.Sprintf("%.1f MB, %.1f MB/s", float64(n)/mega, rate)
	}
	share := min(float64(n)/float64(of), 1)
	full := int(share * progressWidth)
	left := ""
	if share > 0 && took > time.Second {
		left = fmt.Sprintf(", %v left", time.Duration(float64(took)*(1-share)/share).Round(time.Second))
	}
	return fmt.Sprintf("[%s%s] %3.0f %%  %.1f of %.1f MB, %.1f MB/s%s", strings.Repeat("#", full),
		strings.Repeat(".", progressWidth-full), 100*share, float64(n)/mega, float64(of)/mega, rate, left)
}
