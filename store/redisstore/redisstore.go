// Package redisstore keeps the state that several gateways share, in Redis or Valkey: one server, one with replicas and
// sentinels, or a cluster. Other servers that speak the protocol have not been tried.
//
// Invariants:
//  1. Keys that are touched together share a hash tag: a value and the index of its bucket, all periods of a record. So every script runs atomically on one shard.
//  2. No write is repeated after an error that leaves open whether it happened. Redirections and unknown scripts are
//     repeated: there the server says that it did nothing.
//  3. Spends, bans, revocations and deletions wait for a replica if there is one (Config.WaitReplicas). A failover loses
//     what no replica had; the servers promise no more.
//  4. An unavailable store delays nobody beyond Config.Timeout, and New does not need it: the connection is retried in the
//     background until it works. Healthy says what is wrong.
//  5. The servers' clocks decide what has expired, and what is old enough to be dropped. A gateway whose own clock differs
//     by more than Config.MaxClockSkew reports it, and Skew tells by how much.
//  6. ErrGap reports that a server may have lost something: a feed whose chain is broken, or an unknown master.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"antirobot/store"
)

// Store is a store.Store on servers. Made by New; safe for concurrent use.
type Store struct {
	cfg     Config
	addr    *Address
	log     zerolog.Logger
	now     func() time.Time
	option  rueidis.ClientOption
	scripts scripts
	stats   stats

	client   atomic.Pointer[rueidis.Client] // nil until connected
	ail      atomic.Pointer[error]          // why the last attempt failed; nil: it worked
	replicas atomic.Int64                   // of all masters, at the last look
	topology atomic.Pointer[topology]       // set together with replicas
	drops    [2]atomic.Pointer[drops]       // by unit
	clock    clock
	steady   *store.Clock
	owed     owed
	schema   atomic.Int64           // of the servers' data, at the last look
	named    atomic.Pointer[string] // name of the servers' data, see Life; nil: not known yet

	replids map[string]bool // of the masters seen so far, so that a new one is noticed; used only by look
	era     atomic.Uint64   // changes when an unknown master appears or the servers were emptied

	ended  atomic.Bool
	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Later  = (*Store)(nil)
	_ store.Skewed = (*Store)(nil)
	_ store.Mortal = (*Store)(nil)
	_ store.Keeper = (*Store)(nil)
)

// errAway is what calls return before the first connection.
var errAway = errors.New("redis: not connected yet")

// Deps are what a Store works with. URL is required.
type Deps struct {
	URL string // in the form that ParseURL reads
	Log zerolog.Logger
	Now func() time.Time // nil: time.Now
}

// New returns the store at an address. A server that does not answer is not an error: Healthy reports it, and the store
// works as soon as the server does. A server that refuses us is an error. The store's goroutines run until Close.
func New(cfg Config, d Deps) (*Store, error) {
	addr, err := ParseURL(d.URL)
	if err != nil {
		return nil, err
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{cfg: cfg, addr: addr, log: d.Log, now: d.Now, scripts: newScripts(), replids: map[string]bool{}}
	s.steady = store.NewClock(d.Now, nil, time.Time{}, 0, clockHold, d.Log)
	if s.option, err = options(addr, &cfg); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.life, s.cancel = context.WithCancel(context.Background())
	if err := s.connect(); err != nil {
		if e, ok := rueidis.IsRedisErr(err); ok && !transient(e) {
			s.cancel()
			return nil, fmt.Errorf("open store: %s refuses: %w", addr, err)
		}
		s.setAil(fmt.Errorf("redis: connect to %s: %w", addr, err))
	} else {
		s.probe(s.life, true)
		if err := s.schemaError(); err != nil {
			s.cancel()
			(*s.client.Load()).Close()
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	s.done.Go(s.watch)
	s.done.Go(s.sweep)
	return s, nil
}

func options(addr *Address, cfg *Config) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		InitAddress: addr.Hosts, Username: addr.User, Password: addr.Password, SelectDB: addr.DB, ClientName: "antirobot",
		DisableCache:      true,
		ClientSetInfo:     rueidis.DisableClientSetInfo, // a command that servers before 7.2 do not know, nor their ACLs
		ForceSingleClient: !addr.Cluster && addr.Master == "",
		Dialer:            net.Dialer{Timeout: cfg.DialTimeout, KeepAlive: cfg.Timeout},
		ConnWriteTimeout:  2 * cfg.Timeout,
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: 5 * time.Second, MaxMovedRedirections: 8},
		RetryDelay: func(attempts int, _ rueidis.Completed, _ error) time.Duration {
			return min(time.Millisecond<<min(attempts, 10), 100*time.Millisecond)
		},
	}
	if o.Username == "" && o.Password == "" {
		password, err := cfg.password()
		if err != nil {
			return o, err
		}
		o.Username, o.Password = cfg.User, password
	}
	var t *tls.Config
	if addr.TLS {
		var err error
		if t, err = cfg.TLS.Load(); err != nil {
			return o, err
		}
	}
	o.TLSConfig = t
	if addr.Master != "" {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: addr.Master, Username: cfg.Sentinel.User, Password: cfg.Sentinel.Password, Dialer: o.Dialer, TLSConfig: t,
			TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return o, nil
}

// connect tries once to connect.
func (s *Store) connect() error {
	cl, err := rueidis.NewClient(s.option)
	if err != nil {
		return err
	}
	s.client.Store(&cl)
	s.log.Info().Stringer("address", s.addr).Msg("store: connected")
	return nil
}

// Shared implements store.Store: other nodes see the same state.
func (s *Store) Shared() bool { return true }

// Healthy implements store.Store. It also reports clocks that differ, and data of a newer version.
func (s *Store) Healthy() error {
	if err := s.serves(); err != nil {
		return err
	}
	return errors.Join(s.schemaError(), s.clock.err(s.cfg.MaxClockSkew))
}

// serves returns nil if the last calls worked.
func (s *Store) serves() error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if e := s.ail.Load(); e != nil {
		return *e
	}
	return nil
}

// Close closes the store; Follow calls return store.ErrClosed.
func (s *Store) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	s.cancel()
	s.done.Wait()
	if cl := s.client.Load(); cl != nil {
		(*cl).Close()
	}
	return nil
}

// ready returns why a call cannot begin.
func (s *Store) ready(ctx context.Context, ttl time.Duration) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ttl < 0 {
		return store.ErrTTL
	}
	return nil
}

func (s *Store) conn() (rueidis.Client, error) {
	if cl := s.client.Load(); cl != nil {
		return *cl, nil
	}
	if e := s.ail.Load(); e != nil {
		return nil, *e
	}
	return nil, errAway
}

// do makes one round trip within Config.Timeout. A durable write then waits for replicas, on the same connection.
func (s *Store) do(ctx context.Context, durable bool, build func(cl rueidis.Client) rueidis.Completed) (rueidis.RedisMessage, error) {
	cl, err := s.conn()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if !durable || s.cfg.WaitReplicas == 0 || s.replicas.Load() == 0 {
		return cl.Do(ctx, build(cl)).ToMessage()
	}
	cmd := build(cl)
	alone, waits := s.topology.Load().waits(cmd.Slot())
	if !waits {
		s.stats.waitShort.Add(1)
		return cl.Do(ctx, cmd).ToMessage()
	}
	wait := cl.B().Wait().Numreplicas(int64(s.cfg.WaitReplicas)).Timeout(s.cfg.WaitTimeout.Milliseconds()).Build()
	r := cl.DoMulti(ctx, cmd, wait)
	m, err := r[0].ToMessage()
	if err != nil {
		return m, err // nothing was written
	}
	if got, err := r[1].AsInt64(); err == nil && got >= int64(s.cfg.WaitReplicas) {
		s.stats.waited.Add(1)
	} else {
		s.stats.waitShort.Add(1)
		alone.Store(true) // until the next look: otherwise each write would take Config.WaitTimeout
	}
	return m, nil
}

// failed handles an error of a call: it marks the store as unhealthy if the error says so, and returns it in the caller's
// form.
func (s *Store) failed(err error) error {
	if err == nil {
		return nil
	}
	if s.ended.Load() {
		return store.ErrClosed
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	s.stats.errors.Add(1)
	if e := s.ail.Load(); err == errAway || e != nil && err == *e { //nolint:errorlint // conn returns the very error
		return err // no connection yet: nothing new
	}
	err = fmt.Errorf("redis: %w", err)
	if e, ok := rueidis.IsRedisErr(errors.Unwrap(err)); !ok || transient(e) {
		s.setAil(err)
	}
	return err
}

// transient reports whether an error reply is about the server's state rather than the call.
func transient(e *rueidis.RedisError) bool {
	for _, p := range []string{"OOM", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MISCONF", "NOREPLICAS", "TRYAGAIN", "MOVED", "ASK", "BUSY"} {
		if strings.HasPrefix(e.Error(), p) {
			return true
		}
	}
	return false
}

// setAil notes what is wrong; nil means nothing. Changes are logged.
func (s *Store) setAil(err error) {
	if err == nil {
		if old := s.ail.Swap(nil); old != nil {
			s.log.Info().Msg("store: the shared store works again")
		}
		return
	}
	if old := s.ail.Swap(&err); old == nil && !s.ended.Load() {
		s.log.Error().Err(err).Msg("store: the shared store is unwell")
	}
}
