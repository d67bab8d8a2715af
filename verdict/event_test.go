package verdict

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/client"
)

// chrome is a page load as Chrome sends it.
func chromeView() *request.View {
	f := func(name, value string) request.Field {
		return request.Field{Name: []byte(name), Value: []byte(value)}
	}
	return &request.View{
		At: time.Unix(1.8e9, 0), Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte("/catalogue/shoes/4711?page=3"),
		Path: []byte("/catalogue/shoes/4711"), Query: []byte("page=3"), Peer: netip.MustParseAddr("192.0.2.1"),
		Fields: []request.Field{
			f("Host", "shop.example"), f("Connection", "keep-alive"),
			f("sec-ch-ua", `"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"`), f("sec-ch-ua-mobile", "?0"),
			f("sec-ch-ua-platform", `"macOS"`), f("Upgrade-Insecure-Requests", "1"),
			f("User-Agent", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"),
			f("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"),
			f("Sec-Fetch-Site", "same-origin"), f("Sec-Fetch-Mode", "navigate"), f("Sec-Fetch-User", "?1"), f("Sec-Fetch-Dest", "document"),
			f("Referer", "https://shop.example/catalogue/shoes"), f("Accept-Encoding", "gzip, deflate, br, zstd"),
			f("Accept-Language", "en-US,en;q=0.9"), f("Cookie", "i=abc; session=def"),
		},
	}
}

// BenchmarkEvent measures what the slow half costs on the request's path, apart from the queue.
func BenchmarkEvent(b *testing.B) {
	v := chromeView()
	id := &identity.Identity{Addr: v.Peer, Proto: "https", N: 1, Subjects: [identity.MaxSubjects]identity.Subject{identity.AddrSubject(v.Peer)}}
	s := &Settings{Name: "shop"}
	d := Decision{claims: client.NewTable(request.HashKey{})}
	var e Event
	b.ReportAllocs()
	for range b.N {
		d.Event(&e, v, id, s)
	}
}

// TestEventAllocatesNothing: feeding the slow half costs no memory on the request's path.
func TestEventAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	v := chromeView()
	id := &identity.Identity{Addr: v.Peer, Proto: "https", N: 1, Subjects: [identity.MaxSubjects]identity.Subject{identity.AddrSubject(v.Peer)}}
	d := Decision{claims: client.NewTable(request.HashKey{})}
	s := &Settings{Name: "shop"}
	var e Event
	if n := testing.AllocsPerRun(100, func() { d.Event(&e, v, id, s); e.Answered(200, []byte("text/html"), 1, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if e.Claim.Family != client.FamilyChrome || e.Misfits != 0 || e.Referer != client.RefererSame || e.Site != client.SiteSame || e.Type != TypeHTML {
		t.Errorf("%+v", e.Facts)
	}
}
