package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"antirobot/identity"
)

func TestParseIdentity(t *testing.T) {
	for _, bad := range []string{"cookie", "cookie:", "column:0", "column:1001", "column:", "header:X", "users", "user:x"} {
		if i, err := ParseIdentity(bad); err == nil {
			t.Errorf("%q is %+v", bad, i)
		}
	}
	for _, good := range []string{"", "address", "user", "cookie:sid", "column:3", "column:session"} {
		if _, err := ParseIdentity(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// TestWho: the visitor is found wherever --identity can point to, in each kind of log.
func TestWho(t *testing.T) {
	const combined = `203.0.113.7 - anna b [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "sid=of-the-referer" "agent \"sid=x\"" "a=1; sid=s1; b=2" 0.005`
	for _, c := range []struct{ from, line, want string }{
		{"user", combined, "anna b"},
		{"cookie:sid", combined, "s1"},
		{"cookie:none", combined, ""},
		{"column:1", combined, "203.0.113.7"},
		{"column:6", combined, "GET /a HTTP/1.1"}, // the user's name consists of two words
		{"column:12", combined, "0.005"},
		{"column:13", combined, ""},
		{"address", combined, ""},
		{"cookie:sid", `{"remote_addr":"203.0.113.7","time_iso8601":"2015-05-17T10:05:03Z","request":"GET / HTTP/1.1","status":"200","http_cookie":"x=1; sid=s2"}`, "s2"},
		{"cookie:sid", `{"remote_addr":"203.0.113.7","time_iso8601":"2015-05-17T10:05:03Z","request":"GET / HTTP/1.1","status":"200","cookie_sid":"s3"}`, "s3"},
		{"column:session", `{"remote_addr":"203.0.113.7","time_iso8601":"2015-05-17T10:05:03Z","request":"GET / HTTP/1.1","status":"200","session":"s4"}`, "s4"},
		{"user", `{"remote_addr":"203.0.113.7","time_iso8601":"2015-05-17T10:05:03Z","request":"GET / HTTP/1.1","status":"200","remote_user":"bob"}`, "bob"},
		{"cookie:sid", `{"ts":1,"status":200,"request":{"method":"GET","uri":"/","host":"a","remote_ip":"203.0.113.7","headers":{"Cookie":["sid=s5"]}}}`, "s5"},
		{"cookie:sid", `{"ClientHost":"203.0.113.7","StartUTC":"2015-05-17T10:05:03Z","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/","request_Cookie":"sid=s6"}`, "s6"},
	} {
		from, err := ParseIdentity(c.from)
		if err != nil {
			t.Fatal(err)
		}
		r := Record{from: &from}
		if err := Auto.Parse(&r, []byte(c.line)); err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if string(r.Who) != c.want {
			t.Errorf("%s of %s is %q, not %q", c.from, c.line, r.Who, c.want)
		}
		for _, f := range r.Fields {
			if strings.Contains(string(f.Value), "s1") {
				t.Errorf("the cookie is a header field of the record: %s", f.Value)
			}
		}
	}
}

// TestKeyAmongColumns: where a log has the visitor's key, or a time, among the usual columns, Referer and User-Agent are still found,
// and a log without addresses, as one that is passed on, gives each visitor its own.
func TestKeyAmongColumns(t *testing.T) {
	const head, ref, agent = `[17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, `"https://a.example/"`, `"Mozilla/5.0 (X11)"`
	for _, c := range []struct{ from, line, who string }{
		{"column:9", "- - - " + head + " " + ref + " k1 " + agent, "k1"},
		{"column:9", "- - - " + head + " " + ref + ` "k1" ` + agent + ` "-"`, "k1"},
		{"column:8", "- - - " + head + ` "k1" ` + ref + " " + agent, "k1"},
		{"column:8", "- - - " + head + " k1 " + ref + " " + agent, "k1"},
		{"column:10", "- - - " + head + " " + ref + " " + agent + ` "k1"`, "k1"},
		{"column:10", "- - - " + head + " " + ref + " " + agent + " k1", "k1"},
		{"column:10", "203.0.113.7 - - " + head + " " + ref + " " + agent, ""},
		{"address", "203.0.113.7 - - " + head + " 0.005 " + ref + " " + agent + " 0.004", ""},
		{"address", "host.a.example - - " + head + " " + ref + " 0.005 " + agent, ""},
	} {
		from, err := ParseIdentity(c.from)
		if err != nil {
			t.Fatal(err)
		}
		r, other := Record{from: &from}, Record{from: &from}
		if err := errors.Join(Auto.Parse(&r, []byte(c.line)), Auto.Parse(&other, []byte(strings.ReplaceAll(c.line, "k1", "k2")))); err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		referer, _ := refererOf(&r)
		if string(r.Who) != c.who || string(referer) != "a.example" || string(r.Agent()) != "Mozilla/5.0 (X11)" {
			t.Errorf("%s with %s: %q from %q by %q", c.from, c.line, r.Who, referer, r.Agent())
		}
		if own := c.who != ""; r.apart != own || (r.Addr != other.Addr) != own {
			t.Errorf("%s with %s has the address %s, another visitor %s", c.from, c.line, r.Addr, other.Addr)
		}
	}
}

// TestPeopleBehindOneAddress: thirty people who read six pages each are people, and none of them reaches a limit of ten
// pages, when the log says who they are; by their address alone they are one robot.
func TestPeopleBehindOneAddress(t *testing.T) {
	var log strings.Builder
	for i := range 180 {
		log.WriteString(line(i/30, "203.0.113.1", fmt.Sprintf("user%d", i%30), "/a", "Mozilla/5.0 Firefox/140.0"))
	}
	for _, c := range []struct {
		from    string
		stopped int
	}{{"address", 1}, {"user", 0}} {
		from, err := ParseIdentity(c.from)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(context.Background(), []Input{text("test.log", log.String(), true)}, Options{Identity: from})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		u := Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example")}
		res, err := u.Run(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		if res.Report.StoppedSubjects != c.stopped {
			t.Errorf("by %s %d subjects are stopped, not %d: %+v", c.from, res.Report.StoppedSubjects, c.stopped, res.Report.Who)
		}
		if c.from == "user" && res.Report.Subjects != 30 {
			t.Errorf("%d people", res.Report.Subjects)
		}
	}
}

// TestUserIsNamed: a user who would have been stopped is shown by the name in the log.
func TestUserIsNamed(t *testing.T) {
	from, err := ParseIdentity("user")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(context.Background(), []Input{text("test.log", recorded(), true)}, Options{Identity: from})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example")}
	res, err := u.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Report.Who) == 0 || res.Report.Who[0].Subject != "L:eve" {
		t.Errorf("%+v", res.Report.Who)
	}
	var out strings.Builder
	if err := res.Text(&out, 20); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"say who asked (--identity)", "the log is short"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// TestNobodyIsNamed: for a log without User-Agents the report says that its figures mean little.
func TestNobodyIsNamed(t *testing.T) {
	l, err := Open(context.Background(), []Input{text("test.log", `203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, true)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example")}
	res, err := u.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := res.Text(&out, 20); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "no line has a User-Agent") {
		t.Error(out.String())
	}
}

func FuzzIdentity(f *testing.F) {
	for _, s := range []string{"user", "cookie:sid", "column:7", "column:x"} {
		f.Add(s, []byte(`203.0.113.7 - anna [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "a" "sid=s1"`))
		f.Add(s, []byte(`{"remote_addr":"203.0.113.7","time_iso8601":"2015-05-17T10:05:03Z","request":"GET / HTTP/1.1","status":"200","x":"y","http_cookie":"sid=1"}`))
	}
	f.Fuzz(func(t *testing.T, s string, line []byte) {
		from, err := ParseIdentity(s)
		if err != nil {
			return
		}
		r := Record{from: &from}
		if Auto.Parse(&r, line) != nil {
			return
		}
		if len(r.Who) > maxIdentity {
			t.Errorf("%d bytes", len(r.Who))
		}
		if sub := r.subject(); (sub.Kind == identity.KindNone) != (len(r.Who) == 0) {
			t.Errorf("%q is %v", r.Who, sub)
		}
	})
}
