package formula

import (
	"bytes"
	"testing"
)

// TestDefaultByVersion: the default card is found by the version that it names, and that is no other built-in model.
func TestDefaultByVersion(t *testing.T) {
	want, _ := Builtin("default")
	got, ok := Builtin(DefaultVersion())
	if !ok || !bytes.Equal(got, want) {
		t.Errorf("%q is not the default card", DefaultVersion())
	}
	for _, name := range Builtins() {
		if name == DefaultVersion() {
			t.Errorf("a model before the default card has its version, %s", name)
		}
	}
	if data, ok := Builtin("default-0"); ok || data != nil {
		t.Error("a version that there is not is found")
	}
}
