package geo

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"
)

// marker begins the metadata of an MMDB, at the end of the file.
var marker = []byte("\xab\xcd\xefMaxMind.com")

// open reads a whole file: an MMDB or a table, each also packed by gzip.
func open(name string, most int64) (database, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := read(f, most)
	if err != nil {
		return nil, err
	}
	if tail := data[max(0, len(data)-128<<10):]; bytes.Contains(tail, marker) {
		return openMMDB(data)
	}
	return parseTable(data)
}

func read(f io.Reader, most int64) ([]byte, error) {
	br := bufio.NewReader(f)
	var from io.Reader = br
	if b, _ := br.Peek(2); len(b) == 2 && b[0] == 0x1f && b[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		from = z
	}
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("larger than %d bytes", most)
	case len(data) == 0:
		return nil, errors.New("it is empty")
	}
	return data, nil
}

// mmdb is a database in MaxMind's format. Many networks share a record, so decoded records are remembered by
type mmdb struct {
	db     *maxminddb.Reader
	recent [4096]atomic.Pointer[record]
}

type record struct {
	offset uintptr
	place  Place
}

func openMMDB(data []byte) (*mmdb, error) {
	db, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("mmdb: %w", err)
	}
	return &mmdb{db: db}, nil
}

func (m *mmdb) find(addr netip.Addr) Place {
	r := m.db.Lookup(addr)
	if !r.Found() {
		return Place{}
	}
	slot := &m.recent[r.Offset()%uintptr(len(m.recent))]
	if known := slot.Load(); known != nil && known.offset == r.Offset() {
		return known.place
	}
	known := &record{r.Offset(), placeOf(&r)}
	slot.Store(known)
	return known.place
}

// placeOf reads a record: GeoLite2, DB-IP and IPinfo name things differently.
func placeOf(r *maxminddb.Result) (p Place) {
	text := func(path ...any) string {
		var v any
		if r.DecodePath(&v, path...) != nil {
			return ""
		}
		s, _ := v.(string)
		return s
	}
	for _, path := range [][]any{{"country", "iso_code"}, {"country_code"}, {"country"}} {
		if p.Country = countryCode(text(path...)); p.Country != "" {
			break
		}
	}
	var number any
	for _, key := range []any{"autonomous_system_number", "asn"} {
		if r.DecodePath(&number, key) == nil && number != nil {
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(fmt.Sprint(number), "AS"), 10, 32)
	if err != nil {
		return p
	}
	p.ASN = uint32(n)
	for _, key := range []any{"autonomous_system_organization", "as_name", "name"} {
		if p.Org = orgName(text(key)); p.Org != "" {
			break
		}
	}
	return p
}

// table is the table of iptoasn.com: lines of "first address TAB last address TAB number TAB country TAB name", for
// IPv4, IPv6 or both. Addresses of IPv4 may be numbers.
type table struct {
	v4, v6 []span // by their first address
	owners []Place
}

// span is a range of addresses.
type span struct {
	from, to netip.Addr
	owner    uint32
}

func parseTable(data []byte) (*table, error) {
	t := &table{}
	known := map[Place]uint32{}
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		line = bytes.TrimRight(line, "\r ")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, p, err := parseLine(string(line))
		if err != nil {
			return nil, fmt.Errorf("neither an MMDB nor a table of ip2asn: line %d: %w", n, err)
		}
		if p == (Place{}) {
			continue // an unowned range
		}
		owner, ok := known[p]
		if !ok {
			owner = uint32(len(t.owners)) //nolint:gosec // far fewer than bytes of the file
			known[p] = owner
			t.owners = append(t.owners, p)
		}
		s.owner = owner
		if s.from.Is4() {
			t.v4 = append(t.v4, s)
		} else {
			t.v6 = append(t.v6, s)
		}
	}
	for _, spans := range []*[]span{&t.v4, &t.v6} {
		slices.SortStableFunc(*spans, func(a, b span) int { return a.from.Compare(b.from) })
		*spans = slices.Clip(*spans)
	}
	if len(t.owners) == 0 {
		return nil, errors.New("a table without entries")
	}
	return t, nil
}

func parseLine(line string) (s span, p Place, err error) {
	f := strings.SplitN(line, "\t", 5)
	if len(f) < 4 {
		return s, p, errors.New(
			"fewer than four fields with tabs between: first and last address, number, country, name",
		)
	}
	if s.from, err = parseAddr(f[0]); err != nil {
		return s, p, err
	}
	if s.to, err = parseAddr(f[1]); err != nil {
		return s, p, err
	}
	if s.from.BitLen() != s.to.BitLen() || s.to.Less(s.from) {
		return s, p, fmt.Errorf("%s to %s is no range", s.from, s.to)
	}
	asn, err := strconv.ParseUint(strings.TrimPrefix(f[2], "AS"), 10, 32)
	if err != nil {
		return s, p, fmt.Errorf("%.40q is not the number of an autonomous system", f[2])
	}
	p.Country, p.ASN = countryCode(f[3]), uint32(asn)
	if len(f) == 5 && asn != 0 {
		p.Org = orgName(f[4])
	}
	return s, p, nil
}

func parseAddr(s string) (netip.Addr, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return a, fmt.Errorf("%.60q is not an address", s)
	}
	return a.Unmap(), nil
}

func (t *table) find(addr netip.Addr) Place {
	spans := t.v6
	if addr.Is4() {
		spans = t.v4
	}
	i, exact := slices.BinarySearchFunc(spans, addr, func(s span, a netip.Addr) int { return s.from.Compare(a) })
	if !exact {
		i--
	}
	if i < 0 || spans[i].to.Less(addr) {
		return Place{}
	}
	return t.owners[spans[i].owner]
}

// countryCode returns a code of two letters; empty for anything else, and for those that mean that it is not known.
func countryCode(s string) string {
	if len(s) != 2 || s == "ZZ" || s == "XX" {
		return ""
	}
	s = strings.ToUpper(s)
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return ""
		}
	}
	return s
}

// orgName bounds a name and makes it printable: it is shown to operators.
func orgName(s string) string {
	const most = 100 // bytes
	s = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
