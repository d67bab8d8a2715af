package h1

import (
	"strings"
	"testing"

	"antirobot/request"
)

func TestSharable(t *testing.T) {
	f := func(lines string, want bool) {
		t.Helper()
		var h head
		for line := range strings.SplitSeq(lines, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.fields = append(h.fields, request.Field{Name: []byte(name), Value: []byte(value)})
			}
		}
		if got := h.sharable(); got != want {
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
	f("CDN-Cache-Control: max-age=60", true)
	f("Surrogate-Control: no-store", false)
}
