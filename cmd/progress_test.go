package cmd

import (
	"bytes"
	"testing"
	"time"
)

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
	p := startProgress(&out, false, func() (int64, int64) { return 1, 2 })
	p.stop()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}
