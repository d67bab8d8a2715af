package cbb

import (
	"fmt"
	"strings"
)

// Warnings returns what is allowed but deserves a second look, each with its key: entries that let whole parts of the
// Internet through unasked, and patterns whose path can't be meant as written.
func (c *Config) Warnings() (w []string) {
	wide := func(key string, entries []string) {
		for i, e := range entries {
			text, _, _ := splitLine([]byte(strings.TrimSpace(e)))
			if it, err := parseItem(text); err == nil && it.wide() {
				w = append(w, fmt.Sprintf("%s[%d]: %s is wider than /8 (IPv6: /16): no client in it is ever challenged", key, i, text))
			}
		}
	}
	wide("white", c.White)
	for i := range c.Lists {
		if l := &c.Lists[i]; l.Flag == White.String() {
			wide(fmt.Sprintf("lists[%d].entries", i), l.Entries)
		}
	}
	for i := range c.Patterns {
		for key, path := range map[string]string{"path": c.Patterns[i].Path, "path_prefix": c.Patterns[i].PathPrefix} {
			if strings.Contains(path, "*") {
				w = append(w, fmt.Sprintf("patterns[%d].%s: the * in %s stands for itself; path_glob has wildcards", i, key, path))
			}
		}
	}
	return w
}
