package redisstore

import "context"

// Reap cleans the indexes, as the sweep does bucket by bucket.
func (s *Store) Reap(ctx context.Context) error {
	for b := range uint64(kvBuckets) {
		if err := s.reap(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
