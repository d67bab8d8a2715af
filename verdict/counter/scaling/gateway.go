package scaling

import "math/rand/v2"

// drawn is what one gateway did in some flush intervals, after its cache was filled.
type drawn struct {
	sums, misses [][]float64 // by interval and shard: to the nodes

	updates, written, lost float64 // updates, sums of them, and updates that the buffer had no room for
	reads, missed          float64
	buffered               int // sums, the most at once
	draws                  int // with those of filling the cache
}

// readCache holds records that were read, for a time, and the latest ones if there are too many.
type readCache struct {
	since map[uint64]float64
	order []cached // a ring: the oldest is at next once it is full
	next  int
	limit int
	ttl   float64
}

type cached struct {
	key   uint64
	since float64
}

// read reports whether a record is in the cache at a time in seconds, and puts it there if not.
func (c *readCache) read(key uint64, at float64) bool {
	since, ok := c.since[key]
	if ok && (c.ttl == 0 || at-since < c.ttl) {
		return true
	}
	if c.limit == 0 {
		return false
	}
	if len(c.order) < c.limit {
		c.order = append(c.order, cached{key, at})
	} else {
		if old := c.order[c.next]; c.since[old.key] == old.since {
			delete(c.since, old.key)
		}
		c.order[c.next] = cached{key, at}
		c.next = (c.next + 1) % c.limit
	}
	c.since[key] = at
	return false
}

// drawGateway simulates one gateway.
func drawGateway(c *Config) *drawn {
	k := &keys{c.Keys, c.Pool, rand.New(rand.NewPCG(c.Seed, 0))}
	limit := int(float64(c.CacheBytes) / c.Node.CachedBytes)
	cache := &readCache{since: map[uint64]float64{}, limit: limit, ttl: c.CacheTTL.Seconds()}
	updates, length := int(c.updates()), c.FlushEvery.Seconds()
	reads := int(float64(updates) * c.Reads)
	d := &drawn{}
	buffer := map[uint64]struct{}{}
	warm := c.warmUp()
	for i := range warm + c.Sample {
		d.draws += reads
		misses := make([]float64, c.Shards)
		before := d.missed
		for j := range reads {
			key := k.draw()
			if !cache.read(key, (float64(i)+float64(j)/float64(reads))*length) {
				misses[shard(key, c.Shards)]++
				d.missed++
			}
		}
		if i < warm { // sums do not depend on what was before
			d.missed = before
			continue
		}
		d.reads += float64(reads)
		d.misses = append(d.misses, misses)
		d.sum(k, buffer, updates, c)
	}
	return d
}

// sum draws the updates of a flush interval, and flushes them.
func (d *drawn) sum(k *keys, buffer map[uint64]struct{}, updates int, c *Config) {
	clear(buffer)
	sums := make([]float64, c.Shards)
	for range updates {
		key := k.draw()
		if _, ok := buffer[key]; ok {
			continue
		}
		if len(buffer) == c.MaxBuffered {
			d.lost++
			continue
		}
		buffer[key] = struct{}{}
		sums[shard(key, c.Shards)]++
	}
	d.draws += updates
	d.updates += float64(updates)
	d.written += float64(len(buffer))
	d.buffered = max(d.buffered, len(buffer))
	d.sums = append(d.sums, sums)
}
