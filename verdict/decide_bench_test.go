package verdict

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// heap returns the live heap after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func addr4(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// fillBans makes n bans of addresses and i cookies as the processor makes them.
func fillBans(tb testing.TB, t *bans.Table, n int, at time.Time) {
	tb.Helper()
	for i := range n {
		b := bans.Ban{
			Until: at.Add(time.Hour + time.Duration(i)*time.Millisecond), Made: at, Service: "shop", Source: bans.SourceProcessor,
			Score: 1, Threshold: 0.5, Reason: "pace: more than 80 pages in 10s",
			Factors: [bans.MaxFactors]bans.Factor{{Name: "pages_10s", Value: 81}, {Name: "limit", Value: 80}, {Name: "network_pages", Value: 100}},
		}
		if i%2 == 0 {
			b.Subject = identity.AddrSubject(addr4(60<<24 + i))
		} else {
			b.Subject = sub(identity.KindI, i)
			b.Subject.ID[12], b.Subject.ID[13], b.Subject.ID[14] = byte(i>>8), byte(i>>16), 1
		}
		if _, changed := t.Merge(&b, at.UnixNano()); !changed {
			tb.Fatal("the ban is not taken")
		}
	}
}

// TestMemoryOfBans checks the budget: a million bans in 150 MB.
func TestMemoryOfBans(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("a million bans take a while")
	}
	const n = 1_000_000
	before := heap()
	table := bans.NewTable(n)
	fillBans(t, table, n, day0)
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes a ban", each)
	if each > 150 {
		t.Errorf("%.0f bytes a ban, budget 150", each)
	}
	runtime.KeepAlive(table)
}

// bigWorld is a million networks in the lists, a million bans, a hundred thousand passes that have paid, and requests
// in a fixed mix: 60 % with an i cookie, 25 % with nothing, 10 % with a pass, 5 % banned (half of them with a pass that
// pays).
type bigWorld struct {
	cold bool
	*world
	s        *Settings
	resolver *identity.Resolver
	ids      *identity.CookieSettings
	views    []request.View
	known    []identity.Identity
}

var big *bigWorld

// bigWorldFor builds it once for all benchmarks of a run; that takes some seconds, unless under -short, where no figure is quoted, it is small.
func bigWorldFor(b *testing.B) *bigWorld {
	if big != nil {
		return big
	}
	million := 1_000_000
	if testing.Short() {
		million = 10_000
	}
	w := &bigWorld{s: service(b)}
	var text strings.Builder
	for i := range million {
		fmt.Fprintf(&text, "%v/%d\n", addr4(20<<24+i*64), 26+i%7)
	}
	file := filepath.Join(b.TempDir(), "networks.txt")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	c := newClock()
	st := newStore(false, c.now)
	cfg := cbb.DefaultConfig()
	cfg.Lists = append(cfg.Lists, cbb.ListConfig{Name: "networks", Flag: "block", File: file})
	real, err := cbb.New(cfg, cbb.Deps{KV: st, Feed: st, Now: c.now, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	w.world = newWorldOver(b, st, c, func(o *options) {
		o.Lists = real
		o.Config.Stopped, o.Config.Human = DefaultConfig().Stopped, DefaultConfig().Human
	})
	fillBans(b, w.LiveBans.table, million, day0)
	w.identities(b, million/10)
	big = w
	return w
}

// identities makes a resolver, so many passes, and requests with their cookies: 65536 of them for 100 thousand passes.
func (w *bigWorld) identities(b *testing.B, live int) {
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(day0)})
	if err != nil {
		b.Fatal(err)
	}
	w.resolver, err = identity.New(identity.DefaultConfig(), identity.Deps{Keys: spravka.NewKeys(ring), Revocations: w.Cacher})
	if err != nil {
		b.Fatal(err)
	}
	if w.ids, err = identity.NewCookieSettings(identity.DefaultServiceConfig()); err != nil {
		b.Fatal(err)
	}
	var passes []spravka.Pass
	for n := range live {
		p := pass(day0.Add(-time.Hour), n, 1_000_000, "192.0.2.1")
		p.ID[12], p.ID[13], p.Scope = byte(n>>8), byte(n>>16), spravka.ScopeOf("shop.example")
		passes = append(passes, p)
		w.spend(&p, ledger.Open)
	}
	n := live << 16 / 100_000
	w.views, w.known = make([]request.View, n), make([]identity.Identity, n)
	for i := range n {
		v, _ := newRequest(day0, "192.0.2.1")
		v.Peer = addr4(100<<24 + i*37)
		cookie := ""
		var token []byte
		switch k := i % 100; {
		case k < 60:
			old := *v
			old.At = day0.Add(-48 * time.Hour)
			old.Fields = append(old.Fields[:1:1], request.Field{Name: []byte("Accept"), Value: []byte("text/html")})
			var id identity.Identity
			w.resolver.Resolve(&id, &old, w.ids)
			token = w.resolver.MintI(nil, &id, &old, w.ids)
			cookie, _, _ = strings.Cut(string(token), ";")
		case k < 85:
		case k < 97:
			p := passes[i%len(passes)]
			cookie = "spravka=" + string(ring.SealPass(nil, &p))
			if k >= 95 {
				v.Peer = addr4(60<<24 + i*2)
			}
		default:
			v.Peer = addr4(60<<24 + i*2)
		}
		if cookie != "" {
			v.Fields = append(v.Fields, request.Field{Name: []byte("Cookie"), Value: []byte("theme=dark; " + cookie + "; _ga=GA1.2.3")})
		}
		w.views[i] = *v
		w.resolver.Resolve(&w.known[i], v, w.ids)
	}
}

// hot is a set of requests in the state of having just been read and parsed, so they lie in the CPU cache.
type hot struct {
	views [32]request.View
	known [32]identity.Identity
	bytes []byte
	field [32][8]request.Field
}

// onSite is how many visitors are on the site at once, and askTimes how often each asks before another takes its place:
// a page and its parts, which at five thousand requests a second arrive within a second and a half.
const onSite, askTimes = 640, 12

// visitor returns whose the nth request is. Cold, no visitor asks twice before all others have asked.
func (w *bigWorld) visitor(n int) int {
	if w.cold {
		return n * 7919 % len(w.views)
	}
	place := n % onSite
	return (place + onSite*((n/onSite+place)/askTimes)) * 7919 % len(w.views)
}

// load copies requests, including their bytes.
func (h *hot) load(w *bigWorld, from int) {
	h.bytes = h.bytes[:0]
	for j := range h.views {
		i := w.visitor(from + j)
		h.views[j], h.known[j] = w.views[i], w.known[i]
		fields := h.field[j][:copy(h.field[j][:], w.views[i].Fields)]
		for k := range fields {
			n := len(h.bytes)
			h.bytes = append(h.bytes, fields[k].Value...)
			fields[k].Value = h.bytes[n:len(h.bytes):len(h.bytes)]
		}
		h.views[j].Fields = fields
	}
}

// measure runs f for each of many requests, timing batches for the mean and single calls for the percentiles (which
// include the clock's own cost, some 40 ns).
func (w *bigWorld) measure(b *testing.B, f func(v *request.View, known *identity.Identity)) {
	h := &hot{bytes: make([]byte, 0, 1<<16)}
	b.ReportAllocs()
	b.ResetTimer()
	var total time.Duration
	for n := 0; n < b.N; n += len(h.views) {
		h.load(w, n)
		from := time.Now()
		for j := range h.views {
			f(&h.views[j], &h.known[j])
		}
		total += time.Since(from)
	}
	b.StopTimer()
	b.ReportMetric(float64(total)/float64((b.N+31)/32*32), "ns/op")
	took := make([]time.Duration, 0, len(w.views)<<1)
	for n := 0; len(took) < cap(took); n += len(h.views) {
		h.load(w, n)
		for j := range h.views {
			from := time.Now()
			f(&h.views[j], &h.known[j])
			took = append(took, time.Since(from))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

// BenchmarkDecide measures the verdict: View, identity, lists, bans, pass, with 1 M list networks, 1 M bans, 100 k live
// passes and 65536 visitors, 60 % of them with an i cookie, 25 % with none, 12 % with a pass. "whole" and its parts
// have 640 visitors on the site at once, each of whom asks twelve times; "cold" takes for every request a visitor of
// whom the processor's caches hold nothing, which is the worst case.
func BenchmarkDecide(b *testing.B) {
	w := bigWorldFor(b)
	var d Decision
	var id identity.Identity
	b.Run("whole", func(b *testing.B) {
		n := [3]int{}
		w.measure(b, func(v *request.View, _ *identity.Identity) {
			w.resolver.Resolve(&id, v, w.ids)
			w.Decide(&d, v, &id, w.s)
			n[d.Verdict]++
		})
		b.Logf("human %d, robot %d, blocked %d", n[0], n[1], n[2])
	})
	b.Run("cold", func(b *testing.B) {
		w.cold = true
		defer func() { w.cold = false }()
		w.measure(b, func(v *request.View, _ *identity.Identity) {
			w.resolver.Resolve(&id, v, w.ids)
			w.Decide(&d, v, &id, w.s)
		})
	})
	b.Run("identity", func(b *testing.B) {
		w.measure(b, func(v *request.View, _ *identity.Identity) { w.resolver.Resolve(&id, v, w.ids) })
	})
	b.Run("verdict", func(b *testing.B) {
		w.measure(b, func(v *request.View, known *identity.Identity) { w.Decide(&d, v, known, w.s) })
	})
	b.Run("lists", func(b *testing.B) {
		var m cbb.Match
		w.measure(b, func(v *request.View, known *identity.Identity) { w.Cacher.lists.Lookup(&m, v, known, "shop") })
	})
	b.Run("bans", func(b *testing.B) {
		var ban bans.Ban
		at := day0.UnixNano()
		w.measure(b, func(_ *request.View, known *identity.Identity) {
			for i := range known.N {
				w.LiveBans.table.Lookup(&ban, known.Subjects[i], w.s.Name, w.s.Threshold, at, nil)
			}
		})
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var d Decision
			var id identity.Identity
			h := &hot{bytes: make([]byte, 0, 1<<16)}
			for n := 0; ; n += len(h.views) {
				h.load(w, n) // included in the figure
				for j := range h.views {
					if !pb.Next() {
						return
					}
					w.resolver.Resolve(&id, &h.views[j], w.ids)
					w.Decide(&d, &h.views[j], &id, w.s)
				}
			}
		})
	})
}

// BenchmarkRecord measures the cost of recording a decision.
func BenchmarkRecord(b *testing.B) {
	w := newWorld(b, func(o *options) { o.Config.Stopped, o.Config.Human = DefaultConfig().Stopped, DefaultConfig().Human })
	s := service(b)
	for _, verdict := range []Verdict{Human, Robot} {
		b.Run(verdict.String(), func(b *testing.B) {
			v, id := newRequest(day0, "192.0.2.1", sub(identity.KindI, 1))
			d := Decision{Verdict: verdict}
			b.ReportAllocs()
			for range b.N {
				w.Decisions().Record(request.NewID(day0), &d, v, id, s)
			}
		})
	}
}

func BenchmarkRequestID(b *testing.B) {
	b.ReportAllocs()
	var buf [26]byte
	for range b.N {
		request.NewID(day0).AppendTo(buf[:0])
	}
}

func BenchmarkRevoked(b *testing.B) {
	w := newWorld(b)
	for n := range 10_000 {
		p := pass(day0, n, 1, "192.0.2.1")
		p.ID[14] = byte(n >> 8)
		if err := w.Revocations.put(p.ID, day0.Add(time.Hour).UnixNano()); err != nil {
			b.Fatal(err)
		}
	}
	p := pass(day0, 7, 1, "192.0.2.1")
	b.ReportAllocs()
	for range b.N {
		w.Revoked(p.ID, p.Born)
	}
}
