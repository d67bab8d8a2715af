// Package duration reads durations as configurations, flags and the API spell them.
package duration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDays bounds a duration: 273 years.
const maxDays = 100_000

// Parse reads Go's form, optionally after whole days: 500ms, 90s, 1h30m, 7d, 1d12h. A number without a unit is refused,
// unless it is 0.
func Parse(s string) (time.Duration, error) {
	i := strings.IndexByte(s, 'd')
	if i < 0 {
		d, err := time.ParseDuration(s)
		if err == nil {
			return d, nil
		}
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, NoUnit(s)
		}
		return 0, noDuration(s)
	}
	n, err := strconv.ParseUint(s[:i], 10, 32)
	if err != nil || n > maxDays {
		return 0, fmt.Errorf("%.60q is not a duration: days are a whole number before everything else, as in 7d or 1d12h", s)
	}
	days, rest := time.Duration(n)*24*time.Hour, s[i+1:]
	if rest == "" {
		return days, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' {
		return 0, noDuration(s)
	}
	if d += days; d < days {
		return 0, errors.New("the duration is too long")
	}
	return d, nil
}

func noDuration(text string) error {
	return fmt.Errorf("%.60q is not a duration; write it as 500ms, 90s, 10m, 12h or 7d", text)
}

// NoUnit is the error of a duration that is only a number.
func NoUnit(number string) error {
	return fmt.Errorf("%s has no unit; write %[1]ss for seconds, %[1]sm for minutes, %[1]sh for hours or %[1]sd for days",
		number[:min(len(number), 60)])
}
