package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"antirobot/store/pebblestore"
)

// Figures are the counts of a minute, an hour or a day, by name.
type Figures struct {
	At     time.Time          `json:"at"`
	Counts map[string]float64 `json:"counts"`
}

// step is a length of time, and the spaces of its figures: counts, and the most blocked.
type step struct {
	space, stopped byte
	long           time.Duration
}

var steps = map[string]step{
	"minute": {spaceMinute, spaceStoppedMinute, time.Minute},
	"hour":   {spaceHour, spaceStoppedHour, time.Hour},
	"day":    {spaceDay, spaceStoppedDay, day},
}

// stepOf returns the step of a name, if the range is not too long for it.
func stepOf(by string, from, to time.Time) (step, error) {
	s, ok := steps[by]
	if !ok {
		return s, fmt.Errorf("%q is none of minute, hour, day", by)
	}
	if n := to.Sub(from) / s.long; n > maxFigures || n < 0 {
		return s, fmt.Errorf("from and to are %d steps apart; at most %d are answered at once", n, maxFigures)
	}
	return s, nil
}

func figureKey(space byte, at time.Time) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(max(at.Unix(), 0))) //nolint:gosec // until the year 2106
}

// figure adds the counts since the last call to this minute, hour and day.
func (j *Journal) figure(at time.Time) {
	j.figures.Lock()
	defer j.figures.Unlock()
	grown, fresh := j.grown(), j.takeStopped()
	at = at.Add(-time.Second) // counts up to the full minute belong before it
	var puts [][2][]byte
	for by, s := range steps {
		start := at.Truncate(s.long)
		if len(grown) > 0 {
			puts = append(puts, changed(j, figureKey(s.space, start), func(sum map[string]float64) map[string]float64 {
				if sum == nil {
					return grown
				}
				for name, n := range grown {
					sum[name] += n
				}
				return sum
			}))
		}
		if len(fresh) > 0 {
			puts = append(puts, changed(j, figureKey(s.stopped, start), func(was Stopped) Stopped {
				sum := counted{}
				sum.add(was)
				sum.add(fresh)
				if by == "day" && j.cfg.Addresses == hashAddresses {
					delete(sum, "network") // it could identify a visitor
				}
				return sum.most(keptNames)
			}))
		}
	}
	if len(puts) == 0 {
		return
	}
	j.write(0, func(b *pebblestore.LogBatch) {
		for _, p := range puts {
			b.Put(p[0], p[1])
		}
	})
}

func (j *Journal) grown() map[string]float64 {
	if j.counts == nil {
		return nil
	}
	grown := map[string]float64{}
	now := j.counts()
	for name, n := range now {
		if d := n - j.last[name]; d > 0 && !math.IsInf(d, 0) {
			grown[name] = d
		}
	}
	j.last = now
	return grown
}

// changed returns a key and its changed JSON record; an unreadable one starts anew.
func changed[T any](j *Journal, key []byte, change func(T) T) [2][]byte {
	var v T
	if text, ok, err := j.db.Get(nil, key); err == nil && ok && json.Unmarshal(text, &v) != nil {
		v = *new(T)
	}
	text, err := json.Marshal(change(v))
	if err != nil {
		panic("BUG: figures do not encode: " + err.Error())
	}
	return [2][]byte{key, text}
}

const maxFigures = 2000

// Figures returns the non-empty figures between two times, the oldest first.
func (j *Journal) Figures(by string, from, to time.Time) ([]Figures, error) {
	s, err := stepOf(by, from, to)
	if err != nil {
		return nil, err
	}
	all := []Figures{}
	err = j.db.Scan(figureKey(s.space, from), figureKey(s.space, to.Add(time.Second)), false,
		func(key, val []byte) bool {
			f := Figures{At: time.Unix(int64(binary.BigEndian.Uint32(key[1:])), 0).UTC()}
			if json.Unmarshal(val, &f.Counts) == nil {
				all = append(all, f)
			}
			return true
		})
	return all, err
}

// Sums are figures added up.
type Sums struct {
	Requests   map[string]float64 // by verdict
	Total      float64
	Challenges map[string]float64 // shown, and by outcome: passed, failed and others
}

// Sum adds up the figures of requests and challenges.
func Sum(all []Figures) Sums {
	s := Sums{Requests: map[string]float64{}, Challenges: map[string]float64{}}
	for _, f := range all {
		for name, n := range f.Counts {
			of, rest, more := strings.Cut(name, "/")
			first, _, _ := strings.Cut(rest, "/")
			switch {
			case of == "shown":
				s.Challenges["shown"] += n
			case of == "answers" && more:
				s.Challenges[first] += n
			case of == "requests" && more:
				s.Requests[first] += n
				s.Total += n
			}
		}
	}
	return s
}
