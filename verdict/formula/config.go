package formula

import (
	"errors"
	"fmt"
)

// Config is the section formula: which models score. Each is a file; empty: none.
type Config struct {
	Model  string `mapstructure:"model"`  // the model that decides; empty: nobody is scored
	Shadow string `mapstructure:"shadow"` // a candidate that scores beside it and changes nothing; empty: none

	Named []NamedConfig `mapstructure:"named"` // models that rules query with formulaCheck
}

// NamedConfig is a model for rules: its factors are the score, the tags and the counts of a run, not those of subjects.
type NamedConfig struct {
	Name string `mapstructure:"name"`
	File string `mapstructure:"file"`
}

// Validate returns every problem at once. It does not open files.
func (c *Config) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for i, n := range c.Named {
		if n.Name == "" || n.File == "" {
			errs = append(errs, fmt.Errorf("named[%d]: needs a name and a file", i))
		}
		if seen[n.Name] {
			errs = append(errs, fmt.Errorf("named[%d].name: %q occurs twice", i, n.Name))
		}
		seen[n.Name] = true
	}
	return errors.Join(errs...)
}
