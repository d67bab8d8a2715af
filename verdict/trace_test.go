package verdict

import "testing"

func TestTrace(t *testing.T) {
	if s := (Trace{}).String(); s != "" {
		t.Errorf("no trace is named %q", s)
	}
	id := Trace{1, 0xab, 15: 3}
	if got, ok := ParseTrace(id.String()); !ok || got != id || id.String() != "01ab0000000000000000000000000003" {
		t.Errorf("%s is read as %v, %v", id, got, ok)
	}
	for _, wrong := range []string{"", "01", "00000000000000000000000000000000", "01ab000000000000000000000000000x", "01ab000000000000000000000000000300"} {
		if got, ok := ParseTrace(wrong); ok {
			t.Errorf("%q is read as %v", wrong, got)
		}
	}
}
