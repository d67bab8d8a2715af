package wire

import (
	"bytes"

	"antirobot/request"
)

// Sharable reports whether a shared cache may keep the answer (RFC 9111 section 3), or adds it to what it keeps: if so, nothing that
// belongs to one visitor must be added to it. What is said to the caches of a CDN alone (RFC 9213, and the fields that came before it)
// counts for them whatever Cache-Control says. Where the fields are silent, a cache may use heuristics: see Guessed. The fields of a 304
// become those of the answer that the cache has kept, whose own permission it need not repeat: it belongs to one visitor only if it says so.
func (h *Head) Sharable() bool {
	may, refuses, dated, expires := h.Status == 304, false, false, false
	for i := range h.Fields {
		f := &h.Fields[i]
		switch n := len(f.Name); {
		case n == len("Cache-Control") && request.EqualFold(f.Name, "Cache-Control"):
			keeps, no, age := cacheDirectives(f.Value)
			may, refuses, dated = may || keeps, refuses || no, dated || age
		case n == len("Expires") && request.EqualFold(f.Name, "Expires"):
			// "0" and "-1" are the usual ways to say that the answer is stale already.
			expires = expires || len(f.Value) > 2
		case targeted(f.Name):
			if keeps, no, _ := cacheDirectives(f.Value); keeps && !no {
				return true
			}
		case n == len("X-Accel-Expires") && request.EqualFold(f.Name, "X-Accel-Expires"): // nginx
			if len(f.Value) > 0 && string(f.Value) != "0" && string(f.Value) != "off" {
				return true
			}
		}
	}
	return !refuses && (may || expires && !dated)
}

// Guessed reports whether a shared cache may keep the answer although nothing in it says so, because it says when it was last modified (RFC
// 9111 section 4.2.2). Apache's mod_cache does, cookies and all.
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

// Unshared is what is said of such an answer that sets a visitor's cookie: caches that know the form keep it without, others don't keep it.
var Unshared = []request.Field{{Name: []byte("Cache-Control"), Value: []byte(`private="set-cookie"`)}}

// targeted reports whether a field speaks to the caches of one CDN, or of one kind.
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

// cacheDirectives reports whether a list of directives lets a shared cache keep an answer, or forbids it, and whether it says in place of
// Expires how long. A directive with the names of fields (private="x-name") is about these alone.
func cacheDirectives(value []byte) (keeps, refuses, dated bool) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, argument, of := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
		switch {
		case request.EqualFold(name, "no-store"):
			refuses = true
		case request.EqualFold(name, "private"):
			refuses = refuses || !of
		case request.EqualFold(name, "public"), request.EqualFold(name, "s-maxage"), request.EqualFold(name, "immutable"),
			request.EqualFold(name, "stale-while-revalidate"), request.EqualFold(name, "stale-if-error"),
			request.EqualFold(name, "cache-maxage"), request.EqualFold(name, "!no-store"): // the last two of Edge-Control
			keeps = true
		case request.EqualFold(name, "max-age"):
			keeps, dated = keeps || string(bytes.Trim(argument, `" `)) != "0", true
		case request.EqualFold(name, "no-cache"):
			dated = dated || !of // asks each time
		}
	}
	return keeps, refuses, dated
}
