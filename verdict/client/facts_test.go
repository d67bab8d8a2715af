package client

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// loadOf is a page load with the given fields, "Name: value" each.
func loadOf(fields ...string) *request.View {
	v := &request.View{
		At: time.Unix(1.8e9, 0), Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte("/a/b?page=3"), Path: []byte("/a/b"),
		Query: []byte("page=3"), Peer: netip.MustParseAddr("192.0.2.1"),
	}
	for _, line := range fields {
		name, value, _ := strings.Cut(line, ": ")
		v.Fields = append(v.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
	}
	return v
}

func factsOf(v *request.View) Facts {
	id := &identity.Identity{Addr: v.Peer, Proto: "https", N: 1, Subjects: [identity.MaxSubjects]identity.Subject{identity.AddrSubject(v.Peer)}}
	var f Facts
	f.Read(v, id, nil)
	return f
}

// browsers are the captured page loads of testdata/browsers.txt.
func browserCaptures(t testing.TB) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/browsers.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			name = strings.Trim(line, "[]")
		default:
			all[name] = append(all[name], line)
		}
	}
	if len(all) < 12 {
		t.Fatalf("%d captures", len(all))
	}
	return all
}

// TestRealBrowsersFitTheirClaim: what real browsers send has no misfits, with and without a referer and cookies, and
// over HTTP/1.1 with Host as the first field.
func TestRealBrowsersFitTheirClaim(t *testing.T) {
	for name, fields := range browserCaptures(t) {
		f := factsOf(loadOf(append([]string{"Host: shop.example", "Connection: keep-alive"}, fields...)...))
		if f.Misfits != 0 {
			t.Errorf("%s: misfits %012b", name, f.Misfits)
		}
		if !f.Claim.Family.Browser() || f.Claim.Major == 0 {
			t.Errorf("%s: claims %v %d", name, f.Claim.Family, f.Claim.Major)
		}
		if !f.Page {
			t.Errorf("%s: loads no page", name)
		}
		family, _, _ := strings.Cut(name, "_")
		want := map[string]Family{"chrome": FamilyChrome, "edge": FamilyEdge, "firefox": FamilyFirefox, "safari": FamilySafari, "tor": FamilyFirefox}[family]
		if f.Claim.Family != want {
			t.Errorf("%s: claims %v", name, f.Claim.Family)
		}
	}
}

// TestMisfits checks what imitations of a browser forget.
func TestMisfits(t *testing.T) {
	captures := browserCaptures(t)
	var chrome, firefox []string
	for name, fields := range captures {
		switch {
		case strings.HasPrefix(name, "chrome_142"):
			chrome = fields
		case strings.HasPrefix(name, "firefox_144"):
			firefox = fields
		}
	}
	without := func(fields []string, names ...string) (out []string) {
		for _, l := range fields {
			keep := true
			for _, n := range names {
				keep = keep && !strings.HasPrefix(strings.ToLower(l), n+":")
			}
			if keep {
				out = append(out, l)
			}
		}
		return out
	}
	changed := func(fields []string, name, value string) (out []string) {
		for _, l := range fields {
			if strings.HasPrefix(l, name+":") {
				l = name + ": " + value
			}
			out = append(out, l)
		}
		return out
	}
	f := func(what string, want Misfits, fields []string) {
		t.Helper()
		if got := factsOf(loadOf(fields...)).Misfits; got != want {
			t.Errorf("%s: misfits %012b, want %012b", what, got, want)
		}
	}
	f("no language", NoLanguage, without(chrome, "accept-language"))
	f("no encoding", NoEncoding, without(chrome, "accept-encoding"))
	f("no Sec-Fetch", NoFetch, without(chrome, "sec-fetch-site", "sec-fetch-mode", "sec-fetch-user", "sec-fetch-dest"))
	f("no hints", NoHints, without(chrome, "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform"))
	f("hints of another version", FalseHints, changed(chrome, "sec-ch-ua", `"Chromium";v="110", "Not A(Brand";v="24"`))
	f("hints of another system", FalseHints, changed(chrome, "sec-ch-ua-platform", `"Windows"`))
	f("hints of Firefox", FalseHints, append([]string{`sec-ch-ua: "Chromium";v="142"`}, firefox...))
	f("a navigation to an image", FalseFetch, changed(chrome, "sec-fetch-dest", "image"))
	f("a script with a user", FalseFetch, changed(changed(chrome, "sec-fetch-mode", "cors"), "sec-fetch-dest", "empty"))
	agent := "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	f("a library with a browser's name", NoLanguage|AcceptsAny|NoFetch|NoHints|FalseOrder,
		[]string{"Host: shop.example", agent, "Accept-Encoding: gzip, deflate", "Accept: */*", "Connection: keep-alive"})
	f("a library with its own name", 0, []string{"Host: shop.example", "User-Agent: python-requests/2.32.3", "Accept: */*"})
	backwards := append([]string(nil), chrome...)
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	f("in another order", FalseOrder, backwards)
	muxed := loadOf(backwards...)
	muxed.HTTP2 = true
	if got := factsOf(muxed).Misfits; got != 0 {
		t.Errorf("over HTTP/2, where the order is not known: misfits %012b", got)
	}
	f("Firefox in Chrome's order", FalseOrder, changed(changed(without(chrome, "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform"),
		"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"), "priority", "u=0, i"))
	f("a script's call of a real browser", 0, []string{
		`sec-ch-ua-platform: "macOS"`, "User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
		`sec-ch-ua: "Chromium";v="142"`, "sec-ch-ua-mobile: ?0", "Accept: */*", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors",
		"Sec-Fetch-Dest: empty", "Referer: https://shop.example/a", "Accept-Encoding: gzip", "Accept-Language: en",
	})

	old := loadOf(chrome...)
	old.HTTP10 = true
	if got := factsOf(old).Misfits; got != OldProtocol {
		t.Errorf("HTTP/1.0: misfits %012b", got)
	}
	partial := loadOf("User-Agent: " + strings.TrimPrefix(agent, "User-Agent: "))
	partial.Partial = true
	if got := factsOf(partial); got.Misfits != 0 || got.Shape != 0 || !got.Partial || !got.Page {
		t.Errorf("a recorded line: %+v", got)
	}
}

func TestParseClaim(t *testing.T) {
	f := func(ua string, want Claim) {
		t.Helper()
		if got := ParseClaim([]byte(ua)); got != want {
			t.Errorf("%q: %+v, want %+v", ua, got, want)
		}
		tab := NewTable(request.HashKey{})
		for range 2 { // parsed, then remembered
			if got := tab.claim([]byte(ua)); got != want {
				t.Errorf("%q: the table says %+v", ua, got)
			}
		}
	}
	f("", Claim{})
	f("curl/8.5.0", Claim{Family: FamilyLibrary})
	f("python-requests/2.32.3", Claim{Family: FamilyLibrary})
	f("Go-http-client/1.1", Claim{Family: FamilyLibrary})
	f("okhttp/4.12.0", Claim{Family: FamilyApp})
	f("MyShop/17 CFNetwork/1410.0.3 Darwin/22.6.0", Claim{Family: FamilyApp})
	f("Lynx/2.9.0dev.12 libwww-FM/2.14", Claim{Family: FamilyOther})
	f("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Claim{Family: FamilyCrawler})
	f("Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		Claim{Family: FamilyCrawler, System: SystemAndroid, Mobile: true})
	f("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", Claim{Family: FamilyRobot})
	f("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0 Safari/537.36",
		Claim{Family: FamilyHeadless, System: SystemLinux, Major: 131})
	f("Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 40) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
		Claim{Family: FamilyChrome, System: SystemAndroid, Mobile: true, Major: 131})
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Edg/120.0.2210.61",
		Claim{Family: FamilyEdge, System: SystemWindows, Major: 120})
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 YaBrowser/25.10.0.0 Safari/537.36",
		Claim{Family: FamilyYandex, System: SystemWindows, Major: 140})
	f("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
		Claim{Family: FamilySafari, System: SystemIOS, Mobile: true, Major: 18})
	f("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1",
		Claim{Family: FamilyWebKit, System: SystemIOS, Mobile: true})
	f("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
		Claim{Family: FamilyWebKit, System: SystemIOS, Mobile: true})
	f("Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko", Claim{Family: FamilyOld, System: SystemWindows, Major: 11})
}

// TestNobodyChangesABrowsersClaim: a User-Agent that is made to have the hash of a popular browser's says nothing of those who use that.
func TestNobodyChangesABrowsersClaim(t *testing.T) {
	const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"
	step := func(h uint64, b []byte) (before uint64) { // what request.Hash multiplies last
		for {
			w := uint64(0)
			for i, c := range b[:min(8, len(b))] {
				w |= uint64(c) << (8 * i)
			}
			if len(b) <= 8 {
				return h ^ w
			}
			hi, lo := bits.Mul64(h^w, 0xe7037ed1a0b428db)
			h, b = hi^lo^0xa0761d6478bd642f, b[8:]
		}
	}
	const begin = 0xa0761d6478bd642f
	last := step(begin^uint64(len(chrome)), []byte(chrome))
	forged := []byte("curl/8.5 (000000)") // 24 bytes with what follows
	forged = append(forged[:16], make([]byte, 8)...)
	binary.LittleEndian.PutUint64(forged[16:], step(begin^uint64(len(forged)), forged)^last)
	if request.Hash(forged) != request.Hash([]byte(chrome)) {
		t.Fatal("the two were to have the same Hash")
	}
	tab := NewTable(request.HashKey{})
	if got := tab.claim(forged); got.Family != FamilyLibrary {
		t.Errorf("the forged one claims %+v", got)
	}
	if got := tab.claim([]byte(chrome)); got.Family != FamilyChrome {
		t.Errorf("after it the browser claims %+v", got)
	}
}

func TestReferer(t *testing.T) {
	f := func(value string, want Referer, path string) {
		t.Helper()
		var hashed uint32
		if path != "" {
			hashed = uint32(new(request.HashKey).Sum([]byte(path)))
		}
		if got, h := referer([]byte(value), []byte("shop.example"), new(request.HashKey)); got != want || h != hashed {
			t.Errorf("%q: %v %x, want %v %x", value, got, h, want, hashed)
		}
	}
	f("", RefererNone, "")
	f("https://shop.example/a?b", RefererSame, "/a")
	f("HTTP://SHOP.example:8080/a#b", RefererSame, "/a")
	f("https://shop.example", RefererSame, "/")
	f("https://www.shop.example/a", RefererSame, "/a")
	f("https://notshop.example/a", RefererForeign, "")
	f("https://example/a", RefererForeign, "")
	f("https://search.test/?q=x", RefererForeign, "")
	f("javascript:alert(1)", RefererMalformed, "")
	f("shop.example/a", RefererMalformed, "")
}

func TestCourse(t *testing.T) {
	f := func(path, target string, depth uint8, number uint32, series string) {
		t.Helper()
		d, n, s := course([]byte(path), []byte(target), time.Unix(1.8e9, 0), new(request.HashKey))
		var want uint32
		if series != "" {
			want = max(1, uint32(new(request.HashKey).Sum([]byte(series))))
		}
		if d != depth || n != number || s != want {
			t.Errorf("%s: depth %d number %d series %x", target, d, n, s)
		}
	}
	f("/", "/", 0, 0, "")
	f("/a/b/", "/a/b/", 2, 0, "")
	f("/a/b", "/a/b?page=12", 2, 12, "/a/b?page=")
	f("/item/007/x", "/item/007/x", 3, 7, "/item/")
	f("/a", "/a?t=12345678901234", 1, 678901234, "/a?t=12345")
	f("//a", "//a", 1, 0, "")

	// what only defeats caches
	f("/a", "/a?id=5&t=1800000007", 1, StampFrom+800000007, "/a?id=5&t=1")
	f("/a", "/a?id=5&t=1799999999123", 1, StampFrom+999999123, "/a?id=5&t=1799")
	f("/a", "/a?id=5&t=1800000007123456", 1, StampFrom+7123456, "/a?id=5&t=1800000")
	f("/a", "/a?0.8373645123456", 1, StampFrom+645123456, "/a?0.8373")
	f("/a", "/a?id=123456789", 1, 123456789, "/a?id=") // and what does not: that of a product
	f("/a", "/a?id=4006381333931", 1, 381333931, "/a?id=4006")
	f("/a", "/a?id=1700000007", 1, 700000007, "/a?id=1")
}

func TestPathKind(t *testing.T) {
	for path, want := range map[string]PathKind{
		"/": PathPage, "/robots.txt": PathRobots, "/favicon.ico": PathIcon, "/apple-touch-icon-120x120.png": PathIcon, "/my/favicon.ico": PathPage, "/sitemap_index.xml": PathFeed, "/blog/feed/": PathFeed, "/feed.xml": PathFeed, "/blog/Atom.xml": PathFeed, "/feeds": PathPage, "/data.xml": PathPage, "/.env": PathProbe,
		"/.well-known/security.txt": PathPage, "/wp-login.php": PathProbe, "/shop/index.html": PathPage, "/a/.git/config": PathProbe,
	} {
		if got := pathKind([]byte(path)); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func FuzzFacts(f *testing.F) {
	for _, fields := range browserCaptures(f) {
		f.Add(strings.Join(fields, "\n"), "/a?b=1")
	}
	f.Add("user-agent: bot\nreferer: http://\ncookie: ", "/..%2f//9999999999999")
	f.Fuzz(func(t *testing.T, head, target string) {
		v := loadOf(strings.Split(head, "\n")...)
		path, query, _ := strings.Cut(target, "?")
		v.Target, v.Path, v.Query = []byte(target), []byte(path), []byte(query)
		a := factsOf(v)
		if b := factsOf(v); a != b {
			t.Errorf("%+v, then %+v", a, b)
		}
		if !a.Claim.Family.Browser() && a.Misfits != 0 {
			t.Errorf("a %v has misfits %b", a.Claim.Family, a.Misfits)
		}
		tab := NewTable(request.HashKey{})
		ua := v.Get("User-Agent")
		for range 2 {
			if len(ua) > 0 && tab.claim(ua) != ParseClaim(ua) {
				t.Errorf("%q: the table differs", ua)
			}
		}
	})
}

// TestHowItIsLoaded: fields that say how a page is loaded are told from others.
func TestHowItIsLoaded(t *testing.T) {
	for field, want := range map[string]Headers{
		"Pragma: no-cache":                HasPragma,
		"Sec-Purpose: prefetch;prerender": HasPurpose,
		"Purpose: prefetch":               HasPurpose,
		"Sec-Fetch-Dest: iframe":          InFrame | HasFetchDest,
		"Sec-Fetch-Dest: document":        HasFetchDest,
	} {
		var f Facts
		f.Read(loadOf(field), &identity.Identity{}, new(Table))
		if f.Headers != want {
			t.Errorf("%s: %b, want %b", field, f.Headers, want)
		}
	}
}

// TestRangesNameWhatIsWanted: a range in a service's own units names another part of its data, as a query would: whoever walks through a table
// by it repeats no call. Ranges of bytes are pieces of one thing.
func TestRangesNameWhatIsWanted(t *testing.T) {
	of := func(fields ...string) uint64 { f := factsOf(loadOf(fields...)); return f.Target }
	plain := of()
	if a, b := of("Range-Unit: items", "Range: 0-24"), of("Range-Unit: items", "range: 25-49"); a == b || a == plain || a != of("Range: 0-24") {
		t.Error("ranges of a table are one call")
	}
	if of("Range: items=0-24") == of("Range: items=25-49") {
		t.Error("ranges of items are one call")
	}
	for _, piece := range []string{"bytes=0-", "bytes=100-199", "Bytes=5-", "bytes=0-1,5-6"} {
		if of("Range: "+piece) != plain {
			t.Errorf("%s is another thing", piece)
		}
	}
}

// TestFieldsAndBodiesNameWhatIsWanted: a field that names another path, beside a balancer, names another thing; what a body says is not known, but that there is one.
func TestFieldsAndBodiesNameWhatIsWanted(t *testing.T) {
	plain, named, body := loadOf(), loadOf(), loadOf()
	named.Named, body.Body = []byte("/c"), true
	if a, b := factsOf(plain), factsOf(named); a.Target == b.Target {
		t.Error("two paths are one call")
	}
	if factsOf(plain).Headers&HasBody != 0 || factsOf(body).Headers&HasBody == 0 {
		t.Error("who sends a body is not known")
	}
}
