package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"antirobot/problem"
)

// ownKeys are the keys that each gateway sets for itself, in addition to those that need a restart.
var ownKeys = []string{"listen", "keys"}

// CheckPushed returns which values of a pushed configuration can't be pushed, each with its path: what takes effect at
// start only, a gateway's own keys, and unknown ones.
func CheckPushed(values map[string]any) error {
	var errs []error
	var look func(values map[string]any, path string)
	look = func(values map[string]any, path string) {
		for name, v := range values {
			at := problem.Below(path, strings.ToLower(name))
			if len(below([]string{at}, slices.Concat(restartKeys, ownKeys))) > 0 {
				errs = append(errs, fmt.Errorf("%s: is of each gateway's own file, and can't be pushed", at))
			} else if section, ok := v.(map[string]any); ok && at != "defaults" {
				look(section, at)
			}
		}
	}
	look(values, "")
	if len(errs) == 0 { // before merging: a merge drops empty sections, misspelt ones too
		cfg := Default()
		return overlay(values, &cfg, "")
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
