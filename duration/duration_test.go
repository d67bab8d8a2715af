package duration

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	day := 24 * time.Hour
	f := func(in string, want time.Duration) {
		t.Helper()
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", in, got, err, want)
		}
	}
	f("0", 0)
	f("90s", 90*time.Second)
	f("10m", 10*time.Minute)
	f("1h30m", 90*time.Minute)
	f("-5s", -5*time.Second) // whether it makes sense is for the key to say
	f("7d", 7*day)
	f("0d", 0)
	f("1d12h", day+12*time.Hour)

	bad := func(in, want string) {
		t.Helper()
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v; want %s", in, got, err, want)
		}
	}
	bad("10", "10 has no unit; write 10s for seconds")
	bad("1.5", "has no unit")
	bad("", "is not a duration; write it as")
	bad("soon", "is not a duration")
	bad("10m ", "is not a duration")
	bad("7 d", "days are a whole number")
	bad("-1d", "days are a whole number")
	bad("1.5d", "days are a whole number")
	bad("12h1d", "days are a whole number")
	bad("100001d", "days are a whole number")
	bad("1d-2h", "is not a duration")
	bad("1d+2h", "is not a duration")
	bad("1dd", "is not a duration")
	bad("100000d2562047h", "too long")
	bad(strings.Repeat("9", 100), "9 has no unit")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "90s", "", "d", "-1d", "9999999999d1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := Parse(s); err != nil && d != 0 {
			t.Errorf("%q: %v with %v", s, d, err)
		}
	})
}
