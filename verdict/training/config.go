// Package training keeps what models are trained with: the factors of a sample of the visitors in bounded files, and beside
// them what became known of each, by the answers to challenges, lists, services and operators. It exports them as rows with
// labels, and says where a label comes from.
package training

import (
	"errors"
	"fmt"
)

// Config is the section processor.training.
type Config struct {
	Sample   float64 `mapstructure:"sample"`    // share of the subjects whose factors are kept; 0: none
	MaxBytes int64   `mapstructure:"max_bytes"` // of all files together; the oldest are removed first
}

// DefaultConfig keeps the factors of every twentieth subject in at most 128 MB.
func DefaultConfig() Config {
	return Config{Sample: 0.05, MaxBytes: 128 << 20}
}

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	if !(c.Sample >= 0 && c.Sample <= 1) {
		errs = append(errs, fmt.Errorf("training.sample: %v is not between 0 and 1", c.Sample))
	}
	if c.MaxBytes < 1<<20 || c.MaxBytes > 1<<40 {
		errs = append(errs, fmt.Errorf("training.max_bytes: %d is not between 1 MiB and 1 TiB", c.MaxBytes))
	}
	return errors.Join(errs...)
}
