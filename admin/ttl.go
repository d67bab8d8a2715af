package admin

import (
	"fmt"
	"strconv"
	"time"

	"antirobot/duration"
)

// minTTL is the shortest life that a ban or an entry may be given.
const minTTL = time.Second

// parseTTL parses a duration such as 90s, 7d or 1d12h. It must be positive.
func parseTTL(s string) (time.Duration, error) {
	d, err := duration.Parse(s)
	if err == nil && (d <= 0 || s[0] == '+') {
		err = fmt.Errorf("%.60q is not a positive duration", s)
	}
	if err != nil {
		return 0, err
	}
	return d, nil
}

// ttlWithin reads a duration and holds it to the bounds of the API.
func ttlWithin(s string, longest time.Duration) (time.Duration, error) {
	d, err := parseTTL(s)
	if err != nil {
		return 0, err
	}
	if d < minTTL || d > longest {
		return 0, fmt.Errorf("%s is outside of %v..%s", s, minTTL, formatTTL(longest))
	}
	return d, nil
}

// formatTTL prints a duration in the form that parseTTL reads, whole days in front, in whole seconds.
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
