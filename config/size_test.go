package config

import "testing"

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "4096": 4096, "64KiB": 64 << 10, "10 MB": 1e7, "1tib": 1 << 40, "7b": 7} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "KiB", "-1", "+1", "1.5MB", "64 K", "9999999TiB", "many"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q is taken as %d", in, got)
		}
	}
}
