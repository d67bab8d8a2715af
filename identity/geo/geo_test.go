package geo

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const asns = "1.0.0.0\t1.0.0.255\t13335\tUS\tCLOUDFLARENET\n" + "# a comment\n" +
	"1.0.1.0\t1.0.3.255\t0\tNone\tNot routed\n" + "203.0.113.0\t203.0.113.127\t64500\tDE\tExample Org\r\n" +
	"2001:db8::\t2001:db8:ffff:ffff:ffff:ffff:ffff:ffff\t64501\tFR\tAnother\n" + "3232235776\t3232236031\tAS64502\tNL"

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// countries is an MMDB of countries, in the forms that publishers use.
func countries() []byte {
	w := newWriter()
	w.add("203.0.113.0/24", map[string]any{"country": map[string]any{"iso_code": "AT", "geoname_id": uint32(7)}})
	w.add("198.51.100.0/25", map[string]any{
		"country": "ch", "asn": "AS64510",
		"as_name": "A name that is longer than thirty bytes",
	})
	w.add(
		"198.51.100.128/25",
		map[string]any{
			"country_code": "LI", "autonomous_system_number": uint32(64511),
			"autonomous_system_organization": "Org",
		},
	)
	w.add("2001:db8:1::/48", map[string]any{"country": map[string]any{"iso_code": "PL"}})
	w.add("192.0.2.0/24", map[string]any{"country": map[string]any{"names": "none"}, "asn": map[string]any{"x": "y"}})
	return w.bytes()
}

func open1(t *testing.T, files ...string) *Places {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Files = files
	p, err := New(cfg, Deps{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	p.poll = 100 * time.Millisecond
	return p
}

func at(p *Places, addr string) string { return p.Find(netip.MustParseAddr(addr)).String() }

func TestFind(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(asns))
	_ = z.Close()
	table := write(t, filepath.Join(dir, "ip2asn.tsv.gz"), packed.Bytes())
	p := open1(t, write(t, filepath.Join(dir, "country.mmdb"), countries()), table)
	for addr, want := range map[string]string{
		"203.0.113.7": "AT, AS64500 Example Org", "::ffff:203.0.113.7": "AT, AS64500 Example Org", "203.0.113.200": "AT",
		"198.51.100.1": "CH, AS64510 A name that is longer than thirty bytes", "198.51.100.200": "LI, AS64511 Org",
		"2001:db8:1::5": "PL, AS64501 Another", "2001:db8:2::5": "FR, AS64501 Another", "2001:db9::": "", "192.0.2.1": "",
		"1.0.0.0": "US, AS13335 CLOUDFLARENET", "1.0.0.255": "US, AS13335 CLOUDFLARENET", "1.0.1.0": "", "0.255.255.255": "", "255.255.255.255": "",
		"192.168.1.77": "NL, AS64502", "fe80::1%eth0": "",
	} {
		if got := at(p, addr); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if p.Find(netip.Addr{}) != (Place{}) {
		t.Error("no address is somewhere")
	}
	if country, asn := p.Place(netip.MustParseAddr("203.0.113.7")); country != "AT" || asn != 64500 {
		t.Error(country, asn)
	}
}

// TestReload: a changed file is read, a damaged or missing one changes nothing, and a new configuration keeps what it
// names.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.tsv")
	p := open1(t, file)
	if at(p, "203.0.113.7") != "" {
		t.Error("without a file nothing is known")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	wait := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); at(p, "203.0.113.7") != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q, want %q", at(p, "203.0.113.7"), want)
			}
		}
	}
	write(t, file, []byte(asns))
	wait("DE, AS64500 Example Org")
	write(t, file, []byte("<html>not found</html>"))
	servertest.Eventually(
		t, "the damaged file is looked at", func() bool { return p.failed.Get() >= 2 },
	) // missing, then damaged
	wait("DE, AS64500 Example Org")
	write(t, file, countries())
	wait("AT")
	cfg := DefaultConfig()
	cfg.Files = []string{filepath.Join(dir, "missing"), file}
	commit, err := p.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	wait("AT")
	cfg.Files = nil
	if commit, err = p.Prepare(cfg); err != nil {
		t.Fatal(err)
	}
	commit()
	wait("")
	cfg.Files = []string{""}
	if _, err = p.Prepare(cfg); err == nil {
		t.Error("a bad configuration was taken")
	}
}

func TestRefuses(t *testing.T) {
	f := func(data, want string) {
		t.Helper()
		_, err := open(write(t, filepath.Join(t.TempDir(), "f"), []byte(data)), 100)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", data, err, want)
		}
	}
	f("", "empty")
	f(strings.Repeat("x", 101), "larger than 100 bytes")
	f("1.0.0.0\t1.0.0.1\t5", "line 1: fewer than four fields")
	f("\n1.0.0.1\t1.0.0.0\t5\tDE", "line 2: 1.0.0.1 to 1.0.0.0 is no range")
	f("1.0.0.1\t::1\t5\tDE", "is no range")
	f("1.0.0.1\t1.0.0.2\tx\tDE", "is not the number")
	f("a\t1.0.0.2\t5\tDE", "is not an address")
	f("1.0.0.1\t1.0.0.2\t0\tNone", "without entries")
	f("\x1f\x8bx", "gzip")
	f(string(marker)+"x", "mmdb")
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	dir := t.TempDir()
	p := open1(t, write(t, filepath.Join(dir, "a"), countries()), write(t, filepath.Join(dir, "b"), []byte(asns)))
	addr := netip.MustParseAddr("203.0.113.7")
	if n := testing.AllocsPerRun(100, func() { p.Place(addr) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(asns))
	f.Add([]byte("0\t4294967295\t1\tDE\n::\tffff::\t2\tFR\tx"))
	f.Add([]byte("1.0.0.0\t1.0.0.9\t1\tDE\n1.0.0.5\t1.0.0.6\t2\tFR"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseTable(data)
		if err != nil {
			return
		}
		for _, s := range append(table.v4, table.v6...) {
			if p := table.find(s.from); p == (Place{}) {
				t.Fatalf("nobody is at %s, the beginning of a range", s.from)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	t := &table{owners: []Place{{Country: "DE"}}}
	for i := range 500_000 {
		a := netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 0})
		t.v4 = append(t.v4, span{from: a, to: a})
	}
	db, err := openMMDB(countries())
	if err != nil {
		b.Fatal(err)
	}
	for name, d := range map[string]database{"table of half a million": t, "mmdb": db} {
		b.Run(name, func(b *testing.B) {
			addr := netip.MustParseAddr("203.0.113.7")
			for b.Loop() {
				d.find(addr)
			}
		})
	}
}
