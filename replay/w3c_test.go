package replay

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// described returns what the lines of a log say, a problem in place of what can't be read. Lines about no request are left out.
func described(f Format, text string) (out []string) {
	p := parser{format: f}
	for line := range strings.Lines(text) {
		var r Record
		switch err := p.parse(&r, []byte(strings.TrimSuffix(line, "\n"))); {
		case err == nil:
			out = append(out, describe(&r))
		case !errors.Is(err, errNoRequest):
			out = append(out, err.Error())
		}
	}
	return out
}

// reads compares what a log says with what it should, its format detected and named.
func reads(t *testing.T, f Format, text string, want ...string) {
	t.Helper()
	for _, as := range []Format{Auto, f} {
		if got := described(as, text); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\n got %s\nwant %s", as, text, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestW3C(t *testing.T) {
	iis := testdata(t, "iis.log")
	want := []string{
		"2026-03-02T07:15:29.75|203.0.113.7|SHOP\\anna|GET|/cart?id=1&x=a+b||user-agent=Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0|referer=https://shop.example/a+b|tls|250ms|",
		"2026-03-02T07:15:30.985|2001:db8::1||POST|/login||15ms|",
		"2026-03-02T07:15:31|66.249.66.1||GET|/||user-agent=Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)|0s|",
		"2026-03-02T08:00:05|203.0.113.9||GET|/a%20b/kafé|shop.example|user-agent=curl/8.5.0|1.0|0s|",
		"2026-03-02T08:00:06|198.51.100.3||GET|/b|shop.example|0s|",
	}
	reads(t, W3C, iis, want...)
	reads(t, W3C, strings.ReplaceAll(iis, "\n", "\r\n"), want...)
	reads(t, W3C, testdata(t, "cloudfront.log"),
		"2026-03-02T07:15:29.75|203.0.113.7||GET|/cart?id=1|shop.example|referer=https://shop.example/|user-agent=Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0|tls|250ms|text/html; charset=utf-8",
		`2026-03-02T07:14:58|2001:db8::1||GET|/a%2520b.mp4|d111111abcdef8.cloudfront.net|user-agent=curl/8.5.0 (a "test")|1.0|31s|`)
	// seconds, as the format says, by a server that is neither
	reads(t, W3C, "#Fields: date time c-ip cs-method cs-uri sc-status time-taken\n2026-03-02 07:15:30 203.0.113.7 GET /a?b 200 1.5\n",
		"2026-03-02T07:15:28.5|203.0.113.7||GET|/a?b||1.5s|")
}

func TestW3CProblems(t *testing.T) {
	const line = "2026-03-02 07:15:30 203.0.113.7 GET /a 200"
	f := func(fields, line, want string) {
		t.Helper()
		reads(t, W3C, fields+"\n"+line, want)
	}
	const fields = "#Fields: date time c-ip cs-method cs-uri-stem sc-status"
	f("#Version: 1.0", line, "has no #Fields line before it, which says what its columns are")
	f("#Version: 1.0", strings.ReplaceAll(line, " ", "\t"), "has no #Fields line before it, which says what its columns are")
	f(fields, line+" 5", "has 7 columns, and #Fields names 6")
	f(fields, strings.Replace(line, "203.0.113.7", "shop.example", 1), `has "shop.example" for c-ip`)
	f(fields, strings.Replace(line, "203.0.113.7", "-", 1), `has no c-ip`)
	f(fields, strings.Replace(line, " 200", " OK", 1), `has "OK" for sc-status`)
	f(fields, strings.Replace(line, "07:15:30", "07:15", 1), `has "2026-03-02 07:15" for date and time`)
	f(strings.Replace(fields, "date ", "", 1), line[len("2026-03-02 "):], "has no date: neither a column, nor #Date before it")
	f(strings.Replace(fields, " c-ip", "", 1), strings.Replace(line, " 203.0.113.7", "", 1), "has no c-ip, since #Fields does not name it")
	f(strings.Replace(fields, " sc-status", "", 1), strings.Replace(line, " 200", "", 1), "has no sc-status, since #Fields does not name it")
	f(strings.Replace(fields, "cs-method", "x-method", 1), line, "has no cs-method, since #Fields does not name it")
	f(strings.Replace(fields, "cs-uri-stem", "x-stem", 1), line, "has no cs-uri-stem, since #Fields does not name it")
	f(strings.Replace(fields, " time", "", 1), strings.Replace(line, " 07:15:30", "", 1), "has no time, since #Fields does not name it")
	f("#Fields:", line, "names no columns, or more than 256\nhas no #Fields line before it, which says what its columns are")
	reads(t, W3C, fields+"\n"+strings.Replace(line, "GET /a", "- -", 1)) // a connection without a request
}

// TestColumnsOfEachInput: what one log says of its columns holds for its own lines alone, whether it is read at once or looked into first.
func TestColumnsOfEachInput(t *testing.T) {
	a := text("a", "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2026-03-02 07:15:30 203.0.113.7 GET /a1 200\n2026-03-02 07:15:32 203.0.113.7 GET /a2 200\n", true)
	b := text("b", "#Fields: sc-status cs-uri-stem cs-method c-ip time date\n200 /b1 GET 203.0.113.7 07:15:31 2026-03-02\n200 /b2 GET 203.0.113.7 07:15:33 2026-03-02\n", false)
	got, c, err := readAll(t, Options{}, a, b, text("c", "2026-03-02 07:15:30 203.0.113.7 GET /c 200\n", true))
	if err != nil || strings.Join(got, "") != "/a1/b1/a2/b2" || c.Bad != 1 || c.Other != 2 || c.Problems[0].Input != "c" || c.Problems[0].What != errNoColumns.Error() {
		t.Errorf("%v %+v %v", got, c, err)
	}
}

// whoIs returns the visitors that --identity finds in a log.
func whoIs(t *testing.T, f Format, from, text string) string {
	t.Helper()
	i, err := ParseIdentity(from)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(context.Background(), []Input{{Name: "log", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}}, Options{Format: f, Identity: i})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var who []string
	for {
		r, err := l.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return strings.Join(who, ",")
		}
		who = append(who, string(r.Who))
		l.release(r)
	}
}

func TestWhoInW3C(t *testing.T) {
	for _, c := range []struct{ file, from, want string }{
		{"iis.log", "user", `SHOP\anna,,,,`},
		{"iis.log", "column:CS-Username", `SHOP\anna,,,,`},
		{"iis.log", "column:8", `SHOP\anna,,,HTTP/1.0,HTTP/1.1`},
		{"iis.log", "column:13", "0,0,0,,"},
		{"iis.log", "cookie:sid", ",,,secret,"},
		{"iis.log", "cookie:theme", ",,,dark,"},
		{"iis.log", "address", ",,,,"},
		{"cloudfront.log", "cookie:theme", ",dark"},
	} {
		if got := whoIs(t, W3C, c.from, testdata(t, c.file)); got != c.want {
			t.Errorf("%s of %s is %q, not %q", c.from, c.file, got, c.want)
		}
	}
}
