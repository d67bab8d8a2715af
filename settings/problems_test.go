package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAt(t *testing.T) {
	f := func(path string, err error, want ...string) {
		t.Helper()
		if got := Problems(At(path, err)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("a", nil)
	f("a", errors.New("b: wrong"), "a.b: wrong")
	f("", errors.New("b: wrong"), "b: wrong")
	f("a", errors.New("[3]: wrong"), "a[3]: wrong")
	f("a", errors.Join(errors.New("b: one"), nil, errors.Join(errors.New("c: two\nd: three"))), "a.b: one", "a.c: two", "a.d: three")
	f("x", At("y", fmt.Errorf("z: %w", errors.New("wrong"))), "x.y.z: wrong")
}

func TestClip(t *testing.T) {
	if got := Clip("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := Clip(strings.Repeat("é", 100)); got != strings.Repeat("é", 30)+"…" {
		t.Errorf("got %q", got)
	}
	if got := Clip("a" + strings.Repeat("é", 100)); got != "a"+strings.Repeat("é", 29)+"…" {
		t.Errorf("half a letter is left: %q", got)
	}
}
