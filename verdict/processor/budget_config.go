package processor

import (
	"errors"
	"fmt"
	"math"

	"antirobot/bounded"
)

// BudgetConfig sets how much may be read from a network in an hour and in a day before its visitors are asked for a
// captcha. It counts documents: what was delivered, less what the answers prove to be parts of pages.
type BudgetConfig struct {
	Enabled   bool    `mapstructure:"enabled"`
	Hour      float64 `mapstructure:"hour"`       // documents of a household (an address, an IPv6 /64) within an hour
	Day       float64 `mapstructure:"day"`        // and within a day
	Net56     float64 `mapstructure:"net_56"`     // how many households an IPv6 /56 may read like, however many live there …
	Net48     float64 `mapstructure:"net_48"`     // … a /48 …
	Net32     float64 `mapstructure:"net_32"`     // … a /32 …
	Net24     float64 `mapstructure:"net_24"`     // … an IPv4 /24
	People    float64 `mapstructure:"people"`     // multiple of what its established visitors read, if that is more
	Person    float64 `mapstructure:"person"`     // households that an established visitor may read like
	Bare      float64 `mapstructure:"bare"`       // documents that a document without the parts of pages counts as
	Call      float64 `mapstructure:"call"`       // calls of scripts that count as one document
	Repeat    float64 `mapstructure:"repeat"`     // documents that count as one if one of the last few is read again
	Newcomers float64 `mapstructure:"newcomers"`  // while the site knows nobody: documents with their parts that count as one
	KnownFrom int     `mapstructure:"known_from"` // networks of established visitors from which on a site knows its people
	// Identity is the multiple of what nearly all of the site's people read in a day (the 99.9th percentile) that one identity
	// may read, which the site knows; IdentityLeast is how many documents that is at the least. 0: there is no such budget.
	Identity      float64 `mapstructure:"identity"`
	IdentityLeast float64 `mapstructure:"identity_least"`
	MaxNetworks   int     `mapstructure:"max_networks"` // households and networks known at once, about 170 bytes each; identities, about 80; and addresses, about 50
}

// defaultBudgetConfig returns 180 documents an hour and 360 a day for a household, a quarter of that if they come bare.
func defaultBudgetConfig() BudgetConfig {
	return BudgetConfig{
		Enabled: true, Hour: 180, Day: 360, Net56: 2, Net48: 4, Net32: 8, Net24: 8, People: 2, Person: 2, Bare: 4, Call: 16, Repeat: 64,
		Newcomers: 256, KnownFrom: 20, Identity: 4, IdentityLeast: 100, MaxNetworks: 200_000,
	}
}

// Validate returns every problem at once.
func (c *BudgetConfig) Validate() error {
	var errs []error
	for _, f := range [...]struct {
		key            string
		v, least, most float64
	}{
		{"hour", c.Hour, 10, 1e6},
		{"day", c.Day, 10, 1e7},
		{"net_56", c.Net56, 1, 1e4},
		{"net_48", c.Net48, 1, 1e4},
		{"net_32", c.Net32, 1, 1e4},
		{"net_24", c.Net24, 1, 1e4},
		{"people", c.People, 0, 1e4},
		{"person", c.Person, 1, 1e4},
		{"bare", c.Bare, 1, 100},
		{"call", c.Call, 1, 1e5},
		{"repeat", c.Repeat, 1, 1e5},
		{"newcomers", c.Newcomers, 1, 1e5},
		{"identity", c.Identity, 0, 1e4},
		{"identity_least", c.IdentityLeast, 10, 1e6},
	} {
		if math.IsNaN(f.v) || f.v < f.least || f.v > f.most {
			errs = append(errs, fmt.Errorf("budget.%s: %v is not between %v and %v", f.key, f.v, f.least, f.most))
		}
	}
	if c.KnownFrom < 0 || c.KnownFrom > 1_000_000 {
		errs = append(errs, fmt.Errorf("budget.known_from: %d is not between 0 and 1000000", c.KnownFrom))
	}
	if c.MaxNetworks < bounded.Shards || c.MaxNetworks > 100_000_000 {
		errs = append(errs, fmt.Errorf("budget.max_networks: %d is not between %d and 100000000", c.MaxNetworks, bounded.Shards))
	}
	return errors.Join(errs...)
}
