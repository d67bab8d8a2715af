package servertest

import (
	"testing"
	"time"
)

// patience is how long anything that must happen may take on a busy machine. A test that fails waits this long, one that passes never does.
const patience = time.Minute

// Eventually waits for a state that must come, and returns how long it took.
func Eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		switch took := time.Since(began); {
		case ok():
			return took
		case took > patience:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
