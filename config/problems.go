package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"antirobot/problem"
	"antirobot/verdict/words"
)

// Error is a configuration that can't be used, with everything that is wrong in it.
type Error struct {
	File     string
	Problems []string
}

// maxProblems is how many problems are printed; a file with more has one that repeats.
const maxProblems = 100

func (e *Error) Error() string {
	shown, more := e.Problems, ""
	if n := len(shown) - maxProblems; n > 0 {
		shown, more = shown[:maxProblems], fmt.Sprintf("\n  … and %d more", n)
	}
	return fmt.Sprintf("%s: %s\n  %s%s", e.File, words.Sprintf(words.English, "%d {problem|problems}", len(e.Problems)),
		strings.Join(shown, "\n  "), more)
}

// Unwrap returns an error for each problem.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = errors.New(p)
	}
	return errs
}

// credentials are what comes before the host of a URL.
var credentials = regexp.MustCompile(`://[^"]*@`)

// redacted returns problems without the passwords in URLs, and without a parser's remarks about parts of them.
func redacted(problems []string) []string {
	out := make([]string, len(problems))
	for i, p := range problems {
		out[i] = p
		if hidden := credentials.ReplaceAllString(p, "://…@"); hidden != p {
			out[i], _, _ = strings.Cut(hidden, ": parse ")
		}
	}
	return out
}

// without returns the problems of err that are not among known.
func without(err error, known []string) []string {
	return slices.DeleteFunc(problem.Lines(err), func(p string) bool { return slices.Contains(known, p) })
}

// withoutBelow returns the problems that do not concern the same keys as known: what can't be read can't be valid.
func withoutBelow(problems, known []string) []string {
	return slices.DeleteFunc(problems, func(p string) bool {
		path := pathOf(p)
		return slices.ContainsFunc(known, func(k string) bool {
			rest, below := strings.CutPrefix(path, pathOf(k))
			return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	})
}

func pathOf(problem string) string {
	path, _, _ := strings.Cut(problem, ": ")
	return path
}

func oneOfEach(problems []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range problems {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// inOrder puts behind each problem the variable or the flag that its value comes from, or the line of the file, and
// sorts by that.
func (d *document) inOrder(problems []string, origins []Origin) []string {
	type placed struct {
		text string
		line int
	}
	var all []placed
	for _, p := range oneOfEach(problems) {
		line := 0
		if by := originOf(pathOf(p), origins); by != "" {
			p += " (" + by + ")"
		} else if line = d.line(pathOf(p)); line > 0 {
			p = fmt.Sprintf("%s (line %d)", p, line)
		}
		all = append(all, placed{p, line})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.line - b.line })
	var out []string
	for _, p := range all {
		out = append(out, p.text)
	}
	return out
}

// originOf returns the origin of the key at a path or of a section around it; "" for the file.
func originOf(path string, origins []Origin) string {
	for _, o := range origins {
		if rest, below := strings.CutPrefix(path, o.Key); below && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return o.By
		}
	}
	return ""
}

// problemsAt joins problems, each behind path.
func problemsAt(path string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return problem.At(path, errors.New(strings.Join(problems, "\n")))
}
