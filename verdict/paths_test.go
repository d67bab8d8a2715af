package verdict

import (
	"fmt"
	"net/netip"
	"testing"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/client"
)

// keyOf is the key of a path where paths are hashed with the zero key.
func keyOf(group uint32, path []byte) pathKey { return pathKeyOf(new(request.HashKey), group, path) }

// counted is an event of a path as the slow half receives it.
func counted(p *Paths, path, addr string, set func(e *Event)) Count {
	e := &Event{Facts: client.Facts{Claim: client.Claim{Family: client.FamilyChrome}}, Method: 'G', N: 1, Path: keyOf(0, []byte(path)).exact, PathShape: keyOf(0, []byte(path)).shape ^ 1}
	e.Subjects[0] = identity.AddrSubject(netip.MustParseAddr(addr))
	e.Page = true
	set(e)
	return p.Learn(e, 0, false)
}

func answered(status int, contentType string, static bool) func(*Event) {
	return func(e *Event) {
		e.Static, e.Page = static, !static
		e.Answered(status, []byte(contentType), 1000, 0)
	}
}

// TestDocumentsAreWhatIsDelivered: the answer makes a request a part of a page, not what the request calls itself.
func TestDocumentsAreWhatIsDelivered(t *testing.T) {
	var p Paths
	for _, typ := range []string{
		"text/html", "application/vnd.api+json", "application/ld+json", "text/plain", "text/csv", "application/pdf", "", "multipart/byteranges; boundary=x",
		"application/octet-stream", "application/json",
	} {
		if got := counted(&p, "/product/1", "192.0.2.1", answered(200, typ, true)); got != CountDocument {
			t.Errorf("an image that is %q counts as %v", typ, got)
		}
	}
	for _, typ := range []string{
		"image/webp", "text/css", "font/woff2", "text/javascript", "audio/mpeg", "video/mp4", "video/mp2t",
		"application/vnd.apple.mpegurl", "application/x-mpegURL; charset=utf-8", "application/dash+xml", "text/vtt",
	} {
		if got := counted(&p, "/a", "192.0.2.1", answered(200, typ, true)); got != CountPart {
			t.Errorf("%s counts as %v", typ, got)
		}
	}
	for _, status := range []int{204, 302, 304, 403, 404, 503} {
		if got := counted(&p, "/b", "192.0.2.1", answered(status, "", false)); got != CountNothing {
			t.Errorf("a %d counts as %v", status, got)
		}
	}
	script := func(typ string) func(*Event) {
		return func(e *Event) { e.Page = false; e.Answered(200, []byte(typ), 100, 0) }
	}
	if got := counted(&p, "/api", "192.0.2.1", script("application/json")); got != CountCall {
		t.Errorf("a script's data counts as %v", got)
	}
	piece := func(e *Event) {
		e.Asked, e.Page, e.Static = request.KindScript, false, true
		e.Answered(200, []byte("application/octet-stream"), 1000, 0)
	}
	if got := counted(&p, "/film/7.m4s", "192.0.2.1", piece); got != CountCall {
		t.Errorf("a piece of a film that a player's script has asked for, without a type, counts as %v", got)
	}
	if got := counted(&p, "/talk", "192.0.2.1", answered(101, "", true)); got != CountCall {
		t.Errorf("a WebSocket counts as %v", got)
	}
	if got := counted(&p, "/product/2", "192.0.2.1", script("text/html")); got != CountDocument {
		t.Errorf("a page that a script has asked for counts as %v", got)
	}
}

// TestLinesWithTypes: a recorded line that has the answer's type counts as what a gateway would see pass; one that has none, and what a partner forwards, by
// path and fields.
func TestLinesWithTypes(t *testing.T) {
	var p Paths
	f := func(name, typ string, static, page, partner bool, want Count) {
		t.Helper()
		got := counted(&p, "/"+name, "192.0.2.1", func(e *Event) {
			e.Partial, e.Partner, e.Static, e.Page = true, partner, static, page
			if name == "feed.xml" {
				e.Asked = request.KindFeed
			}
			e.Answered(200, []byte(typ), 1000, 0)
		})
		if got != want {
			t.Errorf("%s, %q, counts as %v, want %v", name, typ, got, want)
		}
	}
	f("page", "text/html", false, true, false, CountDocument)
	f("page that calls itself a picture", "text/html", true, false, false, CountDocument)
	f("page that calls itself a picture", "", true, false, false, CountPart)
	f("picture without an ending", "image/png", false, true, false, CountPart)
	f("picture without an ending", "", false, true, false, CountDocument)
	f("feed.xml", "", false, true, false, CountFeed)
	f("data for a script", "application/json", false, false, false, CountCall)
	f("download", "application/zip", false, true, false, CountFile)
	f("partner's search", "application/json", false, true, true, CountDocument)
	f("partner's picture", "image/png", true, false, true, CountPart)
}

// TestFeeds: a feed is one by its answer, wherever it is and whoever asks; calling a page one is of no use.
func TestFeeds(t *testing.T) {
	var p Paths
	for _, typ := range []string{"application/rss+xml", "application/atom+xml; charset=utf-8", "application/feed+json"} {
		e := new(Event)
		is := counted(&p, "/news/latest", "192.0.2.1", func(f *Event) { answered(200, typ, false)(f); e = f })
		if is != CountFeed || !e.Type.Data() {
			t.Errorf("%s counts as %v, data %v", typ, is, e.Type.Data())
		}
		if got := counted(&p, "/news/latest", "192.0.2.1", answered(200, typ, true)); got != CountDocument {
			t.Errorf("%s that calls itself an image counts as %v", typ, got)
		}
	}
	named := func(typ string) func(*Event) {
		return func(e *Event) { e.PathKind = client.PathFeed; answered(200, typ, false)(e) }
	}
	if got := counted(&p, "/feed.xml", "192.0.2.1", named("text/xml")); got != CountFeed {
		t.Errorf("/feed.xml counts as %v", got)
	}
	if got := counted(&p, "/product/1/feed", "192.0.2.1", named("text/html")); got != CountDocument {
		t.Errorf("a page that is named like a feed counts as %v", got)
	}
}

// TestMethodsThatBeginAlike: a service may answer a method that it does not know with a page: only HEAD delivers nothing.
func TestMethodsThatBeginAlike(t *testing.T) {
	for method, want := range map[string]uint8{"GET": 'G', "HEAD": 'H', "POST": 'P', "PUT": 'P', "HACK": 0, "H": 0, "HEADS": 0, "GETS": 0, "head": 'h', "": 0} {
		if got := methodOf([]byte(method)); got != want {
			t.Errorf("%s is kept as %d", method, got)
		}
	}
	var p Paths
	page := func(e *Event) {
		e.Static, e.Page, e.Method = true, false, methodOf([]byte("HACK"))
		e.Answered(200, []byte("text/html"), 1000, 0)
	}
	if got := counted(&p, "/product/1", "192.0.2.1", page); got != CountDocument {
		t.Errorf("a page that HACK gets counts as %v", got)
	}
}

// TestRangesProveNothing: several ranges of a page are a document, whoever asks; of a picture they do not make a page.
func TestRangesProveNothing(t *testing.T) {
	var p Paths
	picture := keyOf(0, []byte("/a.png"))
	p.answered(picture, readingPart)
	ranges := func(e *Event) {
		e.Page = false
		e.Answered(206, []byte("multipart/byteranges; boundary=x"), 1000, 0)
	}
	if got := counted(&p, "/a.png", "192.0.2.1", ranges); got != CountDocument {
		t.Errorf("ranges that a script has asked for count as %v", got)
	}
	if got := p.read(picture); got != readingPart {
		t.Errorf("after that the picture is read as %v", got)
	}
}

// TestHeadsOfPages: who asks for the head of a page, or whether it has changed, asks about a page, even as an image; the heads of
// pictures are no pages.
func TestHeadsOfPages(t *testing.T) {
	var p Paths
	for n := range 9 {
		p.answered(keyOf(0, fmt.Appendf(nil, "/product/%d", n)), readingDocument)
		p.answered(keyOf(0, fmt.Appendf(nil, "/pictures/%d", n)), readingPart)
	}
	for path, want := range map[string]bool{"/product/1": true, "/product/77": true, "/pictures/1": false, "/pictures/77": false, "/elsewhere/1": false} {
		for method, status := range map[string]int{"HEAD": 200, "GET": 304} {
			k := keyOf(0, []byte(path))
			e := &Event{Method: method[0], N: 1, Path: k.exact, PathShape: k.shape ^ 1, Static: true}
			e.Answered(status, nil, 200, 0)
			if got := p.Asks(e, 0); got != want {
				t.Errorf("%s %s, %d: %t", method, path, status, got)
			}
		}
	}
	for n := range uint64(8) { // beside a balancer, that is what visitors take it for
		p.claimed(keyOf(0, []byte("/article/7")), n*0x9e3779b97f4a7c15, false, false)
	}
	k := keyOf(0, []byte("/article/8"))
	if e := (&Event{Method: 'H', N: 1, Path: k.exact, PathShape: k.shape ^ 1, Static: true, Advised: true}); !p.Asks(e, 0) {
		t.Error("beside a balancer, the head of an article is not asked about")
	}
	e := &Event{Facts: client.Facts{Claim: client.Claim{Family: client.FamilyChrome}}, Method: 'G', N: 1, Path: keyOf(0, []byte("/product/1")).exact}
	if e.Answered(404, nil, 0, 0); p.Asks(e, 0) {
		t.Error("a page that is not there was asked about")
	}
}

// TestClaimsNeedNetworks: where a balancer answers, a part is what visitors of several networks take for one.
func TestClaimsNeedNetworks(t *testing.T) {
	var p Paths
	claim := func(static bool) func(*Event) {
		return func(e *Event) { e.Advised, e.Static, e.Page = true, static, !static }
	}
	for i := range 1000 { // one network, as many addresses as it likes
		if got := counted(&p, fmt.Sprintf("/product/%d/a.css", i), fmt.Sprintf("2001:db8:0:%x::1", i), claim(true)); got != CountDocument {
			t.Fatalf("the %dth invented style counts as %v", i, got)
		}
	}
	var last Count
	for i := range 12 {
		last = counted(&p, "/static/site.css", fmt.Sprintf("198.51.%d.7", i), claim(true))
	}
	if last != CountPart {
		t.Errorf("the style of everybody counts as %v", last)
	}
	for i := range 12 {
		counted(&p, fmt.Sprintf("/article/%d", i), fmt.Sprintf("198.51.%d.7", i), claim(false))
	}
	for i := range 12 {
		if got := counted(&p, fmt.Sprintf("/article/%d", 100+i), fmt.Sprintf("203.0.%d.7", i), claim(true)); got != CountDocument {
			t.Errorf("a page of people that calls itself an image counts as %v", got)
		}
	}
}

// TestProofsBeatClaims: no claim changes what an answer has proved, and the paths of another service are separate.
func TestProofsBeatClaims(t *testing.T) {
	var p Paths
	k := keyOf(1, []byte("/product/1"))
	p.answered(k, readingDocument)
	for n := range uint64(50) {
		p.claimed(k, n*0x9e3779b97f4a7c15, true, false)
	}
	if got := p.read(k); got != readingDocument {
		t.Errorf("read as %v", got)
	}
	if got := p.read(keyOf(2, []byte("/product/1"))); got != readingUnknown {
		t.Errorf("another service reads it as %v", got)
	}
	for i := range 20 {
		p.answered(keyOf(1, fmt.Appendf(nil, "/pictures/%d.webp", i)), readingPart)
	}
	if got := p.read(keyOf(1, []byte("/pictures/777.webp"))); got != readingPart {
		t.Errorf("one more picture is read as %v", got)
	}
}

// TestFloodChangesNoPath: where a balancer answers, a hundred networks with 300,000 requests can neither turn a page
// that people open into a part, nor a part that they load into a page.
func TestFloodChangesNoPath(t *testing.T) {
	var p Paths
	style, article := keyOf(1, []byte("/static/site.css")), keyOf(1, []byte("/article/7"))
	for n := range uint64(20) {
		p.claimed(style, n*0x9e3779b97f4a7c15, true, true)
		p.claimed(article, n*0x9e3779b97f4a7c15, false, true)
	}
	for n := range uint64(300_000) {
		p.claimed(style, n%100*0x517cc1b727220a95, false, false)
		p.claimed(article, n%100*0x517cc1b727220a95, true, false)
	}
	if is := p.read(style); is != readingPart {
		t.Errorf("a style is read as %v", is)
	}
	if is := p.read(article); is != readingDocument {
		t.Errorf("an article is read as %v", is)
	}
}

// FuzzShape: whatever a path consists of, similar paths have the same shape.
func FuzzShape(f *testing.F) {
	f.Add([]byte("/product/17/a.css"))
	f.Add([]byte("..//%00"))
	f.Fuzz(func(t *testing.T, path []byte) {
		h := shapeOf(new(request.HashKey), path)
		if h != shapeOf(new(request.HashKey), append([]byte(nil), path...)) {
			t.Error("the same path has two shapes")
		}
		if n := testing.AllocsPerRun(1, func() { shapeOf(new(request.HashKey), path) }); n > 0 && !raceEnabled {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestOddPathsHaveNoShape: what services may read as another path is like no other; blanks and letters of other scripts are no reason.
func TestOddPathsHaveNoShape(t *testing.T) {
	var p Paths
	for n := range 100 {
		p.answered(keyOf(0, fmt.Appendf(nil, "/product/%d.jpg", n)), readingPart)
	}
	f := func(path string, want reading) {
		t.Helper()
		if got := p.read(keyOf(0, []byte(path))); got != want {
			t.Errorf("%s: %v, wanted %v", path, got, want)
		}
	}
	for _, like := range []string{"/product/1000.jpg", "/product/a%20b.jpg", "/product/%d0%b0.jpg", "/product/x-1.jpg"} {
		f(like, readingPart)
	}
	for _, odd := range []string{
		"/product/1000;a.jpg", "/product/1000%3ba.jpg", "/product/1000%3Fa.jpg", "/product/1000%23.jpg", "/product/x%2f1.jpg", "/product/%2e%2e%5c1.jpg",
		"/product/1000%253ba.jpg", "/product/1000%00.jpg", "/product/1000%c0%af.jpg", "/product/1000%.jpg", `/product/1000\.jpg`,
	} {
		f(odd, readingUnknown)
	}
	p.answered(keyOf(0, []byte("/product/1;a.jpg")), readingPart)
	f("/product/1;a.jpg", readingPart) // it has been seen to be one
	f("/product/2;a.jpg", readingUnknown)
}

// TestPathsOfALargeSiteKeepItsShapes: however many paths there are, what is known of their shapes stays.
func TestPathsOfALargeSiteKeepItsShapes(t *testing.T) {
	var p Paths
	shapes := []string{"/a/%d.jpg", "/b/%d.css", "/c/d/%d.webp", "/e/%d.js", "/f/%d.png", "/g/%d.gif", "/h/%d.woff2", "/i/%d.svg"}
	for _, shape := range shapes {
		for n := range 20 {
			p.answered(keyOf(0, fmt.Appendf(nil, shape, n)), readingPart)
		}
	}
	for n := range 200_000 {
		p.answered(keyOf(0, fmt.Appendf(nil, "/product/%d", n)), readingDocument)
	}
	for _, shape := range shapes {
		if got := p.proved(keyOf(0, fmt.Appendf(nil, shape, 1_000_000))); got != readingPart {
			t.Errorf("%s: %v", shape, got)
		}
	}
}
