package behind

import (
	"context"
	"sync"
	"sync/atomic"
)

const restoreWriters = 16

// Restore calls write with each key, and returns how many it wrote. It stops at the first error: the next scan finds
// the rest.
func Restore[K any](
	ctx context.Context, keys []K, write func(context.Context, K) (bool, error),
) (wrote int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, n atomic.Int64
	var wg sync.WaitGroup
	for range min(restoreWriters, len(keys)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				did, err := write(ctx, keys[i])
				if err != nil {
					cancel(err)
					return
				}
				if did {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return n.Load(), context.Cause(ctx)
}
