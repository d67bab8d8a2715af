package gateway

import (
	"io"
	"strings"
	"testing"
)

// TestNobodyWaitsForTheLog: while nobody takes what is written, lines are taken and then left out; the log says how many.
func TestNobodyWaitsForTheLog(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	w := newLogWriter(write)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 4 * len(w.shards) * logShardMost / len(line) {
		if n, err := w.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	all := make(chan string)
	go func() {
		b, _ := io.ReadAll(read)
		all <- string(b)
	}()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	text := <-all
	if n := strings.Count(text, "nobody took log lines"); n != len(w.shards) {
		t.Errorf("%d lines say that some were left out", n)
	}
	if most := (2*len(w.shards) + 1) * logShardMost; len(text) > most {
		t.Errorf("%d bytes were kept", len(text))
	}
}
