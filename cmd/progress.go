package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress is a bar on a terminal, and a line now and then elsewhere. The zero value shows nothing.
type progress struct {
	end  chan struct{}
	done sync.WaitGroup
}

const (
	progressEvery = 200 * time.Millisecond
	progressLines = 10 * time.Second // between lines where there is no terminal
	progressWidth = 30
)

// startProgress draws a bar until it is stopped, or writes lines if w is not a terminal. read returns how much is done
// and the total, -1 if that is unknown.
func startProgress(w io.Writer, quiet bool, read func() (n, of int64)) *progress {
	if quiet {
		return &progress{}
	}
	if isTerminal(w) {
		return showProgress(w, read, progressEvery, "\r", "\x1b[K", "\r\x1b[K")
	}
	return showProgress(w, read, progressLines, "", "\n", "")
}

// showProgress writes the progress between before and after, and finally erases it.
func showProgress(w io.Writer, read func() (n, of int64), every time.Duration, before, after, last string) *progress {
	p := &progress{end: make(chan struct{})}
	p.done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		began := time.Now()
		for {
			select {
			case <-p.end:
				fmt.Fprint(w, last)
				return
			case <-t.C:
				n, of := read()
				fmt.Fprint(w, before+progressLine(n, of, time.Since(began))+after)
			}
		}
	})
	return p
}

// stop removes the bar and waits until it is gone.
func (p *progress) stop() {
	if p.end != nil {
		close(p.end)
		p.done.Wait()
	}
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
