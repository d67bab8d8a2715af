package cbb

import (
	"fmt"
	"slices"
	"time"

	"antirobot/rules/texts"
)

// ListConfig is one list. Exactly one of File, URL and Entries is set.
type ListConfig struct {
	Name    string   `mapstructure:"name"`
	Enabled *bool    `mapstructure:"enabled"` // unset: true
	Flag    string   `mapstructure:"flag"`    // block, ban, white, or rules: looked up by name alone
	Of      string   `mapstructure:"of"`      // networks, if empty; or texts, which are for rules alone: words, domains or keys
	File    string   `mapstructure:"file"`
	URL     string   `mapstructure:"url"`
	Entries []string `mapstructure:"entries"`
	Format  string   `mapstructure:"format"`   // auto, lines, json or crowdsec
	KeyFile string   `mapstructure:"key_file"` // of a bouncer's key, sent as X-Api-Key to a URL
	Service string   `mapstructure:"service"`  // empty: all
	Reason  string   `mapstructure:"reason"`   // of entries without a reason of their own
	// Own makes a file the operator's own: its blocks take precedence over white lists. Entries in the configuration
	// always do.
	Own         bool          `mapstructure:"own"`
	Refresh     time.Duration `mapstructure:"refresh"`       // 0: as for all
	MaxEntries  int           `mapstructure:"max_entries"`   // 0: as for all
	MaxBadShare float64       `mapstructure:"max_bad_share"` // 0: as for all
	MinCount    int           `mapstructure:"min_count"`     // for lists "address TAB count": lower counts are left out
	AllowWide   bool          `mapstructure:"allow_wide"`    // networks wider than /8 (IPv6: /16)
	AllowEmpty  bool          `mapstructure:"allow_empty"`   // may become empty after it had ten or more entries
}

// ofNetworks is what a list is of if it is not of texts.
const ofNetworks = "networks"

// textKind returns what texts a list has; false for one of networks.
func (l *ListConfig) textKind() (texts.Kind, bool) { return texts.ParseKind(l.Of) }

// flag returns what the list says about its entries.
func (l *ListConfig) flag() (Flag, error) {
	_, isTexts := l.textKind()
	switch {
	case l.Flag == ForRules.String(), l.Flag == "" && isTexts:
		return ForRules, nil
	case isTexts:
		return ForRules, fmt.Errorf("%q: a list of texts is for rules alone", l.Flag)
	}
	flag, err := ParseFlag(l.Flag)
	if err != nil {
		err = fmt.Errorf("%w, or rules for a list that is looked up by its name alone", err)
	}
	return flag, err
}

func (l *ListConfig) validate(path string, c *Config, p *problems) {
	flag, err := l.flag()
	if err != nil {
		p.add(path+".flag", "%w", err)
	}
	if _, isTexts := l.textKind(); !isTexts && l.Of != "" && l.Of != ofNetworks {
		p.add(path+".of", "%q: networks, words, domains or keys", l.Of)
	}
	n := 0
	for _, set := range []bool{l.File != "", l.URL != "", l.Entries != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		p.add(path, "exactly one of file, url and entries must be set")
	}
	if l.URL != "" {
		validateURL(path+".url", l.URL, p)
		if l.Own {
			p.add(path+".own", "a fetched list can't be the operator's own")
		}
	}
	if !slices.Contains([]string{"", formatAuto, formatLines, formatJSON, formatCrowdSec}, l.Format) {
		p.add(path+".format", "%q: auto, lines, json or crowdsec", l.Format)
	}
	if l.KeyFile != "" && l.URL == "" {
		p.add(path+".key_file", "is for a list from a url")
	}
	if l.Refresh != 0 && l.Refresh < minRefresh {
		p.add(path+".refresh", "must be at least %v", minRefresh)
	}
	if l.MaxEntries < 0 {
		p.add(path+".max_entries", "must not be negative")
	}
	if l.MinCount < 0 {
		p.add(path+".min_count", "must not be negative")
	}
	if l.MaxBadShare < 0 || l.MaxBadShare > 1 {
		p.add(path+".max_bad_share", "must be between 0 and 1")
	}
	if kind, ok := l.textKind(); ok {
		set := texts.New(kind)
		for i, e := range l.Entries {
			if err := set.Add(e); err != nil {
				p.add(fmt.Sprintf("%s.entries[%d]", path, i), "%q: %w", e, err)
			}
		}
		return
	}
	validateEntries(path+".entries", l.Entries, l.AllowWide || c.AllowWide || flag >= White, p)
}
