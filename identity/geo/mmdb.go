package geo

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"
)

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
