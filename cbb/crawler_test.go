package cbb

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

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
		f("66.249.66.1", chromeUA, "-") // without a declared crawler the address is not looked up
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
			{
				Name: "g", UserAgent: []string{"googlebot"}, RangeURLs: []string{srv.URL},
				RangeFiles: []string{"testdata/googlebot_ipv6.txt"},
			},
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

// The benefit of the doubt for first requests while DNS is slow, within bounds that cannot be abused.
func TestProvisionalWhileDNSIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, 3*time.Second)
		l := crawling(t, dns, func(b *bounds) { b.lookupTimeout = 10 * time.Second })
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
		f("66.249.66.1", "-") // five requests of an address, and no more
		time.Sleep(1900 * time.Millisecond)
		f("198.51.100.4", "maybe")
		time.Sleep(2 * time.Second)
		f("198.51.100.4", "-") // the grace of two seconds is over
		time.Sleep(time.Minute)
		f("66.249.66.1", "white")
		f("198.51.100.4", "white")

		// Known not to be one: no benefit of the doubt, whatever else it claims to be.
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

				// Confirmed long ago, and DNS fails at the renewal: still believed.
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

func TestCrawlersOff(t *testing.T) {
	l := open(t, config(func(c *Config) {
		c.Crawlers.Enabled = false
		c.Crawlers.Own = []CrawlerConfig{
			{Name: "mine", UserAgent: []string{"MyBot"}, Ranges: []string{"203.0.113.0/24"}},
		}
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

// TestLiars: a client that declares a crawler and is known not to be one is distinguished from those that can't be
// decided.
func TestLiars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, nil, func(c *Config) {
			c.Crawlers.Own = []CrawlerConfig{
				{Name: "mine", UserAgentRegex: []string{`^MyBot/\d`}, Ranges: []string{"203.0.113.0/24"}},
			}
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
		f("198.51.100.5", duck, false) // its ranges are not available, and it has no names
		f("198.51.100.5", chromeUA, false)
		f("203.0.113.9", "MyBot/1", false)
		f("198.51.100.5", "MyBot/1", true)
		dns.set(errors.New("the DNS is down"), 0)
		f("198.51.100.77", googleUA, false)
		time.Sleep(time.Minute)
		f("198.51.100.77", googleUA, false) // can't be decided
	})
}

// TestLinkPreviews: what fetches links to preview them passes once it is verified; a telephone that previews a link by
// itself, under parts of the same names, and another messenger are judged like anybody and lie about nothing.
func TestLinkPreviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.names["2a03:2880:12ff:2::1"] = []string{"fwdproxy-ash-002.fbsv.net."}
		dns.hosts["fwdproxy-ash-002.fbsv.net."] = []string{"2a03:2880:12ff:2::1"}
		l := crawling(t, dns, nil)
		defer closeLists(t, l)
		f := func(addr, agent, want string, lies bool) {
			t.Helper()
			come(l, addr, agent) // has its address looked up
			time.Sleep(time.Second)
			v, id := newRequest(addr, "/", "User-Agent", agent)
			var m Match
			l.Lookup(&m, v, id, "")
			if got := come(l, addr, agent); got != want || m.Liar != lies {
				t.Errorf("%s as %.40q: %s, lies: %v", addr, agent, got, m.Liar)
			}
		}
		const (
			facebook = "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"
			iMessage = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0"
			kakao    = "facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984"
			telegram = "TelegramBot (like TwitterBot)"
		)
		f("2a03:2880:12ff:2::1", facebook, "white", false)
		f("198.51.100.5", facebook, "-", true)
		f("198.51.100.5", iMessage, "-", false)
		f("198.51.100.5", kakao, "-", false)
		f("149.154.161.7", telegram, "white", false)
		f("198.51.100.5", telegram, "-", true)
	})
}

// TestHangingDNSIsUnproven: whoever runs the DNS zone of an address can let queries hang for ever. After some look-ups
// without an answer its requests are judged like anybody's, and a proof that arrives later is still accepted.
func TestHangingDNSIsUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, time.Hour)
		l := crawling(t, dns, func(b *bounds) {
			b.graceWindow = time.Second // otherwise the passes of an address run out first
			b.negativeTTL = time.Hour
		})
		defer closeLists(t, l)
		failure := l.snap.Load().verifier.bounds
		passed := 0
		for range 20 {
			if come(l, "66.249.66.1", googleUA) == "maybe" {
				passed++
			}
			time.Sleep(failure.lookupTimeout + failure.failureTTL + time.Second)
		}
		if passed != failure.failures {
			t.Errorf("%d of 20 requests passed for a name that was never proven, want %d", passed, failure.failures)
		}
		dns.set(nil, 0)
		come(l, "66.249.66.1", googleUA) // asks
		time.Sleep(time.Second)
		if got := come(l, "66.249.66.1", googleUA); got != "white" {
			t.Errorf("proven after all: %s", got)
		}
	})
}
