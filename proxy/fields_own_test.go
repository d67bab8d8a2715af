package proxy

import (
	"strings"
	"testing"
)

// TestClientMayNotSend: none of the gateway's own fields comes from a client, as HTTP or CGI would read its name.
func TestClientMayNotSend(t *testing.T) {
	for _, p := range ownPrefixes {
		for _, name := range []string{
			p + "a", strings.ToUpper(p) + "A", strings.ReplaceAll(p, "-", "_") + "a",
			strings.ReplaceAll(p, "-", ".") + "a",
		} {
			if !clientMayNotSend([]byte(name)) {
				t.Errorf("%s passes", name)
			}
		}
	}
	for _, n := range ownNames {
		for _, name := range []string{
			n, strings.ToUpper(n), strings.ReplaceAll(n, "-", "_"),
			strings.ReplaceAll(n, "-", "~"),
		} {
			if !clientMayNotSend([]byte(name)) {
				t.Errorf("%s passes", name)
			}
		}
	}
	for _, name := range []string{"", "x", "f", "Accept", "X-Requested-With", "Forwarded-For", "Cookie"} {
		if clientMayNotSend([]byte(name)) {
			t.Errorf("%s does not pass", name)
		}
	}
}
