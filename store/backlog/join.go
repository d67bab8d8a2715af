package backlog

import (
	"time"

	"antirobot/store"
	"antirobot/store/pebblestore"
)

// joinUpdates is how many updates are read at most to make one batch of those that wait.
const joinUpdates = 1 << 16

// join makes one batch of the oldest and of those behind it, and puts it into their place on disk, under the number of the last: what
// waits was written by many small calls, and a store takes it faster in few large ones. It returns what is to be sent, and its size on
// disk.
func (c *Counters) join(oldest *store.Batch, size int64, at time.Time) (*store.Batch, int64) {
	joined := &store.Batch{Writer: oldest.Writer, Number: oldest.Number}
	sums := map[store.Delta]int{}
	joined.Uniques = append(joined.Uniques, oldest.Uniques...)
	sum(joined, sums, oldest.Adds)
	last, was := c.first, size
	for updates := len(oldest.Adds); last+1 < c.next && updates < joinUpdates; last++ {
		text, ok, err := c.disk.Get(nil, key(last+1))
		if err != nil || !ok {
			break
		}
		b, err := decode(text)
		if err != nil || !fits(joined, b) {
			break
		}
		joined.Number = b.Number
		joined.Uniques = append(joined.Uniques, b.Uniques...)
		sum(joined, sums, b.Adds)
		updates += len(b.Adds)
		was += int64(len(text))
	}
	if last == c.first {
		return oldest, size
	}
	text := encode(joined, at)
	err := c.disk.Write(func(w *pebblestore.LogBatch) {
		w.Forget(key(c.first), key(last))
		w.Put(key(last), text)
	})
	if err != nil { // the disk is full, perhaps: as they are, then
		return oldest, size
	}
	_ = c.disk.Sync()                           // or a crash of the machine could bring back the numbers that are joined; without it, what is sent is right all the same
	c.stats.batches.Add(-int64(last - c.first)) //nolint:gosec // a few thousand
	c.stats.bytes.Add(int64(len(text)) - was)
	c.first = last
	return joined, int64(len(text))
}

// fits reports whether b may go out together with what was before it. The uniques of a batch are counted before its updates, so uniques
// can't join behind updates, which may be of their pairs. The batches of an earlier process have a name of their own.
func fits(joined, b *store.Batch) bool {
	return b.Writer == joined.Writer && (len(b.Uniques) == 0 || len(joined.Adds) == 0) &&
		len(joined.Uniques)+len(joined.Adds)+len(b.Uniques)+len(b.Adds) <= batchItems
}

// sum adds updates to those of a batch. sums has the place of each counter and slot among them.
func sum(b *store.Batch, sums map[store.Delta]int, adds []store.Delta) {
	for _, d := range adds {
		k := d
		k.N = 0
		if i, ok := sums[k]; ok {
			b.Adds[i].N = store.AddCounts(b.Adds[i].N, d.N)
			continue
		}
		sums[k] = len(b.Adds)
		b.Adds = append(b.Adds, d)
	}
}
