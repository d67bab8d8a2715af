package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/redis/rueidis"

	"antirobot/store"
)

// monitor probes the servers: writes, clock, version, replicas, and losses of data.
type monitor struct {
	*servers
	quotas *quotas
	clock  clock
	steady *store.Clock
	schema atomic.Int64           // of the servers' data, at the last look
	named  atomic.Pointer[string] // name of the servers' data; nil: unknown

	replids map[string]bool // of the masters seen; used only by look
	era     atomic.Uint64   // grows with an unknown master, and with a loss of all data
}

const (
	schema = 1
	// clockHold keeps expired entries after a jump of this machine's clock, longer than measuring it takes.
	clockHold = time.Hour
	// maxReplids bounds the remembered masters; beyond it all are forgotten.
	maxReplids = 4096

	probeTags   = 16              // enough to reach every shard of a moderate cluster
	probeTTL    = 60 * 1000       // milliseconds
	lookAtNodes = 5 * time.Second // between counts of the replicas
)

func newMonitor(s *servers, q *quotas) *monitor {
	return &monitor{
		servers: s, quotas: q, replids: map[string]bool{},
		steady: store.NewClock(s.deps.Now, nil, time.Time{}, 0, clockHold, s.deps.Log),
	}
}

func (s *monitor) watch() {
	tick := time.NewTicker(s.deps.ProbeEvery)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		if s.client.Load() == nil {
			if err := s.connect(); err != nil {
				s.setAil(fmt.Errorf("redis: connect to %s: %w", s.addr, err))
				continue
			}
			looked = time.Time{}
		}
		look := time.Since(looked) >= lookAtNodes
		if !s.probe(s.life, look) {
			continue
		}
		if look {
			looked = time.Now()
		}
		s.quotas.settle(s.life)
	}
}

// probe writes to many shards. With look it also counts the replicas.
func (s *monitor) probe(ctx context.Context, look bool) bool {
	cl, err := s.conn()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmds := make([]rueidis.Completed, 0, probeTags)
	for i := range uint64(probeTags) {
		key := s.key(letterOwn, i*tags/probeTags, []byte("probe"))
		cmds = append(cmds, cl.B().Set().Key(key).Value("").PxMilliseconds(probeTTL).Build())
	}
	began := time.Now()
	results := cl.DoMulti(ctx, cmds...)
	s.stats.probeNanos.Store(time.Since(began).Nanoseconds())
	for _, r := range results {
		if err := r.Error(); err != nil {
			if s.life.Err() == nil {
				s.setAil(fmt.Errorf("redis: probe: %w", err))
			}
			return false
		}
	}
	if look {
		if _, err := s.hello(ctx); err != nil {
			return false // failed has recorded it
		}
		s.look(ctx, cl)
	}
	s.setAil(nil)
	return true
}

// hello tells the servers this program's version, and learns theirs and their time.
func (s *monitor) hello(ctx context.Context) (time.Time, error) {
	before := s.deps.Now()
	m, err := s.run(ctx, false, s.scripts.hello, []string{s.own("schema"), s.own("life")}, strconv.Itoa(schema),
		rand.Text())
	if err != nil {
		return time.Time{}, err
	}
	parts, err := m.AsStrSlice()
	var n [3]int64
	if err == nil && len(parts) == 4 {
		for i, p := range parts[:len(n)] {
			if n[i], err = strconv.ParseInt(p, 10, 64); err != nil {
				break
			}
		}
	}
	if err != nil || len(parts) != 4 {
		return time.Time{}, s.failed(fmt.Errorf("the servers' time can't be read: %w", err))
	}
	now := time.Unix(n[0], n[1]*1000)
	s.clock.note(now, before, s.deps.Now())
	s.schema.Store(n[2])
	s.setLife(parts[3])
	return now, nil
}

// setLife takes the name of the servers' data. A new name means that they were emptied: followers get a gap.
func (s *monitor) setLife(name string) {
	switch old := s.named.Load(); {
	case old == nil:
		s.named.Store(&name)
	case *old != name:
		s.quotas.owed.again()
		s.named.Store(&name)
		s.era.Add(1)
	}
}

func (s *monitor) Life() (name string, masters uint64) {
	if p := s.named.Load(); p != nil {
		name = *p
	}
	return name, s.era.Load()
}

func (s *monitor) schemaError() error {
	if v := s.schema.Load(); v > schema {
		return fmt.Errorf("redis: the shared store has version %d and this program knows %d: upgrade it to the "+
			"version of the other gateways",
			v, schema)
	}
	return nil
}

const slots = 16384

// topology has what the last look found. Until the next one, a slot whose replicas were late counts as having none.
type topology struct {
	replicas int64
	alone    [slots]atomic.Bool
}

func (s *monitor) look(ctx context.Context, cl rueidis.Client) {
	t := new(topology)
	for _, node := range cl.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
		if err != nil || !strings.Contains(info, "role:master") {
			continue // a replica, or unavailable
		}
		s.meet(infoField(info, "master_replid"))
		n, _ := strconv.ParseInt(infoField(info, "connected_slaves"), 10, 64) // 0 on error: not waited for
		t.replicas += n
	}
	s.topology.Store(t)
}

// meet records a master by its replication ID. An unknown one may lack its predecessor's writes.
func (s *monitor) meet(replid string) {
	if replid == "" || s.replids[replid] {
		return
	}
	if len(s.replids) >= maxReplids {
		clear(s.replids)
	}
	s.replids[replid] = true
	s.quotas.owed.again()
	s.era.Add(1)
}

// clock measures how far the servers' clock is ahead of this machine's.
type clock struct {
	seen atomic.Int64           // nanoseconds, as last measured
	used atomic.Pointer[skewed] // nil: not measured yet
}

// skewed is a skew and the time of its last measurement.
type skewed struct {
	by time.Duration
	at time.Time
}

const (
	// maxSkew is how far clocks may differ before health reports it and times are converted.
	maxSkew = 2 * time.Second
	// skewStep is the smallest change that Skew follows, so that exchanged times do not jitter.
	skewStep = time.Second
)

// note takes a measurement: the servers' time between two readings of this machine's.
func (c *clock) note(server, before, after time.Time) {
	if after.Sub(before) > maxSkew {
		return // it would measure the network
	}
	skew := server.Sub(before.Add(after.Sub(before) / 2).Round(0))
	c.seen.Store(int64(skew))
	used := skewed{at: after}
	if last := c.used.Load(); last != nil {
		used.by = last.by
	}
	switch {
	case skew.Abs() <= maxSkew:
		used.by = 0
	case (skew - used.by).Abs() > skewStep:
		used.by = skew
	}
	c.used.Store(&used)
}

func (c *clock) err() error {
	skew := time.Duration(c.seen.Load())
	if skew.Abs() <= maxSkew {
		return nil
	}
	where := "behind"
	if skew < 0 {
		where = "ahead of"
	}
	return fmt.Errorf("redis: the clock of this machine is %v %s the store's: correct one of them",
		skew.Abs().Round(time.Millisecond), where)
}

// Skew implements store.Skewed. It follows a change of this machine's clock at once, by the monotonic clock.
func (s *monitor) Skew() time.Duration {
	used := s.clock.used.Load()
	if used == nil {
		return 0
	}
	now := s.deps.Now()
	if set := now.Round(0).Sub(used.at.Round(0)) - now.Sub(used.at); set.Abs() > skewStep {
		return used.by - set
	}
	return used.by
}

// Horizon implements store.Keeper for this machine's own tables.
func (s *monitor) Horizon() time.Time { return s.steady.Horizon() }

func (s *monitor) Jumps() uint64 { return s.steady.Jumps() }

type stats struct {
	calls, errors, waited, waitShort, reaped atomic.Uint64
	probeNanos                               atomic.Int64
}

func (s *monitor) WriteMetrics(w io.Writer) {
	up, replicas := uint64(1), int64(0)
	if s.serves() != nil || s.schemaError() != nil || s.clock.err() != nil {
		up = 0
	}
	if t := s.topology.Load(); t != nil {
		replicas = t.replicas
	}
	metrics.WriteGaugeUint64(w, "antirobot_redis_up", up)
	metrics.WriteGaugeUint64(w, "antirobot_redis_replicas", uint64(max(replicas, 0)))
	metrics.WriteGaugeFloat64(w, "antirobot_redis_clock_skew_seconds", time.Duration(s.clock.seen.Load()).Seconds())
	metrics.WriteGaugeUint64(w, "antirobot_redis_schema", uint64(max(s.schema.Load(), 0)))
	metrics.WriteGaugeFloat64(w, "antirobot_redis_probe_seconds", time.Duration(s.stats.probeNanos.Load()).Seconds())
	metrics.WriteCounterUint64(w, "antirobot_redis_calls_total", s.stats.calls.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_errors_total", s.stats.errors.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_replicated_total", s.stats.waited.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_unreplicated_total", s.stats.waitShort.Load())
	waiting, lost := s.quotas.owed.waiting()
	metrics.WriteGaugeUint64(w, "antirobot_redis_spends_owed", uint64(len(waiting)))
	metrics.WriteCounterUint64(w, "antirobot_redis_spends_lost_total", lost)
	metrics.WriteCounterUint64(w, "antirobot_redis_index_cleared_total", s.stats.reaped.Load())
}
