package formula

import (
	"errors"
	"fmt"

	"antirobot/spelling"
)

// matchNames maps the features of a model to positions in names: by name if the model has names, otherwise by position.
// A feature that names lacks is -1, which is an error if a split uses it: see unknown.
func matchNames(features []string, count int, names []string) ([]int, error) {
	out := make([]int, count)
	if len(features) == 0 {
		if count != len(names) {
			return nil, fmt.Errorf("the file has no names for its %d features, and there are %d factors: train with feature names, or with exactly these factors in their order", count, len(names))
		}
		for i := range out {
			out[i] = i
		}
		return out, nil
	}
	if len(features) != count {
		return nil, fmt.Errorf("%d names of features for %d features", len(features), count)
	}
	at := make(map[string]int, len(names))
	for i, n := range names {
		at[n] = i
	}
	taken := map[string]bool{}
	for i, f := range features {
		if taken[f] {
			return nil, fmt.Errorf("two features have the name %q", f)
		}
		taken[f] = true
		if j, ok := at[f]; ok {
			out[i] = j
		} else {
			out[i] = -1
		}
	}
	return out, nil
}

// unknown collects the features that splits use and that are not factors.
type unknown struct {
	names []string
	seen  map[int]bool
	wants []string
}

func (u *unknown) add(feature int, features []string) {
	if u.seen == nil {
		u.seen = map[int]bool{}
	}
	if !u.seen[feature] {
		u.seen[feature] = true
		u.wants = append(u.wants, features[feature])
	}
}

func (u *unknown) err() error {
	var errs []error
	for _, w := range u.wants {
		errs = append(errs, noFactor(w, u.names))
	}
	return errors.Join(errs...)
}

// noFactor is the error for a name that no factor has.
func noFactor(name string, names []string) error {
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no factor %.60q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no factor %.60q", name)
}
