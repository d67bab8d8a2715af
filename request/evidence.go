package request

import (
	"bytes"
	"strconv"
)

// Evidence is what a page says of the browser that shows it, if it says anything: traces of automation. The zero value says nothing.
type Evidence struct {
	Known  bool
	Probes Probes
}

// Probes are bits of what a page has found.
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

// maxEvidence bounds what a page sends, in bytes.
const maxEvidence = 1024

// ParseEvidence reads what templates/js/evidence.ts sends, and returns the seal that it brings along.
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
