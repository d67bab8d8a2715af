package replay

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// describe prints a record, for comparison.
func describe(r *Record) string {
	b := []string{
		r.At.UTC().Format("2006-01-02T15:04:05.999"), r.Addr.String(), string(r.User), string(r.Method), string(r.Target), string(r.Host),
	}
	for _, f := range r.Fields {
		b = append(b, string(f.Name)+"="+string(f.Value))
	}
	if r.TLS {
		b = append(b, "tls")
	}
	if r.HTTP10 {
		b = append(b, "1.0")
	}
	b = append(b, r.Answer.Took.String(), string(r.Answer.ContentType))
	return strings.Join(b, "|")
}

func TestFormats(t *testing.T) {
	f := func(format Format, line, want string) {
		t.Helper()
		var r Record
		if err := format.Parse(&r, []byte(line)); err != nil {
			t.Errorf("%s: %v\n%s", format, err, line)
			return
		}
		if got := describe(&r); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
	const common = `203.0.113.7 - anna [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 203`
	f(Auto, common, "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||0s|")
	f(Common, common, "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||0s|")
	f(Auto, common+"\r\n", "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||0s|")
	f(Combined, common+` "https://e.example/" "Mozilla/5.0 (X)"`, "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||Referer=https://e.example/|User-Agent=Mozilla/5.0 (X)|0s|")
	f(Combined, common+` "-" "-"`, "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||0s|")
	// what servers add at the end, at the beginning, and inside
	f(Auto, common+` "-" "agent" "1.2.3.4" 0.002`, "2015-05-17T08:05:03|203.0.113.7|anna|GET|/a?b||User-Agent=agent|0s|")
	f(Auto, `shop.example:443 2001:db8::7 - - [01/Jan/2026:00:00:00 -0130] "GET / HTTP/1.0" 304 - "-" "a"`, "2026-01-01T01:30:00|2001:db8::7||GET|/|shop.example:443|User-Agent=a|1.0|0s|")
	f(Auto, `::ffff:203.0.113.7 - Anna Lee [17/May/2015:10:05:03 +0000] "GET /a b HTTP/1.1" 200 1 "-" "say \"hi\" \\ \x41\t"`, "2015-05-17T10:05:03|203.0.113.7|Anna Lee|GET|/a b||User-Agent=say \"hi\" \\ A\t|0s|")

	// names instead of addresses, or nothing
	f(Auto, `in24.inetnebr.com - - [01/Aug/1995:00:00:01 -0400] "GET /shuttle/ HTTP/1.0" 200 1839`, "1995-08-01T04:00:01|fd4b:f340:4fc7:a0ce::1||GET|/shuttle/||1.0|0s|")
	f(Auto, `- - - [01/Aug/2025:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "agent"`, "2025-08-01T00:00:01|fd28:8c02:672f:d1b9::1||GET|/||User-Agent=agent|0s|")

	files := map[string][]string{
		"nginx": {
			"2026-03-02T07:15:29.75|203.0.113.7|anna|GET|/cart?id=1|shop.example|User-Agent=Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0|Referer=https://shop.example/|accept-language=ru|tls|250ms|text/html",
			"2026-03-02T10:15:30.5|2001:db8::1||POST|/login|shop.example|1.0|0s|",
			"2026-03-02T07:15:31|203.0.113.8||GET|/x?a=b||User-Agent=cafÃ© \"quoted\"|0s|",
		},
		"caddy": {
			"2022-03-09T21:30:01.024|203.0.113.9|boris|GET|/a?b=c|localhost:8443|User-Agent=curl/7.82.0|Accept=*/*|Accept-Encoding=gzip, deflate, br|tls|500ms|text/html; charset=utf-8",
			"2022-03-09T21:30:01.98|198.51.100.3||HEAD|/|example.com|1.0|20ms|",
		},
		"traefik": {
			"2026-03-02T07:15:30.25|203.0.113.10||GET|/search?q=a%20b|shop.example|User-Agent=Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X)|Referer=https://shop.example/|tls|1.5s|application/json",
		},
	}
	for name, want := range files {
		format, err := ParseFormat(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%s: %d lines", name, len(lines))
		}
		for i, line := range lines {
			f(Auto, line, want[i])
			f(format, line, want[i])
		}
	}
	// the gateway's own access log
	f(Auto, `{"level":"info","part":"access","request_id":"01K","client":"203.0.113.7","method":"GET","host":"shop.example","path":"/a","status":200,"bytes_in":0,"bytes_out":7,"ms":500,"time":"2026-03-02T07:15:31Z","message":"request"}`,
		"2026-03-02T07:15:30.5|203.0.113.7||GET|/a|shop.example|500ms|")
	var r Record
	if err := Auto.Parse(&r, []byte(`{"client":"203.0.113.7","method":"GET","path":"/a","status":200,"ja4":"t13d1516h2_8daaf6152771_e5627efa2ab1","h2":"1:65536|00|0|m,a,s,p","behind_ms":201.25,"time":"2026-03-02T07:15:31Z","message":"request"}`)); err != nil ||
		string(r.JA4) != "t13d1516h2_8daaf6152771_e5627efa2ab1" || string(r.Frames) != "1:65536|00|0|m,a,s,p" ||
		r.Behind != 201250*time.Microsecond {
		t.Errorf("what a handshake tells: %q %q %v %v", r.JA4, r.Frames, r.Behind, err)
	}
	for asks, want := range map[string]use{"page": useUnsaid, "api": useUnsaid, "script": useCall, "part": usePart, "socket": usePart} {
		var c calls
		err := Auto.Parse(&r, fmt.Appendf(nil, `{"client":"203.0.113.7","method":"GET","path":"/a","asks":%q,"status":200,"time":"2026-03-02T07:15:31Z","message":"request"}`, asks))
		if got := c.see(&r, true); err != nil || got != want || r.asks.String() != asks {
			t.Errorf("what asked for a %s is for %v (%v): %v", asks, got, r.asks, err)
		}
	}
}

func TestFormatProblems(t *testing.T) {
	f := func(format Format, line, want string) {
		t.Helper()
		var r Record
		err := format.Parse(&r, []byte(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	f(Auto, "", "address")
	f(Auto, "nonsense", "time")
	f(Auto, "<xml> is no log", "address")
	f(Auto, `1.2.3.4 - - 17/May/2015:10:05:03 "GET / HTTP/1.1" 200 1`, "time")
	f(Auto, `1.2.3.4 - - [17/Foo/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "time")
	f(Auto, `1.2.3.4 - - [17/May/2015:25:05:03 +0000] "GET / HTTP/1.1" 200 1`, "time")
	f(Auto, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" two 1`, "status")
	f(Auto, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1`, "without an end")
	f(Auto, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 1`, "no HTTP request")
	f(Auto, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "-" 408 0`, "no HTTP request")
	f(Combined, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "not combined")
	f(Auto, `{"a":1`, "not JSON")
	f(Caddy, `1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "not JSON")
	f(Auto, `{"level":"info","message":"decision","time":"2026-03-02T07:15:31Z"}`, "no HTTP request")
	f(Auto, `{"request":"GET / HTTP/1.1","status":200,"time_iso8601":"2026-03-02T07:15:31Z"}`, "client address")
	f(Auto, `{"request":"GET / HTTP/1.1","status":200,"remote_addr":"1.2.3.4","time":"soon"}`, "time")
}

// TestSecretsAreLeft: cookies and credentials in a log are not even read.
func TestSecretsAreLeft(t *testing.T) {
	for _, file := range []string{"nginx", "caddy", "traefik"} {
		f, err := os.Open("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var r Record
			if err := Auto.Parse(&r, lines.Bytes()); err != nil {
				t.Fatal(err)
			}
			if s := strings.ToLower(describe(&r)); strings.Contains(s, "secret") || strings.Contains(s, "redacted") || strings.Contains(s, "c2vj") {
				t.Errorf("%s: %s", file, s)
			}
		}
	}
}

// fuzzFormat feeds a parser arbitrary input: it must not panic, and what it accepts must be complete.
func fuzzFormat(f *testing.F, format Format, file string) {
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if i < 40 {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Record
		before := string(line)
		err := format.Parse(&r, line)
		if string(line) != before {
			t.Fatal("the line was changed")
		}
		if err != nil {
			return
		}
		complete(t, &r)
		// a record can be reused for anything
		again := describe(&r)
		if err := format.Parse(&r, []byte(`203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`)); err == nil && r.User != nil {
			t.Error("something of the last line stayed")
		}
		if err := format.Parse(&r, line); err != nil || describe(&r) != again {
			t.Errorf("read twice: %v\n%s\n%s", err, again, describe(&r))
		}
	})
}

// complete checks what every record must have.
func complete(t *testing.T, r *Record) {
	if !r.Addr.IsValid() || len(r.Method) == 0 || len(r.Target) == 0 || r.Answer.Status > 999 || r.Answer.Took < 0 {
		t.Errorf("%s", describe(r))
	}
	if y := r.At.Add(r.Answer.Took).Year(); y < 1969 || y > 10000 {
		t.Errorf("year %d", y)
	}
	if len(r.Fields) > maxFields {
		t.Errorf("%d fields", len(r.Fields))
	}
	for _, f := range r.Fields {
		if secret(f.Name) {
			t.Errorf("kept %s", f.Name)
		}
	}
}

// FuzzInput feeds a parser whole inputs, since lines of some formats say what the following ones mean.
func FuzzInput(f *testing.F) {
	from := []Identity{{}}
	for _, s := range []string{"user", "cookie:sid", "column:3", "column:cs(user-agent)"} {
		i, err := ParseIdentity(s)
		if err != nil {
			f.Fatal(err)
		}
		from = append(from, i)
	}
	for _, seed := range []struct {
		format Format
		file   string
	}{{W3C, "iis.log"}, {W3C, "cloudfront.log"}, {ALB, "alb.log"}, {Cloudflare, "cloudflare.json"}, {Google, "google.json"}, {Envoy, "envoy.json"}, {Envoy, "envoy.log"}, {HAProxy, "haproxy.log"}} {
		for i := range from {
			f.Add(uint8(seed.format), uint8(i), testdata(f, seed.file))
			f.Add(uint8(Auto), uint8(i), testdata(f, seed.file))
		}
	}
	f.Fuzz(func(t *testing.T, format, who uint8, text string) {
		p := newParser(&Options{Format: Format(format) % Format(len(formatNames)), Captures: []string{"Host", "User-Agent", "Cookie"}})
		r := Record{from: &from[int(who)%len(from)]}
		for line := range strings.Lines(text) {
			b := []byte(line)
			err := p.parse(&r, b)
			if string(b) != line {
				t.Fatal("the line was changed")
			}
			if err == nil {
				complete(t, &r)
			}
		}
	})
}

func FuzzAuto(f *testing.F) { fuzzFormat(f, Auto, "apache.log") }

func FuzzCommon(f *testing.F) { fuzzFormat(f, Common, "apache.log") }

func FuzzCombined(f *testing.F) { fuzzFormat(f, Combined, "apache.log") }

func FuzzNginx(f *testing.F) { fuzzFormat(f, Nginx, "nginx.json") }

func FuzzCaddy(f *testing.F) { fuzzFormat(f, Caddy, "caddy.json") }

func FuzzTraefik(f *testing.F) { fuzzFormat(f, Traefik, "traefik.json") }

// FuzzTime: whatever is read as a time can be printed and read again as the same.
func FuzzTime(f *testing.F) {
	for _, s := range []string{"17/May/2015:10:05:03 +0000", "1772446530.5", "1772446530500", "2026-03-02T10:15:30+03:00", "2026/03/02 10:15:30"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		at, ok := parseAnyTime(b)
		if !ok {
			return
		}
		if again, ok := parseAnyTime([]byte(at.Format(time.RFC3339Nano))); ok && !again.Equal(at) {
			t.Errorf("%s: %v and %v", b, at, again)
		}
	})
}

// BenchmarkFormats measures what a line costs; a million lines a minute allow 60 µs each.
func BenchmarkFormats(b *testing.B) {
	for _, file := range []string{"apache.log", "alb.log", "envoy.log", "nginx.json", "caddy.json", "traefik.json", "cloudflare.json"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			b.Fatal(err)
		}
		line := []byte(strings.SplitN(string(data), "\n", 2)[0])
		b.Run(file, func(b *testing.B) {
			b.ReportAllocs()
			var r Record
			for b.Loop() {
				if err := Auto.Parse(&r, line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
