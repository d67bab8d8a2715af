package problem

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestAt(t *testing.T) {
	f := func(path string, err error, want ...string) {
		t.Helper()
		if got := Lines(At(path, err)); !slices.Equal(got, want) {
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
