package cmd

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"antirobot/duration"
)

// timeValue is the value of a flag that is a time, which is written as in a configuration: 90s, 12h or 7d.
type timeValue time.Duration

func timeVar(p *pflag.FlagSet, at *time.Duration, name string, usual time.Duration, usage string) {
	*at = usual
	p.Var((*timeValue)(at), name, usage)
}

// Set implements pflag.Value.
func (v *timeValue) Set(s string) error {
	d, err := duration.Parse(s)
	if err == nil {
		*v = timeValue(d)
	}
	return err
}

// String implements pflag.Value.
func (v *timeValue) String() string { return shortTime(time.Duration(*v)) }

// Type implements pflag.Value.
func (*timeValue) Type() string { return "duration" }

// shortTime is d as a person would write it: 1m, not 1m0s.
func shortTime(d time.Duration) string {
	const day = 24 * time.Hour
	if d == 0 {
		return "0"
	}
	if d >= 2*day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
