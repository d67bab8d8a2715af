package geo

import (
	"errors"
	"fmt"
	"time"
)

// Config says which files tell where addresses are.
type Config struct {
	// Files may each say the country, the autonomous system, or both; the first that knows counts.
	Files []string `mapstructure:"files"`
}

// DefaultConfig returns no files.
func DefaultConfig() Config { return Config{} }

const (
	maxFiles = 16
	maxBytes = 256 << 20 // of one file, unpacked
	poll     = 10 * time.Second
)

// Validate returns all problems, each with the path of its key. It reads no file.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Files) > maxFiles {
		errs = append(errs, fmt.Errorf("files: %d are too many, the limit is %d", len(c.Files), maxFiles))
	}
	for i, f := range c.Files {
		if f == "" {
			errs = append(errs, fmt.Errorf("files[%d]: is empty", i))
		}
	}
	return errors.Join(errs...)
}
