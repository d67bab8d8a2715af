package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"antirobot/store/pebblestore"
)

// Figures is what happened within a minute, an hour or a day: by name, how much each count grew.
type Figures struct {
	At     time.Time          `json:"at"` // the beginning
	Counts map[string]float64 `json:"counts"`
}

// step is a length of time of which figures are kept.
type step struct {
	space byte
	long  time.Duration
}

var steps = map[string]step{
	"minute": {spaceMinute, time.Minute}, "hour": {spaceHour, time.Hour}, "day": {spaceDay, day},
}

func figureKey(space byte, at time.Time) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(max(at.Unix(), 0))) //nolint:gosec // until the year 2106
}

// figure adds what has been counted since the last time to the figures of this minute, hour and day.
func (j *Journal) figure(at time.Time) {
	if j.counts == nil {
		return
	}
	j.figures.Lock()
	defer j.figures.Unlock()
	grown := map[string]float64{}
	now := j.counts()
	for name, n := range now {
		if d := n - j.last[name]; d > 0 && !math.IsInf(d, 0) {
			grown[name] = d
		}
	}
	j.last = now
	if len(grown) == 0 {
		return
	}
	at = at.Add(-time.Second) // what was counted until the full minute belongs before it
	var puts [][2][]byte
	for _, s := range steps {
		key := figureKey(s.space, at.Truncate(s.long))
		sum := map[string]float64{}
		if text, ok, err := j.db.Get(nil, key); err == nil && ok {
			_ = json.Unmarshal(text, &sum) // what can't be read begins anew
		}
		for name, n := range grown {
			sum[name] += n
		}
		text, err := json.Marshal(sum)
		if err != nil {
			panic("BUG: figures do not encode: " + err.Error())
		}
		puts = append(puts, [2][]byte{key, text})
	}
	j.write(0, func(b *pebblestore.LogBatch) {
		for _, p := range puts {
			b.Put(p[0], p[1])
		}
	})
}

// maxFigures bounds how many figures one call returns.
const maxFigures = 2000

// Figures returns the figures of minutes, hours or days between two times, the oldest first; those in which nothing happened
// are left out.
func (j *Journal) Figures(by string, from, to time.Time) ([]Figures, error) {
	s, ok := steps[by]
	if !ok {
		return nil, fmt.Errorf("%q is none of minute, hour, day", by)
	}
	if n := to.Sub(from) / s.long; n > maxFigures || n < 0 {
		return nil, fmt.Errorf("from and to are %d steps apart; at most %d are answered at once", n, maxFigures)
	}
	all := []Figures{}
	err := j.db.Scan(figureKey(s.space, from), figureKey(s.space, to.Add(time.Second)), false, func(key, val []byte) bool {
		f := Figures{At: time.Unix(int64(binary.BigEndian.Uint32(key[1:])), 0).UTC()}
		if json.Unmarshal(val, &f.Counts) == nil {
			all = append(all, f)
		}
		return true
	})
	return all, err
}
