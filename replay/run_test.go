package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/verdict"
)

// site is a service to which any log could belong: goodbot is a crawler with a range, one address of which is blocked.
const site = `
data_dir: %s
defaults:
  upstream: {urls: ["http://127.0.0.1:1"]}
  verdict: {limits: [{window: 10s, requests: %d, ban: 10m}]}
  requests: {health_paths: [/health], ajax_paths: [/api]}
services:
  - {name: site, hosts: [site.example]}
lists:
  block: [192.0.2.66]
  crawlers:
    builtin: []
    own: [{name: goodbot, user_agent: [goodbot], ranges: [192.0.2.0/24]}]
`

// newGateway is a gateway with a single limit: this many pages in ten seconds.
func newGateway(t testing.TB, name string, limit int) *Gateway {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "antirobot.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, site, dir, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Read(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGateway(cfg, Deps{Name: name, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// run replays a log.
func run(t testing.TB, u Runner, log string) *Result {
	t.Helper()
	l, err := Open(context.Background(), []Input{text("test.log", log, true)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	res, err := u.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// line is a combined line with user and User-Agent.
func line(second int, addr, user, path, agent string) string {
	s := clfLine(second, addr, path)
	s = strings.Replace(s, addr+" - -", addr+" - "+user, 1)
	return strings.Replace(s, `"test"`, `"`+agent+`"`, 1)
}

// traffic: a signed-in scraper with thirty pages in fifteen seconds, a reader, a fast verified crawler, a crawler that
// the operator blocks, one that lies, fast style sheets, fast health checks, another host.
func recorded() string {
	var b strings.Builder
	for i := range 60 {
		if i%2 == 0 {
			b.WriteString(line(i/4, "203.0.113.1", "eve", "/a", "Mozilla/5.0 Firefox/1.0 <script>"))
		}
		b.WriteString(line(i/4, "192.0.2.1", "-", "/crawl", "goodbot"))
		b.WriteString(line(i/4, "203.0.113.3", "-", "/x.css", "Mozilla/5.0"))
		b.WriteString(line(i/4, "203.0.113.4", "-", "/health", "Mozilla/5.0"))
		if i < 3 {
			b.WriteString(line(i/4, "203.0.113.2", "anna", "/read", "Mozilla/5.0"))
			b.WriteString(line(i/4, "192.0.2.66", "-", "/", "goodbot"))
			b.WriteString(line(i/4, "203.0.113.5", "-", "/", "goodbot"))
			b.WriteString("elsewhere.example:80 " + line(i/4, "203.0.113.6", "-", "/", "Mozilla/5.0"))
		}
	}
	b.WriteString("elsewhere.example is not a line\n")
	return b.String()
}

func TestReport(t *testing.T) {
	res := run(t, Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example")}, recorded())
	r := res.Report
	if r.Requests != 222 || r.Subjects != 7 || r.Unrouted != 3 || res.Log.Bad != 1 || r.White != 60 {
		t.Errorf("%d requests, %d subjects, %d unrouted, %d bad, %d white", r.Requests, r.Subjects, r.Unrouted, res.Log.Bad, r.White)
	}
	// Ten pages are allowed; the eleventh bans, and the twelfth is the first to be stopped. Of the false crawler it is the third.
	if r.Captcha != 20 || r.Blocked != 3 || r.Stopped != 23 || r.StoppedSubjects != 3 {
		t.Errorf("%d captcha, %d blocked, %d stopped, %d subjects", r.Captcha, r.Blocked, r.Stopped, r.StoppedSubjects)
	}
	eve := r.Who[0]
	if eve.Subject != "ip:203.0.113.1" || eve.Before != 11 || eve.Requests != 19 || eve.Total != 30 || eve.User != "eve" || eve.Verdict != "robot" || eve.Cause != "ban" ||
		eve.Reason != "pace: more than 10 pages in 10s" || len(eve.Factors) == 0 || eve.Factors[0].Value <= 10 || eve.First.Sub(day0) != 5*time.Second {
		t.Errorf("%+v", eve)
	}
	if w := r.Who[1]; w.Subject != "ip:192.0.2.66" || w.Cause != "own-block" || w.Before != 0 || !strings.Contains(w.Reason, "inline: 192.0.2.66") {
		t.Errorf("%+v", w)
	}
	if len(r.Crawlers) != 1 || r.Crawlers[0] != (Crawler{Name: "goodbot", Verified: 63, VerifiedStopped: 3, Outside: 3, OutsideStopped: 1}) {
		t.Errorf("%+v", r.Crawlers)
	}
	if r.SignedIn != 2 || len(r.People) != 1 || r.People[0].User != "eve" || r.People[0].Stopped != 19 || r.People[0].Requests != 30 {
		t.Errorf("%d signed in, %+v", r.SignedIn, r.People)
	}
	var inSeries Bucket
	for _, b := range r.Series.Buckets {
		inSeries.Human, inSeries.Robot, inSeries.Blocked = inSeries.Human+b.Human, inSeries.Robot+b.Robot, inSeries.Blocked+b.Blocked
	}
	if inSeries != (Bucket{Human: 199, Robot: 20, Blocked: 3}) {
		t.Errorf("the series has %+v", inSeries)
	}
}

func TestDifference(t *testing.T) {
	res := run(t, Runner{Gateway: newGateway(t, "lax", 1000), Against: newGateway(t, "strict", 10), Host: []byte("site.example")}, recorded())
	d := res.Difference
	if len(d.Stopped) != 1 || d.Stopped[0].Subject != "ip:203.0.113.1" || d.RequestsStopped != 19 || len(d.Free) != 0 || d.RequestsFree != 0 || d.Both != 2 || d.RequestsBoth != 4 {
		t.Errorf("%+v", d)
	}
	other := run(t, Runner{Gateway: newGateway(t, "strict", 10), Against: newGateway(t, "lax", 1000), Host: []byte("site.example")}, recorded()).Difference
	if len(other.Free) != 1 || len(other.Stopped) != 0 || other.RequestsFree != 19 {
		t.Errorf("the other way round: %+v", other)
	}
}

// TestSameEachTime: every run gives the same result.
func TestSameEachTime(t *testing.T) {
	var first []byte
	for range 3 {
		got, err := json.Marshal(run(t, Runner{Gateway: newGateway(t, "strict", 10), Host: []byte("site.example")}, recorded()))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		} else if !bytes.Equal(first, got) {
			t.Fatalf("\n%s\n%s", first, got)
		}
	}
}

// TestPrinted checks the text and the page: whatever a client sent appears there as text.
func TestPrinted(t *testing.T) {
	res := run(t, Runner{Gateway: newGateway(t, "strict", 10), Against: newGateway(t, "lax", 1000), Host: []byte("site.example")}, recorded()+line(20, "203.0.113.1", "eve", "/a", "\\x1b[31m"))
	var out, page bytes.Buffer
	if err := res.Text(&out, 20); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"With strict, 24 of 223 requests would have been stopped (10.8 %): 21 by a captcha (programs: 403 or 429), 3 blocked.", "ip:203.0.113.1 (eve)",
		"goodbot  3 / 63", "Of 2 people who were signed in, 1 would have been stopped.", "From strict to lax: 0 subjects (0 requests) newly stopped, 1 (20) newly free, 2 stopped by both.",
		"224 lines: 1 could not be read", "test.log:223 has no time that can be read",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q in\n%s", want, out.String())
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("a client's escape reaches the terminal")
	}
	if err := res.HTML(&page); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	if strings.Contains(html, "<script") || strings.Contains(html, " style=") || strings.Contains(html, "http-equiv=\"refresh\"") || strings.ContainsRune(html, '\x1b') {
		t.Error("the page has a script, a style of its own, or a client's escape")
	}
	if !strings.Contains(html, "Firefox/1.0 &lt;script&gt;") {
		t.Error("the User-Agent is not on the page as text")
	}
	if urls := regexp.MustCompile(`(?:src|href|url)\s*[=(]`).FindString(html); urls != "" {
		t.Errorf("the page loads something: %s", urls)
	}
	if n := strings.Count(html, "<svg "); n != 6 {
		t.Errorf("%d plots", n)
	}
}

// TestInterrupted: what was found by then is returned.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Open(context.Background(), []Input{text("a", recorded(), true)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cancel()
	u := Runner{Gateway: newGateway(t, "x", 10), Host: []byte("site.example")}
	if res, err := u.Run(ctx, l); err == nil || res == nil || res.Report == nil {
		t.Errorf("%v %v", res, err)
	}
}

func TestSeries(t *testing.T) {
	var s Series
	var want [3]uint64
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 50_000 {
		n := i % 3
		s.add(at, [...]verdict.Verdict{verdict.Human, verdict.Robot, verdict.Blocked}[n])
		want[n]++
		if len(s.Buckets) > maxBuckets {
			t.Fatalf("%d buckets", len(s.Buckets))
		}
		at = at.Add(time.Duration(1+i/10) * time.Second)
	}
	var got [3]uint64
	for _, b := range s.Buckets {
		got[0], got[1], got[2] = got[0]+b.Human, got[1]+b.Robot, got[2]+b.Blocked
	}
	if got != want {
		t.Errorf("%v of %v", got, want)
	}
	if end := s.Begins + s.Seconds*int64(len(s.Buckets)); end < at.Add(-5000*time.Second).Unix() {
		t.Errorf("the series ends at %v", time.Unix(end, 0))
	}
}

// BenchmarkReplay measures a line's whole way, from text to verdict and back to the report. A million a minute allow 60
// µs each.
func BenchmarkReplay(b *testing.B) {
	data, err := os.ReadFile("testdata/apache.log")
	if err != nil {
		b.Fatal(err)
	}
	one := strings.Count(string(data), "\n")
	lines := 0
	b.ReportAllocs()
	for b.Loop() {
		run(b, Runner{Gateway: newGateway(b, "bench", 80), Host: []byte("site.example")}, strings.Repeat(string(data), 50))
		lines += 50 * one
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lines), "ns/line")
}
