package pebblestore

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

type stats struct {
	reads, scans, writes, groups, errors, swept, revived atomic.Int64
}

// Metrics are numbers for an operator; all but the sizes only grow.
type Metrics struct {
	DiskBytes   int64 // tables and logs
	CacheBytes  int64
	CacheHits   int64
	CacheMisses int64
	MemBytes    int64 // recent writes held in memory
	Reads       int64 // Get
	Scans       int64
	Writes      int64 // all other calls that write
	Commits     int64 // that writes shared: Writes/Commits is how many shared one
	Errors      int64 // calls that failed, but for a context or Close
	Swept       int64 // expired entries that were removed
	Revived     int64 // times the engine failed and was opened again
}

// Metrics returns the present numbers; after Close, without sizes.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Reads: s.stats.reads.Load(), Scans: s.stats.scans.Load(), Writes: s.stats.writes.Load(),
		Commits: s.stats.groups.Load(), Errors: s.stats.errors.Load(), Swept: s.stats.swept.Load(),
		Revived: s.stats.revived.Load(),
	}
	_ = s.view(func(db *pebble.DB) error { // closed: no sizes
		p := db.Metrics()
		m.DiskBytes = int64(p.DiskSpaceUsage())
		m.CacheBytes, m.CacheHits, m.CacheMisses = p.BlockCache.Size, p.BlockCache.Hits, p.BlockCache.Misses
		m.MemBytes = int64(p.MemTable.Size)
		return nil
	})
	return m
}
