package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"antirobot/request"
)

// TestCheckOriginalIsWhatTheBalancerSays: whatever a client sends besides the set, the request is judged by what the
// set says, and lists and rules see none of the balancer's fields.
func TestCheckOriginalIsWhatTheBalancerSays(t *testing.T) {
	sets := []string{"forwarded", "original"}
	noise := []string{
		"X-Forwarded-Port", "X-Original-URL", "X-Original-Remote-Addr", "X-Real-Ip", "Forwarded", "x_forwarded_for",
		"X-Forwarded-Url", "Cookie",
		"X-Forwarded-Uri2", "X-Rewrite-Url", "User-Agent",
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(sets).Draw(t, "set")
		other := headerSetOf(sets[1-slices.Index(sets, name)])
		set := headerSetOf(name)
		path := "/" + rapid.StringMatching(`[a-z/]{0,8}(\?[a-z=&]{0,8})?`).Draw(t, "path")
		addr := rapid.SampledFrom([]string{"203.0.113.5", "2001:db8::5", "[2001:db8::5]:80", "203.0.113.5:1"}).
			Draw(t, "addr")
		fields := []request.Field{
			{Name: []byte("Host"), Value: []byte("antirobot")},
			{Name: []byte(set.method), Value: []byte("PUT")},
			{Name: []byte(strings.ToLower(set.host)), Value: []byte("Shop.Example:8443")},
			{Name: []byte(set.uri), Value: []byte(path)},
			{Name: []byte(strings.ToUpper(set.addr)), Value: []byte(addr)},
			{Name: []byte(set.proto), Value: []byte("https")},
		}
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			n := rapid.SampledFrom(append(noise, other.method, other.host, other.uri, other.addr, other.proto)).
				Draw(t, "name")
			fields = append(fields, request.Field{
				Name:  []byte(n),
				Value: []byte(rapid.SampledFrom([]string{"/evil", "198.51.100.1", "evil.example"}).Draw(t, "value")),
			})
		}
		fields = rapid.Permutation(fields).Draw(t, "order")

		var o original
		var v request.View
		if p := o.collect(fields, set, false); p != "" {
			t.Fatal(p)
		}
		if p := o.whence(&v, set); p != "" {
			t.Fatal(p)
		}
		if _, p := o.what(&v, set, nil); p != "" {
			t.Fatal(p)
		}
		v.Fields = o.fields(nil, fields, set, &v)
		want := netip.MustParseAddr("203.0.113.5")
		if strings.Contains(addr, "2001") {
			want = netip.MustParseAddr("2001:db8::5")
		}
		if string(v.Method) != "PUT" || string(v.Host) != "shop.example" || string(v.HostPort) != "Shop.Example:8443" ||
			string(v.Target) != path ||
			v.Peer != want || !v.TLS {
			t.Fatalf("got %s %s %s %s from %s tls %v", v.Method, v.Host, v.HostPort, v.Target, v.Peer, v.TLS)
		}
		if string(v.Get("Host")) != "Shop.Example:8443" {
			t.Fatalf("Host %s", v.Get("Host"))
		}
		for _, n := range []string{set.method, set.host, set.uri, set.addr, set.proto} {
			if v.Has(n) {
				t.Fatalf("%s is among the fields of the original request", n)
			}
		}
		// and a second one of any of the set is refused
		again := fields[slices.IndexFunc(fields, func(f request.Field) bool { return is(&f, set.uri) })]
		if p := o.collect(append(fields, again), set, false); p == "" {
			t.Fatalf("%s twice is believed", again.Name)
		}
	})
}

// FuzzCheckOriginal: no field makes the reader panic, and whatever it accepts could have been a direct request.
func FuzzCheckOriginal(f *testing.F) {
	f.Add("GET", "shop.example", "/a?b", "192.0.2.1", "https", false)
	f.Add("OPTIONS", "[::1]:80", "*", "1.2.3.4, [::1]:5", "http,wss", true)
	f.Add("GET /", "a@b", "//evil", ",", "", true)
	f.Fuzz(func(t *testing.T, method, host, uri, addr, proto string, last bool) {
		set := headerSetOf("forwarded")
		fields := []request.Field{
			{Name: []byte(set.method), Value: []byte(method)},
			{Name: []byte(set.host), Value: []byte(host)},
			{Name: []byte(set.uri), Value: []byte(uri)},
			{Name: []byte(set.addr), Value: []byte(addr)},
			{Name: []byte(set.proto), Value: []byte(proto)},
		}
		var o original
		var v request.View
		if o.collect(fields, set, last) != "" || o.whence(&v, set) != "" {
			return
		}
		if !v.Peer.IsValid() || v.Peer.Zone() != "" || v.Peer.Is4In6() {
			t.Errorf("accepted the address %v", v.Peer)
		}
		if _, problem := o.what(&v, set, nil); problem != "" {
			return
		}
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, uri, host)
		if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request))); err != nil {
			t.Errorf("accepted %q: %v", request, err)
		}
		if string(v.Path)+string(v.Query) != strings.Replace(uri, "?", "", 1) {
			t.Errorf("%q is read as %q and %q", uri, v.Path, v.Query)
		}
		o.fields(nil, fields, set, &v)
	})
}
