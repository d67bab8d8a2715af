package verdict

import (
	"antirobot/identity"
	"antirobot/request"
)

// Whoever is asked still gets what a page needs to look and work like one, such as one that is open while its script asks: styles,
// scripts and fonts that are known to be parts of pages, and the site's icon. Pictures, film and data are what robots come for, so
// they are not among these; and as many go to an address in a minute as go with a document that a pass pays for (PassConfig.Parts),
// so a flood of them does not reach the service either.

// sparedOf is what is counted of an address that is stopped, in the present minute.
type sparedOf struct {
	addr identity.Subject
	what byte
}

const (
	sparedParts byte = iota
	sparedFiles      // well-known files
	sparedACME       // questions of issuers of certificates

	sparedPlaces = 1 << 12
)

// looksRight reports whether the request, which would be asked for, is for a part that goes to whoever is asked.
func (c *Cacher) looksRight(v *request.View, id *identity.Identity, s *Settings) bool {
	if id.N == 0 || id.Partner || string(v.Method) != "GET" && string(v.Method) != "HEAD" || !v.NamesLooks() {
		return false
	}
	is := c.paths.read(c.pathKey(s, v))
	if is != readingPart && !(is == readingUnknown && v.NamesIcon()) {
		return false
	}
	return c.spared.Take(sparedOf{addr: id.Subjects[id.N-1]}, v.At, c.cfg.Pass.Parts)
}

// wellKnownFiles is how many well-known files go in a minute to an address that is stopped: more than any program reads, and too few
// for a flood.
const wellKnownFiles = 120

// mayAskACME reports whether an address asks no more of the questions of issuers than issuers do: they ask for each name some five
// times. Beyond that it is judged as any visitor.
func (c *Cacher) mayAskACME(v *request.View, id *identity.Identity) bool {
	return id.N == 0 || c.spared.Take(sparedOf{id.Subjects[id.N-1], sparedACME}, v.At, wellKnownFiles)
}

// wellKnown reports whether the request, which would be stopped, is for a file that programs look for at a fixed place. A captcha in
// place of robots.txt would tell a polite robot that it may read everything (RFC 9309, 2.3.1).
func (c *Cacher) wellKnown(v *request.View, id *identity.Identity) bool {
	return v.IsWellKnown() && id.N > 0 && c.spared.Take(sparedOf{id.Subjects[id.N-1], sparedFiles}, v.At, wellKnownFiles)
}
