package cmd

import (
	"strings"
	"testing"
)

// TestFilesFor: more open files are asked for only where a busy site would lack them, and what the configuration allows is said beside.
func TestFilesFor(t *testing.T) {
	for _, tt := range []struct {
		have     uint64
		maxConns int
		state    string
		parts    string
	}{
		{1 << 20, 100_000, healthy, "1048576 may be open at once, enough for 524032 connections of visitors; the 100000 of http.max_conns would need 200512"},
		{20_000, 100_000, healthy, "enough for 9744 connections"},
		{1024, 100_000, look, "LimitNOFILE=8704"},
		{1024, 200, healthy, "the 200 of http.max_conns would need 912"},
		{100, 200, look, "enough for 0 connections"},
		{1024, 0, look, "http.max_conns sets no limit"},
	} {
		f := filesFor(tt.have, tt.maxConns)
		if f.State != tt.state || !strings.Contains(f.Says+" "+f.Do, tt.parts) || (f.Do == "") != (f.State == healthy) {
			t.Errorf("%d files, %d connections: %+v", tt.have, tt.maxConns, f)
		}
	}
}
