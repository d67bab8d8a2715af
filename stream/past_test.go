package stream

import (
	"fmt"
	"testing"
	"time"
)

// TestPast adds a batch of 10 bytes every other second, and asks where a replay begins.
func TestPast(t *testing.T) {
	var p Past
	if from := p.From(time.Hour, 100); from != "" {
		t.Errorf("nothing begins at %q", from)
	}
	for i := range 10 {
		p.Add(fmt.Sprint(i), time.Duration(2*i)*time.Second, 10)
		p.Add("of the same second", time.Duration(2*i)*time.Second, 0)
	}
	f := func(by time.Duration, most int64, want string) {
		t.Helper()
		if from := p.From(by, most); from != want {
			t.Errorf("the last %v, of at most %d bytes, begin at %q, want %q", by, most, from, want)
		}
	}
	f(time.Hour, 1000, "0")
	f(4*time.Second, 1000, "7")
	f(time.Hour, 35, "7")
	f(0, 1, "9") // the newest in any case
	if rest := p.Drop(time.Hour, 1000); rest != "" {
		t.Errorf("what may stay is dropped up to %q", rest)
	}
	if rest := p.Drop(10*time.Second, 1000); rest != "4" {
		t.Errorf("the rest begins at %q, want 4", rest)
	}
	if rest := p.Drop(time.Hour, 20); rest != "8" {
		t.Errorf("the rest begins at %q, want 8", rest)
	}
	f(time.Hour, 1000, "8")
}
