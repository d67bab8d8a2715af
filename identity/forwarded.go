package identity

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"

	"antirobot/request"
)

// maxHops bounds how many elements of a forwarding header are examined, from the right.
const maxHops = 64

type trust struct {
	proxies    *bart.Lite // nil: none are trusted
	header     string
	forwarded  bool   // header is RFC 7239's, and its proto parameter replaces X-Forwarded-Proto
	ja4, http2 string // the headers of fingerprints; empty: there are none
}

func newTrust(c Config) (*trust, error) {
	t := &trust{
		header: c.ClientAddressHeader, forwarded: strings.EqualFold(c.ClientAddressHeader, "Forwarded"),
		ja4: c.JA4Header, http2: c.HTTP2Header,
	}
	for _, s := range c.TrustedProxies {
		p, err := request.ParseNetwork(s)
		if err != nil {
			return nil, err
		}
		if t.proxies == nil {
			t.proxies = new(bart.Lite)
		}
		t.proxies.Insert(p)
	}
	return t, nil
}

func (t *trust) trusts(a netip.Addr) bool { return t.proxies.Lookup(a) }

// client returns the client's address and whether it used TLS. The header is read from its right end, where each
// proxy appends the address that it saw: the first one that is not a trusted proxy's is the client; the rest is not
// even parsed. A hidden hop ("unknown") is skipped. If an element can't be read, the last good hop counts.
func (t *trust) client(v *request.View) (a netip.Addr, https bool) {
	a, https = v.Peer.Unmap().WithZone(""), v.TLS
	if t.proxies == nil || !t.trusts(a) {
		return a, https
	}
	proxies := 1 // how many trusted proxies the request came through
	looked := 0
walk:
	for i := len(v.Fields) - 1; i >= 0; i-- {
		f := &v.Fields[i]
		if len(f.Name) != len(t.header) || !request.EqualFold(f.Name, t.header) {
			continue
		}
		rest, more := f.Value, true
		var elem []byte
		for more {
			if looked++; looked > maxHops {
				break walk
			}
			if rest, elem, more = t.lastElement(rest); len(elem) == 0 {
				continue // an empty list element does not count
			}
			node, proto, ok := t.readHop(elem)
			if !ok {
				break walk
			}
			hidden := len(node) == 0 || request.IsHidden(node)
			hop, ok := request.ParseNode(node)
			if !ok && !hidden {
				break walk
			}
			if len(proto) > 0 {
				https = isSecure(proto)
			}
			if !hidden {
				a = hop
			}
			if !hidden && !t.trusts(hop) {
				break walk
			}
			proxies++
		}
	}
	if !t.forwarded {
		https = forwardedProto(v, proxies, https)
	}
	return a, https
}

// lastElement splits the last element off a comma-separated list and trims spaces; more says that a comma preceded
// it. In RFC 7239's header commas inside quotes do not count, and quotes are matched from the right: the client's
// text is on the left, and a quote that it left open must not swallow a proxy's.
func (t *trust) lastElement(list []byte) (rest, elem []byte, more bool) {
	i := len(list) - 1
	if !t.forwarded {
		i = bytes.LastIndexByte(list, ',')
	} else {
		for quoted := false; i >= 0 && (quoted || list[i] != ','); i-- {
			if list[i] == '"' {
				quoted = !quoted
			}
		}
	}
	if i < 0 {
		return nil, bytes.TrimSpace(list), false
	}
	return list[:i], bytes.TrimSpace(list[i+1:]), true
}

// readHop returns the node and the protocol of one element; node may be empty with RFC 7239.
func (t *trust) readHop(elem []byte) (node, proto []byte, ok bool) {
	if t.forwarded {
		return readForwarded(elem)
	}
	return elem, nil, true
}

// readForwarded reads for and proto of one element of RFC 7239. An element with two for is rejected.
func readForwarded(elem []byte) (node, proto []byte, ok bool) {
	var seen bool
	for len(elem) > 0 {
		eq := bytes.IndexByte(elem, '=')
		if eq < 1 {
			return nil, nil, false
		}
		name := bytes.TrimSpace(elem[:eq])
		val, rest, ok := readValue(elem[eq+1:])
		if !ok {
			return nil, nil, false
		}
		switch {
		case len(name) == 3 && request.EqualFold(name, "for"):
			if seen {
				return nil, nil, false
			}
			seen, node = true, val
		case len(name) == 5 && request.EqualFold(name, "proto"):
			proto = val
		}
		elem = rest
	}
	return node, proto, true
}

// readValue reads a token or a quoted string up to the next ';'. Escapes have no place in an address and are
// rejected.
func readValue(b []byte) (val, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		val, rest, _ = bytes.Cut(b, semicolon)
		val = bytes.TrimSpace(val)
		return val, rest, len(val) > 0 && bytes.IndexByte(val, '"') < 0
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	val, b = b[1:1+end], bytes.TrimSpace(b[end+2:])
	if bytes.IndexByte(val, '\\') >= 0 || (len(b) > 0 && b[0] != ';') {
		return nil, nil, false
	}
	return val, bytes.TrimPrefix(b, semicolon), true
}

var semicolon = []byte{';'}

// forwardedProto reads X-Forwarded-Proto. Most proxies overwrite it; where they append, the value of the outermost
// trusted proxy counts: as many from the right as there are proxies.
func forwardedProto(v *request.View, proxies int, https bool) bool {
	const name = "X-Forwarded-Proto"
	for i := len(v.Fields) - 1; i >= 0; i-- {
		f := &v.Fields[i]
		if len(f.Name) != len(name) || !request.EqualFold(f.Name, name) {
			continue
		}
		rest := f.Value
		for proxies > 0 {
			j := bytes.LastIndexByte(rest, ',')
			if elem := bytes.TrimSpace(rest[j+1:]); len(elem) > 0 {
				https = isSecure(elem)
				proxies--
			}
			if j < 0 {
				break
			}
			rest = rest[:j]
		}
	}
	return https
}

// isSecure reports whether a proxy's protocol is TLS. Traefik names the scheme of a WebSocket.
func isSecure(proto []byte) bool {
	return request.EqualFold(proto, "https") || request.EqualFold(proto, "wss")
}

// Bounds of the fingerprints that proxies report, in bytes.
const (
	ja4Bytes      = 36
	mostHTTP2Text = 160
)

// Handshake replaces the fingerprints of a trusted proxy's connection by those that it reports of its client, and
// drops its certificate. vouched says that the peer is trusted in another way. A malformed report is none.
func (r *Resolver) Handshake(v *request.View, vouched bool) {
	t := r.trust.Load()
	if !vouched && (t.proxies == nil || !t.trusts(v.Peer.Unmap().WithZone(""))) {
		return
	}
	v.Client = nil
	v.JA4, v.Frames = lastOf(v, t.ja4), lastOf(v, t.http2)
	if b := v.JA4; len(b) != ja4Bytes || b[10] != '_' || b[23] != '_' {
		v.JA4 = nil
	}
	if len(v.Frames) > mostHTTP2Text {
		v.Frames = nil
	}
}

// lastOf returns the last field of a name, which is the proxy's; nil if there is none.
func lastOf(v *request.View, name string) []byte {
	for i := len(v.Fields) - 1; i >= 0 && name != ""; i-- {
		if f := &v.Fields[i]; len(f.Name) == len(name) && request.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return nil
}

// PartnerUser reads a known XML partner's address of its user: exactly one X-Real-Ip with one address.
func PartnerUser(v *request.View) (netip.Addr, bool) {
	const name = "X-Real-Ip"
	var a netip.Addr
	for i := range v.Fields {
		f := &v.Fields[i]
		if len(f.Name) != len(name) || !request.EqualFold(f.Name, name) {
			continue
		}
		b, ok := request.ParseNode(f.Value)
		if !ok || a.IsValid() {
			return netip.Addr{}, false
		}
		a = b
	}
	return a, a.IsValid()
}

// Trusts reports whether a peer's address belongs to a trusted proxy.
func (r *Resolver) Trusts(a netip.Addr) bool {
	t := r.trust.Load()
	return t.proxies != nil && t.trusts(a.Unmap().WithZone(""))
}
