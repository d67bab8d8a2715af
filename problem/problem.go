// Package problem formats configuration errors. A problem is a line such as
//
//	services[0].hosts[1]: "x y" is not a host
//
// A section names its own keys; the holder of the section prefixes its path.
package problem

import (
	"errors"
	"strings"
)

// Lines returns one line for each problem in err.
func Lines(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, e := range joined.Unwrap() {
			lines = append(lines, Lines(e)...)
		}
		return lines
	}
	return strings.Split(err.Error(), "\n")
}

// At puts path before each problem of err.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	for _, line := range Lines(err) {
		errs = append(errs, errors.New(Below(path, strings.TrimSpace(line))))
	}
	return errors.Join(errs...)
}

// Below joins path and rest: a key, an index in brackets, or a problem that begins with one.
func Below(path, rest string) string {
	switch {
	case path == "":
		return rest
	case rest == "" || strings.HasPrefix(rest, "["):
		return path + rest
	}
	return path + "." + rest
}
