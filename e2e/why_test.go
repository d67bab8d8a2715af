package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var shownID = regexp.MustCompile(`<code dir="ltr">([0-9A-Z]{26})</code>`)

// TestWhyFromThePage does what an operator does when somebody calls: a visitor is challenged because of their pace, reads
// the ID from the captcha page, also after a wrong answer, and `antirobot why` tells its story.
func TestWhyFromThePage(t *testing.T) {
	t.Parallel()
	places := filepath.Join(t.TempDir(), "ip2asn.tsv")
	if err := os.WriteFile(places, []byte("203.0.113.0\t203.0.113.255\t64500\tDE\tExample Networks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
geo: {files: [%q]}
services:
  - name: shop
    upstream: {urls: [%q]}
    verdict: {limits: [{window: 10s, requests: 5, ban: 10m}]}
`, places, site(t).URL), "--captcha-test-answer", testAnswer)
	robot := from(t, "203.0.113.77")
	var stopped *response
	for range 200 {
		if stopped = robot.get(g.url+"/goods", "Cookie", "fuid01=nonsense"); stopped.StatusCode == 302 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stopped.must(t, 302, "")
	page := robot.get(stopped.Header.Get("Location")).must(t, 200, "")
	id := idOn(t, page)
	if id != stopped.Header.Get("X-Request-Id") {
		t.Errorf("the page shows %s, the stopped request was %s", id, stopped.Header.Get("X-Request-Id"))
	}
	link, err := url.Parse(stopped.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := robot.get(g.url+"/checkcaptcha?"+strings.ReplaceAll(link.RawQuery, "cc=1&", "")+"&key="+pageKey(t, page)+"&rep=000000").must(t, 302, "")
	if again := idOn(t, robot.get(wrong.Header.Get("Location"))); again != id {
		t.Errorf("after a wrong answer the page shows %s, before %s", again, id)
	}

	ask := []string{"why", strings.ToLower(id), "--admin", g.admin, "--data-dir", g.dir}
	code, out := command(t, ask...)
	if code != 0 {
		t.Fatalf("why: %d %s", code, out)
	}
	for _, want := range []string{
		id, "GET /goods", "service shop", "mode enforce", "robot, challenged: a live ban", "charged to ip:203.0.113.77",
		"DE, AS64500 Example Networks",
		"refused: fuid (it can't be read)", "no entry matches", "on ip:203.0.113.77 by the processor", "pace: more than 5 pages in 10s",
		"pages_10s = ", "limit = 5", "ip:203.0.113.77 is banned", "none was shown",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q in\n%s", want, out)
		}
	}
	program := from(t, "203.0.113.77")
	program.header = http.Header{"X-Forwarded-For": {"203.0.113.77"}, "User-Agent": {"curl/8.5.0"}}
	limited := program.get(g.url+"/goods").must(t, 429, "")
	want := "robot, refused with a 429, Retry-After " + limited.Header.Get("Retry-After") + ": a live ban"
	if _, out := command(t, "why", limited.Header.Get("X-Request-Id"), "--admin", g.admin, "--data-dir", g.dir); !strings.Contains(out, want) {
		t.Errorf("nothing says %q in\n%s", want, out)
	}
	code, out = command(t, append(ask, "--json")...)
	var story struct {
		RequestID string `json:"request-id"`
		Ban       struct{ Subject string }
	}
	if err := json.Unmarshal([]byte(out), &story); code != 0 || err != nil || story.RequestID != id || story.Ban.Subject != "ip:203.0.113.77" {
		t.Errorf("why --json: %d %v %s", code, err, out)
	}
	if code, out = command(t, "subject", "ip:203.0.113.77", "--admin", g.admin, "--data-dir", g.dir); code != 0 || !strings.Contains(out, "pace: more than 5") {
		t.Errorf("subject: %d %s", code, out)
	}
	g.api("DELETE", "/api/bans?subject=ip:203.0.113.77&service=*", nil)
	if _, out = command(t, ask...); !strings.Contains(out, "is not banned any more") {
		t.Errorf("after the ban was lifted:\n%s", out)
	}
}

// TestWhySaysWhatIsWrong asks in all the ways that can't work.
func TestWhySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	const unknown = "01KAJ4T0Q8ZV1X8C9E7N5M3B2D"
	for want, args := range map[string][]string{
		"which request?":                                       {},
		"26 letters and digits":                                {"nonsense"},
		"no decision with request id " + unknown:               {unknown, "--admin", g.admin, "--data-dir", g.dir},
		"--data-dir or --token-file say where it is":           {unknown, "--admin", g.admin, "--data-dir", t.TempDir()},
		"nothing answers at http://127.0.0.1:1: is it running": {unknown, "--admin", "127.0.0.1:1", "--data-dir", g.dir},
	} {
		if code, out := command(t, append([]string{"why"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("why %v: %d %s, want %q", args, code, out, want)
		}
	}
}

var shownKey = regexp.MustCompile(`name="key" value="([^"]+)"`)

func pageKey(t *testing.T, page *response) string {
	t.Helper()
	m := shownKey.FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("no key is in the page:\n%s", page.body)
	}
	return m[1]
}

func idOn(t *testing.T, page *response) string {
	t.Helper()
	m := shownID.FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("no request id stands on the page:\n%s", page.body)
	}
	return m[1]
}
