package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed testdata/timed.txt
var timedText string

// timedVisit is how long a person has to be away for the next page to begin another visit, with a page from outside.
const timedVisit = 30 * time.Minute

// timedSorts are the people of each source. The tapes are read once.
var timedSorts = sync.OnceValue(func() []sort {
	var list []sort
	for _, source := range []string{"encyclopedia", "customers", "members"} {
		tapes := tapesOf(source)
		list = append(list, sort{source, len(tapes), timed(tapes)})
	}
	return list
})

func (w *world) addTimed() { w.addSorts(Timed, timedSorts()) }

// tape is when a person opened pages.
type tape []moment

type moment struct {
	after time.Duration // the one before, or for the first one the first midnight
	page  int           // its number among those of this person, from 1; 0: not known
}

// timed plays one of the tapes.
func timed(list []tape) func(w *world, c *client) {
	return func(w *world, c *client) {
		w.guest(c)
		c.cookies = true
		t, n := list[c.number%len(list)], 0
		seen := map[int]string{}
		due := w.cfg.Begin.Add(-w.cfg.WarmUp).Truncate(24 * time.Hour)
		c.at = due.Add(t[0].after)
		c.act = func(w *world, c *client) {
			if n == len(t) {
				c.gone = true
				return
			}
			due = due.Add(t[n].after)
			from := c.page
			if n == 0 || t[n].after > timedVisit {
				from = ""
			}
			w.openTimed(c, seen[t[n].page], from, max(due.Sub(c.at), 0))
			if number := t[n].page; number > 0 {
				seen[number] = c.page
			}
			n++
		}
	}
}

// openTimed opens a page that the client has seen, or else one to which the page before leads; without one, a page by
// which people come in.
func (w *world) openTimed(c *client, page, from string, after time.Duration) {
	ref := "https://" + w.cfg.Host + from
	if from == "" {
		ref = [...]string{"", "https://www.google.com/", "https://news.example/"}[c.rng.IntN(3)]
	}
	switch {
	case page != "":
	case from == "":
		page = w.place.entrance(c.rng)
	default:
		page = c.pick(w, from)
	}
	c.open(w, page, ref, after)
}

// tapesOf reads those of a source; testdata/timed.txt describes what its lines are.
func tapesOf(source string) []tape {
	_, text, _ := strings.Cut(timedText, "\n["+source+"]\n")
	text, _, _ = strings.Cut(text, "\n\n")
	var list []tape
	for line := range strings.Lines(text) {
		t, err := parseTape(line)
		if err != nil {
			panic("BUG: testdata/timed.txt: " + err.Error())
		}
		list = append(list, t)
	}
	return slices.Clip(list)
}

func parseTape(line string) (tape, error) {
	var t tape
	for f := range strings.FieldsSeq(line) {
		gap, page, known := strings.Cut(f, "/")
		s, err := strconv.ParseFloat(gap, 64)
		if err != nil || s < 0 {
			return nil, fmt.Errorf("%q is not a time", gap)
		}
		m := moment{after: seconds(s)}
		if known {
			if m.page, err = strconv.Atoi(page); err != nil || m.page < 1 {
				return nil, fmt.Errorf("%q is not the number of a page", page)
			}
		}
		t = append(t, m)
	}
	if len(t) == 0 {
		return nil, errors.New("a line is empty")
	}
	return t, nil
}
