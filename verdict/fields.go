package verdict

import (
	"math/bits"

	"antirobot/identity"
)

// Headers are bits of which fields a request has.
type Headers uint32

// The bits.
const (
	HasAccept Headers = 1 << iota
	HasAcceptLanguage
	HasAcceptEncoding
	HasUserAgent
	HasReferer
	HasCookie
	HasConnection
	HasUpgradeInsecure
	HasFetchSite
	HasFetchMode
	HasFetchUser
	HasFetchDest
	HasHints // Sec-CH-UA
	HasHintsMobile
	HasHintsPlatform
	HasPriority
	HasTE
	HasCacheControl
	HasOrigin
	HasRequestedWith
	HasAuthorization
	HasFrom
	HasForwarded // Via, Forwarded, X-Forwarded-For, X-Real-IP, as far as they reach us
	HasConditional
	HasRange
)

// Misfits are bits of what does not go together with what the client claims to be. What browsers send is taken from
// captures of Chrome 98 to 150, Edge, Firefox 133 to 144, Safari 15 to 26 and Tor (lexiforest/curl-impersonate,
// tests/signatures, MIT, and apify/fingerprint-suite, Apache-2.0); testdata/browsers.txt has the order of their fields.
type Misfits uint16

// The bits. Each is about a client that claims to be a browser.
const (
	NoLanguage  Misfits = 1 << iota // without Accept-Language
	NoEncoding                      // without Accept-Encoding
	AcceptsAny                      // loads a page and would take anything
	NoFetch                         // without the Sec-Fetch fields that it sends over https
	FalseFetch                      // Sec-Fetch fields that contradict each other, or that it does not know
	NoHints                         // without the Sec-CH-UA that it sends over https
	FalseHints                      // Sec-CH-UA of another browser or version
	FalseOrder                      // the fields in an order that it never uses
	OldProtocol                     // HTTP/1.0 without a proxy in between
)

// fieldReader is what one pass over the fields of a request finds. The slices borrow the View's bytes.
type fieldReader struct {
	has     Headers
	shape   uint64
	ranks   [24]uint8 // of the fields that have a place in the order, in wire order
	nRanks  int
	accept  []byte
	agent   []byte
	referer []byte

	language, site, mode, dest, user, hints, hintsMobile, hintsPlatform []byte
}

func (p *fieldReader) read(fields []identity.Field) {
	for i := range fields {
		f := &fields[i]
		n := f.Name
		switch len(n) {
		case 2:
			p.see(n, "te", HasTE, nil, f.Value)
		case 3:
			p.see(n, "via", HasForwarded, nil, f.Value)
		case 4:
			p.see(n, "from", HasFrom, nil, f.Value)
		case 5:
			p.see(n, "range", HasRange, nil, f.Value)
		case 6:
			_ = p.see(n, "accept", HasAccept, &p.accept, f.Value) || p.see(n, "cookie", HasCookie, nil, f.Value) ||
				p.see(n, "origin", HasOrigin, nil, f.Value)
		case 7:
			p.see(n, "referer", HasReferer, &p.referer, f.Value)
		case 8:
			p.see(n, "priority", HasPriority, nil, f.Value)
		case 9:
			_ = p.see(n, "sec-ch-ua", HasHints, &p.hints, f.Value) || p.see(n, "forwarded", HasForwarded, nil, f.Value) ||
				p.see(n, "x-real-ip", HasForwarded, nil, f.Value)
		case 10:
			_ = p.see(n, "user-agent", HasUserAgent, &p.agent, f.Value) || p.see(n, "connection", HasConnection, nil, f.Value)
		case 13:
			_ = p.see(n, "cache-control", HasCacheControl, nil, f.Value) || p.see(n, "if-none-match", HasConditional, nil, f.Value) ||
				p.see(n, "authorization", HasAuthorization, nil, f.Value)
		case 14:
			_ = p.see(n, "sec-fetch-site", HasFetchSite, &p.site, f.Value) || p.see(n, "sec-fetch-mode", HasFetchMode, &p.mode, f.Value) ||
				p.see(n, "sec-fetch-user", HasFetchUser, &p.user, f.Value) || p.see(n, "sec-fetch-dest", HasFetchDest, &p.dest, f.Value)
		case 15:
			_ = p.see(n, "accept-language", HasAcceptLanguage, &p.language, f.Value) ||
				p.see(n, "accept-encoding", HasAcceptEncoding, nil, f.Value) || p.see(n, "x-forwarded-for", HasForwarded, nil, f.Value)
		case 16:
			_ = p.see(n, "sec-ch-ua-mobile", HasHintsMobile, &p.hintsMobile, f.Value) ||
				p.see(n, "x-requested-with", HasRequestedWith, nil, f.Value)
		case 17:
			p.see(n, "if-modified-since", HasConditional, nil, f.Value)
		case 18:
			p.see(n, "sec-ch-ua-platform", HasHintsPlatform, &p.hintsPlatform, f.Value)
		case 25:
			p.see(n, "upgrade-insecure-requests", HasUpgradeInsecure, nil, f.Value)
		}
	}
}

// shaped are the fields that a browser sends with each page, whatever page it is.
const shaped = HasAccept | HasAcceptLanguage | HasAcceptEncoding | HasUserAgent | HasUpgradeInsecure | HasFetchSite | HasFetchMode |
	HasFetchDest | HasHints | HasHintsMobile | HasHintsPlatform | HasPriority | HasTE

// see notes the field if it has the name, which is in lower case.
func (p *fieldReader) see(name []byte, is string, bit Headers, value *[]byte, v []byte) bool {
	if !hasFold(name, is) {
		return false
	}
	if p.has&bit != 0 {
		return true // the first one counts
	}
	p.has |= bit
	if value != nil {
		*value = v
		if v == nil {
			*value = []byte{}
		}
	}
	if bit&shaped != 0 {
		p.shape = (p.shape ^ uint64(bit)) * 0x9e3779b97f4a7c15
		p.shape ^= p.shape >> 29
	}
	if bit&ordered != 0 && p.nRanks < len(p.ranks) {
		p.ranks[p.nRanks] = uint8(bits.TrailingZeros32(uint32(bit)))
		p.nRanks++
	}
	return true
}

// isPage reports whether the request is a navigation.
func (p *fieldReader) isPage(v *identity.View) bool {
	if len(p.mode) > 0 {
		return string(p.mode) == "navigate"
	}
	if v.Partial {
		return true
	}
	return contains(p.accept, "text/html")
}

// contains reports whether s is a part of b. Values are short; this beats bytes.Contains with a converted string.
func contains(b []byte, s string) bool {
	for i := 0; i+len(s) <= len(b); i++ {
		if b[i] == s[0] && string(b[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}
