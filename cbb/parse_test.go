package cbb

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"antirobot/identity"
)

func testLimits() limits { return limits{maxEntries: 1000, maxBadShare: 0.1, named: true} }

func parse(t testing.TB, text string, lim limits) (*parsed, error) {
	t.Helper()
	return newParser(lim).read(strings.NewReader(text), formatAuto, 0)
}

// show prints the content of a list.
func (d *parsed) show() string {
	var b strings.Builder
	for _, n := range d.v4 {
		fmt.Fprintf(&b, "%v(%s) ", n.prefix(), d.labels[n.label].reason)
	}
	for _, n := range d.v6 {
		fmt.Fprintf(&b, "%v(%s) ", n.prefix(), d.labels[n.label].reason)
	}
	for _, s := range d.subjects {
		fmt.Fprintf(&b, "%v(%s) ", s.s, d.labels[s.label].reason)
	}
	return strings.TrimSpace(b.String())
}

func TestLines(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		d, err := parse(t, line, testLimits())
		if err != nil {
			t.Errorf("%q: %v", line, err)
			return
		}
		if got := d.show(); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	f("", "")
	f("# comment\n; another\n\n", "")
	f("203.0.113.7", "203.0.113.7/32()")
	f("\ufeff203.0.113.7\r\n", "203.0.113.7/32()")
	f("  203.0.113.0/24  ", "203.0.113.0/24()")
	f("203.0.113.9/24", "203.0.113.0/24()")
	f("203.0.113.7 scanner of ports", "203.0.113.7/32(scanner of ports)")
	f("203.0.113.7 # scanner", "203.0.113.7/32(scanner)")
	f("203.0.113.7#scanner", "203.0.113.7/32(scanner)")
	f("203.0.113.7 ; SBL123", "203.0.113.7/32(SBL123)")
	f("203.0.113.0/24,XX,XX-1,City,", "203.0.113.0/24(XX,XX-1,City,)")
	f("203.0.113.7\t8", "203.0.113.7/32(count 8)")
	f("2001:db8::1", "2001:db8::1/128()")
	f("2001:DB8::/32", "2001:db8::/32()")
	f("::ffff:203.0.113.7", "203.0.113.7/32()")
	f("::ffff:203.0.113.0/120", "203.0.113.0/24()")
	f("203.0.113.6-203.0.113.9", "203.0.113.6/31() 203.0.113.8/31()")
	f("203.0.113.6 - 203.0.113.7 spam", "203.0.113.6/31(spam)")
	f("203.0.113.6 - not a range", "203.0.113.6/32(- not a range)")
	f("2001:db8::-2001:db8::1", "2001:db8::/127()")
	f("ip:203.0.113.7 gone", "ip:203.0.113.7(gone)")
	f("i:00112233445566778899aabbccddeeff", "i:00112233445566778899aabbccddeeff()")
	f("L:#00112233445566778899aabbccddeeff # who", "L:#00112233445566778899aabbccddeeff(who)")
	f(
		"create blocklist hash:net family inet\nadd blocklist 203.0.113.0/24\nadd blocklist 198.51.100.1\n",
		"198.51.100.1/32() 203.0.113.0/24()",
	)
	f("203.0.113.7 one\n203.0.113.7 two\n", "203.0.113.7/32(one)")
	f("203.0.113.7 a\x00b\x1b[31m", "203.0.113.7/32(a\uFFFDb\uFFFD[31m)")
}

func TestBadLines(t *testing.T) {
	for _, line := range []string{
		"localhost", "203.0.113", "203.0.113.256", "010.0.0.1", "203.0.113.7/33", "203.0.113.7/-1", "203.0.113.7/", "2001:db8::/129",
		"fe80::1%eth0", "203.0.113.9-203.0.113.1", "203.0.113.9-2001:db8::", "203.0.113.9-", "-", "nobody:x", "L:", "i:xyz", "::ffff:0:0/90",
		"<html>", "203.0.113.7:80", strings.Repeat("9", 5000), "1:2:3", "add set", "\x00",
	} {
		d, err := parse(t, "203.0.113.1\n"+line+"\n203.0.113.2\n", testLimits())
		if err != nil {
			t.Errorf("%.40q voided the list: %v", line, err)
			continue
		}
		if d.bad != 1 || d.entries != 2 || len(d.badLines) != 1 || d.badLines[0].Line != 2 || d.badLines[0].Err == "" {
			t.Errorf("%.40q: bad %d %+v, good %d", line, d.bad, d.badLines, d.entries)
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "10.0.%d.%d\n", i/256, i%256)
		}
		return b.String()
	}
	f := func(name, text string, change func(*limits), want error) {
		t.Helper()
		lim := testLimits()
		if change != nil {
			change(&lim)
		}
		if _, err := parse(t, text, lim); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	f("a page", "<!DOCTYPE html>\n<p>Sign in\n", nil, errGarbage)
	f("one word", "Forbidden", nil, errGarbage)
	f("too many bad", lines(20)+"a\nb\nc\nd\n", nil, errGarbage)
	f("few bad", lines(5)+"a\nb\nc\n", nil, nil)
	f("bad but of many", lines(100)+"a\nb\nc\nd\n", nil, nil)
	f("everything", lines(3)+"0.0.0.0/0\n", nil, ErrTooWide)
	f("everything of IPv6", "::/0\n", nil, ErrTooWide)
	f("wide", "10.0.0.0/7\n", nil, ErrTooWide)
	f("wide of IPv6", "2000::/15\n", nil, ErrTooWide)
	f("wide range", "0.0.0.0-255.255.255.255\n", nil, ErrTooWide)
	f("just not wide", "10.0.0.0/8\n2001::/16\n", nil, nil)
	f("allowed", "0.0.0.0/0\n", func(l *limits) { l.allowWide = true }, nil)
	f("many", lines(1001), nil, errTooMany)
	f("not too many", lines(1000), nil, nil)

	if _, err := newParser(testLimits()).read(strings.NewReader("# nothing today\n"), "", 10); !errors.Is(
		err, errEmptied,
	) {
		t.Errorf("emptied: %v", err)
	}
	if _, err := newParser(testLimits()).read(strings.NewReader("# nothing today\n"), "", 9); err != nil {
		t.Errorf("emptied, but it had few: %v", err)
	}
}

func TestJSON(t *testing.T) {
	f := func(text, want string, bad int) {
		t.Helper()
		d, err := parse(t, text, testLimits())
		if err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if got := d.show(); got != want || d.bad != bad {
			t.Errorf("%q: %q and %d bad, want %q and %d", text, got, d.bad, want, bad)
		}
	}
	f(
		`{"creationTime":"2026-08-22T10:00:00","prefixes":[{"ipv6Prefix":"2001:4860:4801:10::/64"},{"ipv4Prefix":"66.249.64.0/27"}]}`,
		"66.249.64.0/27() 2001:4860:4801:10::/64()", 0,
	)
	f(` ["203.0.113.1", "203.0.113.2/31"]`, "203.0.113.1/32() 203.0.113.2/31()", 0)
	f(`{"synthetics":{"prefixes_ipv4":["203.0.113.0/28"],"n":[1,2,null,true]},"version":"7"}`, "203.0.113.0/28()", 0)
	f(`{"prefixes":[{"ip_prefix":"203.0.113.0/28","region":"x","service":"y"}]}`, "203.0.113.0/28()", 0)
	f(`["203.0.113.1","nonsense"]`, "203.0.113.1/32()", 1)
	f(`{"a":{"b":{"prefix":"203.0.113.0/28"},"cidr":"192.0.2.0/24"}}`, "192.0.2.0/24() 203.0.113.0/28()", 0)
	f(`[]`, "", 0)

	for _, text := range []string{
		`{"prefixes":[{"ipv4Prefix":"66.249.64.0/27"}`, `[1,2`, `["203.0.113.1"`, `{`, `[}`, `["0.0.0.0/0"]`,
		strings.Repeat("[", 40) + strings.Repeat("]", 40), `["203.0.113.1"] trailing`,
	} {
		if d, err := parse(t, text, testLimits()); err == nil {
			t.Errorf("%q is taken: %v", text, d.show())
		}
	}
}

func TestRangesCoverExactly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lo := rapid.Uint32Range(0x0A000000, 0x0A00FFFF).Draw(rt, "lo")
		hi := rapid.Uint32Range(lo, 0x0A00FFFF).Draw(rt, "hi")
		addr := func(x uint32) netip.Addr {
			return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
		}
		it, err := parseItem(addr(lo).String() + "-" + addr(hi).String())
		if err != nil {
			rt.Fatal(err)
		}
		next, sum := addr(lo), uint64(0)
		it.prefixes(func(p netip.Prefix) {
			if p.Addr() != next || p.Masked() != p {
				rt.Fatalf("%v does not follow at %v", p, next)
			}
			sum += 1 << (32 - p.Bits())
			next = lastOf(p).Next()
		})
		if sum != uint64(hi-lo)+1 {
			rt.Fatalf("%d addresses of %d", sum, hi-lo+1)
		}
	})
	it, err := parseItem("::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if it.prefixes(func(netip.Prefix) { n++ }); n != 254 {
		t.Errorf("%d networks, want 254", n)
	}
}

// The files are real; testdata/SOURCE.md names their origin.
func TestRealFiles(t *testing.T) {
	f := func(name string, entries int, addr string) {
		t.Helper()
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lim := testLimits()
		lim.maxEntries = 1 << 20
		d, err := parse(t, string(b), lim)
		if err != nil || d.bad != 0 || d.entries != entries {
			t.Errorf("%s: %d entries, %d bad, %v", name, d.entries, d.bad, err)
			return
		}
		if !buildRanges([]*parsed{d}).Contains(netip.MustParseAddr(addr)) {
			t.Errorf("%s does not hold %s", name, addr)
		}
	}
	f("googlebot_ipv4.txt", 41, "66.249.64.5")
	f("bing_ipv4.txt", 28, "157.55.39.1")
	f("levels-4.txt", 5354, "77.90.185.20")
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"203.0.113.7 reason", "203.0.113.0/24\t5", "2001:db8::-2001:db8::ff # x", "L:#00112233445566778899aabbccddeeff", "add x 1.2.3.4",
		"service:a=b;c", "::ffff:1.2.3.4/97", "1.2.3.4-1.2.3.9,x", "\xef\xbb\xbf1.2.3.4", "[1]", "0.0.0.0/0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := newParser(limits{maxEntries: 100, maxBadShare: 1}).read(strings.NewReader(s), formatLines, 0)
		if err != nil {
			return
		}
		if d.entries > 100 || len(d.badLines) > keptBad {
			t.Fatalf("bounds: %d entries, %d bad lines kept", d.entries, len(d.badLines))
		}
		tab := buildTable([]layer{{Entry{List: "x"}, d}})
		for _, n := range d.v4 {
			a := netip.AddrFrom4([4]byte{byte(n.addr >> 24), byte(n.addr >> 16), byte(n.addr >> 8), byte(n.addr)})
			if tab.find(a) == 0 {
				t.Fatalf("%v is parsed and not found", a)
			}
			if n.bits < 8 {
				t.Fatalf("/%d is taken", n.bits)
			}
		}
		for _, l := range d.labels {
			if len(l.reason) > maxReason || strings.ContainsAny(l.reason, "\x00\n\x1b") {
				t.Fatalf("reason %q", l.reason)
			}
		}
	})
}

// The printed form of an entry means the same entry.
func FuzzItem(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "203.0.113.7/24", "1.2.3.4-1.2.3.9", "::-::5", "i:00112233445566778899aabbccddeeff", "L:alice", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		it, err := parseItem(s)
		if err != nil {
			return
		}
		again, err := parseItem(it.String())
		if err != nil || again != it {
			t.Fatalf("%q prints %q, which is %+v %v, not %+v", s, it.String(), again, err, it)
		}
		if it.subject.Kind == identity.KindNone {
			n := 0
			if it.prefixes(func(netip.Prefix) { n++ }); n == 0 || n > 254 {
				t.Fatalf("%q is %d networks", s, n)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"prefixes":[{"ipv4Prefix":"66.249.64.0/27"},{"ipv6Prefix":"2001:4860::/64"}]}`, `["203.0.113.1",{"ip":"x"}]`, `{"a":[[]]}`, `[`, `nul`,
		`{"ip":{"ip":["1.2.3.4"]},"ip":"1.2.3.5"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		_, _ = newParser(limits{maxEntries: 100, maxBadShare: 1}).read(strings.NewReader(s), formatJSON, 0)
	})
}
