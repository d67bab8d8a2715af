package stream

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

// Group is a Stream over a Log: its consumers share the partitions by leases in a store, by the store's clock. Safe for
// concurrent use.
//
// With each renewal a holder notes its progress, and the position from which a successor reads again; batches up to the
// progress come as Delivery.Again.
type Group struct {
	cfg  Config
	log  Log
	kv   store.KV
	zlog zerolog.Logger
	id   []byte

	mu      sync.Mutex
	held    map[int]*holding
	lag     time.Duration
	err     error
	reading sync.WaitGroup
}

type holding struct {
	partition int
	until     time.Time // the lease holds at least until then
	cancel    context.CancelFunc

	busy  sync.Mutex // held while a batch is processed
	ended bool       // nothing more is processed

	mu    sync.Mutex
	at    string
	noted string // of that, in the store
	from  string // where to begin to read
	past  Past   // of the batches read
}

// GroupDeps is what a Group works with. Log and KV are required.
type GroupDeps struct {
	Log    Log
	KV     store.KV
	Logger zerolog.Logger
}

// NewGroup makes a Stream of a Log. It owns the Log.
func NewGroup(cfg Config, d GroupDeps) *Group {
	id := strconv.FormatUint(rand.Uint64(), 16)
	return &Group{cfg: cfg, log: d.Log, kv: d.KV, zlog: d.Logger, id: []byte(id), held: map[int]*holding{}}
}

// Partitions implements Stream.
func (g *Group) Partitions() int { return g.cfg.Partitions }

// Publish implements Stream.
func (g *Group) Publish(ctx context.Context, batches []Batch) error {
	partitions, data := make([]int, len(batches)), make([][]byte, len(batches))
	for i, b := range batches {
		partitions[i], data[i] = b.Partition, b.Data
	}
	return g.log.Append(ctx, partitions, data)
}

// Close implements Stream.
func (g *Group) Close() error { return g.log.Close() }

// Status implements Stream.
func (g *Group) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Status{Held: len(g.held), Lag: g.lag, Err: g.err}
}

const (
	memberPrefix = "stream/member/"
	leasePrefix  = "stream/lease/"
	notePrefix   = "stream/at/"
)

func keyOf(prefix string, partition int) []byte {
	return append([]byte(prefix), hex.EncodeToString([]byte{byte(partition)})...) //nolint:gosec // below maxPartitions
}

const (
	renewals = 4 // of a lease before it would end
	// replay and replayBytes bound the part of a partition that a successor reads again.
	replay      = 10 * time.Minute
	replayBytes = 16 << 20
)

// Consume implements Stream.
func (g *Group) Consume(ctx context.Context, f func(d Delivery)) error {
	t := time.NewTicker(g.cfg.Lease / renewals)
	defer t.Stop()
	failing := false
	for {
		err := g.turn(ctx, f)
		switch {
		case ctx.Err() != nil:
			g.leave()
			g.reading.Wait()
			return ctx.Err()
		case err != nil && !failing:
			g.zlog.Error().Err(err).Msg("stream: partitions can't be shared out now")
		case err == nil && failing:
			g.zlog.Info().Msg("stream: partitions are shared out again")
		}
		failing = err != nil
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// turn renews leases, gives away partitions beyond the share, and takes free ones.
func (g *Group) turn(ctx context.Context, f func(d Delivery)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := g.kv.Put(ctx, append([]byte(memberPrefix), g.id...), nil, g.cfg.Lease); err != nil {
		g.expire()
		return fmt.Errorf("stream: %w", err)
	}
	members := 0
	err := g.kv.Scan(ctx, []byte(memberPrefix), func(_, _ []byte, _ time.Duration) error {
		members++
		return nil
	})
	if err != nil {
		g.expire()
		return fmt.Errorf("stream: %w", err)
	}
	share := (g.cfg.Partitions + max(members, 1) - 1) / max(members, 1)
	err = g.renew(ctx)
	g.expire()
	g.give(ctx, share)
	g.measure(ctx)
	return errors.Join(err, g.take(ctx, share, f))
}

func (g *Group) holdings() []*holding {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*holding, 0, len(g.held))
	for _, h := range g.held {
		list = append(list, h)
	}
	return list
}

// renew renews the leases, and notes the progress. A lease of another holder is lost.
func (g *Group) renew(ctx context.Context) (err error) {
	for _, h := range g.holdings() {
		now := time.Now()
		ours, failed := g.kv.Swap(ctx, keyOf(leasePrefix, h.partition), g.id, g.id, g.cfg.Lease)
		switch {
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("stream: renew a lease: %w", failed))
		case !ours:
			g.zlog.Warn().Int("partition", h.partition).Msg("stream: another consumer has taken the partition over")
			g.drop(h)
		default:
			h.until = now.Add(g.cfg.Lease)
			err = errors.Join(err, g.note(ctx, h), g.trim(ctx, h))
		}
	}
	return err
}

func (g *Group) expire() {
	now := time.Now()
	for _, h := range g.holdings() {
		if now.After(h.until) {
			g.drop(h)
		}
	}
}

// drop stops processing a partition. A pending read may end later.
func (g *Group) drop(h *holding) {
	h.cancel()
	h.busy.Lock()
	h.ended = true
	h.busy.Unlock()
	g.mu.Lock()
	delete(g.held, h.partition)
	g.mu.Unlock()
}

func (g *Group) give(ctx context.Context, share int) {
	for _, h := range g.holdings() {
		g.mu.Lock()
		n := len(g.held)
		g.mu.Unlock()
		if n <= share {
			return
		}
		g.drop(h)
		g.back(ctx, h)
	}
}

// back notes the progress in a partition, and ends its lease.
func (g *Group) back(ctx context.Context, h *holding) {
	err := g.note(ctx, h)
	if ours, failed := g.kv.Swap(ctx, keyOf(leasePrefix, h.partition), g.id, g.id, g.cfg.Lease); failed == nil && ours {
		err = errors.Join(err, g.kv.Delete(ctx, keyOf(leasePrefix, h.partition)))
	}
	if err != nil {
		g.zlog.Warn().Err(err).Int("partition",
			h.partition).Msg("stream: a partition could not be given back; its lease ends by itself")
	}
}

func (g *Group) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, h := range g.holdings() {
		g.drop(h)
		g.back(ctx, h)
	}
	if err := g.kv.Delete(ctx, append([]byte(memberPrefix), g.id...)); err != nil {
		g.zlog.Warn().Err(err).Msg("stream: could not sign off")
	}
}

// take takes free partitions, up to the share.
func (g *Group) take(ctx context.Context, share int, f func(d Delivery)) error {
	first := rand.IntN(g.cfg.Partitions) //nolint:gosec // so that not all try the same ones
	for i := range g.cfg.Partitions {
		partition := (first + i) % g.cfg.Partitions
		g.mu.Lock()
		n, mine := len(g.held), g.held[partition] != nil
		g.mu.Unlock()
		if n >= share {
			return nil
		}
		if mine {
			continue
		}
		now := time.Now()
		first, err := g.kv.Swap(ctx, keyOf(leasePrefix, partition), nil, g.id, g.cfg.Lease)
		if err != nil {
			return fmt.Errorf("stream: take a partition: %w", err)
		}
		if first {
			if err := g.hold(partition, now.Add(g.cfg.Lease), f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) hold(partition int, until time.Time, f func(d Delivery)) error {
	ctx, cancel := context.WithCancel(context.Background())
	note, err := g.kv.Get(ctx, nil, keyOf(notePrefix, partition))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		cancel()
		return fmt.Errorf("stream: take a partition: %w", err)
	}
	at, from, bounded := strings.Cut(string(note), " ")
	h := &holding{partition: partition, until: until, cancel: cancel, noted: at, at: at}
	if bounded {
		h.from = g.log.Back(from, time.Millisecond) // Read begins after a position
	}
	g.mu.Lock()
	g.held[partition] = h
	g.mu.Unlock()
	g.zlog.Info().Int("partition", partition).Str("after", h.at).Msg("stream: took a partition")
	g.reading.Go(func() { g.read(ctx, h, f) })
	return nil
}

// note writes the progress to the store.
func (g *Group) note(ctx context.Context, h *holding) error {
	h.mu.Lock()
	at, from := h.at, h.past.From(min(replay, g.cfg.Keep), replayBytes)
	h.mu.Unlock()
	if at == h.noted {
		return nil
	}
	if err := g.kv.Put(ctx, keyOf(notePrefix, h.partition), []byte(at+" "+from), 2*g.cfg.Keep); err != nil {
		return fmt.Errorf("stream: note what was processed: %w", err)
	}
	h.noted = at
	return nil
}

const readWait = time.Second

func (g *Group) read(ctx context.Context, h *holding, f func(d Delivery)) {
	begun, after := h.at, h.from
	for ctx.Err() == nil {
		err := g.log.Read(ctx, h.partition, after, readWait, func(pos string, data []byte) {
			h.busy.Lock()
			defer h.busy.Unlock()
			if h.ended {
				return // the lease is lost
			}
			again := begun != "" && (pos == begun || g.log.Ahead(begun, pos) > 0)
			f(Delivery{Partition: h.partition, Data: data, Again: again})
			after = pos
			g.processed(h, pos, int64(len(data)), again)
		})
		if err != nil && ctx.Err() == nil {
			g.zlog.Warn().Err(err).Int("partition", h.partition).Msg("stream: can't be read now")
			store.Pause(ctx, retryPause)
		}
	}
}

func (g *Group) processed(h *holding, pos string, size int64, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !again {
		h.at = pos
	}
	h.past.Add(pos, g.log.Ahead(pos, ""), size)
}

// trim drops the batches of a partition beyond Config.Keep, or its part of Config.KeepBytes.
func (g *Group) trim(ctx context.Context, h *holding) error {
	h.mu.Lock()
	before := h.past.Drop(g.cfg.Keep, g.cfg.KeepBytes/int64(g.cfg.Partitions))
	h.mu.Unlock()
	if before == "" {
		return nil
	}
	if err := g.log.Trim(ctx, h.partition, before); err != nil {
		return fmt.Errorf("stream: trim: %w", err)
	}
	return nil
}

func (g *Group) measure(ctx context.Context) {
	var lag time.Duration
	for _, h := range g.holdings() {
		end, err := g.log.End(ctx, h.partition)
		h.mu.Lock()
		at := h.at
		h.mu.Unlock()
		if err == nil && end != "" && at != "" {
			lag = max(lag, g.log.Ahead(end, at))
		}
	}
	g.mu.Lock()
	g.lag = lag
	g.mu.Unlock()
}

// Log is an engine that keeps batches in order: NewGroup makes a Stream of it. Positions are opaque. Safe for
// concurrent use.
type Log interface {
	// Append adds a batch to each of the partitions; see Stream.Publish.
	Append(ctx context.Context, partitions []int, data [][]byte) error
	// Read calls f with some batches after a position, from the oldest if it is empty, or returns after wait. data is
	// valid during the call.
	Read(ctx context.Context, partition int, after string, wait time.Duration, f func(pos string, data []byte)) error
	// Back returns a position that is some time before another one.
	Back(pos string, by time.Duration) string
	// Ahead returns how much later a is than b; the empty position is before all others.
	Ahead(a, b string) time.Duration
	// End returns the position of the newest batch; empty without one.
	End(ctx context.Context, partition int) (string, error)
	// Trim drops the batches before a position.
	Trim(ctx context.Context, partition int, before string) error
	Close() error
}

// Past remembers the positions of a partition's last seconds: where a successor begins, and what to drop. The zero
// value is empty. Not safe for concurrent use.
type Past struct {
	seconds []second
	bytes   int64
	last    time.Duration
}

// second is what came within about a second.
type second struct {
	pos  string
	at   time.Duration // when that came
	size int64         // of all of them
}

// Add adds a batch: its position, its time by the engine's clock, and its bytes.
func (p *Past) Add(pos string, at time.Duration, size int64) {
	if n := len(p.seconds); n == 0 || at-p.seconds[n-1].at > time.Second {
		p.seconds = append(p.seconds, second{pos: pos, at: at})
	}
	p.seconds[len(p.seconds)-1].size += size
	p.bytes += size
	p.last = max(p.last, at)
}

// Drop forgets the seconds older than keep, and the oldest beyond a number of bytes; never the newest. It returns the
// start of the rest; empty if nothing was dropped.
func (p *Past) Drop(keep time.Duration, most int64) string {
	n := 0
	for ; n < len(p.seconds)-1 && (p.bytes > most || p.last-p.seconds[n].at > keep); n++ {
		p.bytes -= p.seconds[n].size
	}
	if n == 0 {
		return ""
	}
	p.seconds = append(p.seconds[:0], p.seconds[n:]...)
	return p.seconds[0].pos
}

// From returns the start of the last seconds within by and most bytes; at least the newest second. Empty without one.
func (p *Past) From(by time.Duration, most int64) (pos string) {
	for i := len(p.seconds) - 1; i >= 0; i-- {
		s := &p.seconds[i]
		if most -= s.size; pos != "" && (most < 0 || p.last-s.at > by) {
			break
		}
		pos = s.pos
	}
	return pos
}
