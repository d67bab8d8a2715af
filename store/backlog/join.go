package backlog

import (
	"time"

	"antirobot/store"
	"antirobot/store/pebblestore"
)

// joinUpdates bounds the updates that are read to join batches.
const joinUpdates = 1 << 16

// join replaces the oldest waiting batches on disk by one, under the number of the last: a store takes few large
// batches faster. It returns that batch and its size.
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
	// Without a sync a crash could bring back joined numbers; the batch is right all the same.
	_ = c.disk.Sync()
	c.stats.batches.Add(-int64(last - c.first)) //nolint:gosec // a few thousand
	c.stats.bytes.Add(int64(len(text)) - was)
	c.first = last
	return joined, int64(len(text))
}

// fits reports whether b can join. A batch's uniques count before its updates, which may be of their pairs, so uniques
// can't join behind updates. An earlier process has another writer.
func fits(joined, b *store.Batch) bool {
	return b.Writer == joined.Writer && (len(b.Uniques) == 0 || len(joined.Adds) == 0) &&
		len(joined.Uniques)+len(joined.Adds)+len(b.Uniques)+len(b.Adds) <= batchItems
}

// sum adds updates to a batch. sums has the index of each counter and slot.
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
