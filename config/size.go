package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

// parseSize reads a number of bytes: 4096, 64KiB, 10MB.
func parseSize(text string) (int64, error) {
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
		return 0, fmt.Errorf("%.60q is not a number; a size is written in bytes, or with KiB, MiB or GiB", text)
	}
	return n * unit, nil
}
