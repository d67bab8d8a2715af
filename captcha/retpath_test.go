package captcha

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/captcha/location"
	"antirobot/identity"
)

func withRetpathHosts(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
	s.RetpathHosts = []string{"partner.org", "*.shop.net", "dev.org:8443", "bank.org"}
}

// hostileReturns are ways to leave the site. %s stands for nothing: they are used as they are.
var hostileReturns = []string{
	"javascript:alert(1)", "JaVaScRiPt://example.com/%0aalert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd",
	"//evil.com", "///evil.com", `/\evil.com`, `\\evil.com`, `/..//evil.com`, "/.//evil.com", "evil.com", "/", "?x",
	"https:evil.com", "https:/evil.com", "https:///evil.com", `https:\\evil.com`, `https:/\evil.com`,
	"https://evil.com", "https://evil.com/example.com", "https://evil.com?example.com", "https://evil.com#example.com",
	"https://example.com@evil.com", "https://example.com:443@evil.com/", "https://user:pw@example.com/", "https://@example.com/",
	`https://example.com\@evil.com`, `https://evil.com\@example.com`, `https://evil.com\.example.com`, `https://example.com\.evil.com`,
	"https://example.com.evil.com/", "https://evilexample.com/", "https://example.comevil.com/", "https://example.com%2eevil.com/",
	"https://example.com%00.evil.com/", "https://example.com%2f@evil.com/", "https://evil.com%2f.example.com",
	"https://example.com:8443/", "https://example.com:80/", "https://example.com:0443/", "https://example.com:/", "https://example.com:443443/", "https://example.com:-1/",
	"http://example.com/", "ftp://example.com/", "https://example.com./", "https://.example.com/", "https://example..com/",
	"https://ban\u212a.org/", "https://ехample.com/", "https://еxample.com/", "https://example。com/", "https://example.com／@evil.com", "https://exam\u200bple.com/",
	"https://xn--e1afmkfd.com/",
	"ht\ttps://evil.com", "https://ev\nil.com", "https://example.com/\r\nSet-Cookie: a=b", "https://example.com/\tx", "https://example.com/ x", " https://evil.com", "\x00https://evil.com",
	"https%3A%2F%2Fevil.com", "https%253A%252F%252Fexample.com", "https%3A%2F%2Fexample.com%0d%0aX: y", "%2F%2Fevil.com", "https%3A%2F%2Fexample.com%5C@evil.com",
	"http://partner.org/", "https://partner.org:8443/", "https://evilshop.net/", "https://shop.net/", "https://a.shop.net.evil.com/", "https://dev.org/",
	"https://[::1]/", "https://[example.com]/", "https://[::1", "https://127.0.0.1/", "https://2130706433/",
	"https://", "https://?", "https://#", "://", ":", "", strings.Repeat("https://example.com/", 1000),
	"https://example.com/a\\b", "https://example.com\\",
}

// TestPitfall01ReturnURL: a visitor is never redirected off the site, however the return URL is injected.
func TestPitfall01ReturnURL(t *testing.T) {
	e := newEnv(t, withRetpathHosts)
	const original = "https://example.com/page?a=1"
	for _, bad := range hostileReturns {
		// As X-Retpath-Y, raw and percent-encoded.
		for _, v := range []string{bad, strings.ReplaceAll(url.QueryEscape(bad), "+", "%20"), url.PathEscape(bad)} {
			a := e.c.Redirect(e.request("GET", original, header("X-Retpath-Y", v)))
			if got := retpathOf(t, a.Get("Location")); got != original {
				t.Errorf("X-Retpath-Y %q became %q", v, got)
			}
		}
		// As a changed parameter of the page, and of the answer.
		a := e.c.Redirect(e.request("GET", original))
		u, _ := url.Parse(a.Get("Location"))
		params := u.Query()
		params.Set("retpath", bad)
		_, fields := e.open("https://example.com/showcaptcha?" + params.Encode())
		if got := fields.Get("retpath"); got != "https://example.com/" {
			t.Errorf("the page believes the retpath %q: %q", bad, got)
		}
		_, fields = e.open(a.Get("Location"))
		fields.Set("retpath", bad)
		if got := e.submit(fields, e.answerOf(fields.Get("key"))); got.Outcome != OutcomeSolved ||
			got.Get("Location") != "https://example.com/" {
			t.Errorf("outcome %d, the answer follows the retpath %q to %q", got.Outcome, bad, got.Get("Location"))
		}
		e.pass(time.Hour) // the address may earn passes again
	}
}

func retpathOf(t *testing.T, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("retpath")
}

// TestPitfall01RefererIsNeverUsed: neither the Referer nor a forwarded host decides where visitors go.
func TestPitfall01RefererIsNeverUsed(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.open("https://example.com/showcaptcha", header("Referer", "https://evil.com/"),
		header("X-Forwarded-Host", "evil.com"), header("X-Original-URL", "https://evil.com/"))
	a := e.submit(fields, e.answerOf(fields.Get("key")), header("Referer", "https://evil.com/"),
		header("X-Retpath-Y", "https://evil.com/"))
	if a.Get("Location") != "https://example.com/" {
		t.Errorf("to %q", a.Get("Location"))
	}
}

// TestPitfall01URLComesBackWhole: visitors get exactly the URL that they requested.
func TestPitfall01URLComesBackWhole(t *testing.T) {
	e := newEnv(t, withRetpathHosts)
	back := func(rawURL string, opts ...opt) string {
		t.Helper()
		e.clock.Add(3600e9)
		_, fields := e.visit(rawURL, opts...)
		a := e.submit(fields, e.answerOf(fields.Get("key")))
		if a.Outcome != OutcomeSolved {
			t.Fatalf("outcome %d", a.Outcome)
		}
		return a.Get("Location")
	}
	for _, target := range []string{
		"/?a=1&b=2#c", "/?a=1&b=2", "/", "/a%2Fb/../c;d=e/", "//double//slash", "/?q=%D0%BF%D1%80&x=%26&y=+%2B", "/?next=https://evil.com/&u=//x",
		"/?a=1&a=2&&=&b", "/search?text=a%20b&retpath=x&t=1&s=2&key=3&rep=4", "/?{json}|^`'\\d+", "/%", "/%zz?%", "/~user/!$&'()*+,;=:@", "/?#", "/a?b?c",
	} {
		if got := back("https://example.com" + target); got != "https://example.com"+target {
			t.Errorf("%q came back as %q", target, got)
		}
	}
	for raw, want := range map[string]string{ // the same URL, in a form that may stand in a header
		"/поиск?q=ё": "/%D0%BF%D0%BE%D0%B8%D1%81%D0%BA?q=%D1%91", `/a"<b>`: "/a%22%3Cb%3E", `/a\b?c\d`: `/a%5Cb?c\d`,
	} {
		if got := back("https://example.com" + raw); got != "https://example.com"+want {
			t.Errorf("%q came back as %q", raw, got)
		}
	}
	for _, want := range []string{
		"https://example.com/?a=1&b=2#c", "https://www.example.com/x?y=%26#z", "https://partner.org/", "https://a.b.shop.net/?q", "https://dev.org:8443/x",
	} {
		for _, v := range []string{want, url.QueryEscape(want), url.PathEscape(want)} {
			if got := back("https://example.com/ajax", header("X-Retpath-Y", v)); got != want {
				t.Errorf("X-Retpath-Y %q led to %q", v, got)
			}
		}
	}
	for v, want := range map[string]string{
		"https://www.example.com": "https://www.example.com/", "HTTPS://Example.COM:443/X?y": "https://example.com/X?y", "https://example.com?q#f": "https://example.com/?q#f",
	} {
		if got := back("https://example.com/ajax", header("X-Retpath-Y", v)); got != want {
			t.Errorf("X-Retpath-Y %q led to %q, want %q", v, got, want)
		}
	}
}

// TestReturnKeepsSchemeAndPort: a site on its own port redirects back to that port, and nowhere else on the host.
func TestReturnKeepsSchemeAndPort(t *testing.T) {
	e := newEnv(t, withRetpathHosts)
	f := func(base, retpath, want string) {
		t.Helper()
		a := e.c.Redirect(e.request("GET", base+"/x", header("X-Retpath-Y", retpath)))
		if got := retpathOf(t, a.Get("Location")); got != want {
			t.Errorf("%s with %q: %q, want %q", base, retpath, got, want)
		}
	}
	f("https://example.com:8443", "https://example.com:8443/y", "https://example.com:8443/y")
	f("https://example.com:8443", "https://www.example.com:8443/y", "https://www.example.com:8443/y")
	f("https://example.com:8443", "http://example.com:8443/y", "https://example.com:8443/x")
	f("https://example.com:8443", "https://example.com/y", "https://example.com:8443/x")
	f("http://example.com", "http://example.com/y", "http://example.com/y")
	f("http://example.com", "http://partner.org/y", "http://partner.org/y")
	f("http://example.com", "https://partner.org/y", "https://partner.org/y")
	f("http://example.com", "http://partner.org:443/y", "http://example.com/x")
	f("https://example.com", "http://partner.org/y", "https://example.com/x")
}

// TestPitfall01SealIsNotReasonEnough: a link that was signed while another host was allowed is not followed after that host
// was removed from the configuration.
func TestPitfall01SealIsNotReasonEnough(t *testing.T) {
	e := newEnv(t, withRetpathHosts)
	a := e.c.Redirect(e.request("GET", "https://example.com/x", header("X-Retpath-Y", "https://partner.org/")))
	_, fields := e.open(a.Get("Location"))
	if fields.Get("retpath") != "https://partner.org/" {
		t.Fatalf("retpath %q", fields.Get("retpath"))
	}
	e.svc = e.newService("shop", DefaultServiceConfig(), identity.DefaultServiceConfig())
	if a := e.submit(fields, e.answerOf(fields.Get("key"))); a.Outcome != OutcomeSolved ||
		a.Get("Location") != "https://example.com/" {
		t.Errorf("outcome %d, to %q", a.Outcome, a.Get("Location"))
	}
}

// TestSignedLinkFitsItsHost: a link signed for one service or host leads to the start page on any other.
func TestSignedLinkFitsItsHost(t *testing.T) {
	e := newEnv(t, nil)
	a := e.c.Redirect(e.request("GET", "https://example.com/x"))
	_, query, _ := strings.Cut(a.Get("Location"), "?")
	if _, fields := e.open("https://www.example.com/showcaptcha?" + query); fields.Get(
		"retpath",
	) != "https://www.example.com/" {
		t.Errorf("another host follows it: %q", fields.Get("retpath"))
	}
	other := e.newService("other", DefaultServiceConfig(), identity.DefaultServiceConfig())
	if _, fields := e.open(a.Get("Location"), service(other)); fields.Get("retpath") != "https://example.com/" {
		t.Errorf("another service follows it: %q", fields.Get("retpath"))
	}
	for _, name := range []string{"t", "u"} {
		u, _ := url.Parse(a.Get("Location"))
		v := u.Query()
		v.Set(name, v.Get(name)+"0")
		if _, fields := e.open("https://example.com/showcaptcha?" + v.Encode()); fields.Get(
			"retpath",
		) != "https://example.com/" {
			t.Errorf("a changed %s is accepted", name)
		}
	}
	e.pass(100 * 3600e9)
	if _, fields := e.open(a.Get("Location")); fields.Get("retpath") != "https://example.com/x" {
		t.Errorf("a page that stood open overnight forgot the way: %q", fields.Get("retpath"))
	}
}

// browserHost returns where a browser would go from base when it follows it, by the rules of the URL standard that
// differ from RFC 3986 and have been used to break such checks.
func browserHost(followed string) (scheme, host string) {
	s := strings.Trim(
		followed,
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ",
	)
	s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		return "", ""
	}
	rest = strings.TrimLeft(rest, `/\`)
	if i := strings.IndexAny(rest, `/\?#`); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return strings.ToLower(scheme), strings.ToLower(rest)
}

func checkReturn(t interface{ Fatalf(string, ...any) }, e *env, raw string) {
	q := e.request("GET", "https://example.com/page")
	got, ok := q.readRetpath(raw)
	if !ok {
		return
	}
	scheme, host := browserHost(got)
	fine := host == "example.com" || host == "www.example.com" || host == "partner.org" || host == "dev.org:8443" ||
		strings.HasSuffix(host, ".shop.net")
	if scheme != "https" || !fine {
		t.Fatalf("%q leads a browser to %s %q", raw, scheme, host)
	}
	if strings.ContainsAny(got, "\r\n\t \x00") {
		t.Fatalf("%q can't stand in a header: %q", raw, got)
	}
	l, ok := location.Parse(got)
	if !ok || l.Text != got {
		t.Fatalf("%q is not read back as it was written: %q", got, l.Text)
	}
}

func FuzzRetpath(f *testing.F) {
	for _, s := range hostileReturns {
		f.Add(s)
	}
	f.Add("https://example.com/?a=1&b=2#c")
	f.Add("https%3A%2F%2Fwww.example.com%2F%3Fa")
	e := newEnv(f, withRetpathHosts)
	f.Fuzz(func(t *testing.T, raw string) { checkReturn(t, e, raw) })
}

func TestRetpathProperty(t *testing.T) {
	e := newEnv(t, withRetpathHosts)
	piece := rapid.SampledFrom([]string{
		"https", "http", ":", "/", "\\", "//", "@", "example.com", "evil.com", ".", "#", "?", "%2f", "%5c", "%40", ":443", "\t", "[", "]", "www.", "shop.net", "a",
	})
	rapid.Check(t, func(t *rapid.T) {
		checkReturn(t, e, strings.Join(rapid.SliceOfN(piece, 1, 12).Draw(t, "pieces"), ""))
		checkReturn(t, e, "https://"+strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "authority"), ""))
	})
}
