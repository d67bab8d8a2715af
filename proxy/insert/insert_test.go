package insert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	brotli "github.com/molecule-man/go-brrr"

	"antirobot/request"
)

const script = "/captcha/evidence.js"

// tagged is the tag without a nonce.
const tagged = `<script src="/captcha/evidence.js" async></script>`

func fields(lines ...string) (f []request.Field) {
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		f = append(f, request.Field{Name: []byte(name), Value: []byte(value)})
	}
	return f
}

func lines(fields []request.Field) (l []string) {
	for _, f := range fields {
		l = append(l, string(f.Name)+": "+string(f.Value))
	}
	return l
}

// answer puts the tag into an answer, as h1 does.
func answer(t *testing.T, p Page, body io.Reader, head ...string) (result Result, fieldsOut []string, out []byte) {
	t.Helper()
	p.Script, p.Scheme, p.Host = script, "https", []byte("shop.example")
	p.Told = func(r Result) {
		if result != None {
			t.Errorf("told %v after %v", r, result)
		}
		result = r
	}
	in := &Insertion{Page: p}
	f, wanted := in.Head(200, fields(head...))
	if !wanted {
		return result, lines(f), nil
	}
	var b bytes.Buffer
	if err := in.Body(&b, body); err != nil {
		t.Fatalf("%v: %q", err, head)
	}
	return result, lines(f), b.Bytes()
}

// TestPlace: where the tag stands in pages of many makes, and that nothing else is changed. | is the place.
func TestPlace(t *testing.T) {
	f := func(want Result, page string) {
		t.Helper()
		plain := strings.Replace(page, "|", "", 1)
		for _, r := range []io.Reader{strings.NewReader(plain), iotest.OneByteReader(strings.NewReader(plain))} {
			if len(plain) > maxToken {
				r = strings.NewReader(plain)
			}
			got, _, out := answer(t, Page{}, r, "Content-Type: text/html; charset=utf-8")
			if s := strings.Replace(page, "|", tagged, 1); got != want || string(out) != s {
				t.Errorf("%v, wanted %v:\n%s\nwanted:\n%s", got, want, out, s)
			}
		}
	}
	f(Inserted, `<!doctype html><html><head><meta charset=utf-8><title>a</title>|</head><body>b</body></html>`)
	f(Inserted, "\xef\xbb\xbf\n<!DOCTYPE html>\r\n<!-- <body> --><HTML><HEAD ><TITLE>a</head></TITLE>|</HEAD\n><BODY>b")
	f(Inserted, `<!doctype html><title>a</title>|<body class=x>b`)
	f(Inserted, `<!doctype html><meta charset=koi8-r><link rel=a><style>p>a{}</head></style>|<p>b`)
	f(Inserted, `<!doctype html><title>a</title>| text`)
	f(Inserted, `<!doctype html><title>a</title>|`)
	f(Inserted, `<html><head><script>document.write("</head><body>")</script><noscript><img src=x></noscript>|</head>`)
	f(Inserted, `<html><head><template><p><template></template></p></template>|</head>`)
	f(Inserted, `|<body>no head at all`)
	f(Inserted, `<html><script src="/else.js"/></script>|</html>`)
	f(Inserted, `<head><title><!--</title>|<svg></svg>`)
	f(Already, `<head><script async src=" /captcha/evidence.js "></script></head>`)
	f(NoPlace, `<p>a piece for a page's script</p>`)
	f(NoPlace, `OK`)
	f(NoPlace, ``)
	f(NoPlace, `<html><head><title>cut off`)
	f(NoPlace, `<html><head><scr`)
	f(NoPlace, `<html><head><script>`+strings.Repeat("x", 2*maxToken)+`</script></head>`)
	f(NoPlace, `<html><head>`+strings.Repeat("<link rel=x>\n", maxHead/12)+`</head>`)
	f(Charset, "\xff\xfe<\x00h\x00t\x00m\x00l\x00")
	f(Policy, `<html><meta http-equiv=content-security-policy content="default-src 'none'"><body>`)
	f(Inserted, `<html><meta http-equiv=content-security-policy content="default-src 'self'">|<body>`)
}

// TestBase: a page whose addresses have another base gets the whole address.
func TestBase(t *testing.T) {
	_, _, out := answer(t, Page{}, strings.NewReader(`<html><base href="https://cdn.example/"><body>`),
		"Content-Type: text/html")
	if want := `<script src="https://shop.example/captcha/evidence.js" async>`; !strings.Contains(string(out), want) {
		t.Fatalf("%s", out)
	}
}

func packed(t testing.TB, coding, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w, _ = brotli.NewWriter(&b, 5)
	default:
		return []byte(s)
	}
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

func unpacked(t testing.TB, coding string, b []byte) string {
	t.Helper()
	r := io.Reader(bytes.NewReader(b))
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case "br":
		r = brotli.NewReader(r)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestCodings: a compressed page is compressed in the same way afterwards, one after another with the same tables;
// broken ones end with an error, and what follows a page's gzip is left out.
func TestCodings(t *testing.T) {
	body := strings.Repeat("<p>a line of a long page, which compresses\n", 5000)
	page := "<!doctype html><title>x</title>" + body
	for range 2 {
		for _, coding := range []string{"gzip", "br", "identity"} {
			result, _, out := answer(t, Page{}, bytes.NewReader(packed(t, coding, page)), "Content-Type: text/html",
				"Content-Encoding: "+coding)
			if got := unpacked(t, coding, out); result != Inserted ||
				got != "<!doctype html><title>x</title>"+tagged+body {
				t.Fatalf("%s: %v, %d bytes", coding, result, len(got))
			}
			if coding != "identity" && len(out) > len(page)/20 {
				t.Errorf("%s: %d bytes are not compressed", coding, len(out))
			}
		}
	}
	in := &Insertion{Page: Page{Script: script, Scheme: "https"}}
	for _, coding := range []string{"gzip", "br"} {
		b := packed(t, coding, page)
		if _, ok := in.Head(200, fields("Content-Type: text/html", "Content-Encoding: "+coding)); !ok {
			t.Fatal(coding)
		}
		if err := in.Body(io.Discard, bytes.NewReader(b[:len(b)/2])); err == nil {
			t.Errorf("half a page in %s is a whole one", coding)
		}
	}
	_, _, out := answer(t, Page{}, bytes.NewReader(append(packed(t, "gzip", page),
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)), "Content-Type: text/html", "Content-Encoding: gzip")
	if got := unpacked(t, "gzip", out); !strings.HasSuffix(got, body) {
		t.Errorf("%d bytes", len(got))
	}
}

// TestDensePages: a page that opens into far more than came of it ends, and one that is merely large does not.
func TestDensePages(t *testing.T) {
	line := []byte(strings.Repeat("a line of a table that says the same again\n", 1<<14))
	for _, coding := range []string{"gzip", "br"} {
		var dense bytes.Buffer
		w := io.WriteCloser(gzip.NewWriter(&dense))
		if coding == "br" {
			w, _ = brotli.NewWriter(&dense, 5)
		}
		_, _ = io.WriteString(w, "<!doctype html><title>x</title><p>")
		for range 400 {
			_, _ = w.Write(line)
		}
		_ = w.Close()
		in := &Insertion{Page: Page{Script: script, Scheme: "https"}}
		in.Head(200, fields("Content-Type: text/html", "Content-Encoding: "+coding))
		if err := in.Body(io.Discard, bytes.NewReader(dense.Bytes())); coding == "br" && !errors.Is(err, errTooDense) ||
			coding == "gzip" && dense.Len() > 400*len(line)/mostTimes && err != nil {
			t.Errorf("%s: %d bytes of %d: %v", coding, dense.Len(), 400*len(line), err)
		}
	}
	large := &counter{n: mostOpened/mostTimes + 1}
	if n, err := io.Copy(io.Discard, large.bounded(io.LimitReader(endless{},
		mostOpened+mostTimes-1))); n != mostOpened+mostTimes-1 || err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// paused is a service that stops in the middle of a page.
type paused struct {
	io.Reader
	in   *Insertion
	got  *bytes.Buffer
	seen []int
}

func (p *paused) Read(b []byte) (int, error) {
	_ = p.in.Flush()
	p.seen = append(p.seen, p.got.Len())
	return p.Reader.Read(b)
}

// TestStreams: what a service has sent can be read by the visitor before it sends more.
func TestStreams(t *testing.T) {
	for _, coding := range []string{"identity", "gzip"} {
		var pieces, got bytes.Buffer
		w := gzip.NewWriter(&pieces)
		first := "<!doctype html><title>x</title><p>at once"
		_, _ = io.WriteString(w, first)
		_ = w.Flush()
		n := pieces.Len()
		if coding == "identity" {
			pieces.Reset()
			pieces.WriteString(first)
			n = len(first)
		}
		in := &Insertion{Page: Page{Script: script, Scheme: "https"}}
		in.Head(200, fields("Content-Type: text/html", "Content-Encoding: "+coding))
		p := &paused{
			io.MultiReader(bytes.NewReader(pieces.Bytes()[:n]), iotest.ErrReader(io.ErrNoProgress)), in, &got,
			nil,
		}
		_ = in.Body(&got, p)
		b := got.Bytes()
		if coding == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			b = make([]byte, 1000)
			k, _ := io.ReadAtLeast(z, b, len(first)+len(tagged))
			b = b[:k]
		}
		if !strings.HasSuffix(string(b), "<p>at once") || p.seen[len(p.seen)-1] == 0 {
			t.Errorf("%s: %q %v", coding, b, p.seen)
		}
	}
}

// TestHead: which answers are pages, and what is said of those that are changed.
func TestHead(t *testing.T) {
	html := "Content-Type: text/html; charset=utf-8"
	f := func(want Result, head ...string) {
		t.Helper()
		got, left, out := answer(t, Page{}, strings.NewReader("<html><body>"), head...)
		if got != want || want != Inserted && (out != nil || !slices.Equal(left, head)) {
			t.Errorf("%q: %v, wanted %v: %q", head, got, want, left)
		}
	}
	f(Inserted, html)
	f(Inserted, "content-type: Text/HTML")
	f(None, "Content-Type: application/json")
	f(None, "Content-Type: application/xhtml+xml")
	f(None)
	f(None, html, "Content-Disposition: attachment; filename=a.html")
	f(None, html, "Content-Range: bytes 0-1/2")
	f(NoTransform, html, "Cache-Control: public, No-Transform")
	f(Coding, html, "Content-Encoding: zstd")
	f(Coding, html, "Content-Encoding: gzip, br")
	f(Coding, html, "Content-Encoding: gzip", "Content-Encoding: gzip")
	f(Charset, "Content-Type: text/html; charset=\"UTF-16LE\"")
	f(Policy, html, "Integrity-Policy: blocked-destinations=(script)")
	f(Policy, html, "Content-Security-Policy: script-src 'none'")

	_, left, _ := answer(t, Page{}, strings.NewReader("<html><body>"), html, "Content-Length: 12", "ETag: \"a\"",
		"Content-MD5: x", "Digest: x",
		"Repr-Digest: x", "Content-Digest: x", "Accept-Ranges: bytes", "Last-Modified: now")
	if want := []string{html, `ETag: W/"a"`, "Last-Modified: now"}; !slices.Equal(left, want) {
		t.Errorf("%q", left)
	}
	if got, _, _ := answer(t, Page{Reserve: func(int) bool { return false }}, nil, html); got != Busy {
		t.Errorf("%v without memory", got)
	}

	in := &Insertion{Page: Page{Script: script, NoneMatch: []byte(`W/"a", "c"`)}}
	for etag, want := range map[string]string{`"a"`: `W/"a"`, `"c"`: `"c"`} {
		got, body := in.Head(304, fields("ETag: "+etag))
		if body || string(got[0].Value) != want {
			t.Errorf("304 with %s: %q", etag, lines(got))
		}
	}
	for _, status := range []int{206, 404, 500} {
		if _, body := in.Head(status, fields(html)); body {
			t.Errorf("%d is a page", status)
		}
	}
}

// TestAccepts: a service is not asked for what can't be opened.
func TestAccepts(t *testing.T) {
	f := func(given, want string) {
		t.Helper()
		if got := string(Accepts([]byte(given))); got != want {
			t.Errorf("%q: %q, wanted %q", given, got, want)
		}
	}
	f("", "")
	f("gzip, br;q=0.5", "")
	f("gzip, deflate, br, zstd", "gzip, br")
	f("*", "identity")
	f("zstd;q=1", "identity")
}

// FuzzPlace: whatever a page is, without the tag it is what it was, and in no coding more than once or broken.
func FuzzPlace(f *testing.F) {
	f.Add([]byte("<!doctype html><html><head><title>a</title></head><body>"), byte(0))
	f.Add([]byte("<html><script>a<!--<script></head>--></script><body>"), byte(3))
	f.Add([]byte("<base href=//a><meta http-equiv=content-security-policy content=\"script-src 'nonce-a'\"><p>"),
		byte(1))
	f.Add(packed(f, "gzip", "<html><body>"), byte(1))
	f.Fuzz(func(t *testing.T, page []byte, size byte) {
		for c, name := range []string{"identity", "gzip", "br"} {
			in := &Insertion{Page: Page{Script: script, Scheme: "https", Host: []byte("a.example")}, coding: coding(c)}
			var out bytes.Buffer
			if err := in.Body(&out, iotest.HalfReader(bytes.NewReader(packed(t, name, string(page))))); err != nil {
				t.Fatal(err)
			}
			got := unpacked(t, name, out.Bytes())
			if got == string(page) {
				continue
			}
			at := commonPrefix(got, string(page))
			for ; at >= 0 && !strings.HasPrefix(got[at:], "<script src=\""); at-- {
			}
			if at < 0 {
				t.Fatalf("%q became %q", page, got)
			}
			end := strings.Index(got[at:], " async></script>")
			if end < 0 || got[:at]+got[at+end+len(" async></script>"):] != string(page) {
				t.Fatalf("%q became %q", page, got)
			}
		}
		_ = (&Insertion{coding: coding(size % 3)}).Body(io.Discard, bytes.NewReader(page)) // broken ones may fail
	})
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return min(n, len(a)-1)
}

// BenchmarkInsertion puts the tag into a page of 100 kB, beside a copy.
func BenchmarkInsertion(b *testing.B) {
	var s strings.Builder
	s.WriteString("<!doctype html><html><head><meta charset=utf-8><title>A page</title><link rel=stylesheet " +
		"href=/a.css></head><body>")
	for i := 0; s.Len() < 100<<10; i++ {
		fmt.Fprintf(&s, "<li class=item><a href=/item/%d>An item, number %x of them</a> <b>%d.99</b>\n", i*7919%10007,
			i*31337, i*i%977)
	}
	for _, coding := range []string{"copied", "identity", "gzip", "br"} {
		b.Run(coding, func(b *testing.B) {
			page := packed(b, coding, s.String())
			b.SetBytes(int64(s.Len()))
			in := &Insertion{Page: Page{Script: script, Scheme: "https", Host: []byte("a.example")}}
			for b.Loop() {
				if coding == "copied" {
					_, _ = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{bytes.NewReader(page)})
					continue
				}
				in.Head(200, fields("Content-Type: text/html", "Content-Encoding: "+coding))
				if err := in.Body(io.Discard, bytes.NewReader(page)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestPolicies: with which policies a page gets the script, and with which nonce.
func TestPolicies(t *testing.T) {
	f := func(want string, policies ...string) {
		t.Helper()
		var p policySet
		for _, text := range policies {
			p.add([]byte(text))
		}
		got := "no"
		if p.permits(site{"https", "shop.example:8443", "/x/captcha/evidence.js"}, false) {
			got = "yes " + p.nonce
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%q: %s, wanted %s", policies, got, want)
		}
	}
	f("yes")
	f("yes", "img-src 'none'")
	f("yes", "default-src 'self'")
	f("yes", "Default-Src 'SELF'; script-src *")
	f("no", "default-src 'none'")
	f("no", "script-src")
	f("no", "default-src 'self'; script-src-elem https://cdn.example")
	f("no", "default-src 'self'; connect-src https://api.example")
	f("no", "default-src 'self', script-src 'none'")
	f("no", "default-src 'self'", "script-src 'none'")
	f("yes", "script-src 'self'; script-src 'none'")
	f("yes abc", "script-src 'nonce-abc'; connect-src 'self'")
	f("yes abc", "script-src 'strict-dynamic' 'nonce-abc' https:")
	f("no", "script-src 'strict-dynamic' 'self' https:")
	f("no", "script-src 'sha256-AAAA' 'unsafe-inline'")
	f("no", "script-src 'nonce-a\"b'")
	f("yes b2", "script-src 'nonce-b1' 'nonce-b2'", "script-src 'nonce-b2'")
	f("no", "script-src 'nonce-b1'", "script-src 'nonce-b2'")
	f("yes", "script-src https:")
	f("yes", "script-src http:")
	f("no", "script-src data:")
	f("yes", "script-src https://shop.example:8443")
	f("yes", "script-src shop.example:*")
	f("no", "script-src shop.example")
	f("yes", "script-src *.example:8443")
	f("no", "script-src *.shop.example:8443")
	f("yes", "script-src shop.example:8443/x/captcha/")
	f("yes", "script-src shop.example:8443/x/captcha/evidence.js")
	f("no", "script-src shop.example:8443/static/")
	f("no", "sandbox allow-scripts")
	f("yes", "sandbox allow-scripts allow-same-origin")
}

// TestExtend: a policy is changed only as far as it must be, and then permits the script.
func TestExtend(t *testing.T) {
	s := site{"https", "shop.example", "/captcha/evidence.js"}
	f := func(policy, want string) {
		t.Helper()
		in := Insertion{Page: Page{Script: s.path, Scheme: s.scheme, Host: []byte(s.host), Extend: true}}
		got, ok := in.Head(200, fields("Content-Type: text/html", "Content-Security-Policy: "+policy))
		value := strings.ReplaceAll(string(got[1].Value), in.policy.nonce+"'", "NONCE'")
		if in.policy.nonce == "" {
			value = string(got[1].Value)
		}
		if ok != (want != "") || ok && value != want {
			t.Errorf("%q: %v %q, wanted %q", policy, ok, value, want)
			return
		}
		var again policySet
		again.add(got[1].Value)
		if ok && !again.permits(s, false) {
			t.Errorf("%q still forbids the script", got[1].Value)
		}
	}
	f("default-src 'self'", "default-src 'self'")
	f("default-src 'none'; img-src *", "default-src 'none'; img-src *; script-src-elem 'self'; connect-src 'self'")
	f("script-src 'sha256-AA='; connect-src a.example",
		"script-src 'sha256-AA='; connect-src a.example 'self'; script-src-elem 'sha256-AA=' 'self'")
	f("script-src 'strict-dynamic' 'sha256-AA='", "script-src 'strict-dynamic' 'sha256-AA='; script-src-elem "+
		"'strict-dynamic' 'sha256-AA=' 'nonce-NONCE'")
	f("script-src-elem 'none', connect-src 'self'", "script-src-elem 'self', connect-src 'self'")
	f("sandbox", "")
}

// TestPoliciesAreBounded: a page whose policies are made to take long, in its head or in its fields, stays as it is.
func TestPoliciesAreBounded(t *testing.T) {
	const n = 150
	var page strings.Builder
	page.WriteString("<html><head>")
	for k := range n { // each forbids one nonce more
		page.WriteString(`<meta http-equiv=content-security-policy content="script-src`)
		for i := range n {
			if i != k-1 {
				fmt.Fprintf(&page, " 'nonce-%d'", i)
			}
		}
		page.WriteString(`; connect-src 'self'">`)
	}
	page.WriteString("</head><body>")
	var names, nonces strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&names, "a%d;", i)
		fmt.Fprintf(&nonces, " 'nonce-%d'", i)
	}
	for what, c := range map[string]struct{ policy, page string }{
		"a head full of policies": {"connect-src 'self'", page.String()},
		"thousands of directives": {names.String(), "<html><body>"},
		"thousands of nonces":     {"script-src" + nonces.String() + ", script-src 'none'", "<html><body>"},
	} {
		began := time.Now()
		got, _, _ := answer(t, Page{}, strings.NewReader(c.page), "Content-Type: text/html",
			"Content-Security-Policy: "+c.policy)
		if took := time.Since(began); got != Policy || took > time.Second {
			t.Errorf("%s: %v after %v", what, got, took)
		}
	}
}
