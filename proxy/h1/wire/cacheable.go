package wire

import (
	"bytes"

	"antirobot/request"
)

// Sharable reports whether a shared cache may keep the answer (RFC 9111 section 3), so that nothing of one visitor may
// be added. Directives for CDNs (RFC 9213 and older ones) count whatever Cache-Control says. For silent answers see
// Guessed. The fields of a 304 join those of the kept answer, whose permission it need not repeat.
func (h *Head) Sharable() bool {
	may, refuses, dated, expires := h.Status == 304, false, false, false
	for i := range h.Fields {
		f := &h.Fields[i]
		switch n := len(f.Name); {
		case n == len("Cache-Control") && request.EqualFold(f.Name, "Cache-Control"):
			keeps, no, age := cacheDirectives(f.Value)
			may, refuses, dated = may || keeps, refuses || no, dated || age
		case n == len("Expires") && request.EqualFold(f.Name, "Expires"):
			// "0" and "-1" mean stale.
			expires = expires || len(f.Value) > 2
		case targeted(f.Name):
			if keeps, no, _ := cacheDirectives(f.Value); keeps && !no {
				return true
			}
		case n == len("X-Accel-Expires") && request.EqualFold(f.Name, "X-Accel-Expires"):
			if len(f.Value) > 0 && string(f.Value) != "0" && string(f.Value) != "off" {
				return true
			}
		}
	}
	return !refuses && (may || expires && !dated)
}

// Guessed reports whether a shared cache may keep a silent answer because of Last-Modified (RFC 9111 section 4.2.2).
// Apache's mod_cache does, cookies included.
func (h *Head) Guessed() bool {
	said, modified := false, false
	for i := range h.Fields {
		f := &h.Fields[i]
		switch {
		case request.EqualFold(f.Name, "Cache-Control"):
			_, refuses, dated := cacheDirectives(f.Value)
			said = said || refuses || dated
		case request.EqualFold(f.Name, "Last-Modified"):
			modified = true
		}
	}
	return modified && !said
}

// Unshared is added to such an answer with a visitor's cookie.
var Unshared = []request.Field{{Name: []byte("Cache-Control"), Value: []byte(`private="set-cookie"`)}}

// targeted reports whether a field addresses the caches of one CDN or kind.
func targeted(name []byte) bool {
	switch len(name) {
	case len("Edge-Control"):
		return request.EqualFold(name, "Edge-Control")
	case len("Surrogate-Control"):
		if request.EqualFold(name, "Surrogate-Control") {
			return true
		}
	}
	return len(name) > len("-Cache-Control") && request.HasSuffixFold(name, "-Cache-Control")
}

// cacheDirectives reports whether a shared cache may keep an answer, must not, and whether a lifetime overrides
// Expires. A directive with field names (private="x-name") concerns only these.
func cacheDirectives(value []byte) (keeps, refuses, dated bool) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, argument, of := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		switch {
		case request.EqualFold(name, "no-store"):
			refuses = true
		case request.EqualFold(name, "private"):
			refuses = refuses || !of
		case request.EqualFold(name, "public"), request.EqualFold(name, "s-maxage"),
			request.EqualFold(name, "immutable"),
			request.EqualFold(name, "stale-while-revalidate"), request.EqualFold(name, "stale-if-error"),
			request.EqualFold(name, "cache-maxage"), request.EqualFold(name, "!no-store"): // the last two: Edge-Control
			keeps = true
		case request.EqualFold(name, "max-age"):
			keeps, dated = keeps || string(bytes.Trim(argument, `" `)) != "0", true
		case request.EqualFold(name, "no-cache"):
			dated = dated || !of // revalidates each time
		}
	}
	return keeps, refuses, dated
}
