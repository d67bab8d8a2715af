package admin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minTTL is the shortest life that a ban or an entry may be given.
const minTTL = time.Second

// ParseTTL reads a duration: Go's form ("90s", "1h30m") with days allowed in front ("7d", "1d12h"). It must be positive.
func ParseTTL(s string) (time.Duration, error) {
	rest := s
	var days time.Duration
	if i := strings.IndexByte(s, 'd'); i >= 0 {
		n, err := strconv.ParseUint(s[:i], 10, 32)
		if err != nil || n > 100_000 {
			return 0, fmt.Errorf("%q is no duration: days are a whole number before everything else, as in 7d or 1d12h", s)
		}
		days, rest = time.Duration(n)*24*time.Hour, s[i+1:]
	}
	d := days
	if rest != "" || days == 0 {
		r, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration: write it as 90s, 10m, 12h, 7d or 1d12h", s)
		}
		if r < 0 || strings.HasPrefix(rest, "+") {
			return 0, fmt.Errorf("%q is no positive duration", s)
		}
		if d += r; d < days {
			return 0, errors.New("the duration is too long")
		}
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is no positive duration", s)
	}
	return d, nil
}

// ttlWithin reads a duration and holds it to the bounds of the API.
func ttlWithin(s string, longest time.Duration) (time.Duration, error) {
	d, err := ParseTTL(s)
	if err != nil {
		return 0, err
	}
	if d < minTTL || d > longest {
		return 0, fmt.Errorf("%s is outside of %v..%s", s, minTTL, formatTTL(longest))
	}
	return d, nil
}

// formatTTL prints a duration in the form that ParseTTL reads, whole days in front, in whole seconds.
func formatTTL(d time.Duration) string {
	d = d.Round(time.Second)
	days := d / (24 * time.Hour)
	rest := d % (24 * time.Hour)
	if days == 0 {
		return rest.String()
	}
	if rest == 0 {
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return strconv.FormatInt(int64(days), 10) + "d" + rest.String()
}
