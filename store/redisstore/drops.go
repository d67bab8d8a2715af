package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// drop says that the records below a floor were dropped. What is added for them afterwards lies under names with the
// drop's number, and so begins anew; what lay there before is never asked for again, and expires. No scan is needed.
type drop struct {
	floor  uint32 // a record
	number uint32 // of all drops in order
}

// drops are those that still tell something: a later one has a lower floor. Mostly there is one.
type drops []drop

// of returns the number of the last drop of a record; 0: it was never dropped.
func (d drops) of(record uint32) uint32 {
	number := uint32(0)
	for _, x := range d {
		if record < x.floor {
			number = x.number
		}
	}
	return number
}

func (d drops) last() uint32 {
	if len(d) == 0 {
		return 0
	}
	return d[len(d)-1].number
}

// parseDrops reads floor:number,floor:number,…
func parseDrops(text string) (drops, error) {
	var d drops
	for part := range strings.SplitSeq(text, ",") {
		floor, number, _ := strings.Cut(part, ":")
		f, err1 := strconv.ParseUint(floor, 10, 32)
		n, err2 := strconv.ParseUint(number, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("redis: %.80q is no list of drops", text)
		}
		d = append(d, drop{uint32(f), uint32(n)})
	}
	return d, nil
}

func (s *Store) dropsKey() string { return s.key(letterOwn, 0, []byte("drops")) }

// takeDrops takes what a server says of the drops of both units.
func (s *Store) takeDrops(r rueidis.RedisResult) error {
	m, err := r.AsStrMap()
	if err != nil {
		return err
	}
	for _, u := range []store.Unit{store.TenMinutes, store.Day} {
		if text := m[u.String()]; text != "" {
			d, err := parseDrops(text)
			if err != nil {
				return err
			}
			s.setDrops(u, d)
		}
	}
	return nil
}

// setDrops takes drops that are newer than those known.
func (s *Store) setDrops(u store.Unit, d drops) {
	for p := &s.drops[u]; ; {
		old := p.Load()
		if old != nil && old.last() >= d.last() || p.CompareAndSwap(old, &d) {
			return
		}
	}
}

// dropped returns the number of the last drop of a record; 0: it was never dropped.
func (s *Store) dropped(u store.Unit, record uint32) uint32 {
	if d := s.drops[u].Load(); d != nil {
		return d.of(record)
	}
	return 0
}
