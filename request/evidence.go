package request

import (
	"bytes"
	"math"
	"strconv"
)

// Evidence is what a page says of the browser that shows it, if it says anything: traces of automation, and how it was
// used, without positions, keys or text. The zero value says nothing.
type Evidence struct {
	Known    bool
	Probes   Probes
	Language bool      // the page's language is none of those that the browser asks for
	Counts   [5]uint16 // of strokes of the pointer, touches, keys, scrolls, and moves of the focus
	Spread   float32   // the standard deviation of the logarithm of the times between these; negative: too few
}

// Probes are bits of what a page has found.
type Probes uint16

// The bits, in the order of templates/js/probes.ts.
const (
	ProbeWebdriver Probes = 1 << iota // the browser says that it is driven
	ProbeDriver                       // a driver has left names of its own
	ProbeNoScreen                     // the screen has no size or no colours
	ProbeOddScreen                    // more of the screen is free than there is
	ProbeNoWindow                     // a page that is seen in a window of no size
	ProbeUTC                          // the clock is not set to a place: servers, and browsers that hide it
	ProbeUnpressed                    // a mouse has pressed without pressure
	ProbeAstray                       // the pointer was not where its window is
	ProbeInspected                    // an inspector is attached: a driver's, or a developer's

	ProbesAll        = ProbeInspected<<1 - 1
	ProbesAutomation = ProbeWebdriver | ProbeDriver
	ProbesScreen     = ProbeNoScreen | ProbeOddScreen | ProbeNoWindow
)

// maxEvidence bounds what a page sends, in bytes.
const maxEvidence = 1024

// ParseEvidence reads what templates/js/evidence.ts sends, and returns the seal that it brings along; accepted is the
// value of Accept-Language.
func ParseEvidence(body, accepted []byte) (seal []byte, e Evidence, ok bool) {
	parts := bytes.Split(body, []byte(" "))
	if len(body) > maxEvidence || len(parts) != 6 || string(parts[0]) != "1" {
		return nil, Evidence{}, false
	}
	probes, err := strconv.ParseUint(string(parts[2]), 10, 16)
	counts := bytes.Split(parts[4], []byte("."))
	if err != nil || probes > uint64(ProbesAll) || len(counts) != len(e.Counts) {
		return nil, Evidence{}, false
	}
	for i, c := range counts {
		n, err := strconv.ParseUint(string(c), 10, 16)
		if err != nil || n > 999 {
			return nil, Evidence{}, false
		}
		e.Counts[i] = uint16(n)
	}
	e.Spread = -1
	if len(parts[5]) > 0 {
		v, err := strconv.ParseFloat(string(parts[5]), 32)
		if err != nil || math.IsNaN(v) || v < 0 || v > 100 {
			return nil, Evidence{}, false
		}
		e.Spread = float32(v)
	}
	e.Known, e.Probes, e.Language = true, Probes(probes), differs(parts[3], accepted)
	return parts[1], e, true
}

// differs reports whether a language is none of those accepted; what is not known does not differ.
func differs(language, accepted []byte) bool {
	primary, _, _ := bytes.Cut(language, []byte("-"))
	if len(primary) == 0 || len(accepted) == 0 {
		return false
	}
	for tag := range bytes.SplitSeq(accepted, []byte(",")) {
		tag, _, _ = bytes.Cut(bytes.TrimSpace(tag), []byte(";"))
		tag, _, _ = bytes.Cut(tag, []byte("-"))
		if EqualFold(tag, primary) || string(tag) == "*" {
			return false
		}
	}
	return true
}
