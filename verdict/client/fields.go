package client

import (
	"encoding/binary"
	"math/bits"

	"antirobot/request"
)

// Headers are bits that say which fields a request has.
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
	HasForwarded // Via, Forwarded, X-Forwarded-For, X-Real-IP, if they reach us
	HasConditional
	HasRange
	HasPragma  // nothing from a cache, as when a page is loaded anew with everything, or while a driver or a developer looks at requests
	HasPurpose // loaded ahead of time, by Sec-Purpose or Purpose
	InFrame    // Sec-Fetch-Dest says that it is for a frame in a page
	HasBody    // a body comes with it, of any method
)

// Misfits are bits for what does not match what the client claims to be. What browsers send is taken from captures of
// Chrome 98 to 150, Edge, Firefox 133 to 144, Safari 15 to 26 and Tor (lexiforest/curl-impersonate, tests/signatures,
// MIT, and apify/fingerprint-suite, Apache-2.0); testdata/browsers.txt has the order of their fields.
type Misfits uint16

// The bits. Each concerns a client that claims to be a browser.
const (
	NoLanguage  Misfits = 1 << iota // without Accept-Language
	NoEncoding                      // without Accept-Encoding
	AcceptsAny                      // loads a page, but would accept any type
	NoFetch                         // without the Sec-Fetch fields that it sends over https
	FalseFetch                      // Sec-Fetch fields that contradict each other, or that it does not know
	NoHints                         // without the Sec-CH-UA that it sends over https
	FalseHints                      // Sec-CH-UA of another browser or version
	FalseOrder                      // the fields in an order that it never uses
	OldProtocol                     // HTTP/1.0 without a proxy in between
	FalseHello                      // a TLS handshake of a library that no browser uses
)

// fieldReader holds what one pass over the fields of a request finds. The slices borrow the View's bytes.
type fieldReader struct {
	has    Headers
	shape  uint64
	ranks  [16]uint8 // of the fields that have a rank in the order, in wire order
	nRanks int
	values [valueCount][]byte
}

// read examines each field once. A name is identified by its length and its last eight bytes in lower case: a client
// that makes up another name with the same ones could as well send the field itself.
func (p *fieldReader) read(fields []request.Field) {
	for i := range fields {
		f := &fields[i]
		n := len(f.Name)
		if n < 2 || n > 25 {
			continue
		}
		for _, k := range knownFields[n] {
			if k.bit != 0 && k.word == nameWord(f.Name) {
				p.see(k, f.Value)
				break
			}
		}
	}
}

// known is a field that is looked for.
type known struct {
	word  uint64
	bit   Headers
	value fieldValue
}

// fieldValue says which of the values is kept.
type fieldValue uint8

const (
	valueNone fieldValue = iota
	valueAccept
	valueAgent
	valueReferer
	valueLanguage
	valueSite
	valueMode
	valueDest
	valueUser
	valueHints
	valueHintsMobile
	valueHintsPlatform
	valueRange
	valueCount
)

// knownFields are the fields by the length of their name.
var knownFields = func() (by [26][4]known) {
	add := func(name string, bit Headers, value fieldValue) {
		for i := range by[len(name)] {
			if k := &by[len(name)][i]; k.bit == 0 {
				*k = known{nameWord([]byte(name)), bit, value}
				return
			}
		}
		panic("BUG: no place for " + name)
	}
	add("te", HasTE, valueNone)
	add("via", HasForwarded, valueNone)
	add("from", HasFrom, valueNone)
	add("range", HasRange, valueRange)
	add("pragma", HasPragma, valueNone)
	add("purpose", HasPurpose, valueNone)
	add("accept", HasAccept, valueAccept)
	add("cookie", HasCookie, valueNone)
	add("origin", HasOrigin, valueNone)
	add("referer", HasReferer, valueReferer)
	add("priority", HasPriority, valueNone)
	add("sec-ch-ua", HasHints, valueHints)
	add("forwarded", HasForwarded, valueNone)
	add("x-real-ip", HasForwarded, valueNone)
	add("user-agent", HasUserAgent, valueAgent)
	add("connection", HasConnection, valueNone)
	add("cache-control", HasCacheControl, valueNone)
	add("sec-purpose", HasPurpose, valueNone)
	add("if-none-match", HasConditional, valueNone)
	add("authorization", HasAuthorization, valueNone)
	add("sec-fetch-site", HasFetchSite, valueSite)
	add("sec-fetch-mode", HasFetchMode, valueMode)
	add("sec-fetch-dest", HasFetchDest, valueDest)
	add("sec-fetch-user", HasFetchUser, valueUser)
	add("accept-language", HasAcceptLanguage, valueLanguage)
	add("accept-encoding", HasAcceptEncoding, valueNone)
	add("x-forwarded-for", HasForwarded, valueNone)
	add("sec-ch-ua-mobile", HasHintsMobile, valueHintsMobile)
	add("x-requested-with", HasRequestedWith, valueNone)
	add("if-modified-since", HasConditional, valueNone)
	add("sec-ch-ua-platform", HasHintsPlatform, valueHintsPlatform)
	add("upgrade-insecure-requests", HasUpgradeInsecure, valueNone)
	return by
}()

// nameWord returns the last eight bytes of a name of two or more, in lower case.
func nameWord(b []byte) uint64 {
	const lower = 0x2020202020202020
	switch n := len(b); {
	case n >= 8:
		return binary.LittleEndian.Uint64(b[n-8:]) | lower
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b))<<32 | uint64(binary.LittleEndian.Uint32(b[n-4:])) | lower
	default:
		return uint64(binary.LittleEndian.Uint16(b))<<8 | uint64(b[n-1]) | lower
	}
}

// shaped are the fields that a browser sends with each page, whatever page it is.
const shaped = HasAccept | HasAcceptLanguage | HasAcceptEncoding | HasUserAgent | HasUpgradeInsecure | HasFetchSite | HasFetchMode |
	HasFetchDest | HasHints | HasHintsMobile | HasHintsPlatform | HasPriority | HasTE

// see records a field; of several with one name the first counts.
func (p *fieldReader) see(k known, v []byte) {
	if p.has&k.bit != 0 {
		return
	}
	p.has |= k.bit
	p.values[k.value] = v
	if k.bit&shaped != 0 {
		p.shape = (p.shape ^ uint64(k.bit)) * 0x9e3779b97f4a7c15
		p.shape ^= p.shape >> 29
	}
	if k.bit&ordered != 0 && p.nRanks < len(p.ranks) {
		p.ranks[p.nRanks] = uint8(bits.TrailingZeros32(uint32(k.bit)))
		p.nRanks++
	}
}

// isPage reports whether the request loads a page: nothing says that a script made it.
func (p *fieldReader) isPage() bool {
	if mode := p.values[valueMode]; len(mode) > 0 {
		return string(mode) == "navigate"
	}
	if p.has&HasRequestedWith != 0 {
		return false
	}
	return p.has&(HasReferer|HasOrigin) == 0 || p.has&HasAccept == 0 || contains(p.values[valueAccept], "text/html")
}

// contains reports whether s is a substring of b. Values are short; this beats bytes.Contains with a converted string.
func contains(b []byte, s string) bool {
	for i := 0; i+len(s) <= len(b); i++ {
		if b[i] == s[0] && string(b[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}
