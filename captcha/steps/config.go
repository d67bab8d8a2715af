package steps

// Config is what the steps cost a browser, and what they earn.
type Config struct {
	// Hashes is the work of a silent check and of a press, in expected computations of SHA-256. It grows with the passes of
	// the address, up to four times.
	Hashes int64 `mapstructure:"hashes"`
	// What each step earns of a pass's allowance, in percent; digits earn all of it.
	SilentPercent  int64 `mapstructure:"silent_percent"`
	PressPercent   int64 `mapstructure:"press_percent"`
	DynamicPercent int64 `mapstructure:"dynamic_percent"`
	// InsteadPercent is the share of that for digits in place of a dynamic puzzle.
	InsteadPercent int64 `mapstructure:"instead_percent"`
	// LookForDrivers has a silent check and a press look for a program that drives the browser: such a browser is asked for digits.
	LookForDrivers bool `mapstructure:"look_for_drivers"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Hashes: 20_000, SilentPercent: 25, PressPercent: 50, DynamicPercent: 100, InsteadPercent: 50, LookForDrivers: true}
}

// Bounds of the work: below the lower one it costs nothing, above the upper one a phone needs seconds.
const minHashes, maxHashes = 1 << 10, 1 << 20

// Check reports every problem to bad.
func (c *Config) Check(bad func(format string, args ...any)) {
	if c.Hashes < minHashes || c.Hashes > maxHashes {
		bad("steps.hashes: %d is outside %d to %d", c.Hashes, minHashes, maxHashes)
	}
	for _, n := range [...]struct {
		key string
		n   int64
	}{{"silent", c.SilentPercent}, {"press", c.PressPercent}, {"dynamic", c.DynamicPercent}, {"instead", c.InsteadPercent}} {
		if n.n < 1 || n.n > 100 {
			bad("steps.%s_percent: %d is outside 1 to 100", n.key, n.n)
		}
	}
	if c.SilentPercent > c.PressPercent {
		bad("steps.silent_percent: %d is more than press_percent (%d)", c.SilentPercent, c.PressPercent)
	}
}

// Worth returns what an answer to step earns of an allowance, when asked was asked for: at least 1.
func (c *Config) Worth(step, asked Step, allowance uint32) uint32 {
	percent := int64(100)
	switch step {
	case Silent:
		percent = c.SilentPercent
	case Press:
		percent = c.PressPercent
	case Dynamic:
		percent = c.DynamicPercent
	}
	if step < asked {
		percent = percent * c.InsteadPercent / 100
	}
	return max(1, uint32(int64(allowance)*percent/100)) //nolint:gosec // a share of it
}

// Work returns the work of a silent check where an address earned so many passes within the last hour.
func (c *Config) Work(earned int64) int64 { return min(c.Hashes*(4+earned)/4, 4*c.Hashes) }
