package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"antirobot/store"
)

// flushChunk is how many sums go into one write, for which readers of the shard wait.
const flushChunk = 1024

const (
	// flushEvery is how long an update may wait in memory: a crash loses that much.
	flushEvery   = 5 * time.Second
	storeTimeout = 5 * time.Second
	cacheTTL     = 10 * time.Second
	dropEvery    = time.Hour
)

// run flushes one shard after another, in a random order each round, so that gateways spread their writes over a shared
// store. A shard that fills up comes earlier.
func (s *Shingler) run(ctx context.Context) {
	tick := time.NewTicker(max(s.flushEvery/shards, time.Millisecond))
	defer tick.Stop()
	drop := time.NewTicker(dropEvery)
	defer drop.Stop()
	work := context.WithoutCancel(ctx) // Close waits: cutting it short would lose updates
	s.tell("drop", s.retain(work))
	var round []int
	for {
		select {
		case <-ctx.Done():
			return
		case i := <-s.kick:
			s.tell("flush", s.flushShard(work, i))
		case <-tick.C:
			if len(round) == 0 {
				round = rand.Perm(shards)
			}
			s.tell("flush", s.flushShard(work, round[0]))
			round = round[1:]
		case <-drop.C:
			s.tell("drop", s.retain(work))
		}
	}
}

func (s *Shingler) tell(what string, err error) {
	if err != nil {
		s.log.Warn().Err(err).Msg("counter: " + what)
	}
}

// Flush writes the whole buffer. Sums whose write failed are lost, and counted.
func (s *Shingler) Flush(ctx context.Context) error {
	var errs []error
	for _, i := range rand.Perm(shards) {
		errs = append(errs, s.flushShard(ctx, i))
	}
	return errors.Join(errs...)
}

// flushShard writes a shard's updates, unless the store is unhealthy: then they stay in the buffer.
func (s *Shingler) flushShard(ctx context.Context, i int) error {
	if err := s.flushNow(ctx, i); !errors.Is(err, errPostponed) {
		return err
	}
	return nil
}

var errPostponed = errors.New("counter: the store is unhealthy, updates wait")

func (s *Shingler) flushNow(ctx context.Context, i int) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	sh := &s.shards[i]
	if h, ok := s.backend.(healthy); ok {
		if err := h.Healthy(); err != nil {
			s.stats.postponed.Add(1)
			return fmt.Errorf("%w: %w", errPostponed, err)
		}
	}
	sh.mu.Lock()
	if len(sh.active.entries) == 0 {
		sh.mu.Unlock()
		return nil
	}
	sh.active, sh.flushing = sh.flushing, sh.active // flushing was emptied by the last flush
	t := sh.flushing
	sh.mu.Unlock()

	s.sort(t)
	var errs []error
	for chunk := range slices.Chunk(s.order, flushChunk) {
		errs = append(errs, s.commit(ctx, sh, t, chunk))
	}
	sh.mu.Lock()
	t.clear()
	sh.mu.Unlock()
	return errors.Join(errs...)
}

// sort sets s.order to the entries of t in the order of the store's keys, which are cheaper to write. Only commit
// changes t meanwhile, and not these fields.
func (s *Shingler) sort(t *table) {
	s.order = s.order[:0]
	for i := range t.entries {
		s.order = append(s.order, int32(i))
	}
	slices.SortFunc(s.order, func(i, j int32) int {
		a, b := &t.entries[i], &t.entries[j]
		return cmp.Or(
			cmp.Compare(a.slot/store.SlotsPerDay, b.slot/store.SlotsPerDay), cmp.Compare(a.name.prefix, b.name.prefix),
			cmp.Compare(a.name.typ, b.name.typ), cmp.Compare(a.name.shingle, b.name.shingle), cmp.Compare(a.slot,
				b.slot),
		)
	})
}

// commit writes some entries of a table, and moves them from the buffer into the cache.
func (s *Shingler) commit(ctx context.Context, sh *shard, t *table, chunk []int32) error {
	s.deltas = s.deltas[:0]
	for _, i := range chunk {
		e := &t.entries[i]
		s.deltas = append(s.deltas, store.Delta{Counter: s.prefixes.counter(e.name), Slot: e.slot, N: e.n})
	}
	sh.commit.Lock()
	defer sh.commit.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := s.backend.Add(ctx, s.deltas)
	s.stats.flushes.Add(1)
	if err != nil {
		s.stats.lostFlush.Add(uint64(len(chunk)))
		sh.lost.Add(1)
		err = fmt.Errorf("counter: flush %d sums: %w", len(chunk), err)
	} else {
		s.stats.flushed.Add(uint64(len(chunk)))
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var room [recordKeyLen]byte
	for _, i := range chunk {
		e := &t.entries[i]
		day := e.slot / store.SlotsPerDay
		fine := recordKey(&room, store.TenMinutes, day, e.name)
		if err == nil {
			s.cache.add(fine, uint8(e.slot%store.SlotsPerDay), e.n)
		} else {
			s.cache.c.Del(fine) // some of it may have been counted
		}
		daily := recordKey(&room, store.Day, day/store.DaysPerFortnight, e.name)
		if err == nil {
			s.cache.add(daily, uint8(day%store.DaysPerFortnight), e.n)
		} else {
			s.cache.c.Del(daily)
		}
		e.n = 0
	}
	return err
}

// retain drops counts older than 24 hours and two weeks, in whole records.
func (s *Shingler) retain(ctx context.Context) error {
	now := s.now()
	slot, day := store.TenMinutes.Number(now), store.Day.Number(now)
	return errors.Join(
		s.drop(ctx, store.Period{Unit: store.TenMinutes, Number: slot - min(slot, store.SlotsPerDay)}),
		s.drop(ctx, store.Period{Unit: store.Day, Number: day - min(day, store.DaysPerFortnight)}),
	)
}

// drop flushes the buffer, and drops counts as store.Records.Drop does.
func (s *Shingler) drop(ctx context.Context, before store.Period) error {
	flushErr := s.Flush(ctx)
	floor := &s.floors[before.Unit]
	for record := before.Number / before.Unit.PerRecord(); ; {
		old := floor.Load()
		if record <= old || floor.CompareAndSwap(old, record) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.backend.Drop(ctx, before); err != nil {
		return errors.Join(flushErr, fmt.Errorf("counter: drop: %w", err))
	}
	return flushErr
}

const closePatience = 10 * time.Second

// hasty is a backend that can keep updates for later.
type hasty interface{ Hurry() }

// Close writes the buffer, within ten seconds, and ends the Shingler. It reports the updates that are lost.
func (s *Shingler) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if s.stop != nil {
		s.stop()
	}
	if h, ok := s.backend.(hasty); ok {
		defer time.AfterFunc(closePatience/2, h.Hurry).Stop()
	}
	idle := make(chan struct{})
	go func() {
		s.done.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done(): // the flush ends when the store does
		return fmt.Errorf("counter: close: a flush is under way: %w", ctx.Err())
	}
	err := s.Flush(ctx)
	if left := s.Metrics().Buffered; left > 0 {
		s.stats.lostFlush.Add(uint64(left))
		err = errors.Join(err, fmt.Errorf("counter: close: %d sums are lost, for the store takes none", left))
	}
	return err
}
