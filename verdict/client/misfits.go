package client

import "math/bits"

// ordered are the fields whose position among the others distinguishes engines.
const ordered = HasHints | HasHintsMobile | HasHintsPlatform | HasUpgradeInsecure | HasUserAgent | HasAccept | HasFetchSite |
	HasFetchMode | HasFetchUser | HasFetchDest | HasReferer | HasAcceptEncoding | HasAcceptLanguage | HasPriority

// The places of the ordered fields, by field number: what Chromium and Firefox send with a navigation, the first field
// first. Safari has changed its order too often to check it.
var (
	chromiumOrder = [...]Headers{
		HasHints, HasHintsMobile, HasHintsPlatform, HasUpgradeInsecure, HasUserAgent, HasAccept, HasFetchSite, HasFetchMode,
		HasFetchUser, HasFetchDest, HasReferer, HasAcceptEncoding, HasAcceptLanguage, HasPriority,
	}
	firefoxOrder = [...]Headers{
		HasUserAgent, HasAccept, HasAcceptLanguage, HasAcceptEncoding, HasReferer, HasUpgradeInsecure, HasFetchDest, HasFetchMode,
		HasFetchSite, HasFetchUser, HasPriority,
	}
	chromiumPlaces = placesOf(chromiumOrder[:])
	firefoxPlaces  = placesOf(firefoxOrder[:])
)

func placesOf(order []Headers) (places [32]uint8) {
	for i, bit := range order {
		places[bits.TrailingZeros32(uint32(bit))] = uint8(i + 1)
	}
	return places
}

// inOrder reports whether the fields are in a given order; those without a rank may stand anywhere.
func (p *fieldReader) inOrder(places *[32]uint8) bool {
	last := uint8(0)
	for _, r := range p.ranks[:p.nRanks] {
		at := places[r]
		if at == 0 {
			continue
		}
		if at < last {
			return false
		}
		last = at
	}
	return true
}

// The first versions that send Sec-Fetch fields and client hints, to sites with https.
const (
	chromiumFetch = 80
	chromiumHints = 90
	firefoxFetch  = 90
	safariFetch   = 17 // 16.4, in fact
)

// misfits compares the fields with what the claimed browser sends. A client that does not claim to be a browser has
// none: it says itself what it is.
func (p *fieldReader) misfits(f *Facts) (m Misfits) {
	c := f.Claim
	if !c.Family.Browser() {
		return 0
	}
	set := func(is bool, bit Misfits) {
		if is {
			m |= bit
		}
	}
	set(p.has&HasAcceptLanguage == 0, NoLanguage)
	set(p.has&HasAcceptEncoding == 0, NoEncoding)
	set(f.HTTP10 && f.Direct && c.Family != FamilyOld, OldProtocol)
	const fetch = HasFetchSite | HasFetchMode | HasFetchDest
	sendsFetch := c.Family.Chromium() && c.Major >= chromiumFetch || c.Family == FamilyFirefox && c.Major >= firefoxFetch ||
		c.Family == FamilySafari && c.Major >= safariFetch
	set(f.Secure && sendsFetch && p.has&fetch == 0, NoFetch)
	set(p.falseFetch(c), FalseFetch)
	// Apps omit the hints from their WebView's requests.
	sendsHints := c.Family.Chromium() && c.Major >= chromiumHints && c.Family != FamilyWebView
	set(f.Secure && sendsHints && p.has&HasHints == 0, NoHints)
	set(p.has&HasHints != 0 && p.falseHints(c), FalseHints)
	if !f.Page {
		return m
	}
	accept := p.values[valueAccept]
	set(p.has&HasFetchMode == 0 && (len(accept) == 0 || string(accept) == "*/*"), AcceptsAny)
	switch {
	case f.HTTP2: // the order is unknown
	case c.Family.Chromium():
		set(!p.inOrder(&chromiumPlaces), FalseOrder)
	case c.Family == FamilyFirefox:
		set(!p.inOrder(&firefoxPlaces), FalseOrder)
	}
	return m
}

// falseFetch reports whether the Sec-Fetch fields contradict each other or the browser.
func (p *fieldReader) falseFetch(c Claim) bool {
	if p.has&HasFetchMode == 0 {
		return false
	}
	navigates := string(p.values[valueMode]) == "navigate"
	dest := string(p.values[valueDest])
	switch dest {
	case "document", "iframe", "frame", "fencedframe":
		if !navigates {
			return true
		}
	case "object", "embed":
	default:
		if navigates && p.has&HasFetchDest != 0 {
			return true
		}
	}
	if string(p.values[valueSite]) == "none" && !navigates && dest != "serviceworker" && dest != "empty" && dest != "manifest" {
		return true
	}
	return p.has&HasFetchUser != 0 && (!navigates || string(p.values[valueUser]) != "?1") || c.Family == FamilyOld
}

// falseHints reports whether Sec-CH-UA does not belong to the browser that the User-Agent claims.
func (p *fieldReader) falseHints(c Claim) bool {
	if !c.Family.Chromium() {
		return true
	}
	if v, ok := hintedVersion(p.values[valueHints]); ok && c.Major != 0 && v != c.Major {
		return true
	}
	if p.has&HasHintsMobile != 0 && c.Family != FamilyWebView {
		// Tablets and emulated phones send ?0 with Mobile in their User-Agent; none sends ?1 without.
		if string(p.values[valueHintsMobile]) == "?1" && !c.Mobile {
			return true
		}
	}
	return len(p.values[valueHintsPlatform]) > 2 && !platformFits(p.values[valueHintsPlatform], c.System)
}

// hintedVersion reads the version of Chromium in Sec-CH-UA.
func hintedVersion(hints []byte) (uint16, bool) {
	const mark = `"Chromium";v="`
	for i := 0; i+len(mark) < len(hints); i++ {
		if hints[i] == '"' && string(hints[i:i+len(mark)]) == mark {
			return major(hints[i+len(mark):]), true
		}
	}
	return 0, false
}

func platformFits(platform []byte, s System) bool {
	switch string(platform) {
	case `"Windows"`:
		return s == SystemWindows
	case `"macOS"`:
		return s == SystemMac
	case `"Android"`:
		return s == SystemAndroid || s == SystemLinux // a phone that requests the desktop site
	case `"Linux"`:
		return s == SystemLinux
	case `"Chrome OS"`, `"Chromium OS"`:
		return s == SystemChromeOS
	}
	return true
}
