package cbb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeDNS answers from maps, after a while if told so.
type fakeDNS struct {
	mu    sync.Mutex
	names map[string][]string
	hosts map[string][]string
	err   error // of every question
	delay time.Duration
	asked int
}

func (d *fakeDNS) wait(ctx context.Context) error {
	d.mu.Lock()
	d.asked++
	delay, err := d.delay, d.err
	d.mu.Unlock()
	if !sleep(ctx, delay) {
		return &net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true}
	}
	return err
}

func (d *fakeDNS) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[addr]; n != nil {
		return n, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (d *fakeDNS) LookupHost(ctx context.Context, host string) ([]string, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.hosts[host]; a != nil {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (d *fakeDNS) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *fakeDNS) set(err error, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.delay = err, delay
}

const (
	googleUA = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	yandexUA = "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"
	chromeUA = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
)

func zone() *fakeDNS {
	return &fakeDNS{
		names: map[string][]string{
			"66.249.66.1":  {"crawl-66-249-66-1.googlebot.com."},
			"95.108.213.1": {"95-108-213-1.spider.YANDEX.com."},
			"198.51.100.1": {"crawl-66-249-66-1.googlebot.com."},     // its owner writes what he likes
			"198.51.100.2": {"googlebot.com.evil.example."},          // a suffix that is none
			"198.51.100.3": {"fakegooglebot.com."},                   // not at a dot
			"198.51.100.4": {"x.example.", "crawl-4.googlebot.com."}, // the second name is right
			"2001:db8::1":  {"crawl-v6.googlebot.com."},
			"198.51.100.5": {"static.example."},
		},
		hosts: map[string][]string{
			"crawl-66-249-66-1.googlebot.com.": {"66.249.66.1"},
			"95-108-213-1.spider.YANDEX.com.":  {"2001:db8::9", "95.108.213.1"},
			"crawl-4.googlebot.com.":           {"198.51.100.4"},
			"crawl-v6.googlebot.com.":          {"2001:db8:0::1"},
			"googlebot.com.evil.example.":      {"198.51.100.2"},
			"fakegooglebot.com.":               {"198.51.100.3"},
		},
	}
}

// crawling makes running Lists with the built-in crawlers and a resolver.
func crawling(t testing.TB, dns *fakeDNS, change func(*Config)) *Lists {
	c := DefaultConfig()
	c.Crawlers.FetchRanges = false
	if change != nil {
		change(&c)
	}
	l := open(t, c, func(d *Deps) { d.Resolver = dns })
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// come sends one request and says what it is taken for: "-", "maybe" or "white".
func come(l *Lists, addr, agent string) string {
	v, id := newRequest(addr, "/", "User-Agent", agent)
	var m Match
	l.Lookup(&m, v, id, "")
	switch {
	case m.White == nil:
		return "-"
	case m.White.Provisional:
		return "maybe"
	default:
		return "white"
	}
}

func TestCrawlerByReverseAndForwardDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, nil)
		defer closeLists(t, l)
		f := func(addr, agent, want string) {
			t.Helper()
			come(l, addr, agent)
			time.Sleep(time.Second)
			if got := come(l, addr, agent); got != want {
				t.Errorf("%s as %.40q: %s, want %s", addr, agent, got, want)
			}
		}
		f("66.249.66.1", googleUA, "white")
		f("95.108.213.1", yandexUA, "white")
		f("198.51.100.4", googleUA, "white")
		f("2001:db8::1", googleUA, "white")
		f("198.51.100.1", googleUA, "-") // without the forward check it would be white
		f("198.51.100.2", googleUA, "-")
		f("198.51.100.3", googleUA, "-")
		f("198.51.100.5", googleUA, "-")
		f("198.51.100.99", googleUA, "-") // no name at all
		f("66.249.66.1", yandexUA, "-")   // Google is not Yandex
		asked := dns.questions()
		f("66.249.66.1", chromeUA, "-") // the address alone is not asked about
		f("66.249.66.1", "", "-")
		if dns.questions() != asked {
			t.Error("a browser costs look-ups")
		}
	})
}

func TestCrawlerByPublishedRanges(t *testing.T) {
	b, err := os.ReadFile("testdata/googlebot_ipv4.txt")
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) })
	c := config(func(c *Config) {
		c.Crawlers.Own = []CrawlerConfig{
			{Name: "g", UserAgent: []string{"googlebot"}, RangeURLs: []string{srv.URL}, RangeFiles: []string{"testdata/googlebot_ipv6.txt"}},
			{Name: "mine", UserAgentRegex: []string{`^MyBot/\d`}, Ranges: []string{"203.0.113.0/24"}},
		}
	})
	l := open(t, c, nil)
	f := func(addr, agent, want string) {
		t.Helper()
		if got := come(l, addr, agent); got != want {
			t.Errorf("%s as %q: %s, want %s", addr, agent, got, want)
		}
	}
	f("2001:4860:4801:10::1", googleUA, "white") // the file is read at once
	f("66.249.64.1", googleUA, "-")              // the URL not yet
	for _, r := range l.sources {
		if _, _, err := r.s.update(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.build()
	f("66.249.64.1", googleUA, "white")
	f("66.249.64.1", chromeUA, "-")
	f("192.0.2.1", googleUA, "-")
	f("203.0.113.9", "MyBot/1", "white")
	f("203.0.113.9", "xMyBot/1", "-")
	f("203.0.113.9", googleUA, "-")
}

// Kind to a first request while the DNS is slow, within bounds that cannot be abused.
func TestProvisionalWhileDNSIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, 3*time.Second)
		l := crawling(t, dns, func(c *Config) { c.Crawlers.DNS.LookupTimeout = 10 * time.Second })
		defer closeLists(t, l)
		f := func(addr, want string) {
			t.Helper()
			if got := come(l, addr, googleUA); got != want {
				t.Errorf("%v %s: %s, want %s", time.Now().Format("05.000"), addr, got, want)
			}
		}
		for range 5 {
			f("66.249.66.1", "maybe")
		}
		f("66.249.66.1", "-") // five requests of an address, no more
		time.Sleep(1900 * time.Millisecond)
		f("198.51.100.4", "maybe")
		time.Sleep(2 * time.Second)
		f("198.51.100.4", "-") // the grace of two seconds is over
		time.Sleep(time.Minute)
		f("66.249.66.1", "white")
		f("198.51.100.4", "white")

		// Known to be none: no doubt in its favour, whatever else it says it is.
		f("198.51.100.5", "maybe")
		time.Sleep(time.Minute)
		f("198.51.100.5", "-")
		if got := come(l, "198.51.100.5", yandexUA); got != "-" {
			t.Errorf("a liar under another name: %s", got)
		}
		if got := come(l, "198.51.100.5", googleUA+yandexUA); got != "-" {
			t.Errorf("a liar under two names: %s", got)
		}
		// Even when the cache has kept only that it is not Google.
		ver := l.snap.Load().verifier
		ver.cache.Del(cacheKey(nil, keyRefuted, netip.MustParseAddr("198.51.100.5"), 0))
		for _, c := range l.snap.Load().crawlers {
			if c.name == "yandex" {
				ver.cache.Del(cacheKey(nil, keyAnswer, netip.MustParseAddr("198.51.100.5"), c.key))
			}
		}
		if got := come(l, "198.51.100.5", googleUA+yandexUA); got != "-" {
			t.Errorf("a liar half forgotten: %s", got)
		}
		st := l.Stats().Crawlers
		if st.Confirmed != 2 || st.Refuted < 1 || st.Provisional != 8 {
			t.Errorf("%+v", st)
		}
	})
}

func TestProvisionalPassesAreBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, time.Hour)
		l := crawling(t, dns, func(c *Config) { c.Crawlers.DNS.LookupsPerSecond = 1000 })
		defer closeLists(t, l)
		n := 0
		for i := range 500 {
			if come(l, fmt.Sprintf("10.0.%d.%d", i/250, i%250), googleUA) == "maybe" {
				n++
			}
		}
		if n != 20 {
			t.Errorf("%d of 500 pretenders pass in one second, want 20", n)
		}
		n = 0
		for i := range 500 { // one /64 is one client
			time.Sleep(time.Second)
			if come(l, fmt.Sprintf("2001:db8::%x", i+1), googleUA) == "maybe" {
				n++
			}
		}
		if n > 5 {
			t.Errorf("%d of 500 addresses of one /64 pass", n)
		}
		// A resolver that hangs does not make more work than there are workers and room.
		if st := l.Stats().Crawlers; st.Pending > 1024+8 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, func(c *Config) { c.Crawlers.DNS.LookupsPerSecond = 10 })
		defer closeLists(t, l)
		for i := range 200 {
			come(l, fmt.Sprintf("10.0.0.%d", i), googleUA)
		}
		time.Sleep(500 * time.Millisecond)
		if n := dns.questions(); n != 10 {
			t.Errorf("%d questions in a second, want 10", n)
		}
		if st := l.Stats().Crawlers; st.Shed != 190 {
			t.Errorf("%+v", st)
		}
	})
}

// A DNS that does not answer says nothing about the client.
func TestDNSFailureIsNoRefutation(t *testing.T) {
	for name, err := range map[string]error{
		"timeout":  &net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true},
		"servfail": &net.DNSError{Err: "server misbehaving", IsTemporary: true},
		"other":    errors.New("socket: too many open files"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dns := zone()
				dns.set(err, 0)
				l := crawling(t, dns, nil)
				defer closeLists(t, l)
				come(l, "66.249.66.1", googleUA)
				time.Sleep(time.Second)
				if got := come(l, "66.249.66.1", googleUA); got == "white" {
					t.Error("white without an answer")
				}
				if st := l.Stats().Crawlers; st.Failed == 0 || st.Refuted != 0 {
					t.Errorf("%+v", st)
				}
				dns.set(nil, 0)
				time.Sleep(16 * time.Second) // failure_ttl
				if got := come(l, "66.249.66.1", googleUA); got != "maybe" {
					t.Errorf("asked again: %s", got)
				}
				time.Sleep(time.Second)
				if got := come(l, "66.249.66.1", googleUA); got != "white" {
					t.Errorf("the DNS is back: %s", got)
				}

				// Confirmed long ago, and the DNS fails at the renewal: still believed.
				dns.set(err, 0)
				time.Sleep(7 * time.Hour)
				for range 3 {
					if got := come(l, "66.249.66.1", googleUA); got != "white" {
						t.Errorf("renewal: %s", got)
					}
					time.Sleep(time.Minute)
				}
				time.Sleep(6 * time.Hour) // twice the positive_ttl: too old
				if got := come(l, "66.249.66.1", googleUA); got == "white" {
					t.Error("believed for ever")
				}
			})
		})
	}
}

func TestConfirmationAndRefutationEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, nil)
		defer closeLists(t, l)
		come(l, "66.249.66.1", googleUA)
		come(l, "198.51.100.5", googleUA)
		time.Sleep(time.Minute)
		asked := dns.questions()
		for range 100 {
			come(l, "66.249.66.1", googleUA)
			come(l, "198.51.100.5", googleUA)
		}
		if dns.questions() != asked {
			t.Error("answers are not kept")
		}
		time.Sleep(10 * time.Minute)
		dns.mu.Lock()
		dns.names["198.51.100.5"] = []string{"crawl-5.googlebot.com."}
		dns.hosts["crawl-5.googlebot.com."] = []string{"198.51.100.5"}
		delete(dns.hosts, "crawl-66-249-66-1.googlebot.com.")
		dns.mu.Unlock()
		come(l, "198.51.100.5", googleUA)
		time.Sleep(time.Minute)
		if got := come(l, "198.51.100.5", googleUA); got != "white" {
			t.Errorf("refuted for ever: %s", got)
		}
		time.Sleep(6 * time.Hour)
		come(l, "66.249.66.1", googleUA)
		time.Sleep(time.Minute)
		if got := come(l, "66.249.66.1", googleUA); got != "-" {
			t.Errorf("confirmed for ever: %s", got)
		}
	})
}

func TestBlockedAddressCostsNoLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, func(c *Config) { c.Block = []string{"66.249.66.1"} })
		defer closeLists(t, l)
		come(l, "66.249.66.1", googleUA)
		time.Sleep(time.Second)
		if n := dns.questions(); n != 0 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestCrawlersOff(t *testing.T) {
	l := open(t, config(func(c *Config) {
		c.Crawlers.Enabled = false
		c.Crawlers.Own = []CrawlerConfig{{Name: "mine", UserAgent: []string{"MyBot"}, Ranges: []string{"203.0.113.0/24"}}}
	}), nil)
	if got := come(l, "203.0.113.9", "MyBot"); got != "-" {
		t.Errorf("%s", got)
	}
}

func TestBuiltinCrawlersAreValid(t *testing.T) {
	for _, b := range builtinCrawlers() {
		var p problems
		if b.validate(b.Name, &p); len(p) > 0 {
			t.Error(errors.Join(p...))
		}
	}
}

func TestBucket(t *testing.T) {
	b := bucket{rate: 3}
	at := time.Unix(1000, 0)
	take := func() (n int) {
		for range 10 {
			if b.take(at) {
				n++
			}
		}
		return n
	}
	f := func(d time.Duration, want int) {
		t.Helper()
		at = at.Add(d)
		if got := take(); got != want {
			t.Errorf("after %v: %d, want %d", d, got, want)
		}
	}
	f(0, 3)
	f(0, 0)
	f(time.Second/3+1, 1)
	f(time.Hour, 3)
	f(-time.Hour, 0) // a clock that goes back gives nothing
}

func TestNetwork64(t *testing.T) {
	if got := network64(netip.MustParseAddr("2001:db8:1:2:3::4")); got != netip.MustParseAddr("2001:db8:1:2::") {
		t.Error(got)
	}
}

// TestLiars: who declares a crawler and is known not to be it is told from those of whom nobody can tell.
func TestLiars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, func(c *Config) {
			c.Crawlers.Own = []CrawlerConfig{{Name: "mine", UserAgentRegex: []string{`^MyBot/\d`}, Ranges: []string{"203.0.113.0/24"}}}
		})
		defer closeLists(t, l)
		f := func(addr, agent string, want bool) {
			t.Helper()
			v, id := newRequest(addr, "/", "User-Agent", agent)
			var m Match
			l.Lookup(&m, v, id, "")
			if m.Liar != want {
				t.Errorf("%s as %.40q lies: %v", addr, agent, m.Liar)
			}
		}
		const duck = "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)"
		f("198.51.100.5", googleUA, false) // being looked up
		f("66.249.66.1", googleUA, false)
		time.Sleep(time.Second)
		f("198.51.100.5", googleUA, true)
		f("66.249.66.1", googleUA, false)
		f("198.51.100.5", duck, false) // its ranges are not at hand, and it has no names
		f("198.51.100.5", chromeUA, false)
		f("203.0.113.9", "MyBot/1", false)
		f("198.51.100.5", "MyBot/1", true)
		dns.set(errors.New("the DNS is down"), 0)
		f("198.51.100.77", googleUA, false)
		time.Sleep(time.Minute)
		f("198.51.100.77", googleUA, false) // it can't be told
	})
}

// TestHangingDNSIsUnproven: whoever runs the names of an address can let the question hang for ever. After some look-ups
// without an answer its requests are judged as anybody's, and a proof that comes after all is believed.
func TestHangingDNSIsUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, time.Hour)
		l := crawling(t, dns, func(c *Config) {
			c.Crawlers.DNS.ProvisionalWindow = time.Second // else the passes of an address end first
			c.Crawlers.DNS.NegativeTTL = time.Hour
		})
		defer closeLists(t, l)
		failure := l.snap.Load().verifier.cfg
		passed := 0
		for range 20 {
			if come(l, "66.249.66.1", googleUA) == "maybe" {
				passed++
			}
			time.Sleep(failure.LookupTimeout + failure.FailureTTL + time.Second)
		}
		if passed != failure.Failures {
			t.Errorf("%d of 20 requests passed for a name that was never proven, want %d", passed, failure.Failures)
		}
		dns.set(nil, 0)
		come(l, "66.249.66.1", googleUA) // asks
		time.Sleep(time.Second)
		if got := come(l, "66.249.66.1", googleUA); got != "white" {
			t.Errorf("proven after all: %s", got)
		}
	})
}
