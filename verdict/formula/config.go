package formula

import (
	"errors"
)

// Config is the section formula: which models score. Each is the name of a built-in one (see Builtins), or a file.
type Config struct {
	Model  string `mapstructure:"model"`  // what decides
	Shadow string `mapstructure:"shadow"` // a candidate that scores beside it and changes nothing; empty: none
}

// DefaultConfig returns the score card that comes with the program, without a candidate.
func DefaultConfig() Config { return Config{Model: "default"} }

// Validate returns every problem at once. It does not look at files.
func (c *Config) Validate() error {
	if c.Model == "" {
		return errors.New("model: is empty; the built-in none scores nobody")
	}
	return nil
}
