package templates

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// A wait is told in whole seconds or, from two minutes on, in whole minutes, in the plural forms of the language
// (CLDR).

// waitKey is the start of the keys of these texts: limited_wait_seconds_one, limited_wait_minutes_other.
const waitKey = "limited_wait_"

const (
	waitSeconds = "seconds"
	waitMinutes = "minutes"
)

var formNames = map[plural.Form]string{
	plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many",
	plural.Other: "other",
}

// longestWait bounds the numbers that pages tell; a longer wait is told as this one.
const longestWait = 24 * time.Hour

// waits are the texts of one language, by unit and form.
type waits struct {
	tag   language.Tag
	texts map[string]string
}

// waits takes the texts of waits. A form that the language needs and that is not there is the one called other; if that
// is not there either, it is missing.
func (f *filler) waits() waits {
	w := waits{tag: language.Make(f.c.tag), texts: map[string]string{}}
	var forms []string
	for n := 1; n <= int(longestWait/time.Minute); n++ {
		if name := w.form(n); !slices.Contains(forms, name) {
			forms = append(forms, name)
		}
	}
	for _, unit := range [...]string{waitSeconds, waitMinutes} {
		for _, form := range forms {
			key := waitKey + unit + "_" + form
			text, ok := f.c.texts[key]
			if !ok {
				if text, ok = f.c.texts[waitKey+unit+"_other"]; !ok {
					f.missing[key] = true
				}
			}
			w.texts[unit+"_"+form] = text
		}
	}
	return w
}

func (w *waits) form(n int) string {
	return formNames[plural.Cardinal.MatchPlural(w.tag, n, 0, 0, 0, 0)]
}

func (w *waits) text(wait time.Duration) string {
	wait = min(wait, longestWait)
	unit, n := waitSeconds, wholeSeconds(wait)
	if wait >= 2*time.Minute {
		unit, n = waitMinutes, int((wait+time.Minute-1)/time.Minute)
	}
	return strings.ReplaceAll(w.texts[unit+"_"+w.form(n)], "{n}", strconv.Itoa(n))
}

func wholeSeconds(wait time.Duration) int { return int((wait + time.Second - 1) / time.Second) }

// checkWait checks a text of a wait, which may contain {n} and nothing else in braces.
func checkWait(text string) error {
	if rest := strings.ReplaceAll(text, "{n}", ""); strings.ContainsAny(rest, "{}") || strings.TrimSpace(rest) == "" {
		return fmt.Errorf("%q: {n} stands for the number, and there is no other placeholder", text)
	}
	return nil
}

// knownWait reports whether a key names a unit and a form.
func knownWait(key string) bool {
	unit, form, _ := strings.Cut(strings.TrimPrefix(key, waitKey), "_")
	for _, name := range formNames {
		if form == name {
			return unit == waitSeconds || unit == waitMinutes
		}
	}
	return false
}
