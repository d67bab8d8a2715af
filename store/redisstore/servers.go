package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// servers is the connection: all round trips, and the keys they name.
type servers struct {
	cfg     Config
	deps    Deps
	addr    *Address
	option  rueidis.ClientOption
	scripts scripts
	stats   stats

	client   atomic.Pointer[rueidis.Client]
	ail      atomic.Pointer[error]
	topology atomic.Pointer[topology]
	life     context.Context
	ended    atomic.Bool
}

var errAway = errors.New("redis: not connected yet")

func options(addr *Address, cfg *Config) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		InitAddress: addr.Hosts, Username: addr.User, Password: addr.Password, SelectDB: addr.DB,
		ClientName:        "antirobot",
		DisableCache:      true,
		ClientSetInfo:     rueidis.DisableClientSetInfo, // servers before 7.2 and their ACLs lack it
		ForceSingleClient: !addr.Cluster && addr.Master == "",
		Dialer:            net.Dialer{Timeout: cfg.Timeout, KeepAlive: cfg.Timeout},
		ConnWriteTimeout:  2 * cfg.Timeout,
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: 5 * time.Second, MaxMovedRedirections: 8},
		RetryDelay: func(attempts int, _ rueidis.Completed, _ error) time.Duration {
			return min(time.Millisecond<<min(attempts, 10), 100*time.Millisecond)
		},
	}
	var err error
	if o.Password == "" {
		if o.Password, err = readPassword("password_file", cfg.PasswordFile); err != nil {
			return o, err
		}
	}
	var t *tls.Config
	if addr.TLS {
		if t, err = cfg.TLS.Load(); err != nil {
			return o, err
		}
	}
	o.TLSConfig = t
	if addr.Master != "" {
		password, err := readPassword("sentinel_password_file", cfg.SentinelPasswordFile)
		if err != nil {
			return o, err
		}
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: addr.Master, Password: password, Dialer: o.Dialer, TLSConfig: t,
			TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return o, nil
}

func (s *servers) connect() error {
	cl, err := rueidis.NewClient(s.option)
	if err != nil {
		return err
	}
	s.client.Store(&cl)
	s.deps.Log.Info().Stringer("address", s.addr).Msg("store: connected")
	return nil
}

func (s *servers) serves() error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if e := s.ail.Load(); e != nil {
		return *e
	}
	return nil
}

func (s *servers) ready(ctx context.Context, ttl time.Duration) error {
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

func (s *servers) conn() (rueidis.Client, error) {
	if cl := s.client.Load(); cl != nil {
		return *cl, nil
	}
	if e := s.ail.Load(); e != nil {
		return nil, *e
	}
	return nil, errAway
}

type command = func(cl rueidis.Client) rueidis.Completed

// do makes one round trip within Config.Timeout. A durable write then waits for replicas, on the same connection.
func (s *servers) do(ctx context.Context, durable bool, build command) (rueidis.RedisMessage, error) {
	cl, err := s.conn()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmd, t := build(cl), s.topology.Load()
	if !durable || t == nil || t.replicas == 0 {
		return cl.Do(ctx, cmd).ToMessage()
	}
	alone := &t.alone[cmd.Slot()%slots]
	if alone.Load() {
		s.stats.waitShort.Add(1)
		return cl.Do(ctx, cmd).ToMessage()
	}
	wait := cl.B().Wait().Numreplicas(1).Timeout(s.deps.WaitTimeout.Milliseconds()).Build()
	r := cl.DoMulti(ctx, cmd, wait)
	m, err := r[0].ToMessage()
	if err != nil {
		return m, err
	}
	if got, err := r[1].AsInt64(); err == nil && got > 0 {
		s.stats.waited.Add(1)
	} else {
		s.stats.waitShort.Add(1)
		alone.Store(true) // until the next look, or each write would wait
	}
	return m, nil
}

// doMulti makes one round trip to each server concerned.
func (s *servers) doMulti(ctx context.Context, n int, build func(cl rueidis.Client, i int) rueidis.Completed) (
	[]rueidis.RedisResult, error,
) {
	cl, err := s.conn()
	if err != nil {
		return nil, err
	}
	s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmds := make([]rueidis.Completed, n)
	for i := range cmds {
		cmds[i] = build(cl, i)
	}
	return cl.DoMulti(ctx, cmds...), nil
}

// failed wraps an error, and marks the store as unhealthy if it should.
func (s *servers) failed(err error) error {
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

// transient reports whether an error reply is about the server's state, not the call.
func transient(e *rueidis.RedisError) bool {
	return slices.ContainsFunc([]string{
		"OOM", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MISCONF", "NOREPLICAS", "TRYAGAIN", "MOVED", "ASK",
		"BUSY",
	}, func(p string) bool { return strings.HasPrefix(e.Error(), p) })
}

// setAil records the state; nil is healthy. Changes are logged.
func (s *servers) setAil(err error) {
	if err == nil {
		if old := s.ail.Swap(nil); old != nil {
			s.deps.Log.Info().Msg("store: the shared store works again")
		}
		return
	}
	if old := s.ail.Swap(&err); old == nil && !s.ended.Load() {
		s.deps.Log.Error().Err(err).Msg("store: the shared store is unwell")
	}
}

// Keys are prefix, {tag}, a letter for their kind, and the caller's key. The tag is one of 256, by a hash of the key:
// its keys share a shard, and 256 spread evenly over a large cluster.
const (
	tags         = 256
	kvBuckets    = 64 // for values: each bucket has an index
	letterKV     = 'k'
	letterIdx    = 'i'
	letterOnce   = 'o'
	letterUsed   = 'q'
	letterFeed   = 'f'
	letterCnt    = 'c'
	letterNum    = 'n' // for the numbers of batches of counts
	letterOwn    = 'x' // for the store itself
	letterEvents = 'e'
)

// hash is FNV-1a with a finalizer; it is part of the format.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

const hexDigits = "0123456789abcdef"

func (s *servers) appendHead(dst []byte, tag uint64, letter byte) []byte {
	dst = append(dst, s.cfg.KeyPrefix...)
	return append(dst, '{', hexDigits[tag>>4&15], hexDigits[tag&15], '}', letter)
}

func (s *servers) key(letter byte, tag uint64, key []byte) string {
	b := make([]byte, 0, len(s.cfg.KeyPrefix)+5+len(key))
	return string(append(s.appendHead(b, tag, letter), key...))
}

func (s *servers) spread(letter byte, key []byte) string { return s.key(letter, hash(key)%tags, key) }

func (s *servers) own(name string) string { return s.key(letterOwn, 0, []byte(name)) }

// maxTTL is the longest that a server can count.
const maxTTL = int64(1) << 52

// millis converts a ttl; 0 is no expiry. It is rounded up and reduced by one: a server's key outlives the contract's by
// its last millisecond.
func millis(ttl time.Duration) int64 {
	ms := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond != 0 {
		ms++
	}
	if ms > 1 {
		ms--
	}
	return min(ms, maxTTL)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Server describes a server of the store.
type Server struct {
	Address string
	Version string
	Memory  int64 // limit in bytes; 0: none
	Policy  string
	Logs    bool // appendonly: a restart loses nothing
}

// Servers returns the masters at an address, sorted. It changes nothing, and needs no right beyond the store's.
func Servers(ctx context.Context, cfg Config, url string) ([]Server, error) {
	addr, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	option, err := options(addr, &cfg)
	if err != nil {
		return nil, err
	}
	cl, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", addr, err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	var all []Server
	for name, node := range cl.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("redis: ask %s: %w", name, err)
		}
		if !strings.Contains(info, "role:master") {
			continue
		}
		s := Server{
			Address: name, Version: infoField(info, "redis_version"), Policy: infoField(info, "maxmemory_policy"),
			Logs: infoField(info, "aof_enabled") == "1",
		}
		s.Memory, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64) // 0 on error: no known limit
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	return all, nil
}

func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\r\n"+name+":")
	line, _, _ := strings.Cut(rest, "\r\n")
	return line
}
