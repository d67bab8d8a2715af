package pebblestore

import "sync/atomic"

// stats counts what a store does.
type stats struct {
	writes  atomic.Int64 // writing calls
	groups  atomic.Int64 // commits that these calls shared
	errors  atomic.Int64 // calls that failed, except because of a context or Close
	swept   atomic.Int64 // expired entries that were removed
	revived atomic.Int64 // times the engine failed and was reopened
}
