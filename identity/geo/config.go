package geo

import (
	"errors"
	"fmt"
	"time"
)

// Config says which files tell where addresses are.
type Config struct {
	Files    []string      `mapstructure:"files"`     // each may say the country, the autonomous system, or both; the first that knows counts
	Poll     time.Duration `mapstructure:"poll"`      // how often files are checked for changes
	MaxBytes int64         `mapstructure:"max_bytes"` // of one file, unpacked
}

// DefaultConfig returns no files.
func DefaultConfig() Config { return Config{Poll: 10 * time.Second, MaxBytes: 256 << 20} }

const maxFiles = 16

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
	if c.Poll < 100*time.Millisecond {
		errs = append(errs, errors.New("poll: must be at least 100ms"))
	}
	if c.MaxBytes < 1 || c.MaxBytes > 4<<30 {
		errs = append(errs, errors.New("max_bytes: must be between 1 and 4 GiB"))
	}
	return errors.Join(errs...)
}
