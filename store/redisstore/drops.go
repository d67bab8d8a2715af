package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// drop is a drop of the records below a floor. Later additions go to names with the drop's number, and so start from
// zero; the old records expire unread.
type drop struct {
	floor  uint32 // a record number
	number uint32 // counts all drops in order
}

// drops are those in force: a later one needs a lower floor. Usually there is one.
type drops []drop

// of returns the number of a record's last drop; 0: none.
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

func parseDrops(text string) (drops, error) {
	var d drops
	for part := range strings.SplitSeq(text, ",") {
		floor, number, _ := strings.Cut(part, ":")
		f, err1 := strconv.ParseUint(floor, 10, 32)
		n, err2 := strconv.ParseUint(number, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("redis: %.80q is not a list of drops", text)
		}
		d = append(d, drop{uint32(f), uint32(n)})
	}
	return d, nil
}

func (s *monitor) takeDrops(r rueidis.RedisResult) error {
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

func (s *monitor) setDrops(u store.Unit, d drops) {
	for p := &s.drops[u]; ; {
		old := p.Load()
		if old != nil && old.last() >= d.last() || p.CompareAndSwap(old, &d) {
			return
		}
	}
}

// dropped returns the number of a record's last drop; 0: none.
func (s *monitor) dropped(u store.Unit, record uint32) uint32 {
	if d := s.drops[u].Load(); d != nil {
		return d.of(record)
	}
	return 0
}

// Drop implements store.Records. Counts that a query may ask for now stay, by the servers' clock, so that a gateway
// whose clock is ahead deletes nothing. Other gateways learn of the drop with their next probe; until then their
// additions to dropped records are lost.
func (c *Counters) Drop(ctx context.Context, before store.Period) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	now, err := c.s.hello(ctx)
	if err != nil {
		return err
	}
	present := before.Unit.Number(now)
	record := min(before.Number, present-min(present, before.Unit.Kept()-1)) / before.Unit.PerRecord()
	if record == 0 {
		return nil
	}
	m, err := c.s.run(ctx, false, c.s.scripts.drop, []string{c.s.own("drops")}, before.Unit.String(),
		decimal(int64(record)))
	if err != nil {
		return err
	}
	text, err := m.ToString()
	if err != nil {
		return c.s.failed(err)
	}
	d, err := parseDrops(text)
	if err != nil {
		return err
	}
	c.s.setDrops(before.Unit, d)
	return nil
}
