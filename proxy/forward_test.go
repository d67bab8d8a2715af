package proxy

import (
	"strings"
	"testing"
)

// TestPitfall06FieldsOfOurOwn: no field that a service trusts ever comes from a client.
func TestPitfall06FieldsOfOurOwn(t *testing.T) {
	drops := newFieldFilter(defaultDropFields()).drops
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-host", "X-FORWARDED-PROTO", "X-Forwarded-Port", "X-Forwarded-Anything",
		"X-Real-IP", "x-real-ip",
		"Forwarded", "X-Request-Id", "X-Antirobot-Verdict", "x-antirobot-x", "X-Accel-Redirect", "X-Accel-Buffering",
		"X-Original-URI", "X-Original-URL",
		"X-Rewrite-URL", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "Client-IP",
		"client_ip", "CF-Connecting-IP", "cf-connecting-ipv6", "X-HTTP-Method-Override", "X_HTTP_Method",
		"X-Method-Override", "Proxy", "PROXY",
	} {
		if !drops([]byte(name)) {
			t.Errorf("%s is passed on as the client sent it", name)
		}
	}
	for _, name := range []string{
		"X-Requested-With", "Cookie", "Authorization", "Forwarded2", "X-Real", "X-Request",
		"X-Retpath-Y", "Via", "Proxy2", "Client", "",
	} {
		if drops([]byte(name)) {
			t.Errorf("%s is taken from the client's request", name)
		}
	}
	for name, want := range map[string]bool{
		"X-Antirobot-Verdict": true, "x-antirobot-anything": true, "X-Request-Id": false, "X-Accel-Redirect": false,
		"Set-Cookie": false,
	} {
		if got := serviceMayNotSend([]byte(name)); got != want {
			t.Errorf("answer field %s kept back: %t", name, got)
		}
	}
}

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
