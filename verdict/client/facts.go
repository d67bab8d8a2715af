package client

import (
	"bytes"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Facts is what a request tells the slow half about its client and its course: plain values, read in one pass over the
// fields of the View. What a View lacks because it stems from a recorded line (Partial) is unknown, not absent.
type Facts struct {
	Partial bool // of a recorded line: Headers except User-Agent and Referer, Shape, Language, Misfits, Cookies are unknown
	Partner bool // an XML partner asks on behalf of its user: nothing is known of the user's client
	Liar    bool // declares itself a crawler that it is known not to be
	Secure  bool // the client came over https, as far as we are told
	Direct  bool // no proxy between the client and us: the HTTP version is the client's own
	HTTP10  bool
	HTTP2   bool // Shape contains no order
	Query   bool // the target has a query
	Page    bool // a navigation: nothing says that a script made the request
	// WantsHTML: the request says that somebody opens a page: it is a navigation, or accepts HTML.
	WantsHTML bool

	Claim    Claim
	Headers  Headers
	Misfits  Misfits
	Shape    uint64 // hash of those fields that browsers always send, in the order in which they are present
	Language uint32 // hash of Accept-Language; 0 if absent

	JA4      uint64   // hash of the fingerprint of the TLS handshake; 0: not known
	QUIC     bool     // the handshake was QUIC's: a browser makes another there than over TCP
	Frames   uint64   // hash of that of the first HTTP/2 frames; 0: not known
	Software Software // that the handshake is known to be of
	Lag      Lag      // of direct clients, by how much later it answers than its connection's end

	Site        Site // what the browser says about where it came from
	Referer     Referer
	RefererPath uint32 // hash of the referer's path, if the referer is of the same site

	Cookies Cookies
	Forged  uint8  // cookies in our name with a false seal; those of the service may have lost their key
	IAge    int32  // seconds since the client received our cookie; -1 without one
	Browser uint32 // hash of our cookie, young or old; 0 without one

	PathKind PathKind
	Depth    uint8  // segments of the path
	Target   uint64 // hash of path and query, and of a range in other units than bytes
	Number   uint32 // the last number in the target, its last nine digits, from StampFrom on if it only defeats caches …
	Series   uint32 // … and the hash of what comes before it; 0: there is no number
}

// Program reports whether the client says itself that it is no browser. Of a record that lacks the User-Agent that is not known.
func (f *Facts) Program() bool {
	return f.Claim.Program() && !(f.Partial && f.Headers&HasUserAgent == 0)
}

// Site is what Sec-Fetch-Site says.
type Site uint8

// Where a browser says that a request comes from.
const (
	SiteUnknown Site = iota
	SiteNone         // typed, a bookmark, another program: no page has led here
	SiteSame         // of the same site
	SiteCross
)

// Referer says where a request comes from.
type Referer uint8

// Where a request comes from.
const (
	RefererNone Referer = iota
	RefererSame         // a page of the same host, or of a parent or child domain
	RefererForeign
	RefererMalformed
)

// Cookies are bits of what a client brought.
type Cookies uint8

// The bits.
const (
	CookieAny     Cookies = 1 << iota // some Cookie field
	CookieOurs                        // an i cookie of ours, young or old
	CookiePass                        // a valid pass
	CookieOffered                     // a browser loading a page without our cookie: it is offered one now
)

// PathKind says what a path looks like.
type PathKind uint8

// The kinds of paths.
const (
	PathPage PathKind = iota
	PathRobots
	PathFeed  // sitemaps and feeds
	PathProbe // what scanners look for; only an error if it does not exist
	PathIcon  // the site's icon, where browsers look for it unasked
)

// Read fills f from the request, and returns the hash of its User-Agent.
func (f *Facts) Read(v *request.View, id *identity.Identity, t *Table) (agent uint64) {
	*f = Facts{
		Partial: v.Partial, Secure: id.Proto == "https", Direct: v.Peer == id.Addr, HTTP10: v.HTTP10, HTTP2: v.HTTP2,
		Query: len(v.Query) > 0, IAge: -1, PathKind: pathKind(v.Path), Target: t.Key().Sum(v.Target),
	}
	f.Depth, f.Number, f.Series = course(v.Path, v.Target, v.At, t.Key())
	if id.Partner {
		f.Partner, f.Partial = true, true
		return 0
	}
	var p fieldReader
	p.read(v.Fields)
	f.Headers, f.Shape = p.has, p.shape
	if r := p.values[valueRange]; len(r) > 0 && !request.HasPrefixFold(r, "bytes") {
		f.Target ^= t.Key().Sum(r) // it names what is wanted, as a query would: PostgREST's pages of a table are 0-24, 25-49
	}
	if len(v.Named) > 0 {
		f.Target ^= t.Key().Sum(v.Named) // and so does this
	}
	if f.Headers&HasUserAgent != 0 {
		agent = max(1, request.Hash(p.values[valueAgent]))
		f.Claim = t.claim(p.values[valueAgent])
	}
	f.Referer, f.RefererPath = referer(p.values[valueReferer], v.Host, t.Key())
	f.Site = siteOf(p.values[valueSite])
	f.cookies(v, id)
	f.hello(v)
	if f.Headers&HasAcceptLanguage != 0 {
		f.Language = max(1, uint32(request.Hash(p.values[valueLanguage])))
	}
	switch string(p.values[valueDest]) {
	case "iframe", "frame", "fencedframe":
		f.Headers |= InFrame
	}
	if v.Body {
		f.Headers |= HasBody
	}
	f.Page = p.isPage()
	f.WantsHTML = string(p.values[valueMode]) == "navigate" || contains(p.values[valueAccept], "text/html")
	if v.Partial {
		f.Shape = 0
	} else {
		f.Misfits = p.misfits(f)
	}
	if f.Claim.falseHello(f.Software) {
		f.Misfits |= FalseHello
	}
	return agent
}

func (f *Facts) cookies(v *request.View, id *identity.Identity) {
	if f.Headers&HasCookie != 0 {
		f.Cookies |= CookieAny
	}
	if id.IBirth != 0 {
		f.Cookies |= CookieOurs
		f.IAge = int32(min(max(v.At.Unix()-id.IBirth, 0), 1<<31-1))
		if browser, ok := id.Browser(); ok {
			f.Browser = max(1, uint32(request.Hash(browser[:])))
		}
	}
	if id.NPasses > 0 {
		f.Cookies |= CookiePass
	}
	if id.WantI && id.IBirth == 0 {
		f.Cookies |= CookieOffered
	}
	for i := range id.NRefused {
		if r := id.Refused[i]; r.Reason == identity.RefusedSeal && (r.Kind == identity.KindI || r.Kind == identity.KindSpravka) {
			f.Forged++
		}
	}
}

func siteOf(value []byte) Site {
	switch string(value) {
	case "none":
		return SiteNone
	case "same-origin", "same-site":
		return SiteSame
	case "cross-site":
		return SiteCross
	}
	return SiteUnknown
}

// referer says where a request comes from. The value is hostile: it is parsed, never followed.
func referer(value, host []byte, key *request.HashKey) (Referer, uint32) {
	if len(value) == 0 {
		return RefererNone, 0
	}
	rest, ok := cutScheme(value)
	if !ok {
		return RefererMalformed, 0
	}
	n := bytes.IndexAny(rest, "/?#")
	if n < 0 {
		n = len(rest)
	}
	of, path := rest[:n], rest[n:]
	name, _, ok := request.SplitHost(of)
	if !ok {
		return RefererMalformed, 0
	}
	if !sameSite(name, host) {
		return RefererForeign, 0
	}
	if end := bytes.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if len(path) == 0 {
		path = []byte{'/'}
	}
	return RefererSame, uint32(key.Sum(path))
}

func cutScheme(value []byte) (rest []byte, ok bool) {
	switch {
	case request.HasPrefixFold(value, "https://"):
		return value[len("https://"):], true
	case request.HasPrefixFold(value, "http://"):
		return value[len("http://"):], true
	}
	return nil, false
}

// sameSite reports whether two hosts are the same, or one is below the other.
func sameSite(a, b []byte) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) == 0 || !request.HasSuffixFold(a, b) {
		return false
	}
	return len(a) == len(b) || a[len(a)-len(b)-1] == '.' && bytes.IndexByte(b, '.') >= 0
}

// pathKind says what a path looks like.
func pathKind(path []byte) PathKind {
	switch {
	case len(path) < 4:
		return PathPage
	case string(path) == "/robots.txt":
		return PathRobots
	case string(path) == "/favicon.ico", request.HasPrefixFold(path, "/apple-touch-icon"):
		return PathIcon
	case request.NamesFeed(path):
		return PathFeed
	case path[1] == '.' && !request.HasPrefixFold(path, "/.well-known/"), request.HasPrefixFold(path, "/wp-"), request.HasPrefixFold(path, "/phpmyadmin"),
		request.HasPrefixFold(path, "/cgi-bin/"), request.HasPrefixFold(path, "/vendor/phpunit"), hasSuffix(path, ".php"), hasSuffix(path, ".env"),
		hasSuffix(path, ".sql"), hasSuffix(path, ".bak"), hasSuffix(path, ".asp"), hasSuffix(path, ".aspx"), hasSuffix(path, ".jsp"),
		hasSuffix(path, "/.git/config"):
		return PathProbe
	}
	return PathPage
}

func hasSuffix(b []byte, s string) bool { return len(b) >= len(s) && string(b[len(b)-len(s):]) == s }

// StampFrom is what Facts.Number begins with where the number is the present time, or a random one: it only defeats caches.
const StampFrom = 1_000_000_000

// isStamp reports whether a target ends with the time of the request to a day, in seconds or a fraction of them, or with a random number
// as scripts make them, from 0 to 1.
func isStamp(target []byte, at time.Time) bool {
	begin := len(target)
	for begin > 0 && target[begin-1] >= '0' && target[begin-1] <= '9' {
		begin--
	}
	digits := target[begin:]
	if bytes.HasSuffix(target[:begin], []byte("0.")) {
		return true
	}
	if n := len(digits); n != 10 && n != 13 && n != 16 {
		return false
	}
	seconds := int64(0)
	for _, c := range digits[:10] {
		seconds = seconds*10 + int64(c-'0')
	}
	off := seconds - at.Unix()
	return -86400 < off && off < 86400
}

// course returns the number of segments of a path, and the last number in the target with the hash of what precedes it.
func course(path, target []byte, at time.Time, key *request.HashKey) (depth uint8, number, series uint32) {
	segments := 0
	for i, c := range path {
		if c != '/' && (i == 0 || path[i-1] == '/') {
			segments++
		}
	}
	end := len(target)
	for end > 0 && (target[end-1] < '0' || target[end-1] > '9') {
		end--
	}
	begin := end
	for begin > 0 && end-begin < 9 && target[begin-1] >= '0' && target[begin-1] <= '9' {
		begin--
	}
	if begin == end {
		return uint8(min(segments, 255)), 0, 0
	}
	for _, c := range target[begin:end] {
		number = number*10 + uint32(c-'0')
	}
	if end-begin == 9 && isStamp(target[:end], at) {
		number += StampFrom
	}
	return uint8(min(segments, 255)), number, max(1, uint32(key.Sum(target[:begin])))
}
