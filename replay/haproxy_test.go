package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestHAProxy(t *testing.T) {
	log := testdata(t, "haproxy.log")
	reads(t, HAProxy, log,
		`2026-03-02T07:15:30.25|203.0.113.7||GET|/cart?id=1"c||tls|250ms|`,
		"2026-03-02T07:15:31|2001:db8::1||POST|/login||1.0|15ms|",
		"2026-03-02T07:15:32.472|203.0.113.8||GET|/aborted||3ms|",
		"2026-03-02T07:15:33.785|203.0.113.9||GET|/https||tls|6ms|",
		"2026-03-02T07:15:34|203.0.113.9||GET|/too-long-a-line||6ms|")
	if got := whoIs(t, Auto, "column:15", log); got != "GET /cart?id=1#22c HTTP/1.1,POST /login HTTP/1.0,,shop.example/TLSv1.3/TLS_AES_256_GCM_SHA384," {
		t.Errorf("by column: %s", got)
	}
	line := strings.SplitN(log, "\n", 3)[1]
	bad(t, HAProxy, line,
		"203.0.113.7:58256", "unix:1", `has "unix:1" for %ci:%cp`,
		"02/Mar/2026:07:15:30.250", "02/Foo/2026:07:15:30.250", `has "02/Foo/2026:07:15:30.250" for %tr`,
		" 200 5120 ", " OK 5120 ", `has "OK" for %ST`,
		"utf-8}", "utf-8", "has no end of the captured headers",
		` "GET /cart?id=1#22c HTTP/1.1"`, "", "has no request in quotes",
		"30.250]", "30 +0000]", "is HAProxy's, and neither of option httplog nor of option httpslog")
}

// TestHAProxyCaptures: what stands in braces is known once somebody has said which headers it is.
func TestHAProxyCaptures(t *testing.T) {
	const begin, end = "203.0.113.7:1 [02/Mar/2026:07:15:30.250] web shop/s1 0/0/1/248/250 200 5120 - - ---- 1/1/0/0/0 0/0 ", `"GET / HTTP/1.1"`
	f := func(captures, braces, want string) {
		t.Helper()
		p := newParser(&Options{Captures: strings.Split(captures, ",")})
		var r Record
		var got string
		if err := p.parse(&r, []byte(begin+braces+end)); err != nil {
			got = err.Error()
		} else {
			got = strings.TrimPrefix(strings.TrimSuffix(describe(&r), "|250ms|"), "2026-03-02T07:15:30.25|")
		}
		if got != want || r.unread {
			t.Errorf("%s as %s:\n got %s\nwant %s", braces, captures, got, want)
		}
	}
	const plain = "203.0.113.7||GET|/|"
	f("Host,Referer,User-Agent", `{shop.example|https://shop.example/a#7Cb|Mozilla/5.0 (X11; #22q#22 #231 [x]) a\b} {text/html} `,
		plain+`shop.example|Referer=https://shop.example/a|b|User-Agent=Mozilla/5.0 (X11; "q" #1 [x]) a\b`)
	f("Host,Referer,User-Agent", "{shop.example||} {} ", plain+"shop.example")
	f("User-Agent", "{curl/8.5.0} ", plain+"|User-Agent=curl/8.5.0")
	f("User-Agent,Cookie", "{curl/8.5.0|sid=secret} ", plain+"|User-Agent=curl/8.5.0")
	f("User-Agent", "", plain)
	f("Host,User-Agent", "{curl/8.5.0} ", "has 1 captured header, and --captures names 2")
	f("X-Forwarded-For", "{192.0.2.1, 198.51.100.9} ", plain+"|X-Forwarded-For=192.0.2.1, 198.51.100.9")
	behind := strings.Replace(begin, "203.0.113.7", "10.0.0.9", 1)
	p := newParser(&Options{Captures: []string{"x-forwarded-for"}})
	var r Record
	if err := p.parse(&r, []byte(behind+"{192.0.2.1, 198.51.100.9} "+end)); err != nil || r.Addr.String() != "198.51.100.9" {
		t.Errorf("behind a balancer: %v %v", r.Addr, err)
	}
	from, _ := ParseIdentity("cookie:sid")
	r = Record{from: &from}
	p = newParser(&Options{Captures: []string{"cookie"}})
	if err := p.parse(&r, []byte(begin+"{a=1; sid=s1} "+end)); err != nil || string(r.Who) != "s1" {
		t.Errorf("by cookie: %q %v", r.Who, err)
	}
	if err := Auto.Parse(&r, []byte(begin+"{curl/8.5.0} "+end)); err != nil || !r.unread || r.Agent() != nil {
		t.Errorf("nobody said which: %v", err)
	}
}

// TestNobodyDeclares: where no line has a User-Agent, nobody is said to be a robot for want of one, in the report or as a label.
func TestNobodyDeclares(t *testing.T) {
	var log strings.Builder
	for i := range 30 {
		fmt.Fprintf(&log, "203.0.113.7:1 [02/Mar/2026:07:15:%02d.000] web shop/s1 0/0/0/5/6 200 9 - - ---- 1/1/0/0/0 0/0 {} \"GET /%d HTTP/1.1\"\n", i, i)
	}
	for _, c := range []struct {
		more     string
		declared int
		label    Label
	}{
		{"", 0, LabelUnknown},
		{strings.Replace(strings.SplitN(log.String(), "\n", 2)[0], "{}", "{Mozilla/5.0}", 1) + "\n", 1, LabelRobot},
	} {
		l, err := Open(context.Background(), []Input{text("log", c.more+log.String(), true)}, Options{Captures: []string{"User-Agent"}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		u := Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example"), Factors: NewFactors(bufio.NewWriter(io.Discard), nil)}
		res, err := u.Run(context.Background(), l)
		if err != nil || res.Report.StoppedSubjects != 1 || res.Report.DeclaredRobots != c.declared || u.Factors.Label != c.label {
			t.Errorf("%q: %v %d of %d stopped declare themselves, label %d", c.more, err, res.Report.DeclaredRobots, res.Report.StoppedSubjects, u.Factors.Label)
		}
	}
}
