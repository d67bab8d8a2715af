package proxy

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/request"
)

// TestAccessLineCanBeReplayed: the line has everything that replay judges by, but neither the query nor that of the
// Referer.
func TestAccessLineCanBeReplayed(t *testing.T) {
	e := newCheckEnv(t, nil)
	ask := func(target string) string {
		e.send(asked("GET", target, "203.0.113.5", "Referer: https://shop.example/list#token=secret\r\n"))
		return <-e.access
	}
	one, two := ask("/list?page=1&key=secret"), ask("/list?page=2&key=secret")
	for _, want := range []string{
		`"path":"/list"`, `"asks":"page"`, `"user_agent":"Mozilla/5.0 (X11`,
		`"referer":"https://shop.example/list"`,
	} {
		if !strings.Contains(one, want) {
			t.Errorf("no %s in %s", want, one)
		}
	}
	if strings.Contains(one, "secret") || strings.Contains(one, "page=") {
		t.Errorf("a query in %s", one)
	}
	hash := func(line string) string {
		_, rest, _ := strings.Cut(line, `"query_hash":"`)
		h, _, _ := strings.Cut(rest, `"`)
		return h
	}
	if h := hash(one); len(h) != 8 || h == hash(two) || h != hash(ask("/list?page=1&key=secret")) {
		t.Errorf("hashes %q and %q", h, hash(two))
	}
	e.check.core.deps.Hash = request.HashKey{1, 2}
	if keyed := hash(ask("/list?page=1&key=secret")); len(keyed) != 8 || keyed == hash(one) {
		t.Errorf("hash %q with a key, %q without: whoever reads the log can try what the query was", keyed, hash(one))
	}
	e.check.core.deps.AccessFields = false
	if line := ask("/list"); strings.Contains(line, "user_agent") || strings.Contains(line, "referer") {
		t.Errorf("fields that nobody asked for in %s", line)
	}
}

// TestRefererIsQuotedWithoutSecrets: a Referer in the log has no query, no fragment, and nobody's name and password.
func TestRefererIsQuotedWithoutSecrets(t *testing.T) {
	f := func(referer, want string) {
		t.Helper()
		if got := string(quotedReferer([]byte(referer))); got != want {
			t.Errorf("%q: %q, wanted %q", referer, got, want)
		}
	}
	f("", "")
	f("https://shop.example/list?token=secret", "https://shop.example/list")
	f("https://shop.example/list#access_token=secret", "https://shop.example/list")
	f("https://shop.example?x", "https://shop.example")
	f("https://name:secret@shop.example/list", "shop.example/list")
	f("//name:se@cret@shop.example", "shop.example")
	f("https://shop.example/@name//@x", "https://shop.example/@name//@x")
	f("/list?secret", "/list")
}

// TestPitfall12LinesAreBounded: a flood writes a bounded number of lines, per network and in total, and the next line
// says how many were omitted.
func TestPitfall12LinesAreBounded(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	c := metrics.NewSet().NewCounter("x")
	l := newLines(LineLimits{PerSecond: 50, NetworkPerMinute: 60, NetworkBurst: 10}, c)
	written := func(key uint64, n int) (ok int) {
		for range n {
			if _, yes := l.take(key, at, 1); yes {
				ok++
			}
		}
		return ok
	}
	if n := written(1, 1000); n != 10 {
		t.Errorf("%d lines of a flood from one network", n)
	}
	if left, ok := l.take(2, at, 1); !ok || left != 990 {
		t.Errorf("another network: %t, %d left out", ok, left)
	}
	if n := written(3, 1000) + written(4, 1000) + written(5, 1000) + written(6, 1000); n != 25-11+2 {
		t.Errorf("%d lines of networks that write many", n+11)
	}
	few := 0 // the other half of the sum is for those who write few
	for key := range uint64(100) {
		few += written(300+key, 1)
	}
	if few != 50-27 {
		t.Errorf("%d lines of networks that write few", few)
	}
	if _, ok := l.take(7, at, 1); ok {
		t.Error("more lines than in sum")
	}
	at = at.Add(time.Second)
	if _, ok := l.take(1, at, 1); !ok {
		t.Error("a network at rest again has no line")
	}
	if n := c.Get(); n != 990+1+4000-16+100-23 {
		t.Errorf("%d are counted", n)
	}
	if l := newLines(LineLimits{}, c); l != nil {
		t.Error("no limits are no limits")
	}
	if _, ok := (*lines)(nil).take(1, at, 1); !ok {
		t.Error("a line without limits is left out")
	}
}

// TestPitfall12FloodFromManyNetworksLeavesLines: whoever has few lines to write has them also while some thousand
// networks write as many as each of them may.
func TestPitfall12FloodFromManyNetworksLeavesLines(t *testing.T) {
	const networks, seconds = 1500, 300
	l := newLines(DecisionLines(), metrics.NewSet().NewCounter("w"))
	at := time.Unix(1_000_000, 0)
	lost, others := 0, uint64(1<<40)
	for s := range seconds {
		for n := range uint64(networks) { // each within its own limit
			l.take(n<<20|n, at, 1)
		}
		if s < 180 {
			at = at.Add(time.Second)
			continue // until they are known
		}
		for range 5 {
			if _, ok := l.take(others, at, 1); !ok {
				lost++
			}
			others += 7
		}
		at = at.Add(time.Second)
	}
	if all := 5 * (seconds - 180); lost > all/20 {
		t.Errorf("%d of %d others have no line", lost, all)
	}
}

// TestPitfall12LongLinesCountMore: a network's lines take as much disk as it has usual lines, whatever it writes into
// them.
func TestPitfall12LongLinesCountMore(t *testing.T) {
	f := func(want int, texts ...string) {
		t.Helper()
		var b [][]byte
		for _, s := range texts {
			b = append(b, []byte(s))
		}
		if got := linesOf(b...); got != want {
			t.Errorf("%d bytes count as %d lines, wanted %d", len(strings.Join(texts, "")), got, want)
		}
	}
	f(1, "/", "")
	f(1, "/catalogue/shoes/4711", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "+
		"Chrome/150.0.0.0 Safari/537.36", "https://shop.example/catalogue/shoes")
	f(3, strings.Repeat("x", maxLoggedPath))
	f(13, strings.Repeat("\xff", maxLoggedPath))
	f(19, strings.Repeat("\xff", maxLoggedPath), strings.Repeat("\x01", maxLoggedField),
		strings.Repeat("\xff", maxLoggedField))

	at := time.Unix(1_000_000, 0)
	l := newLines(LineLimits{PerSecond: 100, NetworkPerMinute: 60, NetworkBurst: 50}, metrics.NewSet().NewCounter("z"))
	written := 0
	for range 1000 {
		if _, ok := l.take(1, at, 19); ok {
			written++
		}
	}
	if written > 3 { // 50 usual ones
		t.Errorf("%d long lines in a burst", written)
	}
	for key := range uint64(20) {
		if _, ok := l.take(2+key, at, 19); ok {
			written++
		}
	}
	if written > 6 {
		t.Errorf("%d long lines in sum", written)
	}
	if _, ok := l.take(1, at.Add(10*time.Second), 1); !ok {
		t.Error("who wrote long lines writes none later")
	}
}

func TestLinesInParallel(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	c := metrics.NewSet().NewCounter("y")
	l := newLines(LineLimits{PerSecond: 1000, NetworkPerMinute: 1, NetworkBurst: 1_000_000}, c)
	var all sync.WaitGroup
	for key := range uint64(8) {
		all.Go(func() {
			for range 1000 {
				l.take(key, at, 1)
			}
		})
	}
	all.Wait()
	if n := c.Get(); n != 7000 {
		t.Errorf("%d of 8000 are left out", n)
	}
	if raceEnabled {
		return
	}
	if n := testing.AllocsPerRun(100, func() { l.take(3, at, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
