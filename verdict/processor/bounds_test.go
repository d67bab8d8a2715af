package processor

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
)

// bench is a keeper that records what it is told.
type bench struct {
	mu       sync.Mutex
	bans     []bans.Ban
	excesses []verdict.Excess // the first thousand
	paths    verdict.Paths
	met      map[[16]byte]bool
	known    map[[16]byte]bool // places
}

func (b *bench) BanSoon(ban bans.Ban) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bans = append(b.bans, ban)
	return nil
}

func (*bench) Observe(*verdict.Event) {}

func (*bench) KnownAt([16]byte) int { return 0 }

func (*bench) IsKnown(*verdict.Event) bool { return false }

func (*bench) Returns(*verdict.Event) bool { return false }

func (b *bench) Exceeds(x *verdict.Excess) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.excesses) < 1000 {
		b.excesses = append(b.excesses, *x)
	}
}

func (*bench) KnowReader(uint32, uint32, bool, bool, time.Time) {}

func (*bench) Doubt(*verdict.Doubt) {}

func (*bench) AskArrivals(*verdict.Campaign) {}

func (b *bench) KnowsPlace(addr [16]byte, _ time.Time) bool { return b.known[addr] }

func (b *bench) Meet(addr [16]byte, _ time.Time) { b.know(addr, true) }

func (b *bench) Mistrust(addr [16]byte) { b.know(addr, false) }

func (b *bench) know(addr [16]byte, met bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.met == nil {
		b.met = map[[16]byte]bool{}
	}
	b.met[addr] = met
}

func (b *bench) Paths() *verdict.Paths { return &b.paths }

func (*bench) Forgot() bool { return false }

func (*bench) Recall(context.Context, identity.Subject, string) (int, error) {
	return 0, nil
}

func newProcessor(t testing.TB, edit func(*Config)) (*Processor, *bench) {
	t.Helper()
	b := &bench{}
	return newProcessorFor(t, b, edit), b
}

// ownLimits are those of an operator.
var ownLimits = []verdict.Limit{
	{Window: 10 * time.Second, Requests: 80, Ban: 10 * time.Minute},
	{Window: time.Minute, Requests: 300, Ban: 10 * time.Minute},
	{Window: 10 * time.Minute, Requests: 1500, Ban: 30 * time.Minute},
}

func newProcessorFor(t testing.TB, keeper BanKeeper, edit func(*Config)) *Processor {
	t.Helper()
	cfg := DefaultConfig()
	if edit != nil {
		edit(&cfg)
	}
	p, err := New(cfg, Deps{Keeper: keeper, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	sc := verdict.DefaultServiceConfig()
	sc.Limits = ownLimits
	s, err := sc.Settings("shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	know(t, p, []*verdict.Settings{s})
	return p
}

func event(at time.Time, n int, subs ...identity.Subject) *verdict.Event {
	a := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	e := &verdict.Event{At: at, Status: 200}
	e.Page, e.Claim = true, client.Claim{Family: client.FamilyChrome}
	for _, s := range append(subs, identity.AddrSubject(a)) {
		e.Subjects[e.N] = s
		e.N++
	}
	return e
}

// TestPitfall12QueueShedsAndCounts: a full queue refuses at once and counts that, and Close judges what was accepted.
func TestPitfall12QueueShedsAndCounts(t *testing.T) {
	p, b := newProcessor(t, func(c *Config) { c.Queue, c.Workers = 256, 1 })
	at := time.Unix(1e9, 0)
	taken := 0
	for range 1000 {
		if p.Offer(event(at, 1)) {
			taken++
		}
	}
	if taken != 256 || p.shed.Get() != 744 || p.offered.Get() != 1000 {
		t.Errorf("%d taken, %d shed, %d offered", taken, p.shed.Get(), p.offered.Get())
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if len(b.bans) != 1 || b.bans[0].Factors[0].Value != 60 {
		t.Errorf("%v", b.bans)
	}
	if p.Offer(event(at, 1)) {
		t.Error("an event is taken after Close")
	}
	if p.queues[0].waiting() != 0 {
		t.Error("events were left")
	}
}

// TestQueueKeepsAll: many producers, one consumer: each event once, and those of one producer in order.
func TestQueueKeepsAll(t *testing.T) {
	q := newQueue(1024)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	last, n := map[uint64]uint64{}, 0
	wg.Go(func() {
		q.run(stop, func(e *verdict.Event) {
			if e.Path != last[e.Agent]+1 {
				t.Errorf("producer %d: %d after %d", e.Agent, e.Path, last[e.Agent])
			}
			last[e.Agent] = e.Path
			n++
		})
	})
	var producers sync.WaitGroup
	for g := range 4 {
		producers.Go(func() {
			for i := uint64(1); i <= 5000; {
				if q.offer(&verdict.Event{Agent: uint64(g), Path: i}) {
					i++
				}
			}
		})
	}
	producers.Wait()
	close(stop)
	wg.Wait()
	if n != 20000 {
		t.Errorf("%d events, want 20000", n)
	}
}

// TestQueueOfBatchesThatComeBack: a producer that saw a batch full, and waits until it was emptied and is filled again, does not begin
// another one too early: its places would never be filled, and nothing behind them judged.
func TestQueueOfBatchesThatComeBack(t *testing.T) {
	q := newQueue(2 * batchEvents)
	offered, taken := uint64(0), uint64(0)
	offer := func(n int) {
		t.Helper()
		for range n {
			if !q.offer(&verdict.Event{Path: offered}) {
				t.Fatalf("event %d is shed", offered)
			}
			offered++
		}
	}
	take := func(n int) {
		t.Helper()
		for range n {
			if !q.take(func(e *verdict.Event) {
				if e.Path != taken {
					t.Errorf("event %d comes after %d others", e.Path, taken)
				}
				taken++
			}) {
				t.Fatalf("no event after %d", taken)
			}
		}
	}
	offer(batchEvents)
	seen := q.last.Load() // full
	offer(1)
	take(batchEvents + 1)
	offer(batchEvents) // the last of them in the first batch again
	if q.last.Load() != seen || !q.begin(seen) || q.last.Load() != seen {
		t.Error("a batch that is not full has another one behind it")
	}
	if n := q.waiting(); n != batchEvents {
		t.Errorf("%d events wait", n)
	}
	take(batchEvents)
	for range 1000 {
		offer(batchEvents / 2)
		take(batchEvents / 2)
	}
	for q.offer(&verdict.Event{Path: offered}) {
		offered++
	}
	if n := q.waiting(); n < batchEvents || n > 2*batchEvents || uint64(n) != offered-taken {
		t.Errorf("%d events wait, %d were offered", n, offered-taken)
	}
}

// reading makes the nth page of a visitor, from an address that may differ each time.
func reading(at time.Time, n int, id [16]byte) *verdict.Event {
	e := event(at, 0)
	e.Subjects[0].ID = id
	e.Target, e.Path = uint64(n)*0x9e3779b97f4a7c15, uint64(n)*0x9e3779b97f4a7c15
	e.Answered(200, []byte("text/html"), 1000, 0)
	return e
}

// picture makes a page a subresource.
func picture(e *verdict.Event) *verdict.Event {
	e.Static, e.Page = true, false
	e.Answered(200, []byte("image/webp"), 1000, 0)
	return e
}

// office is one address.
var office = [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: 0, 14: 113, 15: 9}

// TestSlidingCount compares the estimate with the exact count, for steady paces.
func TestSlidingCount(t *testing.T) {
	p, _ := newProcessor(t, nil)
	limits := (*p.services.Load())[0].limits
	for _, pace := range []time.Duration{7 * time.Millisecond, 130 * time.Millisecond, 900 * time.Millisecond} {
		k := paceKey{id: [16]byte{byte(pace)}}
		at := time.Unix(1e9, 0).Add(pace / 3)
		for range 3000 {
			var seen [verdict.MaxLimits]float32
			p.paces.add(k, at, limits, 0, 0, &seen)
			if exact := float32(limits[0].Window / pace); at.Sub(time.Unix(1e9, 0)) > 20*time.Second &&
				(seen[0] > exact*1.02+2 || seen[0] < exact*0.98-2) {
				t.Fatalf("pace %v: %v in %v, exact %v", pace, seen[0], limits[0].Window, exact)
			}
			at = at.Add(pace)
		}
	}
}

func TestOfferAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p, _ := newProcessor(t, func(c *Config) { c.Queue = 1 << 16 })
	e := event(time.Unix(1e9, 0), 1)
	if n := testing.AllocsPerRun(1000, func() { p.Offer(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	v, id := &request.View{At: e.At}, &identity.Identity{N: 1, Subjects: e.Subjects}
	s := (*p.services.Load())[0].Settings
	var d verdict.Decision
	p.Process(e)
	if n := testing.AllocsPerRun(1000, func() { p.Score(&d, v, id, s) }); n != 0 {
		t.Errorf("the judge: %v allocations", n)
	}
}

// TestChargeAllocatesNothing: pages within the quota are counted without garbage.
func TestChargeAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p, b := newProcessor(t, nil)
	e := event(time.Unix(1e9, 0), 1)
	charge := func() {
		e.At = e.At.Add(2 * time.Hour)
		p.charge(e, p.service(0), verdict.CountDocument, false)
	}
	if n := testing.AllocsPerRun(100, charge); n != 0 || len(b.excesses) > 0 {
		t.Errorf("%v allocations, %d excesses", n, len(b.excesses))
	}
	if p.quota.Len() == 0 {
		t.Error("nothing was counted")
	}
}

func TestConfigSaysAllErrors(t *testing.T) {
	c := Config{}
	err := c.Validate()
	if err == nil || len(err.Error()) < 100 {
		t.Errorf("%v", err)
	}
	c = DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// TestTwoRequestsAreNoPace: not even for a limit of one, which a configuration can't express.
func TestTwoRequestsAreNoPace(t *testing.T) {
	p, b := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop", Limits: []verdict.Limit{{Window: time.Second, Requests: 1, Ban: time.Minute}}}})
	for n := range 3 {
		p.Process(event(time.Unix(1e9, 0), 1))
		if want := n / 2; len(b.bans) != want {
			t.Errorf("%d bans after %d requests, want %d", len(b.bans), n+1, want)
		}
	}
}

// TestSentences: a ban is doubled with each repetition, not while most of one is left, starts over when forgotten, and
// never exceeds the maximum.
func TestSentences(t *testing.T) {
	var s lastBan
	at := time.Unix(1e9, 0)
	f := func(wait, want time.Duration) {
		t.Helper()
		at = at.Add(wait)
		got, ok := s.next(at, banGrowth{first: 10 * time.Minute, most: time.Hour, forget: 24 * time.Hour})
		if got != want || ok != (want > 0) {
			t.Errorf("%v, %v; want %v", got, ok, want)
		}
	}
	f(0, 10*time.Minute)
	f(4*time.Minute, 0)
	f(2*time.Minute, 20*time.Minute)
	f(10*time.Minute, 40*time.Minute)
	f(20*time.Minute, time.Hour)
	f(2*time.Hour, time.Hour)
	f(23*time.Hour, time.Hour)
	f(26*time.Hour, 10*time.Minute)
}

// TestExemptNetworks: a single address is a network by itself, and IPv4 written as IPv6 is IPv4.
func TestExemptNetworks(t *testing.T) {
	p, _ := newProcessor(t, func(c *Config) { c.Exempt = []string{"::ffff:10.0.0.0/104", "192.0.2.7", "2001:db8::/48"} })
	for addr, want := range map[string]bool{"10.9.8.7": true, "11.0.0.1": false, "192.0.2.7": true, "192.0.2.8": false, "2001:db8::9": true} {
		if p.spares(netip.MustParseAddr(addr).As16()) != want {
			t.Errorf("%s: exempt %v", addr, !want)
		}
	}
}
