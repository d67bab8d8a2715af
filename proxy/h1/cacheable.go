package h1

import (
	"bytes"

	"antirobot/request"
)

// sharable reports whether a shared cache may keep the answer (RFC 9111 section 3, and the fields that CDN caches obey): if
// so, nothing that belongs to one visitor must be added to it. Where the fields are silent, a cache may use heuristics; it
// should not do so with an answer that sets a cookie, and most do not.
func (h *head) sharable() bool {
	given, may, expires := false, false, false
	for i := range h.fields {
		f := &h.fields[i]
		switch len(f.Name) {
		case len("Expires"):
			// "0" and "-1" are the usual ways to say that the answer is stale already.
			expires = expires || request.EqualFold(f.Name, "Expires") && len(f.Value) > 2
		case len("Cache-Control"):
			if request.EqualFold(f.Name, "Cache-Control") {
				given = true
				keeps, refuses := cacheDirectives(f.Value)
				if refuses {
					return false
				}
				may = may || keeps
			}
		case len("CDN-Cache-Control"), len("Cloudflare-CDN-Cache-Control"): // and Surrogate-Control
			if request.EqualFold(f.Name, "CDN-Cache-Control") || request.EqualFold(f.Name, "Surrogate-Control") ||
				request.EqualFold(f.Name, "Cloudflare-CDN-Cache-Control") {
				keeps, _ := cacheDirectives(f.Value)
				may = may || keeps
			}
		}
	}
	return may || expires && !given
}

// cacheDirectives reports whether a list of directives lets a shared cache keep an answer, or forbids it.
func cacheDirectives(value []byte) (keeps, refuses bool) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, seconds, _ := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		switch {
		case request.EqualFold(name, "no-store"), request.EqualFold(name, "private"):
			refuses = true
		case request.EqualFold(name, "public"), request.EqualFold(name, "s-maxage"), request.EqualFold(name, "immutable"):
			keeps = true
		case request.EqualFold(name, "max-age"):
			keeps = keeps || string(bytes.Trim(seconds, `" `)) != "0"
		}
	}
	return keeps, refuses
}
