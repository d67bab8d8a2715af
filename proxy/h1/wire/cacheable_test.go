package wire

import (
	"strings"
	"testing"

	"antirobot/request"
)

func TestSharable(t *testing.T) {
	status := 200
	f := func(lines string, want bool) {
		t.Helper()
		h := Head{Status: status}
		for line := range strings.SplitSeq(lines, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.Fields = append(h.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
			}
		}
		if got := h.Sharable(); got != want {
			t.Errorf("%q: %v", lines, got)
		}
	}
	f("Content-Type: text/html", false)
	f("Cache-Control: public, max-age=60", true)
	f("cache-control: MAX-AGE=60", true)
	f("Cache-Control: max-age=0", false)
	f("Cache-Control: s-maxage=60, max-age=0", true)
	f("Cache-Control: no-cache", false)
	f("Cache-Control: private, max-age=60", false)
	f("Cache-Control: public\nCache-Control: no-store", false)
	f("Expires: Thu, 01 Dec 2033 16:00:00 GMT", true)
	f("Expires: 0", false)
	f("Expires: Thu, 01 Dec 2033 16:00:00 GMT\nCache-Control: no-cache", false)
	f("Expires: Thu, 01 Dec 2033 16:00:00 GMT\nCache-Control: must-revalidate", true)
	f("Cache-Control: no-transform\nExpires: Thu, 01 Dec 2033 16:00:00 GMT", true)
	f("Cache-Control: max-age=0, must-revalidate\nExpires: Thu, 01 Dec 2033 16:00:00 GMT", false)
	f("Cache-Control: no-store\nExpires: Thu, 01 Dec 2033 16:00:00 GMT", false)
	f("CDN-Cache-Control: max-age=60", true)
	f("Surrogate-Control: no-store", false)
	// What is said to the caches of a CDN counts for them alone, and there above all else.
	f("Cache-Control: no-store\nCDN-Cache-Control: max-age=60", true)
	f("Surrogate-Control: max-age=60\nCache-Control: private, no-store", true)
	f("Cache-Control: private\nsurrogate-control: content=\"ESI/1.0\", max-age=60", true)
	f("CDN-Cache-Control: no-store\nCache-Control: max-age=60", true) // other caches
	f("Cache-Control: private\nCDN-Cache-Control: private, max-age=60", false)
	f("Vercel-CDN-Cache-Control: max-age=60", true)
	f("Netlify-CDN-Cache-Control: max-age=0, stale-while-revalidate=60, durable", true)
	f("X-LiteSpeed-Cache-Control: max-age=60", true)
	f("Edge-Control: cache-maxage=5m", true)
	f("Cache-Control: no-store\nEdge-Control: !no-store", true)
	f("X-Accel-Expires: 60\nCache-Control: no-store", true)
	f("X-Accel-Expires: 0", false)
	f("Cache-Control: max-age=0, stale-while-revalidate=60", true)
	f(`Cache-Control: private="x-name", max-age=60`, true)
	f(`Cache-Control: private="x-name"`, false)
	// A 304 changes what a cache has kept.
	status = 304
	f("", true)
	f("Cache-Control: no-cache", true)
	f("Cache-Control: private", false)
	f("Cache-Control: no-store", false)
}

func TestGuessed(t *testing.T) {
	f := func(want bool, lines ...string) {
		t.Helper()
		var h Head
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			h.Fields = append(h.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
		}
		if got := h.Guessed(); got != want {
			t.Errorf("%q: %v", lines, got)
		}
	}
	const modified = "Last-Modified: Thu, 01 Jan 2015 16:00:00 GMT"
	f(false)
	f(false, `ETag: "a"`)
	f(true, "Content-Type: text/html", modified)
	f(true, "last-modified: Thu, 01 Jan 2015 16:00:00 GMT", "Cache-Control: must-revalidate")
	f(true, modified, `Cache-Control: private="x-name"`)
	f(false, modified, "Cache-Control: private")
	f(false, "Cache-Control: no-cache", modified)
	f(false, modified, "Cache-Control: max-age=0")
}
