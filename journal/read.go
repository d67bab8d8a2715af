package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

const maxScanned = 400_000

// Found is what a search found, the newest first.
type Found struct {
	Entries []Entry   `json:"items"`
	Next    string    `json:"next,omitempty"`
	Scanned int       `json:"scanned"`
	Reached time.Time `json:"reached,omitzero"` // how far back they go, if more may lie before
}

// Find returns the newest entries that a query selects. before is the position of an earlier answer, after that of an
// entry to follow from; both may be empty.
func (j *Journal) Find(ctx context.Context, q *Query, limit int, before, after string) (Found, error) {
	f := Found{Entries: []Entry{}}
	from, to := []byte{spaceEntry}, []byte{spaceEntry + 1}
	if !q.Since.IsZero() {
		from = timeKey(spaceEntry, q.Since)
	}
	if !q.Until.IsZero() {
		to = timeKey(spaceEntry, q.Until)
	}
	for _, p := range []struct {
		text string
		key  *[]byte
		end  byte
	}{{before, &to, 0}, {after, &from, 0xff}} {
		if p.text == "" {
			continue
		}
		id, ok := request.ParseID(p.text)
		if !ok {
			return f, fmt.Errorf("%q is no position in the journal", p.text)
		}
		*p.key = append(append([]byte{spaceEntry}, id[:]...), p.end)
	}
	if bytes.Compare(from, to) >= 0 {
		return f, nil
	}
	var r row
	err := j.db.Scan(from, to, true, func(key, val []byte) bool {
		if f.Scanned == maxScanned || f.Scanned%4096 == 0 && ctx.Err() != nil || len(f.Entries) == limit {
			f.Reached = r.at()
			f.Next = r.id.String()
			return false
		}
		f.Scanned++
		if r.read(key, val) == nil && q.matches(&r) {
			f.Entries = append(f.Entries, r.entry())
		}
		return true
	})
	return f, err
}

// Told is the story of a request, and its entries.
type Told struct {
	Story   *verdict.Story
	Entries []Entry
}

// Get returns the entries of an ID; false if there are none.
func (j *Journal) Get(id request.ID) (t Told, ok bool, err error) {
	var r row
	err = j.db.Scan(entryKey(spaceEntry, id, 0), entryKey(spaceEntry, id, 0xff), false, func(key, val []byte) bool {
		if r.read(key, val) == nil {
			t.Entries = append(t.Entries, r.entry())
		}
		return true
	})
	if err != nil || len(t.Entries) == 0 {
		return t, false, err
	}
	for k := KindRequest; k <= KindAbandoned; k++ {
		text, found, err := j.db.Get(nil, entryKey(spaceDetails, id, k))
		if err != nil {
			return t, true, err
		}
		if found {
			s := new(verdict.Story)
			if err := json.Unmarshal(text, s); err != nil {
				return t, true, fmt.Errorf("%w: %w", errRow, err)
			}
			t.Story = s
			break
		}
	}
	return t, true, nil
}

// Subject returns the entries of a subject, the newest first, at most limit.
func (j *Journal) Subject(subject string, limit int) ([]Entry, error) {
	found := []Entry{}
	err := j.ofSubject(subject, limit, func(r *row) {
		found = append(found, r.entry())
	})
	return found, err
}

func (j *Journal) ofSubject(subject string, limit int, f func(r *row)) error {
	now := j.now()
	for d, first := dayOf(now), dayOf(now.Add(-j.cfg.MaxAge)); d >= first && limit > 0; d-- {
		prefix := subjectKey(d, subject)
		var keys [][]byte
		err := j.db.Scan(prefix, append(slices.Clone(prefix), bytes.Repeat([]byte{0xff}, 18)...), true,
			func(key, _ []byte) bool {
				keys = append(keys, append([]byte{spaceEntry}, key[len(prefix):]...))
				return len(keys) < limit
			})
		if err != nil {
			return err
		}
		for _, key := range keys {
			val, ok, err := j.db.Get(nil, key)
			if err != nil {
				return err
			}
			var r row
			if ok && r.read(key, val) == nil {
				f(&r)
				limit--
			}
		}
		if d == 0 {
			break
		}
	}
	return nil
}

// Count is how often a value occurs.
type Count struct {
	Name    string  `json:"name"`
	Entries int     `json:"entries"`
	Weight  float64 `json:"requests"` // requests that the entries stand for
}

const maxNames = 50_000

// Top returns the most frequent values of keys (subject, ip, network, path, agent, cause, service, reason) among the
// newest selected entries, in one pass. Captcha pages only count if the query names kinds: the request that led there
// counts.
func (j *Journal) Top(ctx context.Context, q *Query, by []string, limit int) ([][]Count, error) {
	keys := make([]tops, len(by))
	for i := range by {
		name, err := nameBy(by[i])
		if err != nil {
			return nil, err
		}
		keys[i] = tops{name: name, counts: map[string]*Count{}, limit: maxNames}
	}
	var r row
	n := 0
	err := j.db.Scan(timeKey(spaceEntry, q.Since), []byte{spaceEntry + 1}, true, func(key, val []byte) bool {
		if n++; n > maxScanned || n%4096 == 0 && ctx.Err() != nil {
			return false
		}
		if r.read(key, val) != nil || r.kind > KindShown || r.followed() && !q.kinds || !q.matches(&r) {
			return true
		}
		for i := range keys {
			keys[i].count(&r)
		}
		return true
	})
	all := make([][]Count, len(keys))
	for i := range keys {
		all[i] = most(keys[i].counts, limit)
	}
	return all, err
}

type tops struct {
	name   func(r *row) []byte
	counts map[string]*Count
	limit  int
}

func (t *tops) count(r *row) {
	v := t.name(r)
	c := t.counts[string(v)]
	if c == nil {
		if len(v) == 0 || len(t.counts) == t.limit {
			return
		}
		c = &Count{Name: string(v)}
		t.counts[c.Name] = c
	}
	c.Entries++
	c.Weight += 1 / max(float64(r.share), 1e-6)
}

func most(counts map[string]*Count, limit int) []Count {
	all := make([]Count, 0, len(counts))
	for _, c := range counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		switch {
		case a.Weight > b.Weight:
			return -1
		case a.Weight < b.Weight:
			return 1
		}
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	return all[:min(len(all), limit)]
}

func nameBy(by string) (func(r *row) []byte, error) {
	switch by {
	case "ip":
		return func(r *row) []byte { return r.texts[colAddress] }, nil
	case "network":
		return func(r *row) []byte { return []byte(shortened(string(r.texts[colAddress]))) }, nil
	case "cause":
		return func(r *row) []byte { return []byte(r.cause.String()) }, nil
	case "subject", "path", "agent", "service", "reason", "ja4":
		column := columnOf[by]
		return func(r *row) []byte { return r.texts[column] }, nil
	}
	return nil, fmt.Errorf("%q is none of subject, ip, network, path, agent, cause, service, reason, ja4", by)
}
