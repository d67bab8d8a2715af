package cbb

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// networks is a million, or under -short, where no figure is quoted, few.
func networks() int {
	if testing.Short() {
		return 10_000
	}
	return 1_000_000
}

// withMillion puts a million networks into Lists as if they had been fetched.
func withMillion(t testing.TB, cfg Config) *Lists {
	l := open(t, cfg, nil)
	s := *l.snap.Load()
	s.layers = append(s.layers, million(networks()))
	s.table = buildTable(s.layers)
	l.snap.Store(&s)
	return l
}

// clients returns the addresses of many clients, half of them in a listed network, and requests of 200 kinds of
// browser. A gateway has the request that it judges in the CPU cache, but not 64 thousand clients.
func clients(l *Lists) ([]netip.Addr, []*request.View) {
	const n = 1 << 16
	r := rand.New(rand.NewPCG(3, 4))
	var listed, addrs []netip.Addr
	for _, la := range l.snap.Load().layers {
		la.data.each(func(p netip.Prefix) { listed = append(listed, p.Addr()) })
	}
	for i := range n {
		if i%2 == 0 && len(listed) > 0 {
			addrs = append(addrs, listed[r.IntN(len(listed))])
		} else {
			addrs = append(addrs, netip.AddrFrom4([4]byte{byte(1 + r.IntN(223)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}))
		}
	}
	r.Shuffle(n, func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	var vs []*request.View
	for i := range 200 {
		v, _ := newRequest(
			"192.0.2.1",
			fmt.Sprintf("/catalog/item-%d", i),
			"Host",
			"shop.example",
			"User-Agent",
			fmt.Sprintf(
				"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.%d.0 Safari/537.36",
				100+i%40, i,
			),
			"Accept",
			"text/html,application/xhtml+xml",
			"Accept-Language",
			"ru,en;q=0.8",
			"Accept-Encoding",
			"gzip, deflate, br",
			"Sec-Fetch-Dest",
			"document",
			"Sec-Fetch-Mode",
			"navigate",
			"Sec-Fetch-Site",
			"none",
			"Upgrade-Insecure-Requests",
			"1",
			"Cookie",
			"i=0123456789abcdef; session=0123456789abcdef0123456789abcdef",
		)
		vs = append(vs, v)
	}
	return addrs, vs
}

// hundredPatterns is a mix as operators write it: probes of scanners, tools by user agent, odd headers.
func hundredPatterns() []PatternConfig {
	var ps []PatternConfig
	for i := range 25 {
		ps = append(
			ps,
			PatternConfig{Name: fmt.Sprintf("prefix%d", i), Flag: "block", PathPrefix: fmt.Sprintf("/probe-%d/", i)},
			PatternConfig{
				Name: fmt.Sprintf("regex%d", i), Flag: "ban",
				PathRegex: fmt.Sprintf(`(?i)/scan%d[a-z]+\.(php|asp|jsp)$`, i),
			},
			PatternConfig{
				Name: fmt.Sprintf("agent%d", i), Flag: "ban", UserAgentRegex: fmt.Sprintf(`(?i)tool%d/[0-9.]+`, i),
			},
		)
	}
	for i := range 15 {
		ps = append(
			ps,
			PatternConfig{Name: fmt.Sprintf("glob%d", i), Flag: "ban", PathGlob: fmt.Sprintf("/**/backup%d/*.zip", i)},
		)
	}
	for i := range 10 {
		ps = append(ps, PatternConfig{
			Name: fmt.Sprintf("header%d", i), Flag: "ban", Methods: []string{"GET", "POST"},
			Headers: []HeaderConfig{
				{Name: "Accept-Language", Contains: fmt.Sprintf("zz%d", i)}, {Name: "Referer", Absent: true},
			},
		})
	}
	return ps
}

func benchLookup(b *testing.B, l *Lists) {
	addrs, vs := clients(l)
	_, id := newRequest("192.0.2.1", "/")
	var m Match
	for _, v := range vs {
		l.Lookup(&m, v, id, "shop") // warm
	}
	b.ReportAllocs()
	found, i, k := 0, 0, 0
	began := cpuTime()
	for b.Loop() {
		id.Addr = addrs[i&(len(addrs)-1)]
		l.Lookup(&m, vs[k], id, "shop")
		if m.Block != nil {
			found++
		}
		i++
		if k++; k == len(vs) {
			k = 0
		}
	}
	b.ReportMetric(float64(cpuTime()-began)/float64(i), "cpu-ns/op")
	b.ReportMetric(float64(found)/float64(i)*100, "%found")
}

// cpuTime is the processor time that the process has used: on a shared machine the clock says more about the
// neighbours.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLookup checks the budget of docs/performance.md: a million networks, the built-in crawlers, 64 thousand
// clients.
func BenchmarkLookup(b *testing.B) {
	c := DefaultConfig()
	c.Crawlers.FetchRanges = false
	b.Run("million", func(b *testing.B) { benchLookup(b, withMillion(b, c)) })
	b.Run("million+runtime", func(b *testing.B) {
		l := withMillion(b, c)
		for i := range 10_000 {
			if err := l.Add(b.Context(), Ban, fmt.Sprintf("10.%d.%d.%d", i%7, i/256%256, i%256), time.Hour, "", ""); err != nil {
				b.Fatal(err)
			}
		}
		benchLookup(b, l)
	})
	b.Run("million+patterns100", func(b *testing.B) {
		c := c
		c.Patterns = hundredPatterns()
		benchLookup(b, withMillion(b, c))
	})
	b.Run("none", func(b *testing.B) { benchLookup(b, open(b, config(nil), nil)) })
	b.Run("patterns100", func(b *testing.B) {
		benchLookup(b, open(b, config(func(c *Config) { c.Patterns = hundredPatterns() }), nil))
	})
}

// BenchmarkBuild reports the time to build the table, its memory, and that of the parsed lists from which it is built.
func BenchmarkBuild(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc
	}
	h0 := heap()
	l := million(networks())
	h1 := heap()
	var t *table
	for b.Loop() {
		t = buildTable([]layer{l})
	}
	h2 := heap()
	n := float64(t.networks)
	b.ReportMetric(n, "networks")
	b.ReportMetric(float64(h2-h1)/n, "table-B/network")
	b.ReportMetric(float64(h1-h0)/n, "parsed-B/network")
	runtime.KeepAlive(l)
	runtime.KeepAlive(t)
}

// BenchmarkAdd measures one run-time entry among many, without the store.
func BenchmarkAdd(b *testing.B) {
	o := newOverlay()
	i := 0
	for b.Loop() {
		e := fmt.Sprintf("10.%d.%d.%d", i>>16&15, i>>8&255, i&255)
		it, _ := parseItem(e)
		o.set(e, &runtimeItem{entry: &Entry{Text: e}, what: it})
		i++
	}
	b.ReportMetric(float64(len(o.items)), "entries")
}

func BenchmarkReadLines(b *testing.B) {
	lines := make([]byte, 0, 16<<20)
	million(100_000).data.each(func(p netip.Prefix) { lines = append(p.AppendTo(lines), '\n') })
	b.SetBytes(int64(len(lines)))
	for b.Loop() {
		d, err := newParser(limits{maxEntries: 1 << 20, maxBadShare: 0.1}).read(bytes.NewReader(lines), formatAuto, 0)
		if err != nil || d.entries == 0 {
			b.Fatal(err)
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	dns := zone()
	l := crawling(t, dns, nil, func(c *Config) {
		c.Patterns = hundredPatterns()
		c.Block = []string{"192.0.2.1", "L:alice"}
	})
	for _, e := range []string{"192.0.2.0/24", "ip:192.0.2.1", "2001:db8::/32"} {
		if err := l.Add(t.Context(), Ban, e, time.Hour, "", "shop"); err != nil {
			t.Fatal(err)
		}
	}
	f := func(name, addr, path string, headers ...string) {
		t.Helper()
		v, id := newRequest(addr, path, headers...)
		var m Match
		l.Lookup(&m, v, id, "shop")
		for i := 0; name == "crawler" && (m.White == nil || m.White.Provisional); i++ { // until the look-up is done
			if i == 1000 {
				t.Fatal("never verified")
			}
			time.Sleep(time.Millisecond)
			l.Lookup(&m, v, id, "shop")
		}
		if n := testing.AllocsPerRun(200, func() { l.Lookup(&m, v, id, "shop") }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	listed, at, addr := false, time.Now(), netip.MustParseAddr("192.0.2.1")
	for _, name := range []string{"api", "block"} {
		n := testing.AllocsPerRun(200, func() { listed = l.Listed(name, addr, identity.Subject{}, "shop", at) })
		if n != 0 || !listed {
			t.Errorf("on list %s: %v allocations, %v", name, n, listed)
		}
	}
	f("browser", "192.0.2.1", "/a", "User-Agent", chromeUA, "Accept-Language", "ru")
	f("IPv6", "2001:db8::1", "/a", "User-Agent", chromeUA)
	f("odd path", "192.0.2.1", "/x/%2e%2e/scan7abc.php", "User-Agent", chromeUA)
	f("no headers", "203.0.113.1", "/")
	f("crawler", "66.249.66.1", "/", "User-Agent", googleUA)
}
