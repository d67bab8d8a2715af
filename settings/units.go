package settings

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxDays is the largest number of days that a duration may have: 273 years.
const maxDays = 100_000

// ParseDuration reads a duration in Go's form, with whole days in front if any: 500ms, 90s, 1h30m, 7d, 1d12h. A number
// without a unit is refused, unless it is 0: nobody knows what it means.
func ParseDuration(s string) (time.Duration, error) {
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
		return 0, fmt.Errorf("%q is not a duration: days are a whole number before everything else, as in 7d or 1d12h", Clip(s))
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
	return fmt.Errorf("%q is not a duration; write it as 500ms, 90s, 10m, 12h or 7d", Clip(text))
}

// NoUnit is the error of a duration that is only a number.
func NoUnit(number string) error {
	return fmt.Errorf("%s has no unit; write %[1]ss for seconds, %[1]sm for minutes, %[1]sh for hours or %[1]sd for days", Clip(number))
}

// sizeUnits are the suffixes that a size may have, longest first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"b", 1},
}

// ParseSize reads a number of bytes: 4096, 64KiB, 10MB.
func ParseSize(text string) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	unit := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || s[0] == '+' || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a number; a size is written in bytes, or with KiB, MiB or GiB", Clip(text))
	}
	return n * unit, nil
}
