package journal

import (
	"encoding/json"
	"strings"
	"time"

	"antirobot/verdict"
)

var stoppedBy = [...]string{"reason", "network", "agent"}

const (
	keptNames   = 50   // of a key, in a stored record
	minuteNames = 4096 // of a key, that are counted within a minute
	longestName = 200
	keptMinutes = 3 * time.Hour
)

// Stopped has the most frequent values of blocked requests by key (reason, network, agent), in order.
type Stopped map[string][]Count

func newStopped() (all [len(stoppedBy)]tops) {
	for i, by := range stoppedBy {
		name, err := nameBy(by)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		if by == "reason" {
			name = lastingReason
		}
		all[i] = tops{
			name:   func(r *row) []byte { n := name(r); return n[:min(len(n), longestName)] },
			counts: map[string]*Count{}, limit: minuteNames,
		}
	}
	return all
}

// lastingReason is an entry's reason, or only the list's name if the reason names addresses: figures are kept for long.
func lastingReason(r *row) []byte {
	list, entry, _ := strings.Cut(string(r.texts[colReason]), ": ")
	if named(entry) {
		return []byte(list)
	}
	return r.texts[colReason]
}

func (j *Journal) countStopped(batch []written) {
	j.figures.Lock()
	defer j.figures.Unlock()
	for i := range batch {
		r := &batch[i].row
		if r.kind > KindShown || r.followed() || r.verdict == verdict.Human {
			continue
		}
		for k := range j.stopped {
			j.stopped[k].count(r)
		}
	}
}

func (j *Journal) takeStopped() Stopped {
	fresh := Stopped{}
	for i, by := range stoppedBy {
		if len(j.stopped[i].counts) > 0 {
			fresh[by] = most(j.stopped[i].counts, keptNames)
			clear(j.stopped[i].counts)
		}
	}
	return fresh
}

type counted map[string]map[string]*Count

func (c counted) add(more Stopped) {
	for by, list := range more {
		if c[by] == nil {
			c[by] = make(map[string]*Count, len(list))
		}
		for _, n := range list {
			have := c[by][n.Name]
			if have == nil {
				have = &Count{Name: n.Name}
				c[by][n.Name] = have
			}
			have.Entries += n.Entries
			have.Weight += n.Weight
		}
	}
}

func (c counted) most(limit int) Stopped {
	all := Stopped{}
	for by, counts := range c {
		all[by] = most(counts, limit)
	}
	return all
}

// Stopped returns the most frequent values between two times, of those that were frequent within a minute. by is as for
// Figures.
func (j *Journal) Stopped(by string, from, to time.Time, limit int) (Stopped, error) {
	s, err := stepOf(by, from, to)
	if err != nil {
		return nil, err
	}
	sum := counted{}
	err = j.db.Scan(figureKey(s.stopped, from), figureKey(s.stopped, to.Add(time.Second)), false,
		func(_, val []byte) bool {
			var of Stopped
			if json.Unmarshal(val, &of) == nil {
				sum.add(of)
			}
			return true
		})
	return sum.most(limit), err
}
