package redistest

import (
	"strings"
	"testing"
)

// TestPortIsTaken: a server whose port somebody else has is not taken for that one, and a new one finds another port.
func TestPortIsTaken(t *testing.T) {
	other := Start(t)
	s := &Server{dir: dir(t), port: other.port}
	if s.run(t) || s.runs() || !strings.Contains(s.out.String(), "already in use") {
		t.Fatalf("it runs: %v, and says:\n%s", s.runs(), s.out)
	}
	s.start(t)
	if s.Addr == other.Addr || s.CLI(t, "ping") != "PONG" || other.CLI(t, "ping") != "PONG" {
		t.Errorf("%s beside %s", s.Addr, other.Addr)
	}
}
