package e2e

import (
	le "encoding/binary"
	"io"
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"antirobot/request"
)

// TestHarvestBesideABalancer reads a shop through real balancers with the files of deploy/ and the default limits, by methods
// for which a service need not give its pages, and this one does. What is asked is stopped, whatever it calls itself; a page's own
// preflights go on even for who is asked.
func TestHarvestBesideABalancer(t *testing.T) {
	t.Parallel()
	for name, b := range balancers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				preflight = "Accept: */*\nSec-Fetch-Site: same-site\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nOrigin: https://a.example\nAccess-Control-Request-Method: POST"
				image     = "Accept: image/webp,*/*;q=0.8\nSec-Fetch-Site: same-origin\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image"
			)
			for _, make := range []struct {
				name, method, fields string
				banned               bool
				least, most          int
				path                 string
			}{
				{"preflights", "OPTIONS", preflight, false, 100, 500, "/product/%d"}, // as many calls are in order as nothing says that they are pages
				{"preflights of who is banned", "OPTIONS", preflight, true, 20, 20, "/product/%d"},
				{"those of a page of who is banned", "OPTIONS", preflight, true, 120, 150, "/api/item?id=1"},
				{"heads, as images", "HEAD", image, false, 2, 150, "/product/%d"},
			} {
				t.Run(make.name, func(t *testing.T) {
					s := lenient(t)
					g := serveCheck(t, s.URL, "style: verdict\n"+b.settings, "processor: {exempt: []}")
					url := b.run(t, g, strings.TrimPrefix(s.URL, "http://"))
					if make.banned {
						g.ban("ip:127.0.0.1", "10m")
					}
					const all = 600
					got := 0
					for n := range all {
						if asks(t, make.method, url+strings.ReplaceAll(make.path, "%d", strconv.Itoa(n)), make.fields) == 200 {
							got++
						}
					}
					t.Logf("%d of %d", got, all)
					if got < make.least || got > make.most {
						t.Errorf("the site has told of %d of %d, %d to %d are in order", got, all, make.least, make.most)
					}
				})
			}
		})
	}
}

// asks makes one request with a browser's name and fields, each a line, and returns the status of the answer.
func asks(t *testing.T, method, url, fields string) int {
	t.Helper()
	q, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36")
	for line := range strings.SplitSeq(fields, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		q.Header.Set(field, value)
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

// TestHarvestByPathsOfOneHash: beside a balancer, which has told what the site's logo is, pages are asked for by paths that were made to
// have the logo's hash as far as a client can compute it. They count as pages.
func TestHarvestByPathsOfOneHash(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	const logo = "/static/logo/2026.webp"
	for range 20 {
		v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+logo, goodUser, "X-Antirobot-Answer", "200 image/webp")...).must(t, 204, "")
	}
	const all = 600
	got := 0
	for n := range all {
		path := ofHash(t, "/product/"+strconv.Itoa(10_000+n)+"/", logo)
		r := v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, badUser,
			"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8")...)
		if r.StatusCode == 200 {
			got++
		}
	}
	t.Logf("%d of %d", got, all)
	if got > 200 {
		t.Errorf("the site has told of %d of %d", got, all)
	}
}

// TestHarvestByNamedPaths: beside a balancer, which has told what the site's logo and its style are, these are asked for with a field that names a page. Some services
// give that, so they count as pages, and are not let through to who is asked.
func TestHarvestByNamedPaths(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	told := map[string]string{"/static/logo/2026.webp": "image/webp", "/static/site.css": "text/css", "/favicon.ico": "image/x-icon"}
	for path, of := range told {
		for range 20 {
			v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+path, goodUser, "X-Antirobot-Answer", "200 "+of)...).must(t, 204, "")
		}
	}
	const each = 200
	got := 0
	for n := range each {
		for path := range told {
			r := v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, badUser,
				"X-Original-URL", "/product/"+strconv.Itoa(n), "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8")...)
			if r.StatusCode == 200 {
				got++
			}
		}
	}
	t.Logf("%d of %d", got, each*len(told))
	if got > 200 {
		t.Errorf("the site has told of %d of %d", got, each*len(told))
	}
}

// ofHash returns a path that begins so and has the request.Hash of another.
func ofHash(t *testing.T, begin, like string) string {
	t.Helper()
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	word := func(b string) (w uint64) {
		for i := range len(b) {
			w |= uint64(b[i]) << (8 * i)
		}
		return w
	}
	last := func(b string) uint64 { // what is multiplied last, with the last word of b
		h := uint64(len(b)) ^ k0
		for ; len(b) > 8; b = b[8:] {
			hi, lo := bits.Mul64(h^word(b[:8]), k1)
			h = hi ^ lo ^ k0
		}
		return h ^ word(b)
	}
	want := last(like)
	for n := range 1_000_000 {
		b := begin + strconv.Itoa(n)
		b += strings.Repeat("-", (8-len(b)%8)%8) + "\x00\x00\x00\x00\x00\x00\x00\x00"
		w := last(b) ^ want
		end := string(le.LittleEndian.AppendUint64(nil, w))
		if strings.ContainsFunc(end, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`?#%"\<>^|{}`+"`", r) }) {
			continue
		}
		path := b[:len(b)-8] + end
		if request.Hash([]byte(path)) != request.Hash([]byte(like)) {
			t.Fatalf("%q was to have the hash of %q", path, like)
		}
		return path
	}
	t.Fatalf("no path that begins with %s has the hash of %s", begin, like)
	return ""
}

// TestHarvestAmongPictures: beside a balancer that has told of a site's pictures and pages, pages are asked for by what some services read as a
// page and others as one more picture, and in several ranges at once, whose answer does not say what it is of. They count as pages.
func TestHarvestAmongPictures(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	v := visitor(t)
	v.Jar = nil
	for n := range 60 {
		for path, is := range map[string]string{"/product/%d": "200 text/html", "/product/%d.jpg": "200 image/jpeg", "/static/%d.jpg": "200 image/jpeg"} {
			v.get(g.check+"/check?style=answer", forwarded("GET", "http://localhost"+strings.ReplaceAll(path, "%d", strconv.Itoa(n)), goodUser, "X-Antirobot-Answer", is)...).must(t, 204, "")
		}
	}
	image := []string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin", "Accept", "image/webp,*/*;q=0.8"}
	for i, make := range []struct {
		path   string
		fields []string
	}{
		{"/product/%d;a.jpg", nil},
		{"/product/%d%3ba.jpg", nil},
		{"/product/%d%3fa.jpg", nil},
		{"/static/x/..%2f..%2fproduct/%d.jpg", nil},
		{"/product/%d.jpg", []string{"Range", "bytes=0-1,2-"}},
	} {
		const all = 600
		got := 0
		for n := range all {
			path := strings.Replace(make.path, "%d", strconv.Itoa(10_000+n), 1)
			if v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, "192.0."+strconv.Itoa(i)+".9", append(make.fields, image...)...)...).StatusCode == 200 {
				got++
			}
		}
		t.Logf("%s: %d of %d", make.path, got, all)
		if got < 2 || got > 250 {
			t.Errorf("%s: the site has told of %d of %d", make.path, got, all) // in a wave the first request passes
		}
	}
	ok := 0
	for n := range 200 { // a page with many pictures
		path := "/product/" + strconv.Itoa(20_000+n) + ".jpg"
		if v.get(g.check+"/check", forwarded("GET", "http://localhost"+path, goodUser, image...)...).StatusCode == 200 {
			ok++
		}
	}
	if ok != 200 {
		t.Errorf("of 200 pictures of a page a person gets %d", ok)
	}
}
