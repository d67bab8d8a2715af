package captcha

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"
)

// unzipped returns a page that was sent compressed.
func unzipped(t *testing.T, a *Response) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPagesAreCompressed: every page is, for whoever takes it, and says on what that depends; one that is answered
// twice is whole.
func TestPagesAreCompressed(t *testing.T) {
	e := newEnv(t, digitsOnly)
	zip := header("Accept-Encoding", "br, gzip;q=0.8")
	silent := asking(t, "silent")
	sent := silent.c.Redirect(silent.request("GET", "https://example.com/page"))
	for name, show := range map[string]func(...opt) Response{
		"digits": func(o ...opt) Response { a, _ := e.visit("https://example.com/a?b=c", o...); return a },
		"form":   func(o ...opt) Response { return e.c.ChallengeForm(e.request("POST", "https://example.com/a", o...)) },
		"blocked": func(o ...opt) Response {
			return e.c.Blocked(e.request("GET", "https://example.com/a", o...), ReadsPage)
		},
		"check": func(o ...opt) Response {
			return silent.c.Page(silent.request("GET", sent.Get("Location"), append(o, keeping(&sent))...))
		},
	} {
		plain := show()
		if plain.Get("Content-Encoding") != "" || !strings.Contains(string(plain.Body), "</html>") {
			t.Errorf("%s: %q for who takes no compression", name, plain.Get("Content-Encoding"))
		}
		for range 2 { // by the same compressor
			a := show(zip)
			if a.Get("Content-Encoding") != "gzip" || !strings.Contains(a.Get("Vary"), "Accept-Encoding") ||
				len(a.Body) > len(plain.Body)/2 {
				t.Fatalf("%s: %q, Vary %q, %d bytes of %d", name, a.Get("Content-Encoding"), a.Get("Vary"), len(a.Body),
					len(plain.Body))
			}
			if text := unzipped(t, &a); len(text) < len(plain.Body)-100 ||
				!strings.HasSuffix(strings.TrimSpace(text), "</html>") {
				t.Errorf("%s: %d bytes, and %d uncompressed", name, len(text), len(plain.Body))
			}
		}
		if a := show(header("Accept-Encoding", "gzip;q=0")); a.Get("Content-Encoding") != "" {
			t.Errorf("%s: compressed for who refuses it", name)
		}
	}
}

// TestPagesRepeatNoSecret: of two pages for the same URL, or the same form, nothing that an attacker does not know
// already is the same in both. Lengths of compressed pages, which repeat what a URL says, tell nothing then.
func TestPagesRepeatNoSecret(t *testing.T) {
	e := newEnv(t, digitsOnly)
	sent := e.c.Redirect(e.request("GET", "https://example.com/a?guess=1"))
	link := sent.Get("Location")
	known := link + " " + e.request("POST", "https://example.com/").RequestID
	token := regexp.MustCompile(`[A-Za-z0-9_-]{16,}`)
	style := regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<svg.*?</svg>`)
	for name, show := range map[string]func() Response{
		"digits": func() Response { a, _ := e.open(link, keeping(&sent)); return a },
		"form": func() Response {
			return e.c.ChallengeForm(e.request("POST", "https://example.com/a", keeping(&sent), form("text", "what was typed and is secret")))
		},
	} {
		first, second := show(), show()
		secrets := token.FindAllString(style.ReplaceAllString(string(first.Body), ""), -1)
		found := 0
		for _, s := range secrets {
			if len(s) >= 40 && !strings.Contains(known, s) {
				found++
				if strings.Contains(string(second.Body), s) {
					t.Errorf("%s: two pages have %q", name, s)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no secret is found in %s", name, first.Body)
		}
	}
}
