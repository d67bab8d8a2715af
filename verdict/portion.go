package verdict

import (
	"encoding/binary"
	"time"
)

// What a spent pass stands in for on a day follows the site: it is what nearly all of its people read in one, within the bounds of
// the configuration. The slow half says what that is, whenever it has changed.

// portionLife is how long a figure holds unless there is another: over a week in which the site's people are away.
const portionLife = 8 * 24 * time.Hour

// Portion records how many documents nearly all of the people of a group of services read in a day.
func (c *Cacher) Portion(group, docs uint32, at time.Time) {
	until := at.Add(portionLife)
	c.portions.Put(group, until, docs)
	if c.said.tells() {
		c.said.tell(saidPortion, c.appendPortion(nil, group, docs, until))
	}
}

// dailyOf returns how many documents a day a pass stands in for that is worth as much as any.
func (c *Cacher) dailyOf(group uint32, at time.Time) int {
	t := &c.cfg.Pass
	if t.Daily == 0 || t.DailyMost <= t.Daily || c.portions.Len() == 0 {
		return t.Daily
	}
	docs, _, _ := c.portions.Find(group, at.UnixNano())
	return max(t.Daily, min(int(docs), t.DailyMost))
}

// appendPortion appends a group, until when the figure holds (unix milliseconds), and the documents.
func (c *Cacher) appendPortion(dst []byte, group, docs uint32, until time.Time) []byte {
	dst = binary.BigEndian.AppendUint32(dst, group)
	dst = binary.BigEndian.AppendUint64(dst, uint64(until.Add(c.skewNow()).UnixMilli())) //nolint:gosec // after 1970
	return binary.BigEndian.AppendUint32(dst, docs)
}

func (c *Cacher) heardPortion(b []byte) bool {
	if len(b) != 4+8+4 {
		return false
	}
	if until := c.heardTime(b[4:]); until.After(c.now()) {
		c.portions.Put(binary.BigEndian.Uint32(b), until, binary.BigEndian.Uint32(b[12:]))
	}
	return true
}
