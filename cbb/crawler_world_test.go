package cbb

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"antirobot/store"
)

// fakeDNS answers from maps, with a delay if told so.
type fakeDNS struct {
	mu    sync.Mutex
	names map[string][]string
	hosts map[string][]string
	err   error // returned for every query
	delay time.Duration
	asked int
}

func (d *fakeDNS) wait(ctx context.Context) error {
	d.mu.Lock()
	d.asked++
	delay, err := d.delay, d.err
	d.mu.Unlock()
	if !store.Pause(ctx, delay) {
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
			"198.51.100.1": {"crawl-66-249-66-1.googlebot.com."},     // its owner can write any name
			"198.51.100.2": {"googlebot.com.evil.example."},          // not a suffix
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
func crawling(t testing.TB, dns *fakeDNS, tune func(*bounds), change ...func(*Config)) *Lists {
	c := DefaultConfig()
	c.Crawlers.FetchRanges = false
	for _, f := range change {
		f(&c)
	}
	l := open(t, c, func(d *Deps) {
		d.Resolver = dns
		if tune != nil {
			tune(d.bounds)
		}
	})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// come sends one request and returns how it is treated: "-", "maybe" or "white".
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
