// Package request reads a request: its View, the fields of its head, its path and its number. It imports nothing of
// this module, so that all packages read a request in the same way.
//
// A View borrows the connection's bytes. It is valid until the response has been written; copy anything that is kept
// longer.
package request

import (
	"bytes"
	"net/netip"
	"strconv"
	"time"
	"unsafe"
)

// Field is one header field as on the wire, with white space around the value trimmed.
type Field struct {
	Name, Value []byte
}

// View holds the bytes of a request that matter for a verdict, borrowed from the connection.
type View struct {
	At       time.Time  // when the head was complete
	Method   []byte     // as sent
	Host     []byte     // lower-cased, without port
	HostPort []byte     // as sent
	Target   []byte     // origin-form target: path and query, raw
	Path     []byte     // Target up to the first '?', raw
	Named    []byte     // another path, from a field that services may prefer to Target; nil: none
	Query    []byte     // what follows the first '?', raw; nil if there is none
	Fields   []Field    // all header fields in wire order, Host and cookies included
	Peer     netip.Addr // who holds the socket (PROXY protocol already applied), unmapped
	TLS      bool       // whether this hop came over TLS
	JA4      []byte     // fingerprint of the client's TLS handshake, 36 characters; nil: not known
	Client   []byte     // verified name of the client's certificate; nil: it has none
	Frames   []byte     // fingerprint of the first frames of its HTTP/2 connection; nil: not known
	// Behind is by how much later the client answered in its TLS handshake than the end of its TCP connection does; 0:
	// not known
	Behind time.Duration
	Posted []Field // fields of the body that were read for rules; nil: none were
	// Claims are other methods that the request claims, in capitals; Overclaims: it may claim any
	Claims     [][]byte
	Overclaims bool
	WellKnown  bool // the service's robots.txt names it as a sitemap
	HTTP10     bool
	HTTP2      bool // names are in lower case, and the order of Fields says nothing: it is not the client's
	HTTP3      bool // HTTP2 is set as well: the same holds
	Body       bool // a body comes with it, of any method
	Partial    bool // made from a record that kept some fields only: one that is missing is unknown, not absent
}

// Get returns the value of the first field called name, compared without case; nil if there is none.
func (v *View) Get(name string) []byte {
	for i := range v.Fields {
		if f := &v.Fields[i]; len(f.Name) == len(name) && EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return nil
}

// Has reports whether a field called name is present, empty or not.
func (v *View) Has(name string) bool {
	for i := range v.Fields {
		if f := &v.Fields[i]; len(f.Name) == len(name) && EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// Borrow returns b as a string that shares its bytes: b must not change while it is used.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Evidence is a page's report of automation in its browser. The zero value is no report.
type Evidence struct {
	Known  bool
	Probes Probes
}

// Probes are findings of a page.
type Probes uint8

// The bits, in the order of templates/js/probes.ts.
const (
	ProbeWebdriver Probes = 1 << iota // the browser says that it is driven
	ProbeDriver                       // a driver has left names of its own
	ProbeUnpressed                    // a mouse has pressed without pressure
	ProbeAstray                       // the pointer was not where its window is
	ProbeInspected                    // an inspector is attached: a driver's, or a developer's

	ProbesAll        = ProbeInspected<<1 - 1
	ProbesAutomation = ProbeWebdriver | ProbeDriver
)

const maxEvidence = 1024

// ParseEvidence reads the output of templates/js/evidence.ts, and returns its seal.
func ParseEvidence(body []byte) (seal []byte, e Evidence, ok bool) {
	parts := bytes.Split(body, []byte(" "))
	if len(body) > maxEvidence || len(parts) != 3 || string(parts[0]) != "1" {
		return nil, Evidence{}, false
	}
	probes, err := strconv.ParseUint(string(parts[2]), 10, 8)
	if err != nil || probes > uint64(ProbesAll) {
		return nil, Evidence{}, false
	}
	return parts[1], Evidence{Known: true, Probes: Probes(probes)}, true
}
