// Package request is what a request says, before anybody asks who makes it: its View, the fields of its head, its path
// and its number. It imports nothing of this module, so that the front, the identity, the lists, the captcha and the
// verdict all read a request in the same way.
//
// A View borrows the connection's bytes. It is valid until the request's answer has been written; whatever is kept longer
// is copied.
package request

import (
	"net/netip"
	"time"
)

// Field is one header field as it stood on the wire, white space around the value trimmed.
type Field struct {
	Name, Value []byte
}

// View is the bytes of a request that matter for a verdict, borrowed from the connection (invariant 1).
type View struct {
	At       time.Time  // when the head was complete
	Method   []byte     // as sent
	Host     []byte     // lower-cased, without port
	HostPort []byte     // as sent
	Target   []byte     // origin-form target: path and query, raw
	Path     []byte     // Target up to the first '?', raw
	Named    []byte     // another path, which a field names for services that take it instead, where that may arrive there; nil: none
	Query    []byte     // what follows the first '?', raw; nil if there is none
	Fields   []Field    // all header fields in wire order, Host and cookies included
	Peer     netip.Addr // who holds the socket (PROXY protocol already applied), unmapped
	TLS      bool       // whether this hop came over TLS
	JA4      []byte     // fingerprint of the client's TLS handshake, 36 characters; nil: not known
	Client   []byte     // verified name of the client's certificate; nil: it has none
	Frames   []byte     // fingerprint of the first frames of its HTTP/2 connection; nil: not known
	// Behind is by how much later the client answered in its TLS handshake than the end of its TCP connection does; 0: not known
	Behind time.Duration
	Posted []Field // fields of the body that were read for rules; nil: none were
	// Claims are methods that the request claims to be of beside its own, in capitals; Overclaims: it may claim any
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
