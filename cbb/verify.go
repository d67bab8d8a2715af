package cbb

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coocood/freecache"
	"github.com/rs/zerolog"

	"antirobot/bounded"
)

// Resolver queries DNS. *net.Resolver implements it.
type Resolver interface {
	// LookupAddr returns the names of an address.
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	// LookupHost returns the addresses of a name.
	LookupHost(ctx context.Context, host string) ([]string, error)
}

type dnsAnswer uint8

const (
	dnsUnknown   dnsAnswer = iota // unknown, and not provisional
	dnsConfirmed                  // the name is the crawler's and leads back to the address
	dnsRefuted                    // refuted
	dnsMaybe                      // being looked up: this request may pass
	dnsFailed                     // DNS did not answer; only in the cache
)

const maxNames = 8 // how many names of one address are checked

type verifier struct {
	bounds      bounds
	provisional int // requests of one address in a window
	resolver    Resolver
	now         func() time.Time
	log         zerolog.Logger
	cache       *freecache.Cache

	mu      sync.Mutex
	pending map[pendingKey]*pendingCheck
	lookups *bounded.Rate
	passes  *bounded.Rate
	queue   chan checkJob

	cancel  context.CancelFunc // nil until begin
	workers sync.WaitGroup

	stats verifierStats
}

type verifierStats struct {
	confirmed, refuted, failed  atomic.Uint64 // look-ups by outcome
	shed                        atomic.Uint64 // look-ups that did not start
	provisional, provisionalOut atomic.Uint64 // requests that passed during a look-up, and those without a pass left
}

type pendingKey struct {
	addr    netip.Addr
	crawler uint64
}

type pendingCheck struct{ since time.Time }

type checkJob struct {
	crawler *crawler
	addr    netip.Addr
}

func newVerifier(b bounds, provisional int, r Resolver, now func() time.Time, log zerolog.Logger) *verifier {
	if r == nil {
		r = net.DefaultResolver
	}
	return &verifier{
		bounds: b, provisional: provisional, resolver: r, now: now, log: log,
		cache:   freecache.NewCacheCustomTimer(b.dnsCache, cacheTimer(now)),
		pending: map[pendingKey]*pendingCheck{},
		lookups: perSecond(b.lookupsPerSecond),
		passes:  perSecond(b.gracePerSecond),
		queue:   make(chan checkJob, b.queue),
	}
}

// cacheTimer makes the cache use our clock.
type cacheTimer func() time.Time

func (t cacheTimer) Now() uint32 { return uint32(t().Unix()) }

// Kinds of keys in the cache.
const (
	keyAnswer  = 'a' // address, crawler → dnsAnswer, unix time from which it is looked up again
	keyRefuted = 'n' // address → it once pretended to be a crawler
	keyPasses  = 'p' // address or its /64 → provisional passes of the window
	keyFailed  = 'f' // address or its /64 → consecutive look-ups without an answer from DNS
)

func cacheKey(dst []byte, kind byte, addr netip.Addr, crawler uint64) []byte {
	a := addr.As16()
	dst = append(append(dst, kind), a[:]...)
	return binary.BigEndian.AppendUint64(dst, crawler)
}

// ask returns the known answer for an address, and starts a look-up if there is none. It does not wait.
func (v *verifier) ask(c *crawler, addr netip.Addr, at time.Time) dnsAnswer {
	var kb [32]byte
	var vb [16]byte
	if val, err := v.cache.GetWithBuf(cacheKey(kb[:0], keyAnswer, addr, c.key), vb[:]); err == nil && len(val) == 9 {
		known, again := dnsAnswer(val[0]), int64(binary.BigEndian.Uint64(val[1:]))
		switch {
		case known == dnsFailed:
			return dnsUnknown // the cache will soon forget it
		case at.Unix() < again:
			return known
		case known == dnsConfirmed:
			v.start(c, addr, at) // believed while it is being confirmed again
			return known
		}
	}
	return v.doubt(c, addr, at)
}

// doubt starts a look-up, or finds it running, and decides whether the request may pass meanwhile.
func (v *verifier) doubt(c *crawler, addr netip.Addr, at time.Time) dnsAnswer {
	p := v.start(c, addr, at)
	if p == nil || at.Sub(p.since) >= v.bounds.grace {
		return dnsUnknown
	}
	var kb [32]byte
	if _, err := v.cache.Get(cacheKey(kb[:0], keyRefuted, addr, 0)); err == nil {
		return dnsUnknown
	}
	if v.unproven(addr) {
		v.stats.provisionalOut.Add(1)
		return dnsUnknown
	}
	if !v.pass(network64(addr), at) {
		v.stats.provisionalOut.Add(1)
		return dnsUnknown
	}
	v.stats.provisional.Add(1)
	return dnsMaybe
}

// pass takes one provisional pass of an address, if it and the gateway have any left. A window begins with its first
// pass and is not extended.
func (v *verifier) pass(addr netip.Addr, at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	var kb [32]byte
	key := cacheKey(kb[:0], keyPasses, addr, 0)
	used, left := byte(0), seconds(v.bounds.graceWindow)
	if val, end, err := v.cache.GetWithExpiration(key); err == nil && len(val) == 1 {
		used, left = val[0], max(1, int(int64(end)-v.now().Unix()))
	}
	if int(used) >= v.provisional || v.passes.Take(0, at) > 0 {
		return false
	}
	return v.cache.Set(key, []byte{used + 1}, left) == nil
}

// unproven reports whether DNS has failed for an address so often that requests no longer pass: the owner of its zone
// can leave queries unanswered for ever. Look-ups continue, and a proof ends this state.
func (v *verifier) unproven(addr netip.Addr) bool {
	var kb [32]byte
	n, err := v.cache.Get(cacheKey(kb[:0], keyFailed, network64(addr), 0))
	return err == nil && len(n) == 1 && int(n[0]) >= v.bounds.failures
}

// countFailure counts a look-up without an answer.
func (v *verifier) countFailure(addr netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var kb [32]byte
	key, n := cacheKey(kb[:0], keyFailed, network64(addr), 0), byte(0)
	if old, err := v.cache.Get(key); err == nil && len(old) == 1 {
		n = old[0]
	}
	_ = v.cache.Set(key, []byte{min(n, 254) + 1}, seconds(v.bounds.negativeTTL))
}

// start queues a look-up unless one is running; nil when there is no room or the rate is exceeded.
func (v *verifier) start(c *crawler, addr netip.Addr, at time.Time) *pendingCheck {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := pendingKey{addr, c.key}
	if p := v.pending[k]; p != nil {
		return p
	}
	if len(v.queue) == cap(v.queue) || v.lookups.Take(0, at) > 0 {
		v.stats.shed.Add(1)
		return nil
	}
	p := &pendingCheck{since: at}
	v.pending[k] = p
	v.queue <- checkJob{c, addr} // there is room: only start sends, and it holds the lock
	return p
}

func (v *verifier) begin(ctx context.Context) {
	ctx, v.cancel = context.WithCancel(ctx)
	for range v.bounds.workers {
		v.workers.Go(func() { v.work(ctx) })
	}
}

// stop ends the workers and waits for them.
func (v *verifier) stop() {
	if v.cancel != nil {
		v.cancel()
		v.workers.Wait()
	}
}

// work checks addresses until ctx ends.
func (v *verifier) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-v.queue:
			v.check(ctx, j)
		}
	}
}

func (v *verifier) check(ctx context.Context, j checkJob) {
	cctx, cancel := context.WithTimeout(ctx, v.bounds.lookupTimeout)
	got := v.resolve(cctx, j.crawler, j.addr)
	cancel()
	if ctx.Err() == nil {
		v.remember(j, got)
	}
	v.mu.Lock()
	delete(v.pending, pendingKey{j.addr, j.crawler.key})
	v.mu.Unlock()
}

// remember keeps an answer. A DNS failure says nothing about the client: it does not replace a confirmation that is
// not yet too old, and is soon forgotten.
func (v *verifier) remember(j checkJob, got dnsAnswer) {
	var kb, nb [32]byte
	key := cacheKey(kb[:0], keyAnswer, j.addr, j.crawler.key)
	val := make([]byte, 9)
	val[0] = byte(got)
	now := v.now()
	switch got {
	case dnsConfirmed:
		v.stats.confirmed.Add(1)
		v.cache.Del(cacheKey(nb[:0], keyFailed, network64(j.addr), 0))
		binary.BigEndian.PutUint64(val[1:], uint64(now.Add(v.bounds.positiveTTL).Unix()))
		_ = v.cache.Set(key, val, seconds(2*v.bounds.positiveTTL))
	case dnsRefuted:
		v.stats.refuted.Add(1)
		binary.BigEndian.PutUint64(val[1:], uint64(now.Add(v.bounds.negativeTTL).Unix()))
		_ = v.cache.Set(key, val, seconds(v.bounds.negativeTTL))
		_ = v.cache.Set(cacheKey(nb[:0], keyRefuted, j.addr, 0), []byte{1}, seconds(v.bounds.negativeTTL))
	default:
		v.stats.failed.Add(1)
		v.countFailure(j.addr)
		old, exp, err := v.cache.GetWithExpiration(key)
		if left := int64(exp) - now.Unix(); err == nil && len(old) == 9 && dnsAnswer(old[0]) == dnsConfirmed &&
			left > 0 {
			binary.BigEndian.PutUint64(old[1:], uint64(now.Add(v.bounds.failureTTL).Unix()))
			_ = v.cache.Set(key, old, int(left))
			return
		}
		_ = v.cache.Set(key, val, seconds(v.bounds.failureTTL))
	}
}

func (v *verifier) resolve(ctx context.Context, c *crawler, addr netip.Addr) dnsAnswer {
	names, err := v.resolver.LookupAddr(ctx, addr.String())
	failed := err != nil && !notFound(err)
	for i, name := range names {
		if i == maxNames {
			break
		}
		if !c.owns(name) {
			continue
		}
		hosts, err := v.resolver.LookupHost(ctx, name)
		for _, h := range hosts {
			if a, err := netip.ParseAddr(h); err == nil && a.WithZone("").Unmap() == addr {
				return dnsConfirmed
			}
		}
		failed = failed || err != nil && !notFound(err)
	}
	if failed {
		return dnsFailed
	}
	return dnsRefuted
}

func notFound(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound && !d.IsTimeout && !d.IsTemporary
}

func (v *verifier) snapshot() CrawlerStats {
	v.mu.Lock()
	n := len(v.pending)
	v.mu.Unlock()
	return CrawlerStats{
		Confirmed: v.stats.confirmed.Load(), Refuted: v.stats.refuted.Load(), Failed: v.stats.failed.Load(),
		Shed: v.stats.shed.Load(), Provisional: v.stats.provisional.Load(), Denied: v.stats.provisionalOut.Load(),
		Pending: n,
	}
}

func perSecond(n int) *bounded.Rate { return bounded.NewRate(time.Second/time.Duration(n), n, 1) }

func network64(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }
