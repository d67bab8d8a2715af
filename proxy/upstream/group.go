// Package upstream keeps the connections to one service's addresses, and checks them out to requests.
//
// Invariants:
// 1. A connection serves one request at a time. The caller owns it between Get and Release or Discard.
// 2. It is reused only after a complete answer and if nothing has arrived since, so that no answer reaches another
// client.
// 3. A failing address is avoided for a time; if all are down, the one that is down longest is dialled.
// 4. Names are resolved at dial time, and connections have a maximum age.
// 5. Reuse allocates nothing and takes no shared lock.
package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// Group is the addresses of a service and their connections. Safe for concurrent use. A goroutine maintains idle
// connections and retries addresses until Close.
type Group struct {
	cfg   Config
	log   zerolog.Logger
	addrs []*address
	now   func() int64 // nanoseconds, monotonic

	readers sync.Pool

	queue   queue
	m       groupMetrics
	closed  atomic.Bool
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// AddrState is the health of an address.
type AddrState struct {
	Addr    string
	Up      bool
	Fails   int           // consecutive
	RetryIn time.Duration // until the next try
	Active  int           // in use
	Idle    int
}

const tick = time.Second

// Deps is what a Group works with. Metrics is required.
type Deps struct {
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// New builds a Group and reads the files of cfg.TLS. Addresses need not answer. Start begins maintenance.
func New(cfg Config, d Deps) (*Group, error) {
	set := d.Metrics
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	start := time.Now()
	g := &Group{cfg: cfg, log: d.Log, now: func() int64 { return int64(time.Since(start)) + 1 }}
	g.readers.New = func() any { return bufio.NewReaderSize(nil, int(cfg.ReadBufferSize)) }
	g.m = newGroupMetrics(set, cfg.Service)

	shared, err := cfg.TLS.Load()
	if err != nil {
		return nil, err
	}
	shared.NextProtos, shared.ClientSessionCache = []string{protocolOf(cfg.Protocol)}, tls.NewLRUClientSessionCache(64)
	shelves := min(runtime.GOMAXPROCS(0), 16)
	for i, raw := range cfg.URLs {
		t, err := parseTarget(raw)
		if err != nil {
			return nil, err
		}
		a := &address{g: g, index: i, name: t.String(), target: t, shelves: make([]shelf, shelves)}
		a.names.lookupIP = net.DefaultResolver.LookupNetIP
		a.m = newAddressMetrics(set, cfg.Service, a.name)
		if t.tls {
			a.tls = shared.Clone()
			if a.tls.ServerName == "" {
				a.tls.ServerName = t.host
			}
		}
		if g.HTTP2() {
			a.http2, a.dials = a.newHTTP2(), make(chan struct{}, dialsAtOnce)
		}
		g.addrs = append(g.addrs, a)
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// Start begins maintenance, until Close.
func (g *Group) Start(context.Context) error {
	if g.closed.Load() {
		return fmt.Errorf("%w: closed", errNoUpstream)
	}
	g.running.Go(g.tend)
	return nil
}

// Config returns the configuration; callers of Get apply its timeouts.
func (g *Group) Config() *Config { return &g.cfg }

// Get checks out a connection: a clean idle one, or a new one; with fresh a new one. It tries further addresses.
// Errors: errNoUpstream, errDial, ErrBusy, ctx's.
func (g *Group) Get(ctx context.Context, fresh bool) (*Conn, error) {
	if g.cfg.MaxConns > 0 && g.queue.waiting.Load() > 0 {
		return g.wait(ctx, fresh) // first come, first served
	}
	c, err := g.try(ctx, fresh)
	if errors.Is(err, errFull) {
		return g.wait(ctx, fresh)
	}
	return c, err
}

// try tries each address that is up once, then one that is down.
func (g *Group) try(ctx context.Context, fresh bool) (*Conn, error) {
	if g.closed.Load() {
		return nil, fmt.Errorf("%w: closed", errNoUpstream)
	}
	var tried uint64
	var last error
	full := false
	now := g.now()
	for {
		a, up := g.pick(tried)
		if a == nil || !up && full {
			break
		}
		tried |= 1 << a.index
		a.active.Add(1) // before the dial, so that a slow address does not get everything
		c, err := a.lend(ctx, fresh, now)
		if err == nil {
			g.giveBuffer(c)
			return c, nil
		}
		a.active.Add(-1)
		if errors.Is(err, errFull) {
			full = true
			continue
		}
		if ended(ctx) != nil {
			return nil, err
		}
		last = err
		if !up || time.Duration(g.now()-now) > 2*g.cfg.DialTimeout {
			break
		}
	}
	if full || last == nil {
		return nil, errFull
	}
	return nil, fmt.Errorf("%w: %w", errNoUpstream, last)
}

func (a *address) lend(ctx context.Context, fresh bool, now int64) (*Conn, error) {
	if !fresh {
		if c := a.takeIdle(now); c != nil {
			return c, nil
		}
	}
	if !a.reserve() {
		if !fresh {
			return nil, errFull
		}
		c := a.popIdle() // dropping an idle connection makes room
		if c == nil {
			return nil, errFull
		}
		a.dropIdle(c)
		if !a.reserve() {
			return nil, errFull
		}
	}
	c, err := a.dial(ctx)
	if err != nil {
		a.open.Add(-1)
		a.g.wakeWaiter()
		return nil, err
	}
	return c, nil
}

// pick chooses an untried address: one that is up, or down longest.
func (g *Group) pick(tried uint64) (a *address, up bool) {
	if len(g.addrs) == 1 {
		a = g.addrs[0]
		if tried != 0 {
			return nil, false
		}
		return a, true
	}
	n := uint32(len(g.addrs))
	first := rand.Uint32N(n) // breaks ties
	var best, down *address
	least, longest := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range n {
		a := g.addrs[(first+i)%n]
		if tried&(1<<a.index) != 0 {
			continue
		}
		if a.downUntil.Load() != 0 {
			if since := a.downFrom(); since < longest {
				down, longest = a, since
			}
			continue
		}
		if n := a.active.Load(); n < least {
			best, least = a, n
		}
	}
	if best != nil {
		return best, true
	}
	return down, false
}

func (g *Group) giveBuffer(c *Conn) {
	c.R = g.readers.Get().(*bufio.Reader)
	c.R.Reset(c)
}

func (g *Group) takeBuffer(c *Conn) {
	if c.R == nil {
		return
	}
	c.R.Reset(nil)
	g.readers.Put(c.R)
	c.R = nil
}

func (g *Group) givenBack() {
	g.wakeWaiter()
	if g.closed.Load() {
		g.publish() // the goroutine has ended
	}
}

// Healthy returns the state of every address.
func (g *Group) Healthy() []AddrState {
	now := g.now()
	out := make([]AddrState, len(g.addrs))
	for i, a := range g.addrs {
		until := a.downUntil.Load()
		out[i] = AddrState{
			Addr: a.name, Up: until == 0, Fails: int(a.fails.Load()),
			Active: int(a.active.Load()), Idle: int(a.idle.Load()),
		}
		if until > now {
			out[i].RetryIn = time.Duration(until - now)
		}
	}
	return out
}

// Close closes idle connections and ends the goroutine. Connections in use end when returned; other Gets fail with
// errNoUpstream.
func (g *Group) Close() error {
	if g.closed.Swap(true) {
		return nil
	}
	g.cancel()
	g.running.Wait()
	for _, a := range g.addrs {
		a.closeIdle()
		if a.http2 != nil {
			a.http2.CloseIdleConnections()
		}
	}
	g.queue.wakeAll()
	g.publish()
	return nil
}

func (g *Group) tend() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		}
		now := g.now()
		for _, a := range g.addrs {
			a.sweep(now)
			if until := a.downUntil.Load(); until != 0 && until <= now && !a.probing.Swap(true) {
				g.running.Go(a.probe)
			}
		}
		g.publish()
	}
}

// probe dials an address after its timeout, so that no client waits for it.
func (a *address) probe() {
	defer a.probing.Store(false)
	if a.http2 != nil {
		if nc, err := a.dialHTTP2(a.g.ctx); err == nil {
			_ = nc.Close()
		}
		return
	}
	if !a.reserve() {
		a.reached() // at its limit, so it is reachable
		return
	}
	c, err := a.dial(a.g.ctx)
	if err != nil {
		a.open.Add(-1)
		return
	}
	c.state, c.idleSince = idle, a.g.now()
	if !a.putIdle(c) {
		a.dropIdle(c)
	}
	a.g.wakeWaiter()
}

// Errors of Get, in addition to the context's. Test with errors.Is.
var (
	errDial = errors.New("dial upstream")
	// errNoUpstream: all addresses were tried, or the Group is closed.
	errNoUpstream = errors.New("no upstream")
	// ErrUnreached: RoundTrip sent nothing of the request.
	ErrUnreached = errors.New("request not sent")
	// ErrBusy: all connections are in use, and the queue is full or slow.
	ErrBusy = errors.New("upstream busy")
)

var errFull = errors.New("connection limit reached")

// errWouldWait ends a Read that must not wait. crypto/tls survives a temporary net.Error.
var errWouldWait error = wouldWait{}

type wouldWait struct{}

func (wouldWait) Error() string   { return "nothing to read" }
func (wouldWait) Timeout() bool   { return true }
func (wouldWait) Temporary() bool { return true }
